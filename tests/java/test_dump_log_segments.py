"""Apache Kafka's own DumpLogSegments reads kohort's files, without complaints."""

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
from kohort.broker.log.ended_transactions import EndMarker
from kohort.broker.log.partition import Partition
from kohort.broker.log.producers import Verification
from kohort.broker.log.settings import LOG_APPEND_TIME, LogConfig
from kohort.broker.shards.group_records import Encoder
from kohort.broker.shards.transaction_records import encode
from kohort.broker.transactions.effects import StateRecord
from kohort.broker.transactions.events import TopicPartition
from kohort.broker.transactions.state import TransactionState
from kohort.broker.transactions.transaction_metadata import Metadata
from kohort.protocol.records import TRANSACTIONAL, Record, build_batch

pytestmark = pytest.mark.interop

NOW = 1_700_000_000_000
TIMEOUT_S = 120.0


Dump = Callable[..., tuple[str, str]]
"""The tool's output for files, and its complaints."""


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
    """Returns complaints that the tool does not have about Kafka's own files.

    For a log that does not begin with offset 0 it says that "-1 is followed by" the
    first offset, even for Apache Kafka's segments: it compares the first record with
    none.
    """
    known = r"Non-consecutive offsets in \S*?0*(\d+)\.log\n  -1 is followed by \1\n"
    return re.sub(known, "", errors)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data directory with all kinds of files, after a clean stop."""
    path = tmp_path_factory.mktemp("data") / "live"
    data = DataDir.open(path, "YWJjZGVmZ2hpamtsbW5vcA", 1)
    write(data.open_partition("empty", 0, bytes(16), LogConfig(), 0))
    fill(data)
    # The result of a kill -9: the files as they are, and half a batch at the end.
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
    """Writes nothing: a log may be empty."""
    assert partition.log_end_offset == 0


def produce(partition: Partition, first: int, end: int) -> None:
    """Batches of three records of an idempotent producer, with every codec."""
    for number in range(first, end):
        batch = build_batch(
            # Times sometimes go back.
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
    transact(data.open_partition("transacted", 0, bytes(16), rolling(), 0))
    coordinate(data.open_partition("__transaction_state", 0, bytes(16), rolling(), 0))


def transact(partition: Partition) -> None:
    """Writes 40 transactions of two producers, each second one aborted."""
    for number in range(40):
        producer, is_commit = number % 3, number % 2 == 0
        batch = build_batch(
            [Record(0, NOW + number, b"k", bytes(60))],
            producer_id=producer,
            producer_epoch=number,
            base_sequence=0,
            attributes=TRANSACTIONAL,
        )
        verification = partition.verify(batch, now_ms=NOW, adds=True)
        assert isinstance(verification, Verification)
        done = partition.append(batch, now_ms=NOW, verification=verification)
        assert not done.error_code
        end = EndMarker(producer, number + 1, is_commit, 9, 2)
        assert not partition.append_marker(end, now_ms=NOW).error_code


def coordinate(partition: Partition) -> None:
    """Writes the states of a transactional id, and its expiry."""
    places = frozenset({TopicPartition("t", 0), TopicPartition("t", 1)})
    ongoing = Metadata(7, 3, 60_000, TransactionState.ONGOING, places, NOW, NOW)
    for version in (0, 1):
        batch = encode([StateRecord("tx", ongoing)], version, NOW)
        partition.append_own(batch, now_ms=NOW)
    gone = encode([StateRecord("tx", None)], 1, NOW)
    partition.append_own(gone, now_ms=NOW)


def compacting() -> LogConfig:
    """Settings under which any dirty record makes the log compact."""
    return rolling(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)


def compact(partition: Partition) -> None:
    """Writes a log and cleans its older segments, some completely."""
    for number in range(300):
        key = b"%d" % (number % 7 if number % 50 else number)
        batch = build_batch([Record(0, NOW + number, key, bytes(40))] * 2)
        assert not partition.append(batch, now_ms=NOW + number).error_code
    size = partition.size_in_bytes
    for _ in clean(partition, NOW + 10**9):
        pass
    assert partition.size_in_bytes < size / 2


def commit(partition: Partition) -> None:
    """Writes offsets of a group, and deletes one."""
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
    """The files of a kind, sorted; there must be some."""
    files = sorted(
        file for file in folder.glob(f"*-0/*.{suffix}") if file.parent.name != besides
    )
    assert files
    return files


def test_logs(folder: Path, dump: Dump) -> None:
    """Every record of every batch, with valid CRCs and consecutive offsets."""
    files = found(folder, "log", besides="compacted-0")
    assert len(files) > 10
    text, complaints = dump(files, "--deep-iteration")
    assert complaints == ""
    assert len(re.findall(r"^\| offset: ", text, re.MULTILINE)) == (
        150 + 300 + 315 + 90 + 182 + 80 + 3
    )
    assert "compresscodec: zstd" in text
    assert "partitionLeaderEpoch: 5" in text
    assert "LogAppendTime: " in text


def test_compacted_logs(folder: Path, dump: Dump) -> None:
    """Valid batches; missing offsets are the result of compaction."""
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
    """Indexes are valid: every entry points to its batch or record."""
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
    """Kafka's reader finds the last batch of each producer, and a valid CRC."""
    files = found(folder, "snapshot")
    text, complaints = dump(files)
    assert complaints == ""
    assert text.count("Dumping ") == len(files)
    assert "producerId: 7 producerEpoch: 0" in text
    assert "lastSequence: 314 lastOffset: 314 offsetDelta: 2" in text


def test_transactions(folder: Path, dump: Dump) -> None:
    """Markers in logs, their indexes, and the producers after them in snapshots."""
    files = sorted((folder / "transacted-0").glob("*.log"))
    text, complaints = dump(files, "--deep-iteration")
    assert complaints == ""
    assert text.count("endTxnMarker: COMMIT coordinatorEpoch: 9") == 20
    assert text.count("endTxnMarker: ABORT coordinatorEpoch: 9") == 20
    files = found(folder, "txnindex")
    assert len(files) > 1
    text, complaints = dump(files)
    assert complaints == ""
    entries = re.findall(
        r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) "
        r"lastStableOffset: (\d+)",
        text,
    )
    assert [tuple(map(int, entry)) for entry in entries] == [
        (number % 3, 2 * number, 2 * number + 1, 2 * number + 2)
        for number in range(1, 40, 2)
    ]
    files = sorted((folder / "transacted-0").glob("*.snapshot"))
    text, complaints = dump(files[-1:])
    assert complaints == ""
    assert "producerEpoch: 40 coordinatorEpoch: 9 currentTxnFirstOffset: " in text


def test_transactional_ids(folder: Path, dump: Dump) -> None:
    """The decoder of __transaction_state decodes both versions, and an expiry."""
    files = sorted((folder / "__transaction_state-0").glob("*.log"))
    text, complaints = dump(files, "--transaction-log-decoder")
    assert complaints == ""
    payloads = re.findall(r"key: \{.*?\"tx\".*?\} payload: (.*)", text)
    assert len(payloads) == 3
    for payload in payloads[:2]:
        assert '"producerId":7,"producerEpoch":3' in payload.replace(" ", "")
        assert '"partitionIds":[0,1]' in payload.replace(" ", "")
    assert payloads[2] in ("<DELETE>", "null")


def test_offsets(folder: Path, dump: Dump) -> None:
    """The decoder of __consumer_offsets decodes every record."""
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
    """A changed byte makes the tool complain, or report an invalid batch."""
    for file in (folder / "rolled-0").glob("00000000000000000000.*"):
        shutil.copy(file, tmp_path)
    shutil.copy(max((folder / "rolled-0").glob("*.snapshot")), tmp_path)
    victim = next(tmp_path.glob(f"*.{kind}"))
    data = bytearray(victim.read_bytes())
    data[{"log": 80, "snapshot": -1}.get(kind, 15)] ^= 1
    victim.write_bytes(data)
    with pytest.raises(AssertionError):
        assert dump([victim], *(["--deep-iteration"] if kind == "log" else []))[1] == ""
