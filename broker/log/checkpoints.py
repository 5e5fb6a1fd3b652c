"""The small text files of Kafka's log directories: offsets, epochs, ids.

Offset checkpoints and the epochs of a partition have the same form: a version,
the number of lines, and the lines.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from kohort.broker.log import files

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
ABORTED_INDEXES: Final = "aborted-index-checkpoint"
"""kohort's own: the CRC-32 of each ``.txnindex`` by the base offset of its segment."""
PARTITION_METADATA: Final = "partition.metadata"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"

CLEAN_SHUTDOWN_TEXT: Final = b'{"version":0,"brokerEpoch":-1}'

TopicPartition = tuple[str, int]

_CRC: Final[TopicPartition] = "#crc", 0
"""The row of a checksum, which is none of a topic: names of topics have no ``#``."""


def topic_partition(name: str) -> TopicPartition | None:
    """The topic and the index of a partition's folder; None for another name."""
    topic, _, index = name.rpartition("-")
    return (topic, int(index)) if topic and index.isdigit() else None


def _rows(data: bytes, width: int) -> list[list[str]] | None:
    """The rows of a file; None if it is incomplete."""
    if not data.endswith(b"\n"):
        return None
    try:
        version, count, *lines = data.decode().splitlines()
        rows = [line.split(" ") for line in lines]
        if int(version) != 0 or int(count) != len(rows):
            return None
    except ValueError:
        return None
    return rows if all(len(row) == width for row in rows) else None


def _text(rows: Sequence[str]) -> bytes:
    return "".join(f"{row}\n" for row in ("0", len(rows), *rows)).encode()


def read_offsets(path: Path) -> dict[TopicPartition, int] | None:
    """Offsets by topic and partition; None if the file is damaged."""
    data = files.read_file(path)
    if data is None:
        return {}
    rows = _rows(data, 3)
    if rows is None:
        return None
    try:
        offsets = {(topic, int(index)): int(offset) for topic, index, offset in rows}
    except ValueError:
        return None
    crc = offsets.pop(_CRC, None)
    return None if crc not in (None, _crc_of(offsets)) else offsets


def _crc_of(offsets: Mapping[TopicPartition, int]) -> int:
    return zlib.crc32(repr(sorted(offsets.items())).encode())


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Replaces a file of offsets by topic and partition, with their CRC-32."""
    written = {**offsets, _CRC: _crc_of(offsets)} if offsets else {}
    rows = [f"{topic} {index} {offset}" for (topic, index), offset in written.items()]
    files.replace_file(path, _text(rows))


def read_epochs(folder: Path) -> list[tuple[int, int]] | None:
    """(Epoch, start offset) of a partition; None without a complete file."""
    entries = read_pairs(folder / LEADER_EPOCHS)
    if entries is None:
        return None
    pairs = pairwise(entries)
    grows = all(a[0] < b[0] and a[1] <= b[1] for a, b in pairs)
    return entries if grows else None


def write_epochs(
    folder: Path, entries: Iterable[tuple[int, int]], *, is_durable: bool
) -> None:
    """Replaces the epochs of a partition."""
    write_pairs(folder / LEADER_EPOCHS, entries, is_durable=is_durable)


def read_pairs(path: Path) -> list[tuple[int, int]] | None:
    """Lines of two numbers; None without a complete file."""
    data = files.read_file(path)
    rows = None if data is None else _rows(data, 2)
    if rows is None:
        return None
    try:
        return [(int(first), int(second)) for first, second in rows]
    except ValueError:
        return None


def write_pairs(
    path: Path, pairs: Iterable[tuple[int, int]], *, is_durable: bool
) -> None:
    """Replaces a file of lines of two numbers."""
    data = _text([f"{first} {second}" for first, second in pairs])
    files.replace_file(path, data, is_durable=is_durable)


def read_topic_id(folder: Path) -> bytes | None:
    """The topic id that a partition was created for (KIP-516); None if unknown."""
    data = files.read_file(folder / PARTITION_METADATA) or b""
    for line in data.decode(errors="replace").splitlines():
        key, _, value = line.partition(": ")
        if key == "topic_id":
            try:
                found = base64.urlsafe_b64decode(value + "==")
            except ValueError:
                return None
            return found if len(found) == 16 else None
    return None


def write_topic_id(folder: Path, topic_id: bytes) -> None:
    """Writes a partition's topic id, as text in Kafka's form."""
    data = topic_id_text(topic_id)
    files.replace_file(folder / PARTITION_METADATA, data, is_durable=False)


def topic_id_text(topic_id: bytes) -> bytes:
    """The contents of the file that `write_topic_id` writes."""
    text = base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()
    return f"version: 0\ntopic_id: {text}".encode()


def read_properties(data: bytes) -> dict[str, str]:
    """Reads a Java properties file of plain keys and values: meta.properties."""
    found = {}
    for line in data.decode(errors="replace").splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and not key.startswith(("#", "!")):
            found[key.strip()] = value.strip().replace("\\", "")
    return found


def properties(values: Mapping[str, str]) -> bytes:
    """The contents of a properties file."""
    return "".join(f"{key}={value}\n" for key, value in values.items()).encode()
