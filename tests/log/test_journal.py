"""cluster.json and cluster.log: changes survive, torn lines are cut, damage fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.log.storage import CLUSTER, NODE, TOPIC_ID
from tests.log.test_crash_points import Door

from kohort.broker.log import files
from kohort.broker.log.directory import DataDir
from kohort.broker.log.journal import PIECE_ROWS, SMALLEST_OUTGROWN, Journal
from kohort.broker.log.metadata import (
    ClusterChange,
    ClusterMetadata,
    MetadataError,
    PartitionMetadata,
    TopicMetadata,
)
from kohort.broker.log.store import DataDirError, StorageError
from kohort.broker.long_work import finish

NOTHING = ClusterMetadata({}, {}, 0)


def topic(partitions: int = 1, **overrides: str) -> TopicMetadata:
    """A topic of node 1; settings have ``_`` in place of dots."""
    rows = [PartitionMetadata([1], 1, 0)] * partitions
    return TopicMetadata(
        TOPIC_ID, {k.replace("_", "."): v for k, v in overrides.items()}, rows
    )


class Story:
    """A journal, and the state after each of its changes.

    Attributes:
        states: the state before the first change, after it, after the next, ...
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = Journal(path)
        self.states = [self.journal.found or NOTHING]

    def change(self, change: ClusterChange) -> None:
        """Writes a change."""
        # A start may find it as soon as its line is complete.
        self.states.append(self.states[-1].changed([change]))
        self.journal.append(change)

    def creates(self, *names: str, **overrides: str) -> None:
        """Creates or configures topics, all in one change."""
        made = topic(1, **overrides)
        self.change(ClusterChange(dict.fromkeys(names, made)))

    def deletes(self, *names: str) -> None:
        """Deletes topics."""
        self.change(ClusterChange(dict.fromkeys(names)))

    def rewrites(self, *, meanwhile: ClusterChange | None = None) -> None:
        """Rewrites the whole state; a change may come after one piece."""
        state = self.states[-1]
        work = self.journal.rewrite(state.topics.items(), state.without_topics)
        if meanwhile is not None:
            next(work)
            self.change(meanwhile)
        finish(work)

    @property
    def found(self) -> ClusterMetadata:
        """The state that a start finds."""
        return Journal(self.path).found or NOTHING


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """A new story."""
    return Story(tmp_path)


def test_a_new_directory_has_nothing(story: Story) -> None:
    """No file means no cluster, which differs from an empty one."""
    assert story.journal.found is None
    story.rewrites()
    assert Journal(story.path).found == NOTHING


def test_changes_survive_in_their_order(story: Story) -> None:
    """Topics, configuration and producer ids are those of the last change."""
    story.creates("a", "b")
    story.creates("a", cleanup_policy="compact")
    story.deletes("b")
    story.change(ClusterChange({}, {"": {"group.max.size": "3"}}))
    story.change(ClusterChange({}, next_producer_id=4_000))
    configs = {"": {"group.max.size": "3"}}
    expected = {"a": topic(cleanup_policy="compact")}
    assert story.found == ClusterMetadata(expected, configs, 4_000)


def test_one_change_is_one_line_whatever_there_is_already(story: Story) -> None:
    """A creation costs the same with a thousand topics as with none."""
    story.creates(*(f"t{number:03}" for number in range(1000)))
    story.rewrites()
    sizes = []
    for name in ("x", "y"):
        story.creates(name)
        sizes.append((story.path / "cluster.log").stat().st_size)
    assert sizes[0] < 200
    assert sizes[1] == 2 * sizes[0]


@pytest.mark.parametrize("is_rewritten", [False, True])
def test_a_torn_last_line_is_cut_off(story: Story, is_rewritten: bool) -> None:
    """Wherever it was cut, all lines before it survive, and another can follow."""
    story.creates("a")
    if is_rewritten:
        story.rewrites()
    story.creates("b")
    log = story.path / "cluster.log"
    before = log.read_bytes()
    story.creates("c")
    line = log.read_bytes()[len(before) :]
    for size in range(len(line)):
        # Bytes that are not on the disk may be missing, or zeros.
        for rest in (b"", bytes(len(line) - size)):
            log.write_bytes(before + line[:size] + rest)
            again = Story(story.path)
            assert again.states == [story.states[2]]
            again.creates("d")
            assert again.found == again.states[-1]


def test_a_damaged_line_in_the_middle_is_refused(story: Story) -> None:
    """No crash damages a line before others: topics may be missing."""
    for name in ("a", "b", "c"):
        story.creates(name)
    log = story.path / "cluster.log"
    data = log.read_bytes()
    log.write_bytes(data.replace(b'"b"', b'"x"'))
    with pytest.raises(MetadataError, match=r"cluster.log is damaged: a line in"):
        Journal(story.path)
    first, _, third = data.splitlines(keepends=True)
    log.write_bytes(first + third)
    with pytest.raises(MetadataError, match=r"cluster.log is damaged: change 2 is"):
        Journal(story.path)


def test_damage_in_a_whole_last_line_is_refused(story: Story) -> None:
    """No crash flips a bit: the line was acknowledged, and a topic may be missing."""
    story.creates("a")
    log = story.path / "cluster.log"
    before = log.read_bytes()
    story.creates("b")
    line = log.read_bytes()[len(before) :]
    for bit in range(8 * len(line)):
        data = bytearray(line)
        data[bit // 8] ^= 1 << bit % 8
        log.write_bytes(before + data)
        with pytest.raises(MetadataError, match=r"cluster.log is damaged: the last"):
            Journal(story.path)


def test_a_torn_line_after_a_clean_stop_is_refused(tmp_path: Path) -> None:
    """Only a crash tears a line; after one, a stop is clean once the rest is cut."""
    data = DataDir.open(tmp_path, CLUSTER, NODE)
    data.write_change(ClusterChange({"a": topic()}))
    data.close()
    with (tmp_path / "cluster.log").open("ab") as log:
        log.write(b"12345678 {")
    with pytest.raises(DataDirError, match=r"cluster.log is damaged: the last line"):
        DataDir.open(tmp_path, CLUSTER, NODE)
    marker = tmp_path / ".kafka_cleanshutdown"
    marker.unlink()
    for is_cut in (False, True):
        data = DataDir.open(tmp_path, CLUSTER, NODE)
        if is_cut:
            data.save(ClusterMetadata({"a": topic()}, {}, 0))
        data.close()
        assert marker.exists() == is_cut


def test_damage_in_the_snapshot_is_refused(story: Story) -> None:
    """Also where it leaves valid JSON: another topic or setting would be served."""
    story.creates("a", retention_ms="604800000")
    story.rewrites()
    saved = story.path / "cluster.json"
    data = saved.read_bytes()
    for old, new in (
        (b'"a"', b'"q"'),
        (b"6048", b"0048"),
        (b'"change": 1', b'"change": 3'),
    ):
        assert old in data
        saved.write_bytes(data.replace(old, new))
        with pytest.raises(MetadataError, match=r"cluster.json is damaged: .*CRC"):
            Journal(story.path)


def test_a_damaged_directory_is_one_line(tmp_path: Path) -> None:
    """The broker logs it and does not start; nothing is changed."""
    data = DataDir.open(tmp_path, CLUSTER, NODE)
    for name in ("a", "b"):
        data.write_change(ClusterChange({name: topic()}))
    data.close()
    log = tmp_path / "cluster.log"
    log.write_bytes(log.read_bytes().replace(b'"a"', b'"x"'))
    before = log.read_bytes()
    with pytest.raises(DataDirError, match=r"cluster.log is damaged"):
        DataDir.open(tmp_path, CLUSTER, NODE)
    assert log.read_bytes() == before


def test_a_file_without_a_number_is_from_before_the_journal(story: Story) -> None:
    """A directory of an earlier version opens, and takes changes."""
    text = """{
 "topics": {"t": {
   "id": "000102030405060708090a0b0c0d0e0f", "overrides": {},
   "partitions": [{"replicas": [1], "leader": 1, "epoch": 0}]
 }},
 "configs": {}, "next_producer_id": 1000
}"""
    (story.path / "cluster.json").write_text(text)
    again = Story(story.path)
    assert again.states == [ClusterMetadata({"t": topic()}, {}, 1000)]
    again.creates("u")
    assert set(again.found.topics) == {"t", "u"}


def test_changes_that_come_in_meanwhile_are_kept(story: Story) -> None:
    """Changes of a written topic, an unwritten one, and a new one, are kept."""
    names = [f"t{number:03}" for number in range(3 * PIECE_ROWS)]
    story.creates(*names)
    meanwhile = ClusterChange(
        {names[0]: None, names[-1]: None, names[-2]: topic(2), "new": topic()}
    )
    story.rewrites(meanwhile=meanwhile)
    assert story.found == story.states[-1]
    # The log has only the changes that the other file lacks.
    assert (story.path / "cluster.log").read_bytes().count(b"\n") == 1


def test_the_log_is_outgrown_when_it_is_larger_than_the_rest(story: Story) -> None:
    """So rewriting everything costs as much as the changes before it."""
    long = "x" * (SMALLEST_OUTGROWN // 2)
    story.creates("a", long=long)
    assert not story.journal.is_outgrown
    story.creates("b", long=long)
    assert story.journal.is_outgrown
    story.rewrites()
    assert not story.journal.has_changes
    for name in ("a", "b"):
        assert not story.journal.is_outgrown
        story.creates(name, long=long)
    assert story.found == story.states[-1]


def test_a_refused_change_is_never_found(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails to flush a line that is already in the file."""

    class Failing(Door):
        def fdatasync(self, fd: int) -> None:
            os.fdatasync(fd)
            raise OSError(5, "I/O error")

    story.creates("a")
    with monkeypatch.context() as patch:
        patch.setattr(files, "os", Failing(lambda: None))
        with pytest.raises(StorageError, match="I/O error"):
            story.journal.append(ClusterChange({"refused": topic()}))
    assert story.found == story.states[-1]
    story.creates("b")
    assert set(story.found.topics) == {"a", "b"}


def test_a_start_from_every_state_of_the_disk(tmp_path: Path) -> None:
    """Between and during any two calls: the acknowledged changes, or one more."""
    live = tmp_path / "live"
    live.mkdir()
    story = Story(live)
    acknowledged = 0
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        with pytest.MonkeyPatch.context() as unwatched:
            unwatched.setattr(files, "os", os)
            assert story.found in story.states[acknowledged:]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "os", Door(look))
        for step in range(12):
            if step % 4 == 3:
                story.rewrites()
            elif step % 4 == 2:
                story.deletes(f"t{step - 1}")
            else:
                story.creates(f"t{step}", "u")
            acknowledged = len(story.states) - 1
            look()
    assert looks > 100
