"""The definitions of the tables of silver, as loops over events.

Slow and short on purpose. Each function takes the ordered events of one group in one
run, and calls the functions of the tables that it needs; `whole` calls all of them.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kohort.broker.events import words
from kohort.broker.events.account.values import NOT_DOWN
from kohort.pipeline.tables import BY_PATH

Event = Mapping[str, Any]
Row = dict[str, Any]
OFFERS = {"member_joined", "member_replaced"}
HAVE = {*OFFERS, "member_synced", "partitions_changed"}
GONE = {"member_left", "member_expired", "member_kicked"}
LISTS = {"rebalance_started", "join_completed", "group_loaded"}
PREPARED = {"PrepareCommit": "committed", "PrepareAbort": "aborted"}
OPEN = {"Ongoing", *PREPARED}


def whole(events: Sequence[Event]) -> dict[str, list[Row]]:
    """All tables of silver by path, of the events of one run."""
    ordered = sorted(events, key=place)
    found = {"silver/runs": [run(ordered)]}
    found["silver/transactions"] = transactions(ordered)
    groups = sorted({str(e["group"]) for e in ordered if e["group"] is not None})
    for group in groups:
        own = [event for event in ordered if event["group"] == group]
        for path, rows in of_group(own).items():
            found.setdefault(path, [])
            found[path] += ({"group": group, **row} for row in rows)
    return {
        path: [{"run": ordered[0]["run"], **row} for row in rows]
        for path, rows in found.items()
    }


def of_group(own: Sequence[Event]) -> dict[str, list[Row]]:
    """The tables of one group."""
    return {
        "silver/rebalances": rebalances(own),
        "silver/memberships": [*memberships(own).values()],
        "silver/ownership": ownership(own),
        "silver/pauses": pauses(own),
        "silver/unread": unread(own),
        "silver/returns": [*returns(own)],
        "silver/commits": commits(own),
        "silver/delivery": delivery(own),
        "silver/refusals": refusals(own),
        "silver/moves": moves(own),
        "silver/lags": lags(own, rebalances(own)),
        "silver/findings": findings(own),
    }


def said(event: Event, *names: str) -> Row:
    """Some fields of an event; one that it does not have is null."""
    return {name: event.get(name) for name in names}


def name_of(event: Event) -> str | None:
    """The name that an event itself has of its member."""
    names = ("instance_id", "client_id", "member_id")
    return next((event[n] for n in names if event.get(n) is not None), None)


# -- runs


def run(events: Sequence[Event]) -> Row:
    """The run of these events."""
    first = min(events, key=lambda e: (e["node"], e["sequence"]))
    return {
        "labels": first["labels"],
        **{name: first["labels"].get(name) for name in ("scenario", "seed")},
        "first_ns": events[0]["time_ns"],
        "last_ns": events[-1]["time_ns"],
        "events": len(events),
        "nodes": sorted({event["node"] for event in events}),
        "groups": len({event["group"] for event in events} - {None}),
    }


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
    connections = [e["connection"] for e in about if e.get("connection") is not None]
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
            "name": name_of(event),
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
    totals: list[tuple[Start, int, int]] = []  # (start, time_ns, T)
    before: dict[Start, int | None] = {}
    start: Start = None
    gaps = [row for row in unread(events) if row["cause"] not in NOT_DOWN]
    steps = sorted(_lag_steps(events, gaps), key=lambda step: step[0])
    for (time_ns, *which), ends in steps:
        if ends is None:
            start = which[0], which[1]
            before[start] = totals[-1][2] if totals else None
            continue
        for partition, offset, end in ends:
            if offset is not None:
                committed[partition] = offset
            if partition in committed:
                latest[partition] = max(end - committed[partition], 0)
        if any(partition in committed for partition, _, _ in ends):
            totals.append((start, time_ns, sum(latest.values())))
    found = [
        _lag(
            rebalance,
            before.get((rebalance["node"], rebalance["sequence"])),
            [t for t in totals if t[0] == (rebalance["node"], rebalance["sequence"])],
            _appended(gaps, rebalance["number"]),
        )
        for rebalance in rebalances
        if rebalance["outcome"] == "completed"
    ]
    return [row for row in found if row["lag_built"] is not None]


Start = tuple[int, int] | None
"""Node and number of a ``rebalance_started``; None: before the first."""
Ends = list[tuple[tuple[str, int], int | None, int]]
"""Partition, committed offset, end of its log."""


def _lag_steps(
    events: Sequence[Event], down: Sequence[Row]
) -> Iterator[tuple[tuple[int, int, int], Ends | None]]:
    """Places and what was known there; None: a rebalance started."""
    gaps: dict[int, Ends] = {}
    begun = {(each["node"], each["started_sequence"]) for each in accounts(events)}
    for event in events:
        place = event["time_ns"], event["node"], event["sequence"]
        # In Assigning, an epoch belongs to the rebalance before.
        if event["kind"] == "rebalance_started" and (
            event["previous_state"] != "Assigning" or place[1:] in begun
        ):
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
    for row in down:
        if row["end_offsets"] is not None:
            pairs = zip(row["partition_numbers"], row["end_offsets"], strict=True)
            ends = gaps.setdefault(row["until_ns"], [])
            ends += [((row["topic"], partition), None, end) for partition, end in pairs]
    for until_ns, ends in gaps.items():
        yield (until_ns, -1, 0), ends


def _appended(down: Sequence[Row], number: int) -> int | None:
    """Records appended to the unread partitions of a rebalance; None: unknown."""
    records = [row["records"] for row in down if row["number"] == number]
    return sum(records) if records and None not in records else None


def _lag(
    rebalance: Row,
    before: int | None,
    totals: Sequence[tuple[Start, int, int]],
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
    """Accounts of the rebalances, in order of start.

    One that was published twice counts once: the whole one, or else the first.
    """
    found: dict[tuple[Any, ...], Event] = {}
    for event in events:
        if event["kind"] == "rebalance_account":
            key = event["started_ns"], event["node"], event["started_sequence"]
            before = found.get(key, event)
            found[key] = min(before, event, key=_whole_first)
    return [found[key] for key in sorted(found)]


def _whole_first(event: Event) -> tuple[bool, int]:
    return not event["is_whole"], event["sequence"]


RENAMED = {
    "sequence": "started_sequence",
    "join_ended": "join_ended_by",
    "culprit": "member_id",
    "assignment_bytes": "bytes",
}
"""Columns of silver/rebalances whose field in the account has another name."""
COMPUTED = {"run", "group", "number", "culprit_name", "waited_for", "waited_ns"}


def rebalances(events: Iterable[Event]) -> list[Row]:
    """The rebalances, each as its account has it."""
    columns = BY_PATH["silver/rebalances"].columns
    names = [column.name for column in columns if column.name not in COMPUTED]
    found = []
    for number, account in enumerate(accounts(events), 1):
        row = {name: account.get(RENAMED.get(name, name)) for name in names}
        waits = _waits(account)
        longest_ns, last = min(waits, default=(None, None))
        row["group_type"] = account.get("group_type") or "classic"
        row |= {"number": number, "culprit_name": name_of(account), "waited_for": last}
        row["waited_ns"] = None if longest_ns is None else -longest_ns
        found.append(row)
    return found


def _waits(account: Event) -> list[tuple[int, str]]:
    """Negative times that the group waited for members, and their ids."""
    if account.get("group_type") == "consumer":
        return [
            (step["since_ns"] - step["until_ns"], step["member_id"])
            for step in account["steps"]
            if step["what"] == "revoke"
        ]
    return [(-wait["waited_ns"], wait["member_id"]) for wait in account["waits"] or ()]


def pauses(events: Sequence[Event]) -> list[Row]:
    """Pauses of members with partitions, in order."""
    who = _names(events)
    return [
        {
            "number": number,
            **who(row["member_id"]),
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
    who = _names(events)
    return [
        {
            "number": number,
            "position": position,
            "topic": part["topic"],
            **who(row["member_id"]),
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
    quiet: dict[tuple[Any, ...], Event] = {}
    for event in sorted(events, key=lambda e: e["sequence"]):
        if event["kind"] == "unread_account":
            key = event["node"], event["closed_sequence"], event["cause"]
            quiet.setdefault(key, event)
    rows = (row for key in sorted(quiet) for row in quiet[key]["unread"])
    for position, row in enumerate(rows):
        yield None, position, row


def returns(events: Sequence[Event]) -> Iterable[Row]:
    """Returns of departed members, in order; only the last one of each member."""
    who = _names(events)
    return {
        row["previous_id"]: {
            "number": number,
            **who(row["member_id"]),
            **{name: row[name] for name in ("previous_id", "how", "is_restart")},
            "from_ns": row["since_ns"],
            "until_ns": row["until_ns"],
            "away_ns": row["until_ns"] - row["since_ns"],
        }
        for number, account in enumerate(accounts(events), 1)
        for row in account["returns"]
    }.values()


def _names(events: Sequence[Event]) -> Callable[[str], Row]:
    """A function: the id, owner and name of a member."""
    members = memberships(events)

    def who(member_id: str) -> Row:
        nobody = {"owner": member_id, "name": member_id}
        member = members.get(member_id, nobody)
        names = {name: member[name] for name in ("owner", "name")}
        return {"member_id": member_id, **names}

    return who


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


# -- delivery, refusals, findings


def delivery(events: Sequence[Event]) -> list[Row]:
    """Records sent again or skipped, and commits that went back."""
    who = _names(events)
    found = []
    for event in events:
        for what, position, row, own in _delivered(event):
            member = who(own["member_id"])
            if member["name"] is None:
                member["name"] = event["client_id"]
            place_ = said(event, "time_ns", "node", "sequence")
            part = {**said(row, "topic", "partition"), "position": position}
            found.append({**place_, **part, **own, **member, "what": what})
    return found


def _delivered(event: Event) -> Iterator[tuple[str, int, Row, Row]]:
    """The kind, the row's place in its list, the row, and columns made of it."""
    if event["kind"] == "delivery_account":
        for position, row in enumerate(event["again"]):
            own = {**said(row, "first", "end", "records"), "member_id": row["reader"]}
            own |= {
                "reason": row["reason_again"],
                "previous_id": row["previous_reader"],
            }
            what = "again_certain" if row["is_certain"] else "again_possible"
            yield what, position, row, own
        for position, row in enumerate(event["skips"]):
            own = {**said(row, "first", "end", "records"), "member_id": row["reader"]}
            own |= {"reason": row["reason_skipped"], "previous_id": None}
            yield "skipped", position, row, own
    if event["kind"] == "offsets_went_back":
        for position, row in enumerate(event["rewinds"]):
            own = {"first": row["offset"], "end": row["previous_offset"]}
            own |= {"member_id": event["member_id"], "reason": event["cause"]}
            nothing = {"records": None, "previous_id": None}
            yield "went_back", position, row, own | nothing


FULL = {"full", "group_over_max_size"}
"""Causes of refusals by a full group."""


def refusals(events: Sequence[Event]) -> list[Row]:
    """Refused joins, and members that had no room."""
    fields = ("time_ns", "node", "sequence", "kind", "member_id", "host", "cause")
    return [
        {**said(event, *fields, "error"), "name": name_of(event)}
        for event in events
        if event["kind"] == "member_refused"
        or (event["kind"] == "member_kicked" and event["cause"] in FULL)
    ]


def findings(events: Sequence[Event]) -> list[Row]:
    """The latest revision of each finding that was not withdrawn."""
    last: dict[str, Event] = {}
    for event in events:
        if event["kind"] == "finding":
            before = last.get(event["finding"], event)
            if event["revision"] >= before["revision"]:
                last[event["finding"]] = event
    names = [c.name for c in BY_PATH["silver/findings"].columns]
    return [
        {**said(event, *(set(names) - {"run", "group"})), "from_ns": event["since_ns"]}
        for event in last.values()
        if not event["is_withdrawn"]
    ]


# -- transactions


def transactions(events: Sequence[Event]) -> list[Row]:
    """silver/transactions of the ordered events of a run, in any order."""
    found = list[Row]()
    last: dict[str, Row] = {}
    was_open: dict[str, bool] = defaultdict(bool)
    decided: dict[int, Row] = {}
    for event in events:
        if event["kind"] == "transaction_ended_in_partition":
            row = decided.get(event["producer_id"])
            if row is not None:
                row["markers"] += 1
                row["held_back"] += event["held_back"]
        if event["kind"] != "transaction_state":
            continue
        id_, is_open = event["transactional_id"], event["state"] in OPEN
        if is_open and not was_open[id_]:
            count = sum(row["transactional_id"] == id_ for row in found)
            last[id_] = _begun(event, count + 1)
            found.append(last[id_])
        was_open[id_] = is_open
        if id_ in last:
            _change(last[id_], event)
            if event["state"] in PREPARED:
                decided[event["producer_id"]] = last[id_]
    return found


def _begun(event: Event, number: int) -> Row:
    names = ("transactional_id", "producer_id", "producer_epoch", "timeout_ms")
    nothing = ("decided_ns", "until_ns", "result", "cause", "open_ns", "ending_ns")
    return {
        **{name: event[name] for name in names},
        **dict.fromkeys(nothing),
        "number": number,
        "client_id": None,
        "from_ns": event["started_ns"],
        "partitions": 0,
        "groups": [],
        "markers": 0,
        "held_back": 0,
    }


def _change(row: Row, event: Event) -> None:
    state, at_ns = event["state"], event["time_ns"]
    row["groups"] = sorted({*row["groups"], *event["group_ids"]})
    if state in OPEN:
        count = sum(len(part["partitions"]) for part in event["partitions"])
        row["partitions"] = max(row["partitions"], count)
        row["client_id"] = row["client_id"] or event["client_id"]
    if state in PREPARED and row["decided_ns"] is None:
        row["decided_ns"], row["cause"] = at_ns, event["cause"]
        row["result"] = PREPARED[state]
        row["open_ns"] = at_ns - row["from_ns"]
    is_end = state.startswith("Complete") and event["cause"] == "markers_written"
    if is_end and row["until_ns"] is None:
        row["until_ns"] = at_ns
        row["ending_ns"] = at_ns - row["decided_ns"]
