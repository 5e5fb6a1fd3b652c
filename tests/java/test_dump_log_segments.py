"""Apache Kafka's own DumpLogSegments reads what kohort writes, without a complaint."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.java.conftest import SMALL

from kohort.broker.coordinator.effects import GroupTombstone, OffsetRecord
from kohort.broker.log.compaction import clean
from kohort.broker.log.directory import DataDir
from kohort.broker.log.partition import Partition
from kohort.broker.log.settings import LOG_APPEND_TIME, LogConfig
from kohort.broker.shards.group_records import Encoder
from kohort.protocol.records import Record, build_batch

pytestmark = pytest.mark.interop

NOW = 1_700_000_000_000
TIMEOUT_S = 120.0


Dump = Callable[..., tuple[str, str]]
"""What the tool printed of files, and what it had to complain about."""


@pytest.fixture
def dump(class_path: str) -> Dump:
    """Runs the tool on files."""

    def run(files: list[Path], *options: str) -> tuple[str, str]:
        names = ",".join(str(file) for file in files)
        argv = ["java", *SMALL, "-cp", class_path]
        tool = "org.apache.kafka.tools.DumpLogSegments"
        done = subprocess.run(
            [*argv, tool, "--files", names, *options],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "isvalid: false" not in done.stdout
        return done.stdout, without_known(done.stderr)

    return run


def without_known(errors: str) -> str:
    """What the tool complains about that it would not find in Kafka's own files.

    For a log that does not begin with offset 0 it says that "-1 is followed by" the
    first offset, about Apache Kafka's segments, too: it compares the first record
    with none.
    """
    known = r"Non-consecutive offsets in \S*?0*(\d+)\.log\n  -1 is followed by \1\n"
    return re.sub(known, "", errors)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data directory that has seen everything, after a clean stop."""
    path = tmp_path_factory.mktemp("data") / "live"
    data = DataDir.open(path, "YWJjZGVmZ2hpamtsbW5vcA", 1)
    write(data.open_partition("empty", 0, bytes(16), LogConfig(), 0))
    fill(data)
    # What a kill -9 leaves: the files as they are, and half a batch behind them.
    killed = path.with_name("killed")
    shutil.copytree(path, killed)
    data.close()
    active = max((killed / "rolled-0").glob("*.log"))
    with active.open("ab") as file:
        file.write(build_batch([Record(0, NOW, b"k", bytes(500))])[:300])
    shutil.move(killed / "rolled-0", killed / "torn-0")
    (killed / "torn-0" / "partition.metadata").unlink()
    again = DataDir.open(killed, "", 1)
    torn = again.open_partition("torn", 0, bytes(16), rolling(), 0)
    assert torn.log_end_offset == 300
    produce(torn, 100, 105)
    again.close()
    shutil.move(killed / "torn-0", path / "torn-0")
    yield path
    shutil.rmtree(path)


def rolling(**more: object) -> LogConfig:
    """Small segments, with more entries in their indexes than usual."""
    return LogConfig(segment_bytes=4_000, index_interval_bytes=500, **more)  # type: ignore[arg-type]


def write(partition: Partition) -> None:
    """Nothing: an empty log is a log, too."""
    assert partition.log_end_offset == 0


def produce(partition: Partition, first: int, end: int) -> None:
    """Batches of three records of an idempotent producer, with every codec."""
    for number in range(first, end):
        batch = build_batch(
            # Times go back now and then.
            [Record(0, NOW + number * 10 - number % 7 * 30, b"k", bytes(60))] * 3,
            codec=number % 5,
            producer_id=7,
            producer_epoch=0,
            base_sequence=3 * number,
        )
        assert not partition.append(batch, now_ms=NOW).error_code


def fill(data: DataDir) -> None:
    """One log of each kind."""
    fresh = data.open_partition("fresh", 0, bytes(16), LogConfig(), 0)
    produce(fresh, 0, 50)
    rolled = data.open_partition("rolled", 0, bytes(16), rolling(), 3)
    produce(rolled, 0, 50)
    rolled.begin_epoch(5)
    produce(rolled, 50, 100)
    stamped = rolling(message_timestamp_type=LOG_APPEND_TIME)
    produce(data.open_partition("stamped", 0, bytes(16), stamped, 0), 0, 30)
    compact(data.open_partition("compacted", 0, bytes(16), compacting(), 0))
    commit(data.open_partition("__consumer_offsets", 0, bytes(16), rolling(), 0))


def compacting() -> LogConfig:
    """Compaction whenever there is anything to compact."""
    return rolling(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)


def compact(partition: Partition) -> None:
    """A log whose older segments have been cleaned, some to nothing."""
    for number in range(300):
        key = b"%d" % (number % 7 if number % 50 else number)
        batch = build_batch([Record(0, NOW + number, key, bytes(40))] * 2)
        assert not partition.append(batch, now_ms=NOW + number).error_code
    size = partition.size_in_bytes
    for _ in clean(partition, NOW + 10**9):
        pass
    assert partition.size_in_bytes < size / 2


def commit(partition: Partition) -> None:
    """Offsets of a group, and one that is gone."""
    encoder = Encoder()
    for number in range(60):
        rows = [
            OffsetRecord("group", "topic", index, (number, 4, "note", NOW), -1)
            for index in range(3)
        ]
        partition.append_own(encoder.encode(rows, NOW), now_ms=NOW)
    gone = OffsetRecord("group", "topic", 1, None, -1)
    last = encoder.encode([gone, GroupTombstone("group")], NOW)
    partition.append_own(last, now_ms=NOW)


def found(folder: Path, suffix: str, *, besides: str = "") -> list[Path]:
    """The files of a kind, sorted; there are some."""
    files = sorted(
        file for file in folder.glob(f"*-0/*.{suffix}") if file.parent.name != besides
    )
    assert files
    return files


def test_logs(folder: Path, dump: Dump) -> None:
    """Every record of every batch, with valid CRCs and offsets that follow."""
    files = found(folder, "log", besides="compacted-0")
    assert len(files) > 10
    text, complaints = dump(files, "--deep-iteration")
    assert complaints == ""
    assert len(re.findall(r"^\| offset: ", text, re.MULTILINE)) == (
        150 + 300 + 315 + 90 + 182
    )
    assert "compresscodec: zstd" in text
    assert "partitionLeaderEpoch: 5" in text
    assert "LogAppendTime: " in text


def test_compacted_logs(folder: Path, dump: Dump) -> None:
    """Valid batches; that offsets are missing is what compaction is for."""
    files = sorted((folder / "compacted-0").glob("*.log"))
    text, complaints = dump(files, "--deep-iteration")
    gaps = r"Non-consecutive offsets in .*\n(  -?\d+ is followed by \d+\n)+"
    assert re.sub(gaps, "", complaints) == ""
    assert re.search(gaps, complaints)
    assert "isvalid: true" in text


@pytest.mark.parametrize(
    ("kind", "entry"), [("index", "offset"), ("timeindex", "timestamp")]
)
def test_indexes(folder: Path, dump: Dump, kind: str, entry: str) -> None:
    """Sound in themselves; every entry is where its batch, or its record, is."""
    files = found(folder, kind)
    text, complaints = dump(files, "--index-sanity-check")
    assert complaints == ""
    sound = text.count("passed sanity check")
    assert sound > 10
    assert sound + text.count(" is empty.") == len(files)
    assert (" is empty." in text) == (kind == "index")
    assert dump(files, "--verify-index-only")[1] == ""
    text, complaints = dump(files)
    assert complaints == ""
    assert len(re.findall(rf"^{entry}: ", text, re.MULTILINE)) >= 50


def test_snapshots(folder: Path, dump: Dump) -> None:
    """Kafka's reader finds the last batch of each producer, and the CRC fits."""
    files = found(folder, "snapshot")
    text, complaints = dump(files)
    assert complaints == ""
    assert text.count("Dumping ") == len(files)
    assert "producerId: 7 producerEpoch: 0" in text
    assert "lastSequence: 314 lastOffset: 314 offsetDelta: 2" in text


def test_offsets(folder: Path, dump: Dump) -> None:
    """The decoder of __consumer_offsets knows every record."""
    files = sorted((folder / "__consumer_offsets-0").glob("*.log"))
    assert len(files) > 1
    text, complaints = dump(files, "--offsets-decoder")
    assert complaints == ""
    keys = re.findall(r"key: (\{.*?\}\}) payload: (\S+)", text)
    assert len(keys) == 182
    assert '"offset":59,' in text
    assert '"metadata":"note"' in text


@pytest.mark.parametrize("kind", ["log", "index", "timeindex", "snapshot"])
def test_damage_is_found(folder: Path, dump: Dump, tmp_path: Path, kind: str) -> None:
    """The tool does look: a changed byte is a complaint, or an invalid batch."""
    for file in (folder / "rolled-0").glob("00000000000000000000.*"):
        shutil.copy(file, tmp_path)
    shutil.copy(max((folder / "rolled-0").glob("*.snapshot")), tmp_path)
    victim = next(tmp_path.glob(f"*.{kind}"))
    data = bytearray(victim.read_bytes())
    data[{"log": 80, "snapshot": -1}.get(kind, 15)] ^= 1
    victim.write_bytes(data)
    with pytest.raises(AssertionError):
        assert dump([victim], *(["--deep-iteration"] if kind == "log" else []))[1] == ""
