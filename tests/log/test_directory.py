"""The data directory: its owner, its lock, and its files."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.log.corruptions import contents
from tests.log.storage import (
    CLUSTER,
    NODE,
    TOPIC_ID,
    opened,
    segments_of,
    temporary_folder,
)

from kohort.broker.log.directory import DataDir
from kohort.broker.log.metadata import (
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)
from kohort.broker.log.partition import Partition
from kohort.broker.log.settings import DEFAULTS, LogConfig
from kohort.broker.log.store import DataDirError, StorageError
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record, build_batch

NOW = 1_700_000_000_000
NO_NODE = 65534


def send(partition: Partition, count: int = 1) -> None:
    """Appends this many batches of one record."""
    for _ in range(count):
        batch = build_batch([Record(0, NOW, b"k", b"v")])
        assert not partition.append(batch, now_ms=NOW).error_code


def refused(path: Path, node_id: int = NODE) -> str:
    """The reason for not opening a directory, in one line; nothing in it changed."""
    before = contents(path)
    with pytest.raises(DataDirError) as caught:
        DataDir.open(path, CLUSTER, node_id)
    after = contents(path)
    after.pop(".lock", None)
    before.pop(".lock", None)
    assert after == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """Within it, a write beyond this size of a file fails, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    writes_none = sys.dont_write_bytecode
    # A module that is loaded here for the first time would be compiled in part.
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        sys.dont_write_bytecode = writes_none


def test_a_new_directory(tmp_path: Path) -> None:
    """It is created with its parents, and belongs to its cluster from then on."""
    path = tmp_path / "a" / "b"
    data = DataDir.open(path, CLUSTER, NODE)
    assert (data.cluster_id, data.metadata) == (CLUSTER, None)
    data.close()
    assert (path / "meta.properties").read_text().splitlines() == [
        "version=1",
        f"cluster.id={CLUSTER}",
        "node.id=1",
        "kohort.format=1",
    ]
    again = DataDir.open(path, "another", NODE)
    assert again.cluster_id == CLUSTER
    again.close()


def test_a_killed_process_locks_nothing(tmp_path: Path) -> None:
    """One process at a time; the lock ends with it, however that ends."""
    program = (
        "import sys; from pathlib import Path;"
        "from kohort.broker.log.directory import DataDir;"
        "kept = DataDir.open(Path(sys.argv[1]), 'c', 1);"
        "print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        assert "in use by another process" in refused(tmp_path)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        data = DataDir.open(tmp_path, CLUSTER, NODE)
    assert not data.is_clean
    data.close()


@pytest.mark.parametrize(
    ("meta", "why"),
    [
        ("version=1\ncluster.id=x\nnode.id=1\nkohort.format=2\n", "newer kohort"),
        ("version=2\ncluster.id=x\nnode.id=1\nkohort.format=1\n", "newer kohort"),
        ("#\nnode.id=1\ndirectory.id=a\nversion=1\ncluster.id=x\n", "Apache Kafka"),
        ("version=0\nbroker.id=0\n", "Apache Kafka"),
        ("version=1\ncluster.id=x\nnode.id=2\nkohort.format=1\n", "node 2"),
        ("version=1\nnode.id=1\nkohort.format=1\n", "damaged"),
        ("", "damaged"),
    ],
)
def test_directories_that_are_refused(tmp_path: Path, meta: str, why: str) -> None:
    """Newer, another broker's, or damaged: one line says which, and nothing changes."""
    (tmp_path / "meta.properties").write_text(meta)
    said = refused(tmp_path)
    assert why in said
    assert str(tmp_path) in said
    assert ("kohort inspect" in said) == (why == "Apache Kafka")
    assert not (tmp_path / ".lock").exists()


def test_a_folder_with_other_things_in_it(tmp_path: Path) -> None:
    """A folder with other files is not used as a data directory."""
    (tmp_path / "thesis.txt").write_text("almost done")
    assert "thesis.txt is in it" in refused(tmp_path)
    assert not (tmp_path / ".lock").exists()


def test_a_file_in_its_place(tmp_path: Path) -> None:
    """A file cannot be a directory."""
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(DataDirError, match="cannot create"):
        DataDir.open(path, CLUSTER, NODE)


def test_a_read_only_directory() -> None:
    """One line; the test needs a user who cannot write everywhere, unlike root."""
    user = os.geteuid()
    with temporary_folder() as root:
        Path(root).chmod(0o755)
        path = Path(root) / "readonly"
        path.mkdir(mode=0o555)
        if not user:
            os.seteuid(NO_NODE)
        try:
            said = refused(path)
        finally:
            os.seteuid(user)
    assert "Permission denied" in said


def test_no_room_at_the_start(tmp_path: Path) -> None:
    """A full disk is one line, and leaves nothing half created."""
    with no_file_above(10):
        assert "cannot write" in refused(tmp_path)
    data = DataDir.open(tmp_path, CLUSTER, NODE)
    with no_file_above(10), pytest.raises(StorageError, match="cannot write"):
        data.open_partition("t", 0, TOPIC_ID, DEFAULTS, 0)
    partition = data.open_partition("t", 0, TOPIC_ID, DEFAULTS, 0)
    send(partition)
    data.close()


def test_the_cluster_is_written_down(tmp_path: Path) -> None:
    """Topics, configuration and producer ids are restored as they were saved."""
    row = PartitionMetadata([1, 2], 2, 7)
    topics = {"t": TopicMetadata(TOPIC_ID, {"cleanup.policy": "compact"}, [row])}
    saved = ClusterMetadata(topics, {"": {"group.max.size": "3"}, "2": {}}, 4_000)
    data = DataDir.open(tmp_path, CLUSTER, NODE)
    data.save(saved)
    data.close()
    again = DataDir.open(tmp_path, CLUSTER, NODE)
    assert again.metadata == saved
    again.close()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"topics": {}}', '{"topics": {"t": {"id": "00"}}}']
)
def test_a_damaged_cluster_file(tmp_path: Path, text: str) -> None:
    """The start is refused: topics could be lost."""
    DataDir.open(tmp_path, CLUSTER, NODE).close()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    (tmp_path / "cluster.json").write_text(text)
    assert "cluster.json is damaged" in refused(tmp_path)


def test_files_of_a_clean_stop(tmp_path: Path) -> None:
    """They have Kafka's names and Kafka's formats; a checksum is one more row."""
    data, partition = opened(tmp_path, LogConfig(segment_bytes=200), 4)
    send(partition, 7)
    partition.delete_records(1)
    segments_of(partition).first_dirty_offset = 3
    data.close()
    texts = {
        "recovery-point-offset-checkpoint": "0\n2\nt 0 7\n#crc 0 3739580979\n",
        "log-start-offset-checkpoint": "0\n2\nt 0 1\n#crc 0 3664250497\n",
        "cleaner-offset-checkpoint": "0\n2\nt 0 3\n#crc 0 3656176367\n",
        ".kafka_cleanshutdown": '{"version":0,"brokerEpoch":-1}',
        "t-0/leader-epoch-checkpoint": "0\n1\n4 0\n",
        "t-0/partition.metadata": "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
    }
    found = {name: (tmp_path / name).read_text() for name in texts}
    assert found == texts
    names = sorted(path.name for path in (tmp_path / "t-0").iterdir())
    assert names[:3] == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
    ]
    assert "00000000000000000007.snapshot" in names
    data, partition = opened(tmp_path)
    assert segments_of(partition).first_dirty_offset == 3
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    data.close()


def test_a_deleted_partition(tmp_path: Path) -> None:
    """Its files are removed, and a new one of the same name is empty."""
    data, partition = opened(tmp_path)
    calls: list[None] = []
    partition.watch(lambda: calls.append(None))
    send(partition, 3)
    partition.delete_records(2)
    data.delete_partition("t", 0)
    assert partition.is_closed
    assert len(calls) == 5  # once for each record, the deletion, and the end
    assert not list(tmp_path.glob("t-0*"))
    fresh = data.open_partition("t", 0, bytes(16), DEFAULTS, 0)
    assert (fresh.log_start_offset, fresh.log_end_offset) == (0, 0)
    data.close()


def test_what_an_interrupted_deletion_leaves(tmp_path: Path) -> None:
    """The next start deletes it."""
    data, partition = opened(tmp_path)
    send(partition)
    data.close()
    (tmp_path / "t-0").rename(tmp_path / "t-0.00ff-delete")
    data, partition = opened(tmp_path)
    assert partition.log_end_offset == 0
    assert not (tmp_path / "t-0.00ff-delete").exists()
    data.close()


@pytest.mark.parametrize("count", [0, 2])
def test_a_partition_of_another_topic(tmp_path: Path, count: int) -> None:
    """Records of an unknown topic are moved aside, never mixed in."""
    data, partition = opened(tmp_path)
    send(partition, count)
    data.close()
    data = DataDir.open(tmp_path, CLUSTER, NODE)
    other = data.open_partition("t", 0, b"o" * 16, DEFAULTS, 0)
    assert other.log_end_offset == 0
    assert len(list(tmp_path.glob("t-0.*-stray/*.log"))) == (count > 0)
    data.close()


def test_partitions_that_nobody_opened(tmp_path: Path) -> None:
    """After a crash a stop is clean only once all have been recovered."""
    data, _ = opened(tmp_path)
    data.open_partition("t", 1, TOPIC_ID, DEFAULTS, 0)
    data.close()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    data, _ = opened(tmp_path)
    data.close()
    data, _ = opened(tmp_path)
    assert not data.is_clean
    data.open_partition("t", 1, TOPIC_ID, DEFAULTS, 0)
    data.close()
    data = DataDir.open(tmp_path, CLUSTER, NODE)
    assert data.is_clean
    data.close()


def test_partitions_of_no_topic(tmp_path: Path) -> None:
    """They are moved aside after all others are open, so that a stop is clean again."""
    data, partition = opened(tmp_path)
    send(partition, 3)
    data.open_partition("t", 1, TOPIC_ID, DEFAULTS, 0)
    data.close()
    data = DataDir.open(tmp_path, CLUSTER, NODE)
    data.put_aside_the_rest()
    data.close()
    assert len(list(tmp_path.glob("t-*"))) == 1
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    checkpoint = (tmp_path / "recovery-point-offset-checkpoint").read_text()
    assert checkpoint == "0\n0\n"


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"]
)
def test_damaged_checkpoints(tmp_path: Path, name: str) -> None:
    """Nothing is lost without them; the start reads more."""
    data, partition = opened(tmp_path)
    send(partition, 5)
    partition.delete_records(2)
    data.close()
    (tmp_path / name).write_text("0\n1\nt 0")
    data, partition = opened(tmp_path)
    assert partition.log_end_offset == 5
    send(partition)
    data.close()


def test_few_open_files(tmp_path: Path) -> None:
    """There may be many more partitions than a process can have open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The limit applies to numbers, and earlier tests may have left some in between.
    highest = max(int(fd.name) for fd in Path("/dev/fd").iterdir())
    # Segments may have an eighth of all numbers, used or not.
    free = 60 + highest // 4
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + free, hard))
    try:
        data = DataDir.open(tmp_path, CLUSTER, NODE)
        partitions = [
            data.open_partition("t", index, TOPIC_ID, DEFAULTS, 0)
            for index in range(max(150, 2 * free))
        ]
        for _ in range(2):
            for partition in partitions:
                send(partition)
        for partition in partitions:
            found = partition.read(0, 10**6, minimum_one=True)
            assert found.error_code == ErrorCode.NONE
            assert found.size_in_bytes == partition.size_in_bytes > 0
        data.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
