"""Fuzz target: the small files of a data directory, one at a time."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.fuzz.target import Target
from tests.log.storage import temporary_folder

from kohort.broker.log import checkpoints, snapshots
from kohort.broker.log.index import SegmentIndex
from kohort.broker.log.metadata import (
    ClusterChange,
    ClusterMetadata,
    MetadataError,
    PartitionMetadata,
    TopicMetadata,
    snapshot,
)
from kohort.broker.log.producers import AppendedBatch, Producers, ProducerState
from kohort.protocol.records import crc_of

_BASE = 100
_LOG_SIZE = 10_000


def files(data: bytes) -> None:
    """A file is refused, or is the same after writing it again.

    Args:
        data: the number of a file, one byte; then its contents.
    """
    if data:
        with temporary_folder() as folder:
            _KINDS[data[0] % len(_KINDS)](Path(folder), data[1:])


def _offsets(folder: Path, data: bytes) -> None:
    path = folder / checkpoints.RECOVERY_POINTS
    path.write_bytes(data)
    found = checkpoints.read_offsets(path)
    if found is not None:
        checkpoints.write_offsets(path, found)
        assert checkpoints.read_offsets(path) == found


def _epochs(folder: Path, data: bytes) -> None:
    (folder / checkpoints.LEADER_EPOCHS).write_bytes(data)
    found = checkpoints.read_epochs(folder)
    if found is not None:
        checkpoints.write_epochs(folder, found, is_durable=False)
        assert checkpoints.read_epochs(folder) == found


def _topic_id(folder: Path, data: bytes) -> None:
    (folder / checkpoints.PARTITION_METADATA).write_bytes(data)
    found = checkpoints.read_topic_id(folder)
    if found is not None:
        assert len(found) == 16
        checkpoints.write_topic_id(folder, found)
        assert checkpoints.read_topic_id(folder) == found


def _properties(_: Path, data: bytes) -> None:
    checkpoints.read_properties(data)


def _snapshot(_: Path, data: bytes) -> None:
    # The CRC is corrected, so that the bytes after it are read.
    data = data[:2] + struct.pack(">I", crc_of(data[2:])) + data[2:]
    try:
        found = snapshots.decode(data)
    except snapshots.SnapshotError:
        return
    written = snapshots.encode(found)
    assert snapshots.encode(snapshots.decode(written)) == written


def _metadata(_: Path, data: bytes) -> None:
    try:
        found, number = ClusterMetadata.from_json(data)
    except MetadataError:
        return
    written = _written(found, number)
    assert ClusterMetadata.from_json(written) == (found, number)


def _written(metadata: ClusterMetadata, number: int) -> bytes:
    rows = metadata.topics.items()
    return b"".join(snapshot(number, rows, metadata.without_topics))


def _change(_: Path, data: bytes) -> None:
    try:
        found, number = ClusterChange.from_json(data)
    except MetadataError:
        return
    assert ClusterChange.from_json(found.to_json(number)) == (found, number)
    _BEFORE.changed([found])


def _index(folder: Path, data: bytes) -> None:
    count = data[0] if data else 0
    offsets, times = folder / "index", folder / "timeindex"
    offsets.write_bytes(data[1 : 1 + count])
    times.write_bytes(data[1 + count :])
    found = SegmentIndex.load(_BASE, _LOG_SIZE, offsets, times)
    if found is not None:
        for offset in (0, _BASE, _BASE + 5, 2**62):
            assert 0 <= found.floor(offset) < _LOG_SIZE
        for time in (0, 1, 2**62):
            assert found.offset_before_time(time) >= _BASE


_KINDS: list[Callable[[Path, bytes], None]] = [
    _offsets,
    _epochs,
    _topic_id,
    _properties,
    _snapshot,
    _metadata,
    _change,
    _index,
]

_TOPIC = TopicMetadata(bytes(range(16)), {"a": "b"}, [PartitionMetadata([1, 2], 1, 3)])
_BEFORE = ClusterMetadata({"t": _TOPIC}, {"": {"c": "d"}}, 1000)


def _seeds() -> Iterator[bytes]:
    yield b"\0" + b"0\n2\nt 0 5\nt 1 7\n"
    yield b"\1" + b"0\n2\n0 0\n3 10\n"
    yield b"\2" + b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    yield b"\3" + b"#x\nversion=1\nkohort.format=1\n"
    producers = Producers()
    state = ProducerState(1)
    state.batches += AppendedBatch(0, 1, 0, 1, 5), AppendedBatch(2, 3, 2, 3, 6)
    producers.states[7] = state
    made = snapshots.encode(producers)
    yield b"\4" + made[:2] + made[6:]
    yield b"\5" + _written(_BEFORE, 3)
    yield b"\6" + ClusterChange({"u": _TOPIC, "t": None}, {}, 5).to_json(4)
    yield b"\7\x10" + struct.pack(">4i", 5, 100, 9, 300) + struct.pack(">qi", 5, 4)


_WORDS = re.compile(rb"-?\d+|\{.*?\}|\[.*?\]|null|\"\w*\"")
_OTHERS = (b"1e999", b"-1", b"9" * 30, b"null", b"{}", b'"x"', b"[" * 1100, b"1.5", b"")


def _mutate(data: bytes, chance: random.Random) -> bytes:
    """Replaces a number, a text, an object or a list."""
    found = [*_WORDS.finditer(data)]
    if not found:
        return data + chance.choice(_OTHERS)
    start, end = chance.choice(found).span()
    return data[:start] + chance.choice(_OTHERS) + data[end:]


FILES = Target(files, _seeds, _mutate)
