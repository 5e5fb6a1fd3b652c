"""Output of ``kohort inspect``: as text, and as JSON."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO

from kohort.broker.topics.topic import OFFSETS_TOPIC
from kohort.control.data_dir.inspection import (
    ConsumerMemberView,
    GroupView,
    InspectError,
    Inspection,
    MemberView,
    OffsetView,
    examine,
)
from kohort.control.terminal import counted, printable


def write_inspection(
    directory: Path, *, group: str | None, as_json: bool, out: IO[str]
) -> int:
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
        document = asdict(found) | {"path": str(found.path)}
        json.dump(document, out, ensure_ascii=False, indent=1)
        out.write("\n")
    else:
        out.writelines(f"{line}\n" for line in _lines(found))
    return 1 if found.damaged else 0


def _lines(found: Inspection) -> Iterator[str]:
    offsets = sum(len(view.offsets) for view in found.groups)
    yield (
        f"{found.path}: {counted(len(found.groups), 'group')} with "
        f"{counted(offsets, 'offset')} in {counted(found.partitions, 'partition')} "
        f"of {OFFSETS_TOPIC}"
    )
    for view in found.groups:
        yield ""
        yield from _group_lines(view)
    if found.skipped:
        yield ""
        count = counted(sum(found.skipped.values()), "record")
        yield f"skipped, of share and streams groups: {count}"
        for name, number in sorted(found.skipped.items()):
            yield f"  {name}: {number}"
    if found.notes or found.damaged:
        yield ""
        yield from (f"note: {text}" for text in found.notes)
        yield from (f"damaged: {text}" for text in found.damaged)


def _group_lines(view: GroupView) -> Iterator[str]:
    where = "" if view.partition is None else f", in {OFFSETS_TOPIC}-{view.partition}"
    what = view.state or f"a group of the {view.kind} protocol, not read"
    yield f"group {printable(view.group_id)}: {what}{where}"
    if view.assignment_epoch is not None:
        assigned = ""
        if view.state_timestamp_ms is not None:
            assigned = f" of {_time(view.state_timestamp_ms)}"
        yield (
            f"  type {view.protocol_type}, epoch {view.generation_id}, "
            f"target assignment{assigned} in epoch {view.assignment_epoch}"
        )
    elif view.state_timestamp_ms is not None:
        yield f"  since {_time(view.state_timestamp_ms)}"
    if view.protocol_type and view.assignment_epoch is None:
        names = (view.protocol_type, view.protocol_name or "-", view.leader or "-")
        protocol_type, protocol, leader = map(printable, names)
        yield (
            f"  type {protocol_type}, generation {view.generation_id}, "
            f"protocol {protocol}, leader {leader}"
        )
    if view.members:
        is_consumer = view.assignment_epoch is not None
        head = _CONSUMER_MEMBER_HEAD if is_consumer else _MEMBER_HEAD
        yield from _table(head, map(_member_row, view.members))
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
_CONSUMER_MEMBER_HEAD = (
    "MEMBER",
    "INSTANCE",
    "CLIENT",
    "HOST",
    "EPOCH",
    "STATE",
    "REBALANCE-MS",
    "SUBSCRIBED",
    "ASSIGNED",
    "REVOKING",
    "TARGET",
)
_OFFSET_HEAD = (
    "OFFSETS_TOPIC",
    "PARTITION",
    "OFFSET",
    "EPOCH",
    "COMMITTED",
    "EXPIRES",
    "METADATA",
)


def _member_row(member: MemberView | ConsumerMemberView) -> list[str]:
    first = [
        printable(member.member_id),
        printable(member.group_instance_id or "-"),
        printable(member.client_id or "-"),
        printable(member.client_host or "-"),
    ]
    timeout = str(member.rebalance_timeout_ms)
    subscribed = assigned = "?"
    if member.subscribed is not None:
        subscribed = ",".join(map(printable, member.subscribed)) or "-"
    if member.assigned is not None:
        assigned = _partitions(member.assigned)
    if isinstance(member, MemberView):
        session = str(member.session_timeout_ms)
        return [*first, session, timeout, subscribed, assigned]
    if member.subscribed_regex is not None:
        pattern = f"/{printable(member.subscribed_regex)}/"
        subscribed = pattern if subscribed == "-" else f"{subscribed} {pattern}"
    return [
        *first,
        str(member.member_epoch),
        member.state,
        timeout,
        subscribed,
        assigned,
        _partitions(member.revoking),
        _partitions(member.target),
    ]


def _partitions(by_topic: Mapping[str, Sequence[int]]) -> str:
    parts = [
        f"{printable(topic)}:{','.join(map(str, partitions))}"
        for topic, partitions in by_topic.items()
    ]
    return " ".join(parts) or "-"


def _offset_row(offset: OffsetView) -> list[str]:
    expires = offset.expire_timestamp_ms
    return [
        printable(offset.topic),
        str(offset.partition),
        str(offset.offset),
        "-" if offset.leader_epoch == -1 else str(offset.leader_epoch),
        _time(offset.commit_timestamp_ms),
        "-" if expires is None else _time(expires),
        printable(offset.metadata),
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    table = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield ("  " + "  ".join(cells)).rstrip()


def _time(timestamp_ms: int) -> str:
    try:
        time = dt.datetime.fromtimestamp(timestamp_ms / 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
    return time.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
