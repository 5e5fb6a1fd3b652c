"""The definitions of the tables of gold, as loops over rows of silver.

Slow and short on purpose, like `silver_oracle`. `whole` takes the tables of silver and
the events of all runs. A group's numbers are computed from its rows, not from hours.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tests.pipeline.silver_oracle import FULL, Event, Row

from kohort.broker.events.account.values import NOT_DOWN

HOUR_NS = 3600 * 10**9
ALL = (-math.inf, math.inf)
"""The span of groups and runs, in place of that of an hour."""
DELAY = "group.initial.rebalance.delay.ms"
STORM, STORM_NS = 5, 60 * 10**9

Tables = Mapping[str, Sequence[Row]]
"""Rows of silver by path, and events by ``events``."""
Key = tuple[Any, ...]


def whole(silver: Tables, events: Iterable[Event]) -> dict[str, list[Row]]:
    """All tables of gold by path, but for the checks of the data."""
    of_groups = [{**event} for event in events if event["group"] is not None]
    tables = {**silver, "events": of_groups}
    ends = {row["run"]: row["last_ns"] for row in silver["silver/runs"]}
    by_group = _by(tables, ("run", "group"))
    hours, groups, storms_ = list[Row](), list[Row](), list[Row]()
    for (run, group), own in by_group.items():
        key = {"run": run, "group": group}
        if own["events"]:
            groups.append({**key, **metrics(own, ends[run], ALL)})
        for hour in _hours(own, ends[run]):
            span = hour * HOUR_NS, (hour + 1) * HOUR_NS
            row = {**key, "hour": moment(hour), **metrics(own, ends[run], span)}
            hours.append(row)
        storms_ += ({**key, **row} for row in storms(own["silver/rebalances"]))
    of_runs = _by(tables, ("run",))
    about = [
        {k: v for k, v in row.items() if k != "nodes"} for row in silver["silver/runs"]
    ]
    runs = [{**r, **metrics(of_runs[r["run"],], r["last_ns"], ALL)} for r in about]
    return {
        "gold/hours": hours,
        "gold/groups": groups,
        "gold/runs": runs,
        "gold/storms": storms_,
        "gold/causes": _each(silver["silver/rebalances"], _cause_of, causes),
        "gold/culprits": _each(silver["silver/rebalances"], _culprit_of, culprits),
        "gold/waited_for": waited_for(silver),
        "gold/initial_delay": [*initial_delay(silver, groups)],
        "gold/findings": _each(silver["silver/findings"], _code_of, findings),
        "gold/transactions": transactions(silver["silver/transactions"]),
    }


def _by(tables: Tables, keys: Sequence[str]) -> dict[Key, dict[str, list[Row]]]:
    """Tables by the values of these columns."""
    found: dict[Key, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for path, rows in tables.items():
        for row in rows:
            if all(key in row for key in keys):
                found[tuple(row[key] for key in keys)][path].append(row)
    return found


def _each(
    rows: Iterable[Row],
    key: Callable[[Row], Row],
    made: Callable[[Sequence[Row]], Row],
) -> list[Row]:
    """A row for each key."""
    found: dict[str, tuple[Row, list[Row]]] = {}
    for row in rows:
        found.setdefault(repr(key(row)), (key(row), []))[1].append(row)
    return [{**own, **made(same)} for own, same in found.values()]


def moment(hour: int) -> datetime:
    """The start of an hour, as a session in UTC reads it back."""
    return datetime.fromtimestamp(hour * 3600, UTC).replace(tzinfo=None)


# -- the metrics of hours, groups and runs


def _hours(own: Tables, end_ns: int) -> list[int]:
    """Hours with an event of the group, or a part of something that lasts."""
    found = {event["time_ns"] // HOUR_NS for event in own["events"]}
    spans = [*own["silver/memberships"], *own["silver/pauses"], *_down(own)]
    for row in spans:
        since, until = row["from_ns"], _end(row, end_ns)
        if until > since:
            found.update(range(since // HOUR_NS, -(-until // HOUR_NS)))
    return sorted(found)


def _end(row: Row, end_ns: int) -> int:
    return end_ns if row["until_ns"] is None else int(row["until_ns"])


def metrics(own: Tables, end_ns: int, span: tuple[float, float]) -> Row:
    """The metrics of some groups in a span of time."""

    def at(path: str, name: str) -> list[Row]:
        """Rows whose moment is in the span."""
        return [r for r in own[path] if r[name] is not None and _is_in(r[name], span)]

    def lasted(rows: Iterable[Row]) -> Iterator[tuple[Row, int]]:
        """Rows, and the time of each within the span."""
        for row in rows:
            part = min(_end(row, end_ns), span[1]) - max(row["from_ns"], span[0])
            if part > 0:
                yield row, int(part)

    started = at("silver/rebalances", "started_ns")
    done = [row for row in started if row["outcome"] == "completed"]
    down, by_cause = 0, Counter[str]()
    for row, ns in lasted(_down(own)):
        down += ns * row["partitions"]
        by_cause[row["cause"]] += ns * row["partitions"]
    worked = _worked(own, end_ns, span)
    full = [r for r in at("silver/refusals", "time_ns") if r["cause"] in FULL]
    bytes_ = {n: _sum(done, n) for n in ("metadata_bytes", "assignment_bytes")}
    storms_ = [s for s in _storms_of(own) if _is_in(s["from_ns"], span)]
    ended = at("silver/memberships", "until_ns")
    lags = at("silver/lags", "started_ns")
    return {
        "rebalances": len(started),
        "completed": len(done),
        "interrupted": sum(row["outcome"] == "interrupted" for row in started),
        "by_cause": _map(Counter(row["cause"] for row in started)),
        **_durations(done),
        "duration_max_s": _s(max((r["duration_ns"] for r in done), default=None)),
        "downtime_s": down / 1e9,
        "downtime_by_cause": {c: ns / 1e9 for c, ns in by_cause.items()} or None,
        "unprocessed_s": _sum(started, "unprocessed_ns") / 1e9,
        "partition_s": worked / 1e9,
        "downtime_share": down / worked if worked else None,
        "paused_s": sum(ns for _, ns in lasted(own["silver/pauses"])) / 1e9,
        "member_s": sum(ns for _, ns in lasted(own["silver/memberships"])) / 1e9,
        "members_most": max((len(r["members"] or ()) for r in done), default=0),
        "storms": len(storms_),
        "storm_rebalances": sum(row["rebalances"] for row in storms_),
        "refused_full": len(full),
        "refused_full_names": len({row["name"] for row in full} - {None}),
        "partitions_moved": _sum(at("silver/moves", "started_ns"), "moved"),
        "partitions_moved_least": _sum(at("silver/moves", "started_ns"), "least_moved"),
        "expired": sum(row["how"] == "expired" for row in ended),
        **_expired_unread(own, span),
        **bytes_,
        "bytes_per_rebalance": sum(bytes_.values()) / len(done) if done else None,
        **_commits(at("events", "time_ns")),
        **_delivery(at("events", "time_ns")),
        "lag_built": _sum(lags, "lag_built"),
        "lag_built_max": _most(lags, "lag_built"),
        "catch_up_p50_s": _s(percentile(_known(lags, "catch_up_ns"), 50)),
        "catch_up_max_s": _s(_most(lags, "catch_up_ns")),
    }


def _is_in(ns: int, span: tuple[float, float]) -> bool:
    return span[0] <= ns < span[1]


def _known(rows: Iterable[Row], name: str) -> list[int]:
    return [row[name] for row in rows if row.get(name) is not None]


def _sum(rows: Iterable[Row], name: str) -> int:
    return sum(_known(rows, name))


def _most(rows: Iterable[Row], name: str) -> int | None:
    return max(_known(rows, name), default=None)


def _s(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e9


def _map(counts: Counter[Any]) -> dict[str, int] | None:
    return {key: n for key, n in counts.items() if key is not None} or None


def percentile(values: Iterable[float], n: int) -> float | None:
    """Interpolated linearly between the two neighbours."""
    ordered = sorted(values)
    if not ordered:
        return None
    low, part = divmod((len(ordered) - 1) * n, 100)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * part / 100


def _durations(done: Sequence[Row]) -> Row:
    values = _known(done, "duration_ns")
    return {f"duration_p{n}_s": _s(percentile(values, n)) for n in (50, 95, 99)}


def _down(own: Tables) -> list[Row]:
    return [row for row in own["silver/unread"] if row["cause"] not in NOT_DOWN]


def _worked(own: Tables, end_ns: int, span: tuple[float, float]) -> int:
    """The time in which partitions had an owner or downtime, each moment once."""
    spans: dict[Key, list[tuple[float, float]]] = defaultdict(list)
    for row in own["silver/ownership"]:
        part = row["group"], row["topic"], row["partition"]
        spans[part].append((row["from_ns"], _end(row, end_ns)))
    for row in _down(own):
        for number in row["partition_numbers"]:
            part = row["group"], row["topic"], number
            spans[part].append((row["from_ns"], row["until_ns"]))
    total = 0.0
    for own_spans in spans.values():
        covered = span[0]
        for since, until in sorted(own_spans):
            last = min(until, span[1])
            total += max(last - max(since, covered), 0)
            covered = max(covered, last)
    return int(total)


def _expired_unread(own: Tables, span: tuple[float, float]) -> Row:
    """By member: several accounts may have a part of its time."""
    found: dict[Key, list[Row]] = defaultdict(list)
    for row in own["silver/unread"]:
        if row["cause"] == "expired":
            found[row["group"], row["member_id"]].append(row)
    sums, longest = 0, list[int]()
    for rows in found.values():
        since = min(row["from_ns"] for row in rows)
        if _is_in(since, span):
            sums += _sum(rows, "unread_ns")
            longest.append(max(row["until_ns"] for row in rows) - since)
    most = max(longest, default=None)
    return {"expired_unread_s": sums / 1e9, "expired_unread_max_s": _s(most)}


def _commits(events: Sequence[Row]) -> Row:
    taken = [e for e in events if e["kind"] == "offsets_committed"]
    errors = [e["error"] for e in events if e["kind"] == "commit_refused"]
    return {
        "commits": len(taken),
        "offsets": sum(len(event["offsets"]) for event in taken),
        "commit_failures": len(errors),
        "commit_failures_by_error": _map(Counter(errors)),
    }


def _delivery(events: Sequence[Row]) -> Row:
    accounts = [e for e in events if e["kind"] == "delivery_account"]
    names = ("received", "again_certain", "again_possible", "skipped")
    order = ("time_ns", "node", "sequence")
    last = {
        event["group"]: event["uncommitted"]
        for event in sorted(accounts, key=lambda e: [e[n] for n in order])
    }
    return {
        **{name: _sum(accounts, name) for name in names},
        "went_back": sum(len(event.get("rewinds") or ()) for event in events),
        "uncommitted": sum(last.values()) if last else None,
    }


# -- storms, causes, people


def _storms_of(own: Tables) -> Iterator[Row]:
    for rows in _by(own, ("group",)).values():
        yield from storms(rows["silver/rebalances"])


def storms(rebalances: Sequence[Row]) -> Iterator[Row]:
    """The storms among the rebalances of a group."""
    rows = sorted(rebalances, key=lambda row: row["number"])
    found: list[tuple[int, int]] = []
    for first in range(len(rows) - STORM + 1):
        last = first + STORM - 1
        if rows[last]["started_ns"] - rows[first]["started_ns"] <= STORM_NS:
            is_same = bool(found) and found[-1][1] >= first
            found.append((found.pop()[0] if is_same else first, last))
    for first, last in found:
        own = rows[first : last + 1]
        names = [r["culprit_name"] for r in own if r["culprit_name"] is not None]
        yield {
            "from_ns": own[0]["started_ns"],
            "until_ns": own[-1]["started_ns"],
            "first_number": own[0]["number"],
            "last_number": own[-1]["number"],
            "rebalances": len(own),
            "by_cause": _map(Counter(row["cause"] for row in own)),
            "names": [*dict.fromkeys(names)],
        }


def _key(row: Row, *names: str) -> Row:
    return {name: row[name] for name in ("run", "group", *names)}


def _cause_of(row: Row) -> Row:
    return {**_key(row, "cause"), "hour": moment(row["started_ns"] // HOUR_NS)}


def causes(rows: Sequence[Row]) -> Row:
    """Rebalances with one cause in an hour."""
    done = [row for row in rows if row["outcome"] == "completed"]
    return {
        "rebalances": len(rows),
        "completed": len(done),
        **_durations(done),
        "downtime_s": _sum(rows, "unread_ns") / 1e9,
        "paused_s": _sum(rows, "paused_ns") / 1e9,
    }


def _culprit_of(row: Row) -> Row:
    return {**_key(row, "cause"), "name": row["culprit_name"]}


def culprits(rows: Sequence[Row]) -> Row:
    """Rebalances that one member caused."""
    return {
        "rebalances": len(rows),
        "duration_s": _sum(rows, "duration_ns") / 1e9,
        "downtime_s": _sum(rows, "unread_ns") / 1e9,
        "paused_s": _sum(rows, "paused_ns") / 1e9,
    }


def waited_for(silver: Tables) -> list[Row]:
    """Members that groups waited for, by the names of their memberships."""
    names = {
        (row["run"], row["group"], row["member_id"]): row["name"]
        for row in silver["silver/memberships"]
    }

    def who(row: Row) -> Row:
        own = row["run"], row["group"], row["waited_for"]
        return {**_key(row), "name": names.get(own, row["waited_for"])}

    def waits(rows: Sequence[Row]) -> Row:
        most = _s(_most(rows, "waited_ns"))
        total = _sum(rows, "waited_ns") / 1e9
        return {"rebalances": len(rows), "waited_s": total, "waited_max_s": most}

    waited = [r for r in silver["silver/rebalances"] if r["waited_for"] is not None]
    return _each(waited, who, waits)


def _code_of(row: Row) -> Row:
    return _key(row, "code")


def findings(rows: Sequence[Row]) -> Row:
    """Findings of one code; their words are those of the costliest."""

    def cost(row: Row) -> Key:
        saving = -1 if row["saving_ns"] is None else row["saving_ns"]
        return saving, row["unread_ns"], row["evidence_count"], row["finding"]

    saved = _known(rows, "saving_ns")
    words = ("title", "advice", "setting", "current", "suggested")
    return {
        "findings": len(rows),
        "sure": sum(row["is_sure"] for row in rows),
        "cases": _sum(rows, "evidence_count"),
        "from_ns": min(row["from_ns"] for row in rows),
        "until_ns": max(row["until_ns"] for row in rows),
        "downtime_s": _sum(rows, "unread_ns") / 1e9,
        "paused_s": _sum(rows, "paused_ns") / 1e9,
        "records": sum(_known(rows, "records")) if _known(rows, "records") else None,
        "downtime_saved_s": sum(saved) / 1e9 if saved else None,
        **{name: max(rows, key=cost)[name] for name in words},
    }


# -- pairs of runs


def initial_delay(silver: Tables, groups: Sequence[Row]) -> Iterator[Row]:
    """Pairs of runs whose labels differ in the delay alone."""
    rows: dict[str, dict[str, Row]] = defaultdict(dict)
    for group in groups:
        own = [r for r in silver["silver/memberships"] if _key(r) == _key(group)]
        done = [
            row["ended_ns"]
            for row in silver["silver/rebalances"]
            if _key(row) == _key(group) and row["outcome"] == "completed"
        ]
        first = None
        if own and done:
            first = (min(done) - min(row["from_ns"] for row in own)) / 1e9
        rows[group["run"]][group["group"]] = {**group, "first_s": first}
    for one in silver["silver/runs"]:
        for other in silver["silver/runs"]:
            delays = [_delay(each) for each in (one, other)]
            if (
                delays[1] == 0
                and (delays[0] or 0) > 0
                and _others(one) == _others(other)
            ):
                for name in rows[one["run"]].keys() & rows[other["run"]].keys():
                    a, b = rows[one["run"]][name], rows[other["run"]][name]
                    yield {"delay_ms": delays[0], **_saved(one, a, b)}


def _delay(run: Row) -> int | None:
    text = run["labels"].get(DELAY, "")
    has_pair = run["scenario"] is not None and run["seed"] is not None
    return int(text) if has_pair and text.isdigit() else None


def _others(run: Row) -> Row:
    return {name: value for name, value in run["labels"].items() if name != DELAY}


def _saved(run: Row, a: Row, b: Row) -> Row:
    ends = a["first_s"], b["first_s"]
    return {
        **{name: run[name] for name in ("scenario", "seed")},
        "group": a["group"],
        "run_with": a["run"],
        "run_without": b["run"],
        "rebalances_with": a["rebalances"],
        "rebalances_without": b["rebalances"],
        "rebalances_saved": b["rebalances"] - a["rebalances"],
        "downtime_with_s": a["downtime_s"],
        "downtime_without_s": b["downtime_s"],
        "downtime_saved_s": b["downtime_s"] - a["downtime_s"],
        "first_assignment_with_s": ends[0],
        "first_assignment_without_s": ends[1],
        "later_s": None if None in ends else ends[0] - ends[1],
    }


# -- transactions


def transactions(rows: Iterable[Row]) -> list[Row]:
    """Transactions by hour, and of whole runs."""
    found: dict[tuple[str, datetime | None], list[Row]] = defaultdict(list)
    for row in rows:
        for hour in (moment(row["from_ns"] // HOUR_NS), None):
            found[row["run"], hour].append(row)
    return [
        {"run": run, "hour": hour, **_totals(own)} for (run, hour), own in found.items()
    ]


def _totals(rows: Sequence[Row]) -> Row:
    results = Counter(row["result"] for row in rows)
    open_ns = _known(rows, "open_ns")
    return {
        "transactions": len(rows),
        "transactional_ids": len({row["transactional_id"] for row in rows}),
        "committed": results["committed"],
        "aborted": results["aborted"],
        "undecided": results[None],
        "aborts_by_cause": _map(
            Counter(row["cause"] for row in rows if row["result"] == "aborted")
        ),
        **{f"open_p{n}_s": _s(percentile(open_ns, n)) for n in (50, 95, 99)},
        "open_max_s": _s(max(open_ns, default=None)),
        "held_back": _sum(rows, "held_back"),
        "held_back_max": _most(rows, "held_back"),
    }
