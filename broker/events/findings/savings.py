"""The time without a reader that settings would have saved a group.

A rebalance that only the members concerned have caused would not have been: all of its
partition-time without a reader is saved. What a setting costs is subtracted: the
partitions of a static member wait for it while it restarts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kohort.broker.events.account import Account
from kohort.broker.events.account.values import Return, Unread
from kohort.broker.events.findings.facts import Facts
from kohort.broker.events.findings.finding import Cost, Setting
from kohort.broker.events.findings.words import partition_count

MS = 1_000_000
MARGIN = 1.5
"""A suggested value divided by the need that was seen: the next case may be longer."""


def shares(facts: Facts) -> dict[str, int]:
    """The partitions of each member that went, as of its end."""
    found: dict[str, int] = {}
    for each in facts.rebalances:
        given: dict[str, int] = {}
        for move in each.moves or ():
            if move.source is not None:
                given[move.source] = given.get(move.source, 0) + move.count
        unread: dict[str, list[Unread]] = {}
        for row in each.unread:
            unread.setdefault(row.member_id, []).append(row)
        for member_id, rows in unread.items():
            given[member_id] = max(given.get(member_id, 0), partition_count(rows))
        for member_id, count in given.items():
            found[member_id] = max(found.get(member_id, 0), count)
    return found


def waiting(facts: Facts, returns: Iterable[Return]) -> int:
    """Partition-time in which the partitions of static members would have waited."""
    known = shares(facts)
    return sum(known.get(row.previous_id, 0) * row.duration_ns for row in returns)


def of_static(
    facts: Facts, returns: Sequence[Return], caused: Sequence[Account]
) -> Setting | None:
    """Static membership, unless it costs more than it saves.

    Args:
        facts: of the group.
        returns: of the members that restarted.
        caused: the rebalances that only they have caused.
    """
    static = Setting("group.instance.id", "a different one for each member")
    if not shares(facts):
        return static  # no assignment could be read
    saving_ns = Cost.of(caused).unread_ns - waiting(facts, returns)
    return replace(static, saving_ns=saving_ns) if saving_ns > 0 else None


def after(rows: Iterable[Unread], since_ns: int, until_ns: int) -> int:
    """The partition-time in rows between two times."""
    return sum(
        max(min(row.until_ns, until_ns) - max(row.since_ns, since_ns), 0) * row.count
        for row in rows
    )


def rounded_up(value: float, step: int) -> int:
    """The next multiple of a step that is not below."""
    return -(-round(value) // step) * step
