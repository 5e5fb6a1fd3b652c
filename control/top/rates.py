"""Rates per second: from two snapshots of a broker's metrics, or from one."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

Snapshot = Mapping[str, Any]
"""Response to ``GET /metrics.json``; see docs/reference/metrics.md."""
Tally = Mapping[str, int]
"""Counts by name, in the order in which they are displayed."""

_REFUSALS = ("refusals", "commit_refusals")


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group.

    Attributes:
        name: its id; that of all the others together is ``__other__``.
        state: as Kafka shows it; None: it is gone, or it is several.
        generation: None as for `state`.
        members: how many.
        lag: records behind the committed offsets, of all topics.
        rebalances: how many there were.
        new_rebalances: those since the snapshot before; 0 where there is none.
        causes: how many there were by cause, that of the last one first.
        last_ns: how long ago the last one began.
        rebalance_s: their average duration, in seconds.
        paused_s: the pauses of members in them, together.
        commits_per_s: how many commits were taken.
        refusals: joins and commits that were refused, by error, the most first.
    """

    name: str
    state: str | None
    generation: int | None
    members: int
    lag: int
    rebalances: int
    new_rebalances: int
    causes: Tally
    last_ns: int | None
    rebalance_s: float | None
    paused_s: float
    commits_per_s: float
    refusals: Tally


@dataclass(frozen=True, slots=True)
class ApiRow:
    """One API, since the snapshot before.

    Attributes:
        name: Kafka's.
        per_s: requests.
        errors_per_s: answers with an error in them.
        median_s: half of the requests took no longer, in seconds; inf: longer than
            the largest bucket; None: there was none.
        worst_s: all but one of 100 took no longer.
        errors: how many there were so far, by name, the most first.
    """

    name: str
    per_s: float
    errors_per_s: float
    median_s: float | None
    worst_s: float | None
    errors: Tally


@dataclass(frozen=True, slots=True)
class Frame:
    """Contents of the screen.

    Attributes:
        now: the snapshot that it is made from.
        groups: those that have something to do first.
        apis: the most called first.
        causes: rebalances of all groups, by cause, the most first.
        refusals: likewise, by error.
        cpu: how much of one core the process takes, 1 is all of it; None where there
            is no snapshot before.
    """

    now: Snapshot
    groups: Sequence[GroupRow]
    apis: Sequence[ApiRow]
    causes: Tally
    refusals: Tally
    cpu: float | None


def frame(before: Snapshot | None, now: Snapshot) -> Frame:
    """Rates between two snapshots.

    Args:
        before: an earlier one; None, or one of another run: rates are averages since
            the broker's HTTP port was opened.
        now: the later one.
    """
    is_first = before is None or before["run"] != now["run"]
    since_ns = now["since_ns"] if before is None or is_first else before["time_ns"]
    seconds = max((now["time_ns"] - since_ns) / 1e9, 1e-3)
    groups: dict[str, Snapshot] = {}
    apis: dict[str, Snapshot] = {}
    cpu = None
    if before is not None and not is_first:
        groups = {row["group"]: row for row in before["groups"]}
        apis = {row["api"]: row for row in before["apis"]}
        cpu = (now["cpu_seconds"] - before["cpu_seconds"]) / seconds
    rows = [
        _group(groups.get(row["group"]), row, seconds, now["time_ns"])
        for row in now["groups"]
    ]
    if is_first:
        rows = [replace(row, new_rebalances=0) for row in rows]
    return Frame(
        now,
        sorted(rows, key=_interest),
        sorted(
            (_api(apis.get(row["api"]), row, seconds) for row in now["apis"]),
            key=lambda row: (-row.per_s, row.name),
        ),
        _added(row["rebalances"] for row in now["groups"]),
        _added(row[key] for row in now["groups"] for key in _REFUSALS),
        cpu,
    )


_BUSY: Final = {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}
"""States of groups that rebalance."""


def _interest(row: GroupRow) -> tuple[object, ...]:
    return (
        row.state not in _BUSY,
        -row.new_rebalances,
        row.state is None,
        -row.lag,
        not row.members,
        row.name,
    )


def _group(
    before: Snapshot | None, now: Snapshot, seconds: float, time_ns: int
) -> GroupRow:
    rebalances = sum(now["rebalances"].values())
    # An earlier count that is larger is another group's of that name.
    old = 0 if before is None else sum(before["rebalances"].values())
    commits = now["commits"] - (0 if before is None else before["commits"])
    found, paused = now["rebalance_seconds"], now["pause_seconds"]
    last, last_ns = now["last_cause"], now["last_time_ns"]
    return GroupRow(
        now["group"],
        now["state"],
        now["generation"],
        now["members"],
        sum(now["lag"].values()),
        rebalances,
        max(0, rebalances - old),
        _added([now["rebalances"]], last),
        None if last_ns is None else max(0, time_ns - last_ns),
        None if found is None else found["sum"] / sum(found["buckets"]),
        0.0 if paused is None else paused["sum"],
        max(0, commits) / seconds,
        _added(now[key] for key in _REFUSALS),
    )


def _added(tallies: Iterable[Tally], first: str | None = None) -> Tally:
    """The sums of all tallies: `first` at the front, then the largest."""
    total: Counter[str] = Counter()
    for each in tallies:
        total.update(each)
    return dict(sorted(total.items(), key=lambda row: (row[0] != first, -row[1])))


def _api(before: Snapshot | None, now: Snapshot, seconds: float) -> ApiRow:
    buckets = _buckets(now)
    errors = sum(now["errors"].values())
    if before is not None:
        old = _buckets(before) or [0] * len(buckets)
        buckets = [max(0, b - a) for a, b in zip(old, buckets, strict=True)]
        errors = max(0, errors - sum(before["errors"].values()))
    bounds = (now["latency_seconds"] or {"bounds": ()})["bounds"]
    return ApiRow(
        now["api"],
        sum(buckets) / seconds,
        errors / seconds,
        quantile(bounds, buckets, 0.5),
        quantile(bounds, buckets, 0.99),
        _added([now["errors"]]),
    )


def _buckets(row: Snapshot) -> list[int]:
    found = row["latency_seconds"]
    return [] if found is None else [*found["buckets"]]


def quantile(
    bounds: Sequence[float], buckets: Sequence[int], share: float
) -> float | None:
    """The bound below which this share of the observations is.

    Args:
        bounds: the largest value of each bucket but the last.
        buckets: how many are in each, one more than there are bounds.
        share: 0.5 for the median.

    Returns:
        Infinity, if it is in the last one; None, if nothing was observed.
    """
    count = sum(buckets)
    if not count:
        return None
    sums = itertools.accumulate(buckets)
    index = next(i for i, n in enumerate(sums) if n >= share * count)
    return bounds[index] if index < len(bounds) else float("inf")
