"""The definitions of `kohort.pipeline.tables`, as loops over events.

Slow and short on purpose. Each function takes the ordered events of one group in one
run, and calls the functions of the tables that it needs.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kohort.broker.events import words
from kohort.broker.events.account.values import NOT_DOWN

Event = Mapping[str, Any]
Row = dict[str, Any]
OFFERS = {"member_joined", "member_replaced"}
HAVE = {*OFFERS, "member_synced", "partitions_changed"}
GONE = {"member_left", "member_expired", "member_kicked"}
LISTS = {"rebalance_started", "join_completed", "group_loaded"}


def place(event: Event) -> tuple[int, int, int]:
    """Sort key of an event."""
    return event["time_ns"], event["node"], event["sequence"]


def ends(event: Event) -> str | None:
    """Id of the member whose membership the event ends, or None."""
    if event["kind"] in GONE and not event.get("was_pending"):
        return str(event["member_id"])
    if event["kind"] == "member_replaced":
        return str(event["replaced_member_id"])
    return None


# -- members


def memberships(events: Sequence[Event]) -> dict[str, Row]:
    """Memberships by member id."""
    found: dict[str, Row] = {}
    for event in events:
        own = [event["member_id"]] if event["kind"] in HAVE else []
        listed = event["members"] if event["kind"] in LISTS else []
        for member_id in (*own, *listed):
            row = {"member_id": member_id, "from_ns": event["time_ns"]}
            found.setdefault(member_id, row)
    return {
        member_id: row
        | _said(events, member_id)
        | (_end(events, member_id) or _forgotten(events, row))
        for member_id, row in found.items()
    }


def _said(events: Sequence[Event], member_id: str) -> Row:
    about = [
        e
        for e in events
        if e["member_id"] == member_id
        and (e["kind"] in HAVE or (e["kind"] in GONE and not e.get("was_pending")))
    ]
    said: Row = {
        name: next((e[name] for e in about if e.get(name) is not None), None)
        for name in ("instance_id", "client_id", "host")
    }
    connections = [e["connection"] for e in about if e["connection"] is not None]
    said["connection"] = next(iter(connections), None)
    said["last_connection"] = next(iter(reversed(connections)), None)
    offer = next((e for e in about if e["kind"] in OFFERS), {})
    protocols = offer.get("protocols")
    said["is_eager"] = (
        None if protocols is None else not words.COOPERATIVE.issuperset(protocols)
    )
    for name in ("session_timeout_ms", "rebalance_timeout_ms"):
        said[name] = offer.get(name)
    said["is_start_known"] = any(
        e["kind"] == "member_replaced" or bool(e.get("is_first")) for e in about
    )
    said["owner"] = said["instance_id"] or member_id
    said["name"] = said["instance_id"] or said["client_id"] or member_id
    return said


_NO_END: Row = dict.fromkeys(("until_ns", "how", "reason", "silent_ns"))


def _forgotten(events: Sequence[Event], row: Row) -> Row:
    loads = [e for e in events if e["kind"] == "group_loaded"]
    known = (e["time_ns"] for e in loads if row["member_id"] in e["members"])
    since = max([row["from_ns"], *known])
    for load in loads:
        if load["time_ns"] > since:
            return _NO_END | {"until_ns": load["time_ns"], "how": "unseen"}
    return _NO_END


def _end(events: Sequence[Event], member_id: str) -> Row | None:
    """End of a membership; None if it has none, or if a load restored the member."""
    end: Row | None = None
    for event in events:
        if ends(event) == member_id:
            kind = event["kind"]
            end = {
                "until_ns": event["time_ns"],
                "how": event["cause"]
                if kind == "member_left" or event["cause"] == "commanded"
                else kind.removeprefix("member_"),
                "reason": event["reason"],
                "silent_ns": event.get("silent_ns"),
            }
        elif event["kind"] == "group_loaded" and member_id in event["members"]:
            end = None
    return end


# -- ownership


def partitions(parts: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """The partitions in one field of a ``partitions_changed`` event."""
    return [(part["topic"], n) for part in parts for n in part["partitions"]]


def ownership(events: Sequence[Event]) -> list[Row]:
    """Ownership of partitions, in order of start."""
    members, found = memberships(events), list[Row]()
    having: dict[tuple[str, tuple[str, int]], list[Row]] = defaultdict(list)
    for event in events:
        if event["kind"] != "partitions_changed":
            continue
        member_id = event["member_id"]
        for each in partitions(event["partitions_lost"]):
            for row in having.pop((member_id, each), []):
                row["until_ns"] = event["time_ns"]
        gained = partitions(event["partitions_gained"])
        if event["cause"] == "loaded":
            owned = partitions(event["owned"])
            gained += [each for each in owned if not having[member_id, each]]
        for each in gained:
            row = _beginning(event, members[member_id], each)
            having[member_id, each].append(row)
            found.append(row)
    return found


def _beginning(event: Event, member: Row, each: tuple[str, int]) -> Row:
    return {
        "topic": each[0],
        "partition": each[1],
        **{name: member[name] for name in ("member_id", "owner", "name")},
        "from_ns": event["time_ns"],
        "from_node": event["node"],
        "from_sequence": event["sequence"],
        "until_ns": None,
        "began": event["cause"],
    }


# -- commits


def commits(events: Sequence[Event]) -> list[Row]:
    """Offsets of accepted and refused commits, in order."""
    return [
        {
            **{name: event[name] for name in ("member_id", "generation")},
            **{name: event[name] for name in ("client_id", "host", "connection")},
            **{name: event[name] for name in ("time_ns", "node", "sequence")},
            "name": event["instance_id"] or event["client_id"] or event["member_id"],
            "is_first": at == 0,
            **row,
            "error": event.get("error"),
        }
        for event in events
        if event["kind"] in {"offsets_committed", "commit_refused"}
        for at, row in enumerate(event["offsets"])
    ]


def lags(events: Sequence[Event], rebalances: Sequence[Row]) -> list[Row]:
    """Lag of those of these rebalances that completed, in order."""
    committed: dict[tuple[str, int], int] = {}
    latest: dict[tuple[str, int], int] = {}
    totals: list[tuple[int, int, int]] = []  # (number, time_ns, T)
    before: dict[int, int | None] = {}
    number = 0
    for (time_ns, *_), ends in sorted(_lag_steps(events), key=lambda step: step[0]):
        if ends is None:
            number += 1
            before[number] = totals[-1][2] if totals else None
            continue
        for partition, offset, end in ends:
            if offset is not None:
                committed[partition] = offset
            if partition in committed:
                latest[partition] = max(end - committed[partition], 0)
        if any(partition in committed for partition, _, _ in ends):
            totals.append((number, time_ns, sum(latest.values())))
    found = [
        _lag(
            rebalance,
            before[rebalance["number"]],
            [t for t in totals if t[0] == rebalance["number"]],
            _appended(events, rebalance["number"]),
        )
        for rebalance in rebalances
        if rebalance["outcome"] == "completed"
    ]
    return [row for row in found if row["lag_built"] is not None]


Ends = list[tuple[tuple[str, int], int | None, int]]
"""Partition, committed offset, end of its log."""


def _lag_steps(
    events: Sequence[Event],
) -> Iterator[tuple[tuple[int, int, int], Ends | None]]:
    """Places and what was known there; None: a rebalance started."""
    gaps: dict[int, Ends] = {}
    for event in events:
        place = event["time_ns"], event["node"], event["sequence"]
        if event["kind"] == "rebalance_started":
            yield place, None
        known = [row for row in commits([event]) if row["end_offset"] is not None]
        if event["kind"] == "offsets_committed" and known:
            names = ("offset", "end_offset")
            yield (
                place,
                [
                    ((row["topic"], row["partition"]), *(row[n] for n in names))
                    for row in known
                ],
            )
    for row in unread(events):
        if row["cause"] not in NOT_DOWN and row["end_offsets"] is not None:
            pairs = zip(row["partition_numbers"], row["end_offsets"], strict=True)
            ends = gaps.setdefault(row["until_ns"], [])
            ends += [((row["topic"], partition), None, end) for partition, end in pairs]
    for until_ns, ends in gaps.items():
        yield (until_ns, -1, 0), ends


def _appended(events: Sequence[Event], number: int) -> int | None:
    """Records appended to the unread partitions of a rebalance; None: unknown."""
    rows = [row for row in unread(events) if row["number"] == number]
    records = [row["records"] for row in rows if row["cause"] not in NOT_DOWN]
    return sum(records) if records and None not in records else None


def _lag(
    rebalance: Row,
    before: int | None,
    totals: Sequence[tuple[int, int, int]],
    appended: int | None,
) -> Row:
    near_ns = rebalance["ended_ns"] + 30 * 10**9
    near = [total for _, time_ns, total in totals if time_ns <= near_ns]
    row: Row = {name: rebalance[name] for name in ("number", "started_ns", "ended_ns")}
    nothing = ("lag_before", "lag_peak", "peak_ns", "worked_off_ns", "catch_up_ns")
    if before is None or not near:
        return {**row, **dict.fromkeys(nothing), "lag_built": appended}
    peak = max(near)
    at = next(i for i, row in enumerate(totals) if row[2] == peak)
    built = max(peak - before, 0) if appended is None else appended
    off = None
    if built:
        off = next((ns for _, ns, t in totals[at:] if t <= before), None)
    late = None if off is None else max(off - rebalance["ended_ns"], 0)
    return {
        **row,
        "lag_before": before,
        "lag_peak": peak,
        "peak_ns": totals[at][1],
        "lag_built": built,
        "worked_off_ns": off,
        "catch_up_ns": late,
    }


# -- accounts


def accounts(events: Iterable[Event]) -> list[Event]:
    """Accounts of the rebalances, in order of start."""
    found = (e for e in events if e["kind"] == "rebalance_account")
    return sorted(
        found, key=lambda e: (e["started_ns"], e["node"], e["started_sequence"])
    )


def pauses(events: Sequence[Event]) -> list[Row]:
    """Pauses of members with partitions, in order."""
    return [
        {
            "number": number,
            **_who(events, row["member_id"]),
            "from_ns": row["since_ns"],
            "until_ns": row["until_ns"],
            "partitions": row["count"],
            "ended": row["ended_by"],
        }
        for number, account in enumerate(accounts(events), 1)
        for row in account["pauses"]
        if row["count"] != 0
    ]


def unread(events: Sequence[Event]) -> list[Row]:
    """Intervals in which partitions were unread, in order."""
    return [
        {
            "number": number,
            "position": position,
            "topic": part["topic"],
            **_who(events, row["member_id"]),
            **{name: row[name] for name in ("reader", "cause", "until_ns")},
            "from_ns": row["since_ns"],
            "partition_numbers": part["partitions"],
            "partitions": len(part["partitions"]),
            "unread_ns": (row["until_ns"] - row["since_ns"]) * len(part["partitions"]),
            "records": end["records"],
            "end_offsets": end["offsets"],
        }
        for number, position, row in _unread_rows(events)
        for part, end in zip(row["parts"], _log_ends(row), strict=True)
    ]


def _log_ends(row: Row) -> list[Row]:
    """The ends of the logs, by topic."""
    unknown = {"records": None, "offsets": None}
    return row["log_ends"] or [unknown] * len(row["parts"])


def _unread_rows(events: Sequence[Event]) -> Iterable[tuple[int | None, int, Row]]:
    """Number, position and row; those outside of rebalances have no number."""
    for number, account in enumerate(accounts(events), 1):
        for position, row in enumerate(account["unread"]):
            yield number, position, row
    quiet = [event for event in events if event["kind"] == "unread_account"]
    quiet.sort(key=lambda e: (e["node"], e["closed_sequence"], e["cause"]))
    rows = (row for event in quiet for row in event["unread"])
    for position, row in enumerate(rows):
        yield None, position, row


def returns(events: Sequence[Event]) -> Iterable[Row]:
    """Returns of departed members, in order; only the last one of each member."""
    return {
        row["previous_id"]: {
            "number": number,
            **_who(events, row["member_id"]),
            **{name: row[name] for name in ("previous_id", "how", "is_restart")},
            "from_ns": row["since_ns"],
            "until_ns": row["until_ns"],
            "away_ns": row["until_ns"] - row["since_ns"],
        }
        for number, account in enumerate(accounts(events), 1)
        for row in account["returns"]
    }.values()


def _who(events: Sequence[Event], member_id: str) -> Row:
    nobody = {"owner": member_id, "name": member_id}
    member = memberships(events).get(member_id, nobody)
    return {
        "member_id": member_id,
        **{name: member[name] for name in ("owner", "name")},
    }


def moves(events: Sequence[Event]) -> list[Row]:
    """Moved partitions per completed rebalance of consumers, in order."""
    return [
        {
            "number": number,
            **{name: account[name] for name in ("started_ns", "generation")},
            "members": len(account["members"]),
            "owned": sum(account[f"{n}_count"] for n in ("kept", "moved", "first")),
            "moved": account["moved_count"],
            "least_moved": _least_moved(account),
            "first_owned": account["first_count"],
            "given_up": account["given_up_count"],
        }
        for number, account in enumerate(accounts(events), 1)
        if account["outcome"] == "completed" and account["moves"] is not None
    ]


def _least_moved(account: Event) -> int:
    before, after = Counter[str](), Counter[str]()
    for row in account["kept"]:
        size = len(partitions(row["parts"]))
        before[row["member_id"]] += size
        after[row["member_id"]] += size
    for row in account["moves"]:
        if row["source"] is not None:
            before[row["source"]] += row["count"]
            after[row["target"]] += row["count"]
    members = account["members"]
    return least_moved([before[m] for m in members], [after[m] for m in members])


def least_moved(before: Sequence[int], after: Sequence[int]) -> int:
    """Least number of partitions that must move to reach these shares.

    Args:
        before: partitions per member before; members that left may have had others.
        after: partitions per member afterwards; members may swap their shares.
    """
    return min(
        sum(after) - sum(map(min, before, shares))
        for shares in itertools.permutations(after)
    )
