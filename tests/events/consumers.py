"""Consumers that share the partitions of a topic, and the history of their group."""

from __future__ import annotations

from collections.abc import Sequence

from tests.coordinator.context import Context
from tests.coordinator.member import Member
from tests.events.build import SECOND, recorded

from kohort.control.why import Account, History, history
from kohort.protocol.consumer import Assignment, Subscription, TopicPartitions, encode

EAGER = "range"
COOPERATIVE = "cooperative-sticky"


def consumer(
    context: Context, name: str, protocol: str = EAGER, **options: object
) -> Member:
    """A member that subscribes to the topic "t"."""
    protocols = [(protocol, encode(Subscription(["t"])))]
    return context.member(name, protocols=protocols, **options)


def given(*shares: tuple[Member, Sequence[int]]) -> list[tuple[str, bytes]]:
    """An assignment of partitions of "t"."""
    return [
        (
            m.member_id,
            encode(Assignment([TopicPartitions("t", [*share])] if share else [])),
        )
        for m, share in shares
    ]


def divide(*shares: tuple[Member, Sequence[int]]) -> None:
    """All sync, the first of them leading."""
    for member, _ in shares[1:]:
        member.sync()
    shares[0][0].sync(given(*shares))


def history_of(context: Context) -> History:
    """The history of the group "g", whose rebalances add up."""
    events = recorded(context)
    found = history(events, "g")
    for each in found.rebalances:
        assert sum(wait.duration_ns for wait in each.pieces) == each.duration_ns
        assert each.join_ns + each.sync_ns == each.duration_ns
    whole = {
        e["generation"]: e["duration_ns"]
        for e in events
        if e["kind"] == "join_completed"
    }
    for each in found.rebalances:
        if each.generation in whole:
            assert each.join_ns == whole[each.generation]
    return found


def seconds(ns: int | None) -> float | None:
    """To the millisecond: the clock is a float, and an epoch is large for those."""
    return None if ns is None else round(ns / SECOND, 3)


def pieces(rebalance: Account, found: History) -> list[tuple[str, str, float | None]]:
    """The waits: member, end, and seconds."""
    return [
        (w.what, found.names.of(w.member_id or ""), seconds(w.duration_ns))
        for w in rebalance.pieces
    ]


def paused(rebalance: Account, found: History) -> dict[str, float | None]:
    """The members that paused, with the seconds."""
    return {
        found.names.of(row.member_id): seconds(row.duration_ns)
        for row in rebalance.pauses
        if row.count
    }
