"""The definitions of the tables of transactions, as loops over events.

Slow and short on purpose, like `tests.pipeline.silver_oracle`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from statistics import quantiles
from typing import Any

Event = Mapping[str, Any]
Row = dict[str, Any]
PREPARED = {"PrepareCommit": "committed", "PrepareAbort": "aborted"}
OPEN = {"Ongoing", *PREPARED}
HOUR_NS = 3600 * 10**9


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


def gold(rows: Iterable[Row]) -> list[Row]:
    """gold/transactions of the rows of a run, in any order."""
    by_hour: dict[datetime | None, list[Row]] = defaultdict(list)
    for row in rows:
        seconds = row["from_ns"] // HOUR_NS * 3600
        hour = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
        by_hour[hour].append(row)
        by_hour[None].append(row)
    return [_totals(hour, own) for hour, own in by_hour.items()]


def _totals(hour: datetime | None, rows: Sequence[Row]) -> Row:
    results = Counter(row["result"] for row in rows)
    causes = Counter(row["cause"] for row in rows if row["result"] == "aborted")
    open_s = [row["open_ns"] / 1e9 for row in rows if row["open_ns"] is not None]
    return {
        "hour": hour,
        "transactions": len(rows),
        "transactional_ids": len({row["transactional_id"] for row in rows}),
        "committed": results["committed"],
        "aborted": results["aborted"],
        "undecided": results[None],
        "aborts_by_cause": dict(causes) or None,
        **{f"open_p{n}_s": _percentile(open_s, n) for n in (50, 95, 99)},
        "open_max_s": max(open_s, default=None),
        "held_back": sum(row["held_back"] for row in rows),
        "held_back_max": max(row["held_back"] for row in rows),
    }


def _percentile(values: Sequence[float], n: int) -> float | None:
    if len(values) < 2:
        return next(iter(values), None)
    return quantiles(values, n=100, method="inclusive")[n - 1]
