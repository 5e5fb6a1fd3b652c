"""Log lines: the reader of the stream that always runs.

Events that occur per member or request are logged at debug level, others for operators
at higher ones. Lists are counted, not printed. Starts and stops are not logged: loading
structlog takes longer than a start.
"""

from __future__ import annotations

from typing import Any, Final

from kohort.broker import telemetry
from kohort.broker.clock import ns
from kohort.broker.events.seen import Seen

DETAILS: Final = frozenset(
    {
        "clock_advanced",
        "commit_refused",
        "fault_struck",
        "finding",
        "group_state",
        "heartbeat",
        "leader_chosen",
        "member_fenced",
        "member_disconnected",
        "member_id_given",
        "member_joined",
        "member_reconciled",
        "member_synced",
        "node_started",
        "node_stopped",
        "offsets_committed",
        "offsets_unchecked",
        "partitions_changed",
        "rebalance_account",
        "shard_loaded",
        "shard_unloaded",
        "transaction_ended_in_partition",
        "transaction_state",
        "unread_account",
    }
)
"""Kinds that occur per member, request, transaction, shard, node, or step of a test."""

unheard: set[str] = set()
"""Kinds that are not logged at the current level."""


log = telemetry.Logger("groups")


def _set_unheard() -> None:
    unheard.clear()
    # The driver logs one line for all groups, in Kafka's words.
    unheard.add("offsets_expired")
    if not log.is_on("debug"):
        unheard.update(DETAILS)


telemetry.watch(_set_unheard)


UNSAID: Final = frozenset(
    {"kind", "labels", "run", "schema", "sequence", "time_ns", "wall_ns"}
)
"""Fields that a log line leaves out; it has its own time."""


def _completed(seen: Seen) -> dict[str, Any]:
    """A `join_completed` with counts in place of its long lists."""
    notice = seen.notice
    fields = notice.fields
    return {
        "node": seen.source.header["node"],
        "group": notice.group_id,
        "generation": notice.generation,
        "cause": fields["cause"],
        "members": len(fields["after"]),
        "waits": len(fields["waits"]),
        "duration_ns": ns(seen.time) - ns(fields["started"]),
        "protocol": fields["protocol"],
        "leader": fields["leader"],
    }


def write_line(seen: Seen) -> None:
    """Logs an event, if the current level includes it."""
    kind = seen.notice.kind
    if kind in unheard or not log.is_on("info"):
        return
    if seen.notice.fields.get("cause") == "unsupported":
        return  # its handler logs it, with advice
    event = _completed(seen) if kind == "join_completed" else seen.event
    fields = {
        name: len(value) if isinstance(value, list) else value
        for name, value in event.items()
        if value is not None and name not in UNSAID
    }
    (log.debug if kind in DETAILS else log.info)(kind, **fields)
