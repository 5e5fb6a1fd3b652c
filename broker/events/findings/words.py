"""Words that findings and explanations share: durations, causes, departures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from kohort.broker.events.account.values import Account, Gone, Unread, count
from kohort.broker.events.findings.names import Names, cut
from kohort.broker.events.words import ID_GIVEN, REBALANCE_SENTENCES

LONGEST_REASON = 200
"""Characters of a reason that are shown: those of Kafka's clients have 50 to 150."""

HELD = "held"
"""A piece of a rebalance's duration in which a test held the group."""

_HOW = {
    Gone.LEFT: "left",
    Gone.REMOVED: "was removed by an admin",
    Gone.EXPIRED: "sent no heartbeat for its session timeout",
    Gone.KICKED: "was removed by the broker",
    Gone.COMMANDED: "was removed by a test",
    Gone.REPLACED: "rejoined with a new member id",
    Gone.UNSEEN: "is gone",
}


def duration(ns: int) -> str:
    """A duration for people: "54 ms", "0.54 s", "3.0 s", "2 min 5 s", "4 h"."""
    if ns < 100_000_000:
        return f"{ns / 1e6:.0f} ms" if ns >= 1_000_000 or ns == 0 else "under 1 ms"
    if ns < 995_000_000:
        return f"{ns / 1e9:.2f} s"
    if ns < 59_950_000_000:
        return f"{ns / 1e9:.1f} s"
    minutes, seconds = divmod(round(ns / 1e9), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    hours, minutes = divmod(round(ns / 60e9), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def rejoined(after_ns: int, *, is_same_id: bool) -> str:
    """As in "it rejoined 5.0 s later under the same member id"."""
    where = "under the same member id" if is_same_id else "on the same connection"
    return f"it rejoined {duration(after_ns)} later {where}"


def product(ns: int, of: str) -> str:
    """A time of several things together: "0.38 member-seconds"."""
    for unit, size in (("hours", 3_600e9), ("minutes", 60e9)):
        if ns >= 10 * size:
            return f"{ns / size:.0f} {of}-{unit}"
    seconds = ns / 1e9
    places = 3 if seconds < 0.1 else 2 if seconds < 0.995 else 1
    return f"{seconds:.{places}f} {of}-seconds"


def many(number: int, one: str, more: str | None = None) -> str:
    """As in "1 partition", "3 partitions"."""
    return f"{number} {one if number == 1 else more or one + 's'}"


def head(rebalance: Account) -> str:
    """Name of a rebalance: the generation that it made, or that it ended."""
    if rebalance.generation is None:
        return f"After generation {rebalance.previous_generation}"
    return f"Generation {rebalance.generation}"


# -- the cause


def cause(rebalance: Account, names: Names) -> str:
    """The cause, with the members that caused it."""
    who = names.list(rebalance.culprits) or "a member"
    if rebalance.is_second_half:
        return (
            f"{who} rejoined after revoking partitions, so that they can be assigned: "
            f"the second rebalance of the cooperative protocol"
        )
    tell = _CAUSES.get(rebalance.cause, _plain)
    return tell(rebalance, who)


def said(reason: str | None) -> str:
    """The reason that a client sent (KIP-800), to follow its action.

    None if it only says that the broker gave the member its id (KIP-394).
    """
    if not reason or reason.startswith(ID_GIVEN):
        return ""
    return f' (reason: "{cut(reason, LONGEST_REASON)}")'


def _plain(rebalance: Account, who: str) -> str:
    sentence = REBALANCE_SENTENCES.get(rebalance.cause)
    if sentence is None:
        return f"{rebalance.cause} ({who})"
    return f"{sentence.format(who=who)}{said(rebalance.reason)}"


def _joined(rebalance: Account, who: str) -> str:
    if rebalance.previous_state == "Empty":
        first = "was" if len(rebalance.culprits) < 2 else "were"
        return f"{who} {first} the first to join{said(rebalance.reason)}"
    return _plain(rebalance, who)


def _left(rebalance: Account, who: str) -> str:
    gone = {each.member_id: each.how for each in rebalance.departures}
    if any(gone.get(m) is Gone.REMOVED for m in rebalance.culprits):
        return f"an admin removed {who}{said(rebalance.reason)}"
    return f"{who} left{said(rebalance.reason) or ', no reason given'}"


def _expired(rebalance: Account, who: str) -> str:
    if rebalance.reason:
        # Only a command has a reason: a session that expires by itself has none.
        return f"{who}'s session expired because {rebalance.reason}"
    if rebalance.silent_ns is None:
        return f"{who}'s session expired"
    silent = duration(rebalance.silent_ns)
    return f"{who}'s session expired {silent} after it was last heard of"


def _commanded(rebalance: Account, who: str) -> str:
    sentence = REBALANCE_SENTENCES[rebalance.cause].format(who=who)
    reason = rebalance.reason
    return f"{sentence}: {cut(reason, LONGEST_REASON)}" if reason else sentence


def _over_max_size(rebalance: Account, who: str) -> str:
    if rebalance.reason:
        return cut(rebalance.reason, LONGEST_REASON)
    return _plain(rebalance, who)


def _changed(rebalance: Account, who: str) -> str:
    if rebalance.is_same_offer:
        same = "the same protocols and topics as before"
        return f"{who} rejoined with {same}{said(rebalance.reason)}"
    return _plain(rebalance, who)


def _unsynced(rebalance: Account, who: str) -> str:
    were = "was" if len(rebalance.culprits) < 2 else "were"
    return f"{_plain(rebalance, who)} and {were} removed"


_CAUSES: Mapping[str, Callable[[Account, str], str]] = {
    "member_joined": _joined,
    "member_left": _left,
    "session_expired": _expired,
    "metadata_changed": _changed,
    "sync_timeout": _unsynced,
    "member_kicked": _commanded,
    "requested": _commanded,
    "group_over_max_size": _over_max_size,
}


def partition_count(rows: Sequence[Unread]) -> int:
    """Number of partitions in the rows, each counted once."""
    if len(rows) == 1:
        return count(rows[0].parts)
    parts = chain.from_iterable(row.parts.items() for row in rows)
    return len({(topic, n) for topic, numbers in parts for n in numbers})


def how(gone: Gone | None) -> str:
    """A departure in words."""
    return _HOW[gone] if gone is not None else "is still a member"
