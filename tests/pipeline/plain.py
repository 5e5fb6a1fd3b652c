"""The words of `kohort.pipeline.tables.silver`, read once more: loops over events.

Slow and short on purpose; each function takes the events of one group in one run, in
order, and has what it says of other tables from those functions.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Event = Mapping[str, Any]
Row = dict[str, Any]
COOPERATIVE = {"cooperative-sticky", "stream", "compatible", "sessioned"}
OFFERS = {"member_joined", "member_replaced"}
HAVE = {*OFFERS, "member_synced", "partitions_changed"}
GONE = {"member_left", "member_expired", "member_kicked"}
LISTS = {"rebalance_started", "join_completed", "group_loaded"}


def place(event: Event) -> tuple[int, int, int]:
    """Where an event is in order."""
    return event["time_ns"], event["node"], event["sequence"]


def ends(event: Event) -> str | None:
    """Whose time as a member an event ends."""
    if event["kind"] in GONE and not event.get("was_pending"):
        return str(event["member_id"])
    if event["kind"] == "member_replaced":
        return str(event["replaced_member_id"])
    return None


# -- who


def memberships(events: Sequence[Event]) -> dict[str, Row]:
    """By member id."""
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
    offer = next((e for e in about if e["kind"] in OFFERS), {})
    protocols = offer.get("protocols")
    said["is_eager"] = (
        None if protocols is None else not COOPERATIVE.issuperset(protocols)
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
            return _NO_END | {"until_ns": load["time_ns"], "how": "forgotten"}
    return _NO_END


def _end(events: Sequence[Event], member_id: str) -> Row | None:
    """None: it has none, or it was taken back."""
    end: Row | None = None
    for event in events:
        if ends(event) == member_id:
            kind = event["kind"]
            end = {
                "until_ns": event["time_ns"],
                "how": event["cause"]
                if kind == "member_left"
                else kind.removeprefix("member_"),
                "reason": event["reason"],
                "silent_ns": event.get("silent_ns"),
            }
        elif event["kind"] == "group_loaded" and member_id in event["members"]:
            end = None
    return end


# -- what they have


def partitions(parts: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Of a field of partitions_changed."""
    return [(part["topic"], n) for part in parts for n in part["partitions"]]


def ownership(events: Sequence[Event]) -> list[Row]:
    """In order of their beginnings."""
    members, found, number = memberships(events), list[Row](), 0
    having: dict[tuple[str, tuple[str, int]], list[Row]] = defaultdict(list)
    for event in events:
        number += event["kind"] == "rebalance_started"
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
            row = _beginning(event, members[member_id], each, number)
            having[member_id, each].append(row)
            found.append(row)
    return [row | _before(row, found[:at], members) for at, row in enumerate(found)]


def _beginning(event: Event, member: Row, each: tuple[str, int], number: int) -> Row:
    return {
        "topic": each[0],
        "partition": each[1],
        **{name: member[name] for name in ("member_id", "owner", "name")},
        "from_ns": event["time_ns"],
        "from_node": event["node"],
        "from_sequence": event["sequence"],
        "until_ns": None,
        "began": event["cause"],
        "number": number or None,
    }


def _before(row: Row, earlier: Sequence[Row], members: Mapping[str, Row]) -> Row:
    """What a row says of the one of the same partition before it."""
    which = row["topic"], row["partition"]
    same = [r for r in earlier if (r["topic"], r["partition"]) == which]
    names = ("previous_owner", "previous_member_id", "idle_ns", "crash_idle_ns")
    if not same:
        return {"moved": False, **dict.fromkeys(names)}
    last = same[-1]
    end = last["until_ns"]
    # A row ends later where a partition has two owners for some time.
    end = row["from_ns"] if end is None else end
    member = members[last["member_id"]]
    is_assigned = row["began"] == "assigned"
    crash = None
    had_it = last["until_ns"] == member["until_ns"]
    if is_assigned and member["how"] == "expired" and had_it:
        crash = row["from_ns"] - (member["until_ns"] - member["silent_ns"])
    return {
        "previous_owner": last["owner"],
        "previous_member_id": last["member_id"],
        "moved": is_assigned and last["owner"] != row["owner"],
        "idle_ns": max(row["from_ns"] - end, 0),
        "crash_idle_ns": crash,
    }


# -- waiting


def stand_stills(events: Sequence[Event]) -> list[Row]:
    """In any order."""
    members, found = memberships(events), list[Row]()
    had: dict[str, bool] = {}
    waits: dict[str, Row] = {}
    is_joining = False
    starts = [e["time_ns"] for e in events if e["kind"] == "rebalance_started"]
    forgotten = {
        row["member_id"]: row["until_ns"]
        for row in members.values()
        if row["how"] == "forgotten"
    }
    for at, event in enumerate(events):
        kind, member_id = event["kind"], event["member_id"]
        if kind in LISTS:
            is_joining = kind == "rebalance_started"
        if kind == "member_replaced":
            had[member_id] = had.get(event["replaced_member_id"], False)
        begins = (kind == "member_joined" and event["cause"] != "repeated") or (
            kind == "member_replaced" and (is_joining or _causes(events[at:], event))
        )
        if begins:
            wait = {"from_ns": event["time_ns"], "has": had.get(member_id, False)}
            waits.setdefault(member_id, wait)
        if kind == "partitions_changed":
            had[member_id] = bool(event["owned"])
        gone = ends(event)
        over = member_id if kind == "member_synced" else gone
        if over in waits:
            ended = "synced" if gone is None else "gone"
            end = {"until_ns": event["time_ns"], "ended": ended}
            found.append({"member_id": over, **waits.pop(over), **end})
    for waiting, wait in waits.items():
        until_ns = forgotten.get(waiting)
        seen = {"until_ns": until_ns, "ended": until_ns and "gone"}
        found.append({"member_id": waiting, **wait, **seen})
    return [
        {
            **{name: members[row["member_id"]][name] for name in ("owner", "name")},
            **row,
            "number": sum(start <= row["from_ns"] for start in starts) or None,
        }
        for row in found
        if row.pop("has") and members[row["member_id"]]["is_eager"] is not False
    ]


def _causes(events: Sequence[Event], replaced: Event) -> bool:
    """Whether the next event about a rebalance, in the same turn, is for a comeback."""
    phases = (e for e in events if e["kind"] in {*LISTS, "assignment_made"})
    following = next(phases, None)
    return (
        following is not None
        and following["time_ns"] == replaced["time_ns"]
        and following["cause"] == "static_member_replaced"
        and replaced["member_id"] in following["culprits"]
    )


# -- commits


def commits(events: Sequence[Event]) -> list[Row]:
    """In order."""
    return [
        {
            **{name: event[name] for name in ("member_id", "generation")},
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


def reprocessed(events: Sequence[Event]) -> list[Row]:
    """In any order."""
    found = list[Row]()
    by_partition: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in commits(events):
        by_partition[row["topic"], row["partition"]].append(row)
    for rows in by_partition.values():
        accepted = [at for at, row in enumerate(rows) if row["error"] is None]
        for b, a in itertools.pairwise(accepted):
            now, before = rows[a], rows[b]["offset"]
            refused = [
                row["offset"]
                for row in rows[b + 1 : a]
                if row["member_id"] != now["member_id"]
            ]
            shown = {}
            if refused:
                shown["refused"] = min(now["offset"], max(refused)) - before
            if now["member_id"]:
                shown["rewound"] = before - now["offset"]
            names = "topic", "partition", "time_ns", "node", "sequence", "member_id"
            found += [
                {**{n: now[n] for n in names}, "why": why, "records": records}
                for why, records in shown.items()
                if records > 0
            ]
    return found


def lags(events: Sequence[Event], rebalances: Sequence[Row]) -> list[Row]:
    """In order, of the completed rebalances among these."""
    latest: dict[tuple[str, int], int] = {}
    totals: list[tuple[int, int, int]] = []  # (number, time_ns, T)
    before: dict[int, int | None] = {}
    number = 0
    for event in events:
        if event["kind"] == "rebalance_started":
            number += 1
            before[number] = totals[-1][2] if totals else None
        known = [row for row in commits([event]) if row["end_offset"] is not None]
        if event["kind"] == "offsets_committed" and known:
            for row in known:
                lag = max(row["end_offset"] - row["offset"], 0)
                latest[row["topic"], row["partition"]] = lag
            totals.append((number, event["time_ns"], sum(latest.values())))
    return [
        _lag(rebalance, low, own)
        for rebalance in rebalances
        if (low := before[rebalance["number"]]) is not None
        and (own := [t for t in totals if t[0] == rebalance["number"]])
        and rebalance["outcome"] == "completed"
        and own[0][1] <= rebalance["ended_ns"] + 30 * 10**9
    ]


def _lag(rebalance: Row, before: int, totals: Sequence[tuple[int, int, int]]) -> Row:
    near_ns = rebalance["ended_ns"] + 30 * 10**9
    peak = max(total for _, time_ns, total in totals if time_ns <= near_ns)
    at = next(i for i, row in enumerate(totals) if row[2] == peak)
    off = None
    if peak > before:
        off = next((ns for _, ns, t in totals[at:] if t <= before), None)
    late = None if off is None else max(off - rebalance["ended_ns"], 0)
    return {
        **{name: rebalance[name] for name in ("number", "started_ns", "ended_ns")},
        "lag_before": before,
        "lag_peak": peak,
        "peak_ns": totals[at][1],
        "lag_built": max(peak - before, 0),
        "worked_off_ns": off,
        "catch_up_ns": late,
    }


# -- moves


def moves(events: Sequence[Event], rebalances: Sequence[Row]) -> list[Row]:
    """In order, of the completed rebalances among these."""
    rows, members = ownership(events), memberships(events)
    return [
        _moved(rebalance, rows, members)
        for rebalance in rebalances
        if rebalance["outcome"] == "completed"
    ]


def _moved(rebalance: Row, rows: Sequence[Row], members: Mapping[str, Row]) -> Row:
    number = rebalance["number"]
    own = [
        at
        for at, row in enumerate(rows)
        if row["number"] == number and row["began"] == "assigned"
    ]
    # Without any: at its end.
    ended = sum(
        (row["number"] or 0) <= number and row["from_ns"] <= rebalance["ended_ns"]
        for row in rows
    )
    first, last = (own[0], own[-1] + 1) if own else (ended, ended)
    before = {(r["topic"], r["partition"]): r["owner"] for r in rows[:first]}
    after = {(r["topic"], r["partition"]): r["owner"] for r in rows[:last]}
    owners = {members[m]["owner"] for m in rebalance["members"]}
    common = [p for p in before if after[p] in owners]
    b = Counter(before[p] for p in common if before[p] in owners)
    a = Counter(after[p] for p in common)
    return {
        "number": number,
        "started_ns": rebalance["started_ns"],
        "generation": rebalance["generation"],
        "members": len(rebalance["members"]),
        "owned": sum(owner in owners for owner in after.values()),
        "moved": sum(before[p] != after[p] for p in common),
        "least_moved": least_moved([b[o] for o in owners], [a[o] for o in owners]),
        "first_owned": sum(rows[at]["previous_owner"] is None for at in own),
    }


def least_moved(before: Sequence[int], after: Sequence[int]) -> int:
    """How many partitions have to move so that members have these shares, at least.

    Args:
        before: how many of them each member had; others may have had the rest.
        after: how many each has, or another one of them in its place.
    """
    return min(
        sum(after) - sum(map(min, before, shares))
        for shares in itertools.permutations(after)
    )
