"""Segments that are missing or have a missing end: never a silent gap."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.log.storage import opened, segments_of

from kohort.broker.log.compaction import clean
from kohort.broker.log.judgement import why_not_all
from kohort.broker.log.settings import LogConfig
from kohort.broker.log.store import DataDirError
from kohort.protocol.records import Record, build_batch

NOW = 1_700_000_000_000
CLEAN_STOP = ".kafka_cleanshutdown"


class Stopped:
    """A partition of several segments in a stopped directory.

    Attributes:
        ends: of each segment except the last: the end positions of its batches.
    """

    def __init__(
        self, path: Path, *, is_compacted: bool, is_clean: bool, **config: Any
    ) -> None:
        if is_compacted:
            config |= {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0}
        self._config = LogConfig(segment_bytes=500, **config)
        self._path = path
        data, partition = opened(path, self._config)
        for number in range(40):
            # A rare key, and keys of which compaction leaves little.
            key = b"r%d" % number if number % 9 == 4 else b"%d" % (number % 2)
            batch = build_batch([Record(0, NOW, key, b"%d" % number)])
            assert not partition.append(batch, now_ms=NOW).error_code
        if is_compacted:
            for _ in clean(partition, NOW):
                pass
        self.ends = {
            segment.log.path: [place.position + place.size for place in places]
            for segment in segments_of(partition).segments[:-1]
            if (places := list(segment.places(0)))
        }
        data.checkpoint()
        data.close()
        if not is_clean:
            (path / CLEAN_STOP).unlink()

    def check(self, path: Path) -> None:
        """Starts the directory."""
        opened(path, self._config)[0].close()

    def refused_without(self, path: Path, size: int | None, root: Path) -> bool:
        """Returns whether a start is refused if a file is cut, or is missing."""
        copy = root / "copy"
        shutil.copytree(self._path, copy)
        file = copy / path.relative_to(self._path)
        if size is None:
            file.unlink()
        else:
            with file.open("r+b") as opened_file:
                opened_file.truncate(size)
        try:
            self.check(copy)
        except DataDirError:
            return True
        finally:
            shutil.rmtree(copy)
        return False


@pytest.fixture(params=[True, False], ids=["clean", "crash"])
def stopped(root: Path, request: pytest.FixtureRequest) -> Callable[..., Stopped]:
    """A directory after a clean stop, or after a crash."""

    def stop(*, is_compacted: bool, **config: Any) -> Stopped:
        is_clean = bool(request.param)
        made = Stopped(
            root / "data", is_compacted=is_compacted, is_clean=is_clean, **config
        )
        shutil.copytree(root / "data", root / "whole")
        made.check(root / "whole")
        return made

    return stop


@pytest.mark.parametrize("is_compacted", [False, True], ids=["plain", "compacted"])
@pytest.mark.parametrize("interval", [50, 4096])
def test_a_cut_segment(
    stopped: Callable[..., Stopped], root: Path, is_compacted: bool, interval: int
) -> None:
    """A start is refused, wherever an older segment was cut off."""
    found = stopped(is_compacted=is_compacted, index_interval_bytes=interval)
    assert found.ends
    for path, ends in found.ends.items():
        for size in (0, *ends[:-1], ends[-1] - 7):
            assert found.refused_without(path, size, root), (path.name, size)


def test_a_missing_segment(stopped: Callable[..., Stopped], root: Path) -> None:
    """A start is refused if a segment between two others is missing."""
    found = stopped(is_compacted=False)
    for path in list(found.ends)[1:]:
        assert found.refused_without(path, None, root), path.name


def test_a_refused_start_closes_its_files(
    stopped: Callable[..., Stopped], root: Path
) -> None:
    """A process that retries forever does not run out of descriptors."""
    found = stopped(is_compacted=False)
    path, ends = next(iter(found.ends.items()))
    before = len([*Path("/dev/fd").iterdir()])
    assert found.refused_without(path, ends[-2], root)
    assert len([*Path("/dev/fd").iterdir()]) == before


def test_all_segments_are_missing(stopped: Callable[..., Stopped], root: Path) -> None:
    """A log whose records had been flushed does not begin anew."""
    found = stopped(is_compacted=False)
    for path in root.glob("data/t-0/*.log"):
        path.unlink()
    with pytest.raises(DataDirError, match="has no segment, and had been flushed"):
        found.check(root / "data")


def test_a_cut_segment_whose_index_is_lost(
    stopped: Callable[..., Stopped], root: Path
) -> None:
    """Gaps between records are detected where compaction has not been."""
    found = stopped(is_compacted=False)
    for index in root.glob("data/t-0/*index"):
        index.unlink()
    for path, ends in found.ends.items():
        assert found.refused_without(path, ends[-2], root), path.name


def test_a_cut_segment_that_had_been_deleted(root: Path) -> None:
    """Records before the start of the log are not missed."""
    found = Stopped(root / "data", is_compacted=False, is_clean=False)
    (root / "data" / "log-start-offset-checkpoint").write_text("0\n1\nt 0 35\n")
    for path in list(found.ends)[:-2]:
        path.write_bytes(b"")
    data, partition = opened(root / "data")
    assert (partition.log_start_offset, partition.log_end_offset) == (35, 40)
    data.close()


def test_whole_batches_behind_damage(root: Path, capsys: Any) -> None:
    """After a crash they are cut off with it, and kept in a file."""
    data, partition = opened(root)
    for number in range(5):
        batch = build_batch([Record(0, NOW, b"k", b"%d" % number)])
        assert not partition.append(batch, now_ms=NOW).error_code
    segment = segments_of(partition).segments[0]
    third, fourth = list(segment.places(0))[2:4]
    data.checkpoint()
    copy = Path(shutil.copytree(root, root.with_name(f"{root.name}-copy")))
    data.close()
    path = copy / "t-0" / segment.log.path.name
    whole = path.read_bytes()
    flipped = third.position + third.size - 1
    path.write_bytes(whole[:flipped] + b"!" + whole[flipped + 1 :])
    data, partition = opened(copy)
    assert partition.log_end_offset == 2
    kept = copy / "t-0" / "00000000000000000003.log.cut"
    assert kept.read_bytes() == whole[fourth.position :]
    said = capsys.readouterr()
    assert str(kept) in said.out + said.err
    data.close()
    opened(copy)[0].close()
    assert kept.exists()
    shutil.rmtree(copy)


def test_a_log_that_ends_before_its_start(root: Path) -> None:
    """It does not begin anew: its records may be another topic's."""
    data, partition = opened(root)
    batch = build_batch([Record(0, NOW, b"k", b"v")])
    assert not partition.append(batch, now_ms=NOW).error_code
    data.close()
    (root / CLEAN_STOP).unlink()
    (root / "log-start-offset-checkpoint").write_text("0\n1\nt 0 10\n")
    with pytest.raises(DataDirError, match="ends at offset 1, and by log-start-offset"):
        opened(root)
    assert (root / "t-0" / "00000000000000000000.log").stat().st_size > 0


def test_a_segment_that_reaches_into_the_next_is_no_gap_of_compaction() -> None:
    """Compaction may leave a gap between two segments, but no overlap."""
    gaps = {"may_have_gaps": True, "index_knows_more": False}
    assert why_not_all(8, 10, **gaps) == ""
    assert "ends at offset 12" in why_not_all(12, 10, **gaps)
