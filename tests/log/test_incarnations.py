"""Topics that are deleted and created anew: no state of one applies to the next.

Each scene is played once. Then the directory is opened in the state that a crash at
each of its steps would leave.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.log.storage import CLUSTER, NODE, segments_of
from tests.log.test_crash_points import Door

from kohort.broker.log import files
from kohort.broker.log.directory import DataDir
from kohort.broker.log.metadata import (
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)
from kohort.broker.log.partition import Partition
from kohort.broker.log.settings import LogConfig
from kohort.broker.log.store import DataDirError, StorageError
from kohort.protocol import records
from kohort.protocol.records import Record, build_batch

NOW = 1_700_000_000_000
FIRST_ID, SECOND_ID = b"1" * 16, b"2" * 16
LONGEST_NAME = "n" * 249
"""The longest topic name in Kafka."""


class Incarnations:
    """A topic in a data directory, which is deleted and created anew.

    Attributes:
        path: the directory.
        data: the open directory.
        partitions: of the topic, if it exists.
        acknowledged: by topic id and partition: values by offset.
        start: by topic id and partition: the offset of the first record.
    """

    def __init__(self, root: Path, name: str, **config: int) -> None:
        self.path = root / "live"
        self.name = name
        self.config = LogConfig(**{"segment_bytes": 300, **config})  # type: ignore[arg-type]
        self.looks = 0
        self.partitions: list[Partition] = []
        self.acknowledged: dict[tuple[bytes, int], dict[int, bytes]] = {}
        self.start: dict[tuple[bytes, int], int] = {}
        self.data = self._open(self.path)
        self._copy = root / "copy"
        self._id = b""
        self._sent: tuple[int, bytes] | None = None

    @staticmethod
    def _open(path: Path) -> DataDir:
        return DataDir.open(path, CLUSTER, NODE)

    def create(self, topic_id: bytes, count: int) -> None:
        """Creates the topic, with an id; it exists when this returns."""
        self.partitions = []
        self._id = topic_id
        self.grow(count)

    def grow(self, count: int) -> None:
        """Grows the topic to `count` partitions."""
        for index in range(len(self.partitions), count):
            made = self.data.open_partition(self.name, index, self._id, self.config, 0)
            assert (made.log_start_offset, made.log_end_offset) == (0, 0)
            self.acknowledged[self._id, index] = {}
            self.start[self._id, index] = 0
            self.partitions.append(made)
        self._save(count)

    def _save(self, count: int) -> None:
        rows = [PartitionMetadata([NODE], NODE, 0)] * count
        topics = {self.name: TopicMetadata(self._id, {}, rows)} if count else {}
        self.data.save(ClusterMetadata(topics, {}, 0))

    def produce(self, index: int, count: int) -> None:
        """Appends this many records, each acknowledged."""
        partition = self.partitions[index]
        for _ in range(count):
            value = b"%s %d" % (self._id[:1], partition.log_end_offset)
            self._sent = (index, value)
            batch = build_batch([Record(0, NOW, b"k", value)])
            result = partition.append(batch, now_ms=NOW)
            assert not result.error_code
            self.acknowledged[self._id, index][result.base_offset] = value
            self._sent = None

    def delete_records(self, index: int, before: int) -> None:
        """Moves the partition's start to `before`."""
        self.start[self._id, index] = before
        assert self.partitions[index].delete_records(before)[0] == 0

    def delete(self) -> None:
        """Deletes the topic."""
        count = len(self.partitions)
        self.partitions = []
        self._save(0)
        for index in range(count):
            self.data.delete_partition(self.name, index)

    def restart(self) -> None:
        """A clean stop, and a start."""
        self.data.close()
        self.data = self._open(self.path)
        metadata = self.data.metadata
        count = 0
        if metadata is not None and self.name in metadata.topics:
            count = len(metadata.topics[self.name].partitions)
        self.partitions = [
            self.data.open_partition(self.name, index, self._id, self.config, 0)
            for index in range(count)
        ]
        self.data.put_aside_the_rest()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Within it, each state of the disk is copied, opened and checked."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "os", Door(self._look))
            yield

    def _look(self) -> None:
        self.looks += 1
        with pytest.MonkeyPatch.context() as unwatched:
            unwatched.setattr(files, "os", os)
            shutil.copytree(self.path, self._copy)
            self.check(self._copy)
            shutil.rmtree(self._copy)

    def check(self, path: Path) -> None:
        """A start after a crash finds all acknowledged records, and stops cleanly."""
        data = self._open(path)
        saved = ClusterMetadata({}, {}, 0) if data.metadata is None else data.metadata
        for name, topic in saved.topics.items():
            for index in range(len(topic.partitions)):
                found = data.open_partition(name, index, topic.id, self.config, 0)
                self._check_one(found, (topic.id, index))
        data.put_aside_the_rest()
        data.close()
        assert (path / ".kafka_cleanshutdown").exists()

    def _check_one(self, partition: Partition, key: tuple[bytes, int]) -> None:
        start = self.start[key]
        assert partition.log_start_offset <= start
        must = {o: v for o, v in self.acknowledged[key].items() if o >= start}
        found = {
            record.offset: record.value
            for batch in partition.batches(partition.log_start_offset)
            for record in records.read_records(batch)
        }
        assert must.items() <= found.items()
        on_its_way = {self._sent[1]} if self._sent is not None else set()
        assert set(found.values()) <= {*self.acknowledged[key].values(), *on_its_way}


@pytest.fixture(params=["t", LONGEST_NAME], ids=["short", "longest"])
def topic(root: Path, request: pytest.FixtureRequest) -> Iterator[Incarnations]:
    """A topic of two partitions that has rolled and deleted records."""
    told = Incarnations(root, request.param)
    told.create(FIRST_ID, 2)
    told.produce(0, 12)
    told.produce(1, 3)
    told.delete_records(0, 7)
    told.data.checkpoint()
    yield told
    told.data.close()


def test_a_topic_made_anew(topic: Incarnations) -> None:
    """Its records exist after a crash, whatever the state of the previous topic."""
    with topic.watched():
        topic.delete()
        topic.create(SECOND_ID, 2)
        topic.produce(0, 5)
        topic.data.checkpoint()
        topic.produce(1, 1)
    assert topic.looks > 100


def test_a_topic_made_anew_after_a_clean_restart(topic: Incarnations) -> None:
    """The saved offsets of a clean stop are those of the previous topic."""
    topic.restart()
    with topic.watched():
        topic.delete()
        topic.create(SECOND_ID, 1)
        topic.produce(0, 1)


def test_a_topic_made_anew_much_later(topic: Incarnations) -> None:
    """A restart or a checkpoint in between changes nothing."""
    topic.delete()
    topic.data.checkpoint()
    topic.restart()
    with topic.watched():
        topic.create(SECOND_ID, 2)
        topic.produce(0, 2)


def test_a_partition_that_only_the_first_topic_had(topic: Incarnations) -> None:
    """A partition that is added to the second topic begins at 0."""
    topic.restart()
    with topic.watched():
        topic.delete()
        topic.create(SECOND_ID, 1)
        topic.grow(2)
        topic.produce(1, 1)


def test_leftovers_of_a_crash_amid_a_deletion(root: Path) -> None:
    """Folders without a topic are moved aside, and do not affect the next topic."""
    told = Incarnations(root, LONGEST_NAME, flush_messages=1)
    told.create(FIRST_ID, 3)
    for index in range(3):
        told.produce(index, 3)
    told.data.checkpoint()
    told.data.close()
    saved = root / "before"
    shutil.copytree(told.path, saved)
    told.restart()
    told.delete()
    told.data.close()
    # Everything except the new cluster.json is as it was before.
    (saved / "cluster.json").write_bytes((told.path / "cluster.json").read_bytes())
    shutil.rmtree(told.path)
    saved.rename(told.path)
    (told.path / ".kafka_cleanshutdown").unlink()
    told.data = DataDir.open(told.path, CLUSTER, NODE)
    told.data.put_aside_the_rest()
    strays = sorted(path.name for path in told.path.glob("*-stray"))
    assert len(strays) == 3
    assert all(len(name) == 255 for name in strays)
    assert [name.split(".")[0].rpartition("-")[2] for name in strays] == ["0", "1", "2"]
    with told.watched():
        told.create(SECOND_ID, 1)
        told.produce(0, 1)
    told.data.close()


def test_a_stray_that_is_there_already(root: Path) -> None:
    """A folder that was copied back by hand is moved aside beside the first one."""
    told = Incarnations(root, "t")
    told.create(FIRST_ID, 1)
    told.produce(0, 1)
    told.data.close()
    (told.path / "cluster.json").unlink()
    for number in (1, 2):
        shutil.copytree(told.path / "t-0", root / "kept", dirs_exist_ok=True)
        data = DataDir.open(told.path, CLUSTER, NODE)
        data.put_aside_the_rest()
        data.close()
        assert len(list(told.path.glob("t-0.*-stray"))) == number
        shutil.copytree(root / "kept", told.path / "t-0")


def test_a_partition_that_is_missing(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A topic is not restored without a partition whose records were flushed.

    An empty one begins anew, with a log line.
    """
    told = Incarnations(root, "t")
    told.create(FIRST_ID, 2)
    told.produce(1, 1)
    told.data.close()
    shutil.rmtree(told.path / "t-0")
    capsys.readouterr()
    told.check(told.path)
    assert capsys.readouterr().err.count("partition_missing") == 1
    shutil.rmtree(told.path / "t-1")
    with pytest.raises(DataDirError, match="t-1 is missing, and had been flushed up"):
        told.check(told.path)


def test_a_folder_of_another_topic(root: Path) -> None:
    """A topic never begins anew because folders were mixed up."""
    told = Incarnations(root, "t")
    told.create(FIRST_ID, 1)
    told.produce(0, 1)
    told.data.close()
    metadata = told.path / "t-0" / "partition.metadata"
    text = metadata.read_text()
    metadata.write_text(text[:-4] + "AAAA")
    with pytest.raises(DataDirError, match="t-0 is not the topic's"):
        told.check(told.path)
    assert len(list(told.path.glob("t-0/*.log"))) == 1


def test_a_full_disk_when_offsets_are_to_be_forgotten(root: Path) -> None:
    """Then neither the second topic nor a folder of it exists."""
    told = Incarnations(root, "t")
    told.create(FIRST_ID, 1)
    told.produce(0, 3)
    told.data.checkpoint()
    told.delete()
    in_the_way = told.path / "recovery-point-offset-checkpoint.tmp"
    in_the_way.mkdir()
    with pytest.raises(StorageError):
        told.create(SECOND_ID, 1)
    assert not list(told.path.glob("t-*"))
    in_the_way.rmdir()
    told.create(SECOND_ID, 1)
    assert segments_of(told.partitions[0]).recovery_point == 0
    told.data.close()
