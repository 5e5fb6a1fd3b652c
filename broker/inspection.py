"""``kohort inspect``: the groups and offsets that a data directory holds.

Reads the segment files of ``__consumer_offsets`` as kohort and Apache Kafka write
them, and nothing else of the directory; opens them for reading only, so that a
broker may be running on it. What is shown is what a coordinator would load.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from kohort.broker.coordinator.effects import GroupRecord
from kohort.broker.coordinator.replay import Found, Loading
from kohort.broker.coordinator.state import EMPTY, STABLE
from kohort.broker.group_records import Decoder
from kohort.broker.log.judgement import Batches, Read
from kohort.protocol import consumer
from kohort.protocol.messages import WireError, slotted
from kohort.protocol.offsets_log import RECORD_TYPES

TOPIC: Final = "__consumer_offsets"
CLASSIC: Final = "classic"

_PARTITION = re.compile(re.escape(TOPIC) + r"-(\d+)")
_SEGMENT = re.compile(r"\d{20}\.log")
_BUFFER = 1 << 20
_ATTEMPTS = 3
"""How often a partition is read whose files are replaced meanwhile: a compaction
that ends just then is likely once, and not again at once."""


class InspectError(Exception):
    """There is nothing to inspect, and why."""


class _DamageError(Exception):
    """A log cannot be read any further, and why."""


@slotted
class MemberView:
    """A member as it was stored; timeouts in ms.

    `subscribed` and `assigned` are None where they are not those of a consumer.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscribed: Sequence[str] | None
    assigned: Sequence[tuple[str, Sequence[int]]] | None


@slotted
class OffsetView:
    """A committed offset; times in ms since the epoch.

    `expire_timestamp_ms` is None where the broker's retention decides.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None


@slotted
class GroupView:
    """A group as it would be loaded.

    Groups of other protocols (`kind` is not ``classic``) have nothing but offsets
    here, and no state. `partition` is None for a file outside of a folder that
    says it.
    """

    group_id: str
    partition: int | None
    kind: str
    state: str | None
    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int | None
    members: Sequence[MemberView]
    offsets: Sequence[OffsetView]


class Inspection:
    """What was found.

    Attributes:
        path: where.
        partitions: how many partitions of ``__consumer_offsets`` were read.
        groups: by partition and id.
        skipped: how many records are not of the classic protocol, by the name of
            their type.
        notes: what is worth knowing, and no damage.
        damaged: what could not be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partitions = 0
        self.groups: list[GroupView] = []
        self.skipped: dict[str, int] = {}
        self.notes: list[str] = []
        self.damaged: list[str] = []


def inspect(directory: Path, *, group: str | None, as_json: bool, out: IO[str]) -> int:
    """Prints the groups and offsets in a directory.

    Args:
        directory: a data directory, one partition's folder, or one segment.
        group: the only group to show; None for all.
        as_json: print one JSON document instead of text.
        out: where to print.

    Returns:
        The exit code: 1 where something is damaged, else 0.

    Raises:
        InspectError: there is nothing to show; the text says why.
    """
    found = examine(directory)
    if group is not None:
        found.groups = [view for view in found.groups if view.group_id == group]
        if not found.groups and not found.damaged:
            raise InspectError(f"{directory} has no group {group!r}")
    if as_json:
        json.dump(_document(found), out, ensure_ascii=False, indent=1)
        out.write("\n")
    else:
        out.writelines(f"{line}\n" for line in _lines(found))
    return 1 if found.damaged else 0


# -- reading


def examine(path: Path) -> Inspection:
    """Reads whatever `inspect` takes.

    Raises:
        InspectError: there is nothing to read.
    """
    found = Inspection(path)
    try:
        for folder, index in _partitions(path):
            found.partitions += 1
            _examine_partition(found, folder, index)
    except OSError as error:
        raise InspectError(f"{error.filename}: {error.strerror}") from None
    found.groups.sort(key=lambda view: (view.partition or 0, view.group_id))
    return found


def _partitions(path: Path) -> list[tuple[Path, int | None]]:
    """The partitions' folders, or the one segment, and their indexes."""
    if path.is_file():
        return [(path, _index(path.absolute().parent))]
    if not path.is_dir():
        raise InspectError(f"{path} does not exist")
    if any(_segments(path)):
        return [(path, _index(path.absolute()))]
    # A directory may hold one for each node, or for each disk.
    for pattern in (f"{TOPIC}-*", f"*/{TOPIC}-*"):
        folders = [(f, _index(f)) for f in path.glob(pattern) if f.is_dir()]
        known = [(f, index) for f, index in folders if index is not None]
        if known:
            return sorted(known, key=lambda pair: (pair[1], pair[0]))
    raise InspectError(f"{path} has no partition of {TOPIC}")


def _index(folder: Path) -> int | None:
    found = _PARTITION.fullmatch(folder.name)
    return int(found[1]) if found else None


def _segments(path: Path) -> list[Path]:
    """Segments in the order of their offsets, which are their names."""
    if path.is_file():
        return [path]
    return sorted(file for file in path.iterdir() if _SEGMENT.fullmatch(file.name))


class _PartitionLog:
    """What one partition's log says, as far as it can be read."""

    def __init__(self) -> None:
        self.decoder = Decoder()
        self.loading = Loading()
        self.notes: list[str] = []
        self.damage: str | None = None

    def read(self, path: Path) -> None:
        try:
            for batch in _batches(_segments(path), self.notes):
                self.loading.feed(self.decoder.read(batch))
        except _DamageError as error:
            self.damage = str(error)
        except WireError as error:
            self.damage = f"{path}: {error}"
        if self.decoder.open_transactions:
            self.notes.append(
                f"{path}: {self.decoder.open_transactions} transactions have not "
                "ended, and their offsets do not count"
            )


def _read_partition(path: Path) -> _PartitionLog:
    for _ in range(_ATTEMPTS - 1):
        log = _PartitionLog()
        try:
            log.read(path)
        except FileNotFoundError:
            # A broker has replaced segments after they were listed.
            continue
        return log
    log = _PartitionLog()
    log.read(path)
    return log


def _examine_partition(found: Inspection, path: Path, index: int | None) -> None:
    log = _read_partition(path)
    found.notes += log.notes
    if log.damage is not None:
        found.damaged.append(log.damage)
    for number, count in log.decoder.skipped.items():
        name = RECORD_TYPES.get(number, f"type {number}")
        found.skipped[name] = found.skipped.get(name, 0) + count
    others = log.decoder.others
    for group_id in others:
        log.loading.found.setdefault(group_id, Found())
    for group_id, facts in log.loading.found.items():
        kind = others.get(group_id, CLASSIC)
        found.groups.append(_group_view(group_id, index, kind, facts))


def _batches(segments: Sequence[Path], notes: list[str]) -> Iterator[bytes]:
    """The batches of a partition, checked."""
    for path in segments:
        with path.open("rb") as file:
            # A running broker writes on behind this.
            size = file.seek(0, os.SEEK_END)

            def read(position: int, count: int, file: IO[bytes] = file) -> bytes:
                file.seek(position)
                return file.read(count)

            batches = Batches(read, size, _first_offset(path), is_dense=False)
            for position, header in batches:
                yield read(position, header.size)
            if batches.why:
                _judge_rest(batches, path, read, size, notes, path is segments[-1])


def _first_offset(path: Path) -> int:
    """The least offset that a segment may have."""
    return int(path.stem) if _SEGMENT.fullmatch(path.name) else 0


def _judge_rest(
    batches: Batches,
    path: Path,
    read: Read,
    size: int,
    notes: list[str],
    is_last: bool,
) -> None:
    """Whether a log may end there: it is being written to, or was.

    It may end within a batch that was being written, or in space that was set
    aside for more.
    """
    start = batches.position
    is_zero = not any(
        any(read(position, min(_BUFFER, size - position)))
        for position in range(start, size, _BUFFER)
    )
    if not is_zero and not batches.is_torn:
        offset = batches.next_offset
        raise _DamageError(f"{path}: byte {start}, offset {offset}: {batches.why}")
    rest = f"{size - start} bytes from {start} on are no whole batch"
    if not is_last:
        raise _DamageError(f"{path}: {rest}")
    notes.append(f"{path}: {rest}, and do not count")


def _group_view(group_id: str, index: int | None, kind: str, found: Found) -> GroupView:
    record = found.record
    if record is None:
        record = GroupRecord(group_id, "", 0, None, None, -1, [])
    state: str | None = STABLE if record.members else EMPTY
    if kind != CLASSIC and found.record is None:
        state = None
    return GroupView(
        group_id,
        index,
        kind,
        state,
        record.protocol_type,
        record.generation_id,
        record.protocol_name,
        record.leader,
        None if record.state_timestamp_ms == -1 else record.state_timestamp_ms,
        _member_views(record),
        [
            OffsetView(
                topic, partition, *entry, found.expire_ms.get((topic, partition))
            )
            for (topic, partition), entry in sorted(found.offsets.items())
        ],
    )


def _member_views(record: GroupRecord) -> list[MemberView]:
    is_consumer = record.protocol_type == consumer.PROTOCOL_TYPE
    views = []
    for row in record.members:
        member_id, instance_id, client_id, host, rebalance_ms, session_ms = row[:6]
        views.append(
            MemberView(
                member_id,
                instance_id,
                client_id,
                host,
                session_ms,
                session_ms if rebalance_ms == -1 else rebalance_ms,
                _subscribed(row[6]) if is_consumer else None,
                _assigned(row[7]) if is_consumer else None,
            )
        )
    return views


def _subscribed(data: bytes) -> list[str] | None:
    try:
        return sorted(consumer.decode_subscription(data).topics)
    except WireError:
        return None


def _assigned(data: bytes) -> list[tuple[str, Sequence[int]]] | None:
    if not data:  # a member without an assignment has no bytes at all
        return []
    try:
        found = consumer.decode_assignment(data).assigned_partitions
    except WireError:
        return None
    return sorted((entry.topic, sorted(entry.partitions)) for entry in found)


# -- as JSON


def _document(found: Inspection) -> dict[str, object]:
    return {
        "path": str(found.path),
        "partitions": found.partitions,
        "groups": [_plain(view) for view in found.groups],
        "skipped": found.skipped,
        "notes": found.notes,
        "damaged": found.damaged,
    }


def _plain(value: object) -> object:
    """A view as JSON has it: fields by name; assignments by topic."""
    if isinstance(value, GroupView | MemberView | OffsetView):
        names: tuple[str, ...] = type(value).__slots__  # type: ignore[union-attr]
        plain = {name: _plain(getattr(value, name)) for name in names}
        if isinstance(value, MemberView) and value.assigned is not None:
            plain["assigned"] = dict(value.assigned)
        return plain
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


# -- as text


def _lines(found: Inspection) -> Iterator[str]:
    offsets = sum(len(view.offsets) for view in found.groups)
    yield (
        f"{found.path}: {_count(len(found.groups), 'group')} with "
        f"{_count(offsets, 'offset')} in {_count(found.partitions, 'partition')} "
        f"of {TOPIC}"
    )
    for view in found.groups:
        yield ""
        yield from _group_lines(view)
    if found.skipped:
        yield ""
        count = _count(sum(found.skipped.values()), "record")
        yield f"skipped, as not of the classic protocol: {count}"
        for name, number in sorted(found.skipped.items()):
            yield f"  {name}: {number}"
    if found.notes or found.damaged:
        yield ""
        yield from (f"note: {text}" for text in found.notes)
        yield from (f"damaged: {text}" for text in found.damaged)


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def _group_lines(view: GroupView) -> Iterator[str]:
    where = "" if view.partition is None else f", in {TOPIC}-{view.partition}"
    what = view.state or f"a group of the {view.kind} protocol, not read"
    yield f"group {_shown(view.group_id)}: {what}{where}"
    if view.state_timestamp_ms is not None:
        yield f"  since {_time(view.state_timestamp_ms)}"
    if view.protocol_type:
        protocol = _shown(view.protocol_name or "-")
        yield (
            f"  type {_shown(view.protocol_type)}, generation {view.generation_id}, "
            f"protocol {protocol}, leader {_shown(view.leader or '-')}"
        )
    if view.members:
        yield from _table(_MEMBER_HEAD, (_member_row(m) for m in view.members))
    if view.offsets:
        yield from _table(_OFFSET_HEAD, (_offset_row(o) for o in view.offsets))


_MEMBER_HEAD = (
    "MEMBER",
    "INSTANCE",
    "CLIENT",
    "HOST",
    "SESSION-MS",
    "REBALANCE-MS",
    "SUBSCRIBED",
    "ASSIGNED",
)
_OFFSET_HEAD = (
    "TOPIC",
    "PARTITION",
    "OFFSET",
    "EPOCH",
    "COMMITTED",
    "EXPIRES",
    "METADATA",
)


def _member_row(member: MemberView) -> list[str]:
    subscribed = assigned = "?"
    if member.subscribed is not None:
        subscribed = ",".join(map(_shown, member.subscribed)) or "-"
    if member.assigned is not None:
        parts = [f"{_shown(t)}:{','.join(map(str, p))}" for t, p in member.assigned]
        assigned = " ".join(parts) or "-"
    return [
        _shown(member.member_id),
        _shown(member.group_instance_id or "-"),
        _shown(member.client_id or "-"),
        _shown(member.client_host or "-"),
        str(member.session_timeout_ms),
        str(member.rebalance_timeout_ms),
        subscribed,
        assigned,
    ]


def _offset_row(offset: OffsetView) -> list[str]:
    expires = offset.expire_timestamp_ms
    return [
        _shown(offset.topic),
        str(offset.partition),
        str(offset.offset),
        "-" if offset.leader_epoch == -1 else str(offset.leader_epoch),
        _time(offset.commit_timestamp_ms),
        "-" if expires is None else _time(expires),
        _shown(offset.metadata),
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    table = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield ("  " + "  ".join(cells)).rstrip()


def _shown(text: str) -> str:
    """The text, safe for a terminal: names of clients may hold anything."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _time(timestamp_ms: int) -> str:
    try:
        time = dt.datetime.fromtimestamp(timestamp_ms / 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
    return time.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
