"""Renders notices as events with JSON types.

Most fields of a notice are fields of the event. The others are raw: assignments are
bytes, times are seconds, and computed fields are missing. The table at the end has a
function for each kind with raw fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from kohort.broker.clock import ns
from kohort.broker.notice import Notice
from kohort.protocol.consumer import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
)
from kohort.protocol.messages import WireError

Fields = Mapping[str, Any]
Parts = list[dict[str, Any]]
"""Rows of ``part``: partitions by topic, both in order."""

_NOBODY = (None, None, None)
_NO_CLIENT = (None, None, None)
_NO_FIELDS: Fields = {}


def render(notice: Notice, time: float, source: Fields = _NO_FIELDS) -> dict[str, Any]:
    """Renders a notice as the fields of its event.

    Args:
        notice: the raw event.
        time: its time, in seconds since the epoch.
        source: the fields of its source, which come first.

    Returns:
        A new dict of JSON types, with every field of the kind.
    """
    kind, group_id, generation, who, fields, _ = notice
    member_id, instance_id, client = who or _NOBODY
    client_id, host, connection = client or _NO_CLIENT
    make = _MAKE.get(kind)
    return {
        **source,
        "kind": kind,
        "time_ns": ns(time),
        "group": group_id,
        "generation": generation,
        "member_id": member_id,
        "instance_id": instance_id,
        "client_id": client_id,
        "host": host,
        "connection": connection,
        "cause": None,
        "reason": None,
        **(fields if make is None else make(fields, time)),
    }


# -- raw fields


def _parts(pairs: Iterable[tuple[str, int]]) -> Parts:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(pairs):
        by_topic.setdefault(topic, []).append(partition)
    return [{"topic": t, "partitions": p} for t, p in by_topic.items()]


def assigned(data: bytes) -> set[tuple[str, int]]:
    """The partitions of an assignment; none if it is not the consumer protocol's."""
    if not data:
        return set()
    try:
        parts = decode_assignment(data).assigned_partitions
    except WireError:
        return set()
    return {(part.topic, p) for part in parts for p in part.partitions}


def _owned(raw: bytes | AbstractSet[tuple[str, int]]) -> AbstractSet[tuple[str, int]]:
    return assigned(raw) if isinstance(raw, bytes) else raw


def _partitions_changed(fields: Fields, _: float) -> Fields:
    """Raw: the partitions ``before`` and those ``after``.

    In the classic protocol they are assignments, in bytes.
    """
    before, after = _owned(fields["before"]), _owned(fields["after"])
    return {
        "cause": fields["cause"],
        "owned": _parts(after),
        "partitions_gained": _parts(after - before),
        "partitions_lost": _parts(before - after),
    }


def _committed(fields: Fields, _: float) -> Fields:
    """Raw: the ``offsets`` as four columns.

    Also ``producer_id`` if they belong to a transaction.
    """
    offsets = [
        {"topic": topic, "partition": partition, "offset": offset, "end_offset": end}
        for topic, partition, offset, end in zip(*fields["offsets"], strict=True)
    ]
    return {"producer_id": None, **fields, "offsets": offsets}


def _expired(fields: Fields, _: float) -> Fields:
    return {"expired": _parts(fields["expired"])}


def _deleted(fields: Fields, _: float) -> Fields:
    return {"cause": fields["cause"], "deleted": _parts(fields["deleted"])}


def _join_completed(fields: Fields, time: float) -> Fields:
    """Raw: ``before``, ``after``, ``started``, ``waits`` and ``told``.

    The first two are rows that begin with a member's id. ``waits`` has, by member id,
    when the wait ended and whether the member joined; None if it lasted to the end.
    ``told`` has when members learned of the rebalance.
    """
    now, started = ns(time), ns(fields["started"])
    before = [row[0] for row in fields["before"]]
    after = [row[0] for row in fields["after"]]
    known, current = set(before), set(after)
    told = fields["told"]
    return {
        "cause": fields["cause"],
        "members": after,
        "gained": [member_id for member_id in after if member_id not in known],
        "lost": [member_id for member_id in before if member_id not in current],
        "waits": [
            {
                "member_id": member_id,
                "waited_ns": (now if end is None else ns(end[0])) - started,
                "came": end is not None and end[1],
                "told_ns": ns(told[member_id]) - started if member_id in told else None,
            }
            for member_id, end in fields["waits"].items()
        ],
        "duration_ns": now - started,
        "protocol": fields["protocol"],
        "leader": fields["leader"],
    }


def _assignment_made(fields: Fields, time: float) -> Fields:
    """Raw: the ``members``, as rows that end with the member's metadata.

    Also ``since``, the end of the join phase.
    """
    return {
        "protocol": fields["protocol"],
        "leader": fields["leader"],
        "bytes": fields["bytes"],
        "metadata_bytes": sum(len(row[-1]) for row in fields["members"]),
        "duration_ns": ns(time) - ns(fields["since"]),
    }


def _silent(fields: Fields, time: float) -> Fields:
    """Raw: ``heard``, when the broker last heard of a member."""
    made = dict(fields)
    made["silent_ns"] = max(0, ns(time) - ns(made.pop("heard")))
    return made


def _session_ended(fields: Fields, time: float) -> Fields:
    """Raw: as for `_silent`; the driver adds the state of the member's connections."""
    return {"is_connected": None, "is_active": None, **_silent(fields, time)}


def _left(fields: Fields, _: float) -> Fields:
    """Raw: the driver adds the name of the client's library."""
    return {"software": None, **fields}


def _joined(fields: Fields, _: float) -> Fields:
    """Raw: as for `_offer`; the cause says whether it is the first join."""
    known, made = _latest_join
    if fields is not known:
        made = _offer(fields)
        made["is_first"] = made["cause"] == "new"
        _latest_join[:] = fields, made
    return made


def _replaced(fields: Fields, time: float) -> Fields:
    """Raw: as for `_offer`, and ``heard``, the old member's last sign of life."""
    return _offer(_silent(fields, time))


_latest_join: list[Fields] = [{}, {}]
"""Raw fields, and rendered ones: members that join alike have the same object."""


def _offer(fields: Fields) -> dict[str, Any]:
    """Raw: ``timeouts_ms`` of the session and of rebalances; ``protocol_type``.

    Also ``protocols``: name and metadata of each. Without a ``group_type`` the group is
    a classic one.
    """
    made = {"group_type": "classic", **fields}
    made["session_timeout_ms"], made["rebalance_timeout_ms"] = made.pop("timeouts_ms")
    protocols = fields["protocols"]
    made["protocols"] = [name for name, _ in protocols]
    made["topics"] = None
    if made.pop("protocol_type") == PROTOCOL_TYPE and protocols:
        try:
            subscription = decode_subscription(protocols[0][1])
        except WireError:
            return made
        made["topics"] = [*subscription.topics]
    return made


def _rebalance_started(fields: Fields, _: float) -> Fields:
    return {**fields, "culprits": [*fields["culprits"]]}


def _member_synced(fields: Fields, time: float) -> Fields:
    """Raw: ``since``, when its join was answered."""
    return {"waited_ns": ns(time) - ns(fields["since"])}


def _member_reconciled(fields: Fields, _: float) -> Fields:
    """Raw: ``revoking`` and ``awaited``, as pairs."""
    revoking, awaited = _parts(fields["revoking"]), _parts(fields["awaited"])
    return {**fields, "revoking": revoking, "awaited": awaited}


def _transaction_state(fields: Fields, _: float) -> Fields:
    """Raw: ``partitions``, as pairs; ``groups``, their ids; ``old_state``.

    Also ``started_ms``, ms since the epoch; -1 without a transaction.
    """
    made = dict(fields)
    started_ms = made.pop("started_ms")
    made["started_ns"] = None if started_ms < 0 else started_ms * 1_000_000
    made["partitions"] = _parts(fields["partitions"])
    made["group_ids"] = sorted(made.pop("groups"))
    made["previous_state"] = made.pop("old_state")
    return made


_MAKE: Mapping[str, Callable[[Fields, float], Fields]] = {
    "assignment_made": _assignment_made,
    "commit_refused": _committed,
    "join_completed": _join_completed,
    "member_expired": _session_ended,
    "member_joined": _joined,
    "member_kicked": _silent,
    "member_left": _left,
    "member_reconciled": _member_reconciled,
    "member_replaced": _replaced,
    "member_synced": _member_synced,
    "offsets_committed": _committed,
    "offsets_deleted": _deleted,
    "offsets_expired": _expired,
    "partitions_changed": _partitions_changed,
    "rebalance_started": _rebalance_started,
    "transaction_state": _transaction_state,
}
