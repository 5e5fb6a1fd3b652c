"""Fuzz target: a data directory with changed files is opened, or refused.

An input is a byte for one of the directories that are made here, a byte of flags, and a
list of edits: file, kind, int16 position, size, and that many bytes.
"""

from __future__ import annotations

import functools
import random
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.batches import sealed
from tests.fuzz.captured_log import silenced
from tests.fuzz.target import Target
from tests.log.storage import CLUSTER, NODE, TOPIC_ID, segments_of, temporary_folder

from kohort.broker.log import checkpoints, compaction
from kohort.broker.log.directory import DataDir
from kohort.broker.log.lookup import find_offset
from kohort.broker.log.metadata import (
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)
from kohort.broker.log.partition import Partition
from kohort.broker.log.settings import LogConfig
from kohort.broker.log.store import DataDirError, StorageError
from kohort.broker.long_work import finish
from kohort.protocol import records
from kohort.protocol.messages import WireError
from kohort.protocol.records import Record

Image = dict[str, bytes]
"""The files of a directory by their path in it."""
Row = tuple[int, int, bytes]
"""A batch in a log: first and last offset, and its bytes."""

_NOW_MS = 1_700_000_000_000
_TOPIC = "t-0"
_SEALED, _MARKED, _UNMARKED = 1, 2, 4
"""Flags: changed batches get a correct CRC; the broker was stopped cleanly; it was not.
"""
(OVERWRITE, INSERT, CUT, APPEND, DELETE, RENAME, ZERO, REPEAT) = range(8)
_SUFFIXES = (".swap", ".cleaned", ".deleted", ".tmp", ".bak", "")
_MOST_EDITS = 6
_EVERYTHING = 2**63 - 1


class Edit(NamedTuple):
    """One change of one file."""

    file: int
    kind: int
    position: int
    data: bytes

    def encode(self) -> bytes:
        """The bytes of the edit in an input."""
        head = self.file, self.kind, self.position, len(self.data)
        return struct.pack(">BBHB", *head) + self.data


def edits_of(data: bytes) -> list[Edit]:
    """The edits of an input, without its first two bytes."""
    edits: list[Edit] = []
    at = 2
    while at + 5 <= len(data) and len(edits) < _MOST_EDITS:
        file, kind, position, size = struct.unpack_from(">BBHB", data, at)
        at += 5
        edits.append(Edit(file, kind, position, data[at : at + size]))
        at += size
    return edits


class Opened(NamedTuple):
    """The batches that an open partition serves.

    Attributes:
        start, end: its offsets.
        rows: the batches that can be read.
        is_whole: whether reading reached the end.
        epochs: leader epochs and their starts.
    """

    start: int
    end: int
    rows: list[Row]
    is_whole: bool
    epochs: tuple[tuple[int, int], ...]


def directories(data: bytes) -> None:
    """A directory serves the batches before the damage, or is refused with a reason."""
    if len(data) < 2:
        return
    made = _made(data[0] % len(_MAKERS))
    edits = edits_of(data)
    with silenced() as log, temporary_folder() as folder:
        image = _edited(made, edits, data[1])
        _play(Path(folder), made, edits, image, is_forged=bool(data[1] & _SEALED))
        assert "Traceback" not in log.getvalue()


def _play(
    root: Path, made: Image, edits: list[Edit], image: Image, *, is_forged: bool
) -> None:
    path = root / "data"
    _write(path, image)
    try:
        opened, as_crashed = _open(path)
    except (DataDirError, StorageError) as error:
        _check_refusal(path, image, edits, str(error))
        return
    damaged_at = _damaged_at(made, image)
    _check_kept(made, damaged_at, opened, is_forged=is_forged)
    _check_again(path, made, damaged_at, opened, is_forged=is_forged)
    _write(root / "crashed", as_crashed)
    if edits:
        # Epochs of a changed file are trusted after a clean stop.
        opened = opened._replace(epochs=())
    crashed = root / "crashed"
    _check_again(crashed, made, damaged_at, opened, is_forged=is_forged)


def _check_again(
    path: Path, made: Image, damaged_at: int, opened: Opened, *, is_forged: bool
) -> None:
    """Checks that the next start finds the same, or damaged flushed batches.

    A start reads flushed batches only after a crash, or if an index does not fit. If a
    log could not be read to its end, such a start cuts off the rest, so it is whole
    then; if the batch there is forged, the log may also end elsewhere.
    """
    try:
        again, _ = _open(path)
    except (DataDirError, StorageError):
        assert damaged_at < _EVERYTHING
        return
    if not opened.epochs:
        again = again._replace(epochs=())
    _check_kept(made, damaged_at, again, is_forged=is_forged)
    if not opened.is_whole:
        again = again._replace(is_whole=False)
    assert again == opened or (is_forged and not opened.is_whole)


def _check_refusal(path: Path, image: Image, edits: list[Edit], why: str) -> None:
    """Checks that a refusal cuts nothing off, and is repeated."""
    if not any(edit.kind % 8 == RENAME for edit in edits):
        for name, data in _read(path).items():
            assert not _is_log(name) or data == image[name], "nothing is cut"
    try:
        _open(path)
    except (DataDirError, StorageError):
        return
    raise AssertionError(f"refused ({why}), then opened")


def _check_kept(
    made: Image, damaged_at: int, opened: Opened, *, is_forged: bool
) -> None:
    """Checks that batches before the first change of a log are unchanged."""
    served = {row[0]: row for row in opened.rows}
    for row in _rows(made):
        if row[1] < damaged_at and row[0] >= opened.start:
            assert served.get(row[0]) == row, f"offset {row[0]} is lost"
    # After it, reading trusts offsets.
    offsets = [row[:2] for row in opened.rows if row[1] < damaged_at]
    assert all(a[1] < b[0] for a, b in pairwise(offsets))
    if damaged_at == _EVERYTHING:
        assert opened.is_whole
        assert opened.end == _rows(made)[-1][1] + 1


def _open(path: Path) -> tuple[Opened, Image]:
    """Opens the partition, appends nothing, and closes it.

    Returns:
        Its batches, and the files as a crash would leave them.
    """
    folder = DataDir.open(path, CLUSTER, NODE)
    try:
        config = _CONFIG
        partition = folder.open_partition("t", 0, TOPIC_ID, config, 0, now_ms=_NOW_MS)
        opened = _served(partition)
        return opened, _read(path)
    finally:
        folder.close()


def _served(partition: Partition) -> Opened:
    rows: list[Row] = []
    is_whole = True
    start, end = partition.log_start_offset, partition.log_end_offset
    assert 0 <= start <= end
    try:
        for batch in partition.batches(start):
            header = records.read_header(batch)
            rows.append((header.base_offset, header.last_offset, bytes(batch)))
        finish(find_offset(partition, _NOW_MS))
        finish(find_offset(partition, -3))
    except StorageError:
        is_whole = False
    return Opened(start, end, rows, is_whole, tuple(partition.epochs.entries))


# -- edits


def _edited(made: Image, edits: list[Edit], flags: int) -> Image:
    image = dict(made)
    for edit in edits:
        names = sorted(image)
        if names:
            _apply(image, names[edit.file % len(names)], edit)
    if flags & _SEALED:
        image |= {n: _sealed(log) for n, log in image.items() if _is_log(n)}
    if flags & _MARKED:
        image[checkpoints.CLEAN_SHUTDOWN] = checkpoints.CLEAN_SHUTDOWN_TEXT
    elif flags & _UNMARKED:
        image.pop(checkpoints.CLEAN_SHUTDOWN, None)
    return image


def _apply(image: Image, name: str, edit: Edit) -> None:
    content = image.pop(name)
    at = edit.position % (len(content) + 1)
    head, tail, data = content[:at], content[at:], edit.data
    kind = edit.kind % 8
    if kind == OVERWRITE:
        image[name] = head + data + tail[len(data) :]
    elif kind == INSERT:
        image[name] = head + data + tail
    elif kind == CUT:
        image[name] = head
    elif kind == APPEND:
        image[name] = content + data
    elif kind == RENAME:
        suffix = _SUFFIXES[edit.position % len(_SUFFIXES)]
        image[name + suffix if suffix else _moved(name, len(data))] = content
    elif kind == ZERO:
        image[name] = head + bytes(min(16 * len(data), len(tail)))
    elif kind == REPEAT:
        image[name] = content + tail[: 16 * len(data)]


def _moved(name: str, by: int) -> str:
    """The name of a segment's file with another base offset."""
    folder, slash, file = name.rpartition("/")
    number, dot, kind = file.partition(".")
    if not number.isdigit():
        return name
    return f"{folder}{slash}{int(number) + by:020d}{dot}{kind}"


def _sealed(log: bytes) -> bytes:
    """A log with a correct CRC for each batch, as far as lengths are right."""
    made, at = b"", 0
    while len(log) - at >= records.HEADER_SIZE:
        size = records.read_header(log, at).size
        if not records.HEADER_SIZE <= size <= len(log) - at:
            break
        batch = log[at : at + size]
        made += sealed(batch)
        at += size
    return made + log[at:]


def _damaged_at(made: Image, image: Image) -> int:
    """The first offset that a changed image may have lost; 2^63 - 1 for none."""
    changed = (
        name for name in made.keys() | image if made.get(name) != image.get(name)
    )
    return min((_hit(made, image, name) for name in changed), default=_EVERYTHING)


def _hit(made: Image, image: Image, name: str) -> int:
    folder, _, file = name.rpartition("/")
    number, _, kind = file.partition(".")
    if name == checkpoints.CLEAN_SHUTDOWN:
        return _EVERYTHING
    if not folder or not number.isdigit():
        return _EVERYTHING if file == checkpoints.LEADER_EPOCHS else 0
    if kind == "snapshot":
        return _EVERYTHING
    if kind != "log" or name not in made or name not in image:
        # As in Kafka, index entries are trusted where a log is not read.
        return int(number)
    before, after = made[name], image[name]
    differing = (
        i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b
    )
    at = next(differing, min(len(before), len(after)))
    end = int(number)
    for first, last, batch in _rows({name: before}):
        if at < len(batch):
            return first
        at -= len(batch)
        end = last + 1
    return end


# -- directories

_CONFIG = LogConfig(index_interval_bytes=100)
_COMPACTED = LogConfig(index_interval_bytes=100, cleanup_policy="compact,delete")


def _batch(number: int, producer_id: int = -1) -> bytes:
    some = [
        Record(0, _NOW_MS + number, b"k%d" % (number % 3), b"v" * (number % 7)),
        Record(0, _NOW_MS + number, b"k", None),
    ]
    if producer_id < 0:
        return records.build_batch(some, codec=number % 5)
    return records.build_batch(
        some, producer_id=producer_id, producer_epoch=0, base_sequence=2 * number
    )


def _make(path: Path, kind: int) -> Image:
    """A directory with one partition; its history depends on `kind`."""
    config = _COMPACTED if kind == 3 else _CONFIG
    folder = DataDir.open(path, CLUSTER, NODE)
    folder.save(
        ClusterMetadata(
            {"t": TopicMetadata(TOPIC_ID, {}, [PartitionMetadata([NODE], NODE, 0)])},
            {},
            1000,
        )
    )
    partition = folder.open_partition("t", 0, TOPIC_ID, config, 0, now_ms=_NOW_MS)
    for number in range(12):
        if kind and number in {4, 8}:
            segments_of(partition).roll(partition.log_end_offset)
            partition.begin_epoch(number)
        if kind == 2 and number == 6:
            partition.flush()
            folder.checkpoint()
        partition.append(_batch(number, 7 if number % 2 else -1), now_ms=_NOW_MS)
    if kind == 1:
        partition.delete_records(3)
    if kind == 3:
        for _ in compaction.clean(partition, _NOW_MS):
            continue
    image = _read(path)
    folder.close()
    return image if kind in {0, 2} else _read(path)


_MAKERS = ("one segment", "three, stopped", "three, crashed", "compacted")


@functools.cache
def _made(kind: int) -> Image:
    with temporary_folder() as folder:
        return _make(Path(folder) / "data", kind)


def _is_log(name: str) -> bool:
    return name.startswith(_TOPIC) and name.endswith(".log")


def _rows(image: Image) -> list[Row]:
    """The whole batches of all segments."""
    rows: list[Row] = []
    for name in sorted(image):
        if _is_log(name):
            try:
                for header, at in records.read_headers(image[name]):
                    batch = image[name][at : at + header.size]
                    rows.append((header.base_offset, header.last_offset, batch))
            except WireError:
                continue
    return rows


def _read(path: Path) -> Image:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file() and file.name != ".lock"
    }


def _write(path: Path, image: Image) -> None:
    for name, data in image.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


# -- seeds and mutations


def _seeds() -> Iterator[bytes]:
    for kind in range(len(_MAKERS)):
        for flags in (0, _MARKED, _UNMARKED):
            yield bytes((kind, flags))
        for file in range(len(_made(kind))):
            for how in ((file + kind) % 8, (3 * file + 1) % 8):
                edit = Edit(file, how, 61 + 70 * how, b"\x01" * (1 + how))
                yield bytes((kind, _SEALED if file % 2 else 0)) + edit.encode()


def _mutate(data: bytes, chance: random.Random) -> bytes:
    """Adds, drops or changes an edit."""
    head = bytearray((data + b"\0\0")[:2])
    edits = edits_of(data)
    if chance.random() < 0.2:
        head[chance.randrange(2)] = chance.randrange(8)
    how = chance.randrange(4)
    if edits and how == 0:
        del edits[chance.randrange(len(edits))]
    elif edits and how == 1:
        at = chance.randrange(len(edits))
        position = chance.randrange(1500)
        edits[at] = edits[at]._replace(position=position, file=chance.randrange(20))
    else:
        some = chance.choice((b"\0", b"\xff" * 4, b"\x7f", b"1", b"\n", b"\0" * 8))
        some = chance.choice((some, chance.randbytes(chance.randrange(1, 9))))
        edits.append(
            Edit(
                chance.randrange(20), chance.randrange(8), chance.randrange(1500), some
            )
        )
    return bytes(head) + b"".join(edit.encode() for edit in edits)


DIRECTORIES = Target(directories, _seeds, _mutate, longest=600, weight=3)
