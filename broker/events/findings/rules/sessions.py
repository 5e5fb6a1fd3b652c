"""Findings about sessions that expired: crashed members, hung ones, live ones.

A member whose connection was closed has gone: its process ended, or lost its network.
One whose connection was open is still there, but its heartbeats stopped: it hangs.
Where events do not say which of the two it was, a request after the end of the session
shows that the member was alive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kohort.broker.events.account.membership import Life
from kohort.broker.events.account.values import Gone, Unread
from kohort.broker.events.findings import savings
from kohort.broker.events.findings.facts import Facts
from kohort.broker.events.findings.finding import Cost, Finding, gone
from kohort.broker.events.findings.names import Names
from kohort.broker.events.findings.rules.identities import swapped
from kohort.broker.events.findings.words import duration, many, product, rejoined


def crashed(facts: Facts, names: Names) -> Iterator[Finding]:
    """Dynamic members that went silent, and are not known to have been alive."""
    alive = _alive(facts)
    found = {
        member_id: life
        for member_id, life in _expired(facts, is_static=False).items()
        if not life.is_connected and member_id not in alive
    }
    if not found:
        return
    unread = unread_of(facts, Gone.EXPIRED)
    silent = [life.silent_ns for life in found.values() if life.silent_ns is not None]
    longest = f" (up to {duration(max(silent))} here)" if silent else ""
    is_closed = all(life.is_connected is False for life in found.values())
    closed = ": its connection was closed" if is_closed else ""
    yield Finding(
        "crashed",
        f"Members crashed or were cut off without leaving the group: "
        f"{many(len(found), 'time')}{without_reader(unread, found)}",
        f"The process died, was killed, or lost its network{closed}. Until its session "
        f"expires"
        f"{longest}, the broker still considers it a member, and its partitions have "
        "no reader. Find out why it ended. If you stopped it, use a signal that it "
        "handles and close the consumer: the group then reassigns its partitions at "
        "once. A shorter session.timeout.ms (with heartbeat.interval.ms at a third of "
        "it) shortens the wait.",
        tuple(
            gone(
                life,
                f"{names.of(member_id)}'s session expired{_after(life)}"
                f"{without_reader(unread, [member_id])}{_back(facts, member_id)}",
                names,
            )
            for member_id, life in found.items()
        ),
        cost=cost_of(unread, found),
        setting=savings.shorter_session(facts, found.values()),
    )


def static_member_gone(facts: Facts, names: Names) -> Iterator[Finding]:
    """Static members whose sessions expired, and that did not come back."""
    alive = _alive(facts).keys() | facts.returns.keys() | swapped(facts)
    found = {
        member_id: life
        for member_id, life in _expired(facts, is_static=True).items()
        if not life.is_connected and member_id not in alive
    }
    if not found:
        return
    unread = unread_of(facts, Gone.EXPIRED)
    yield Finding(
        "static-member-gone",
        f"Static members were closed, or crashed, and did not come back: "
        f"{many(len(found), 'time')}{without_reader(unread, found)}",
        "A static member that is closed does not leave the group (KIP-345): as after a "
        "crash, its partitions have no reader until it is back or its session "
        "expires. To scale down, remove it from the group when you stop it "
        "(Admin.removeMembersFromConsumerGroup with its group.instance.id). If it "
        "crashed, find out why.",
        tuple(
            gone(
                life,
                f"{names.of(member_id)}'s session expired{_after(life)}"
                f"{without_reader(unread, [member_id])}",
                names,
            )
            for member_id, life in found.items()
        ),
        cost=cost_of(unread, found),
    )


def hung(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members whose heartbeats stopped while their connections stayed open."""
    found = {
        member_id: life
        for is_static in (False, True)
        for member_id, life in _expired(facts, is_static=is_static).items()
        if life.is_connected
    }
    if not found:
        return
    alive, unread = _alive(facts), unread_of(facts, Gone.EXPIRED)
    sessions = [facts.members[member_id].session_timeout_ms or 0 for member_id in found]
    was = f" (it was {min(sessions)})" if min(sessions) else ""
    yield Finding(
        "hung",
        f"Members hung: their sessions expired while their connections were open: "
        f"{many(len(found), 'time')}{without_reader(unread, found)}",
        "The process did not end, but it sent no heartbeat: its event loop or thread "
        "was blocked, its heartbeat thread has died, the process was frozen (a stopped "
        "container, garbage collection), or its network drops what it sends. Find out "
        "what blocked it, and do long work in another thread. A session.timeout.ms "
        f"longer than the pause{was} keeps the member in the group, and its partitions "
        "without a reader for as long.",
        tuple(
            gone(
                life,
                f"{names.of(member_id)}'s session expired{_after(life)}"
                f"{_connection(life)}"
                f"{_later(alive.get(member_id))}{without_reader(unread, [member_id])}",
                names,
            )
            for member_id, life in found.items()
        ),
        cost=cost_of(unread, found),
    )


def session_too_short(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that sent requests after their sessions had expired.

    Without those that hung: the broker knows what has become of them.
    """
    lives = _expired(facts, is_static=False) | _expired(facts, is_static=True)
    alive = {
        member_id: each
        for member_id, each in _alive(facts).items()
        if member_id in lives and not lives[member_id].is_connected
    }
    if not alive:
        return
    sessions = [facts.members[member_id].session_timeout_ms or 0 for member_id in alive]
    was = f" (it was {min(sessions)})" if min(sessions) else ""
    unread = unread_of(facts, Gone.EXPIRED)
    silent_ns = {
        member_id: each.after_ns + (lives[member_id].silent_ns or 0)
        for member_id, each in alive.items()
    }
    yield Finding(
        "session-too-short",
        f"Sessions of live members expired: {many(len(alive), 'time')}"
        f"{without_reader(unread, alive)}",
        "Something delayed their heartbeats: a pause (garbage collection, a stopped "
        "container), a network outage, or a client that sends heartbeats only while "
        "the application polls. Raise session.timeout.ms above the longest pause"
        f"{was}, with heartbeat.interval.ms at most a third of it.",
        tuple(
            gone(
                lives[member_id],
                f"{names.of(member_id)}'s session expired, and {each.text}",
                names,
            )
            for member_id, each in alive.items()
        ),
        cost=cost_of(unread, alive),
        setting=savings.longer_session(facts, silent_ns),
    )


def _expired(facts: Facts, *, is_static: bool) -> dict[str, Life]:
    """The lives that ended in silence, and not because of a test."""
    return {
        life.member_id: life
        for life in facts.lives
        if life.how is Gone.EXPIRED
        and life.until_ns is not None
        and life.member_id not in facts.ended_by_test
        and (facts.members[life.member_id].instance_id is not None) == is_static
    }


class _Sign(NamedTuple):
    """A request of a member after its session had expired."""

    text: str
    after_ns: int


def _alive(facts: Facts) -> dict[str, _Sign]:
    """The first request of members after their sessions had expired."""
    ended = {
        life.member_id: life.until_ns
        for life in facts.lives
        if life.how is Gone.EXPIRED and life.until_ns is not None
    }
    found: dict[str, _Sign] = {}
    for refusal in facts.refusals:
        member_id, at_ns = refusal.member_id, refusal.at_ns
        is_unknown = refusal.error == "UNKNOWN_MEMBER_ID"
        if is_unknown and at_ns >= ended.get(member_id, at_ns + 1):
            what = "committed" if refusal.cause == "commit" else "tried to rejoin"
            after = at_ns - ended[member_id]
            text = f"it {what} {duration(after)} later"
            found.setdefault(member_id, _Sign(text, after))
    for again in facts.lives:
        before = facts.members[again.member_id].previous_id
        if before in ended and (
            before != again.member_id or (again.since_ns or 0) >= ended[before]
        ):
            after = max((again.since_ns or 0) - ended[before], 0)
            text = rejoined(after, is_same_id=before == again.member_id)
            found.setdefault(before, _Sign(text, after))
    return found


def _after(life: Life) -> str:
    if life.silent_ns is None:
        return ""
    return f" {duration(life.silent_ns)} after it was last heard of"


def _connection(life: Life) -> str:
    """The state of a hung member's connections when its session expired."""
    if life.is_active is None:
        return "; its connection was open"
    if life.is_active:
        return (
            "; its connection was open, and another request of its client waited for "
            "an answer: only its heartbeats had stopped"
        )
    return "; its connection was open, and no request of its client waited"


def _back(facts: Facts, member_id: str) -> str:
    """The return of the process of a crashed member."""
    back = facts.returns.get(member_id)
    if back is None or not back.is_restart:
        return ""
    return f"; its process was back after {duration(back.duration_ns)}"


def _later(sign: _Sign | None) -> str:
    return f"; {sign.text}" if sign else ""


# -- time without a reader


def unread_of(facts: Facts, cause: str) -> dict[str, list[Unread]]:
    """The time that partitions had no reader, by their last owner."""
    found: dict[str, list[Unread]] = defaultdict(list)
    rows = [row for each in facts.rebalances for row in each.unread]
    rows += [row for each in facts.quiet for row in each.unread]
    for row in (*rows, *facts.unread_since):
        if row.cause == cause:
            found[row.member_id].append(row)
    return found


def cost_of(unread: Mapping[str, Sequence[Unread]], member_ids: Iterable[str]) -> Cost:
    """The time without a reader of the partitions of some members."""
    rows = [row for member_id in member_ids for row in unread.get(member_id, ())]
    return Cost(sum(row.duration_ns * row.count for row in rows))


def without_reader(
    unread: Mapping[str, Sequence[Unread]], member_ids: Iterable[str]
) -> str:
    """The same in words."""
    total_ns = cost_of(unread, member_ids).unread_ns
    if not total_ns:
        return ""
    return f"; partitions had no reader for {product(total_ns, 'partition')}"
