"""Compares runs by the values of a label: means, differences and their intervals.

Pure: rows of the query ``run_metrics`` go in, a `Comparison` comes out. The same rows
give the same intervals, because the bootstrap draws from a fixed seed.

1. `compare` sorts the runs by their value of the label; the first value, or the one
   that the user names, is the baseline.
2. `_pairing` finds runs that belong together: those whose other labels are equal, or
   else those with the same scenario and seed.
3. Each metric and value makes a `Line`: the mean of its runs, and its difference to
   the baseline, in pairs where there are any.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kohort.pipeline.errors import PipelineError
from kohort.pipeline.report.formats import DASH, between, many, real, share, visible
from kohort.pipeline.report.queries import Row

FEWEST: Final = 5
"""Runs, or pairs, for an interval: a bootstrap of fewer is much too narrow."""
VALUES: Final = 20
"""Values of a label in one comparison: more cannot be told apart in a plot."""
RUNS: Final = 10_000
"""Runs that the query returns at most."""
CONFIDENCE: Final = 0.95
_RESAMPLES: Final = 1_999
_AT_ONCE: Final = 256
"""Resamples in memory: 10,000 runs are then 20 MB."""
_SEED: Final = 389
_NAMED: Final = 12
"""Labels and values in an error message."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A number of a run; less is better.

    Attributes:
        column: of the query ``run_metrics``.
        title: in tables and charts.
        unit: of its values.
        words: before the title in a sentence, if there is less, and more.
        is_share: it is shown in percent.
    """

    column: str
    title: str
    unit: str
    words: tuple[str, str] = ("fewer", "more")
    is_share: bool = False

    @property
    def is_count(self) -> bool:
        """True if the title names the things that are counted."""
        return self.unit in self.title

    @property
    def heading(self) -> str:
        """The title, with the unit."""
        is_plain = self.is_count or self.is_share
        return self.title if is_plain else f"{self.title}, {self.unit}"

    def word(self, direction: str) -> str:
        """`Estimate.direction` before the title: fewer rebalances, longer pauses."""
        return self.words[direction == "more"]

    def text(self, value: float | None) -> str:
        """A value, with three significant digits."""
        return share(value) if self.is_share else real(value)

    def interval(self, estimate: Estimate | None) -> str:
        """The interval of an estimate."""
        if estimate is None:
            return DASH
        return between(estimate.low, estimate.high, self.text)

    def change(self, difference: float, direction: str) -> tuple[str, str]:
        """A number and its unit: ``3.2``, ``fewer``; ``1.1``, ``seconds less``."""
        size = abs(difference)
        if self.is_count:
            return real(size), self.word(direction)
        if self.is_share:
            return real(100 * size), f"percentage points {direction}"
        return real(size), f"{self.unit} {direction}"


METRICS: Final = (
    Metric("downtime_s", "downtime", "partition-seconds", ("less", "more")),
    Metric(
        "downtime_share",
        "share of downtime",
        "of all partition-seconds",
        ("a smaller", "a larger"),
        is_share=True,
    ),
    Metric("rebalances", "rebalances", "rebalances"),
    Metric("time_to_stable_s", "time to stable", "seconds", ("a shorter", "a longer")),
    Metric("paused_s", "pauses", "member-seconds", ("shorter", "longer")),
    Metric("again_certain", "records handled and sent again", "records"),
    Metric("again_possible", "records perhaps handled and sent again", "records"),
    Metric("skipped", "skipped records", "records"),
    Metric("uncommitted", "records not committed", "records"),
    Metric("went_back", "commits that went back", "commits"),
    Metric("expired", "expired sessions", "sessions"),
    Metric("commit_failures", "refused commits", "commits"),
    Metric("findings", "findings", "findings"),
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its 95 % interval; without bounds: too few runs for one."""

    mean: float
    low: float | None
    high: float | None

    @property
    def direction(self) -> str:
        """How the metric differs: less, more, equal, unclear; too few: no interval."""
        if self.low is None or self.high is None:
            return "too few"
        if self.low == self.high == 0:
            return "equal"
        return "less" if self.high < 0 else "more" if self.low > 0 else "unclear"


@dataclass(frozen=True, slots=True)
class Line:
    """A metric in the runs with a value of the label.

    Attributes:
        metric: the metric.
        value: the label's value.
        runs: runs in which the metric is known.
        mean: of these runs; None: there are none.
        pairs: pairs with a run of the baseline; 0: not paired.
        difference: to the baseline; None: it is the baseline, or unknown.
        points: the metric of each run.
    """

    metric: Metric
    value: str
    runs: int
    mean: Estimate | None
    pairs: int
    difference: Estimate | None
    points: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The runs of two or more values of a label.

    Attributes:
        by: the label.
        values: its values; the baseline is the first.
        paired_by: the labels that are equal in a pair; empty: no pairs.
        differing: other labels whose values differ between the compared values.
        without: runs that do not have the label.
        is_cut: there may be more runs than the query returned.
        lines: by metric, then by value.
    """

    by: str
    values: tuple[str, ...]
    paired_by: tuple[str, ...]
    differing: tuple[str, ...]
    without: int
    is_cut: bool
    lines: tuple[Line, ...]

    @property
    def baseline(self) -> str:
        """The value that the others are compared with."""
        return self.values[0]

    def of(self, metric: Metric) -> list[Line]:
        """The lines of a metric; the baseline's is the first."""
        return [line for line in self.lines if line.metric == metric]

    def clear(self) -> list[Line]:
        """The lines whose metric differs clearly from that of the baseline."""
        return [
            line
            for line in self.lines
            if line.difference and line.difference.direction in {"less", "more"}
        ]

    def sentence(self, line: Line) -> str:
        """A clear difference: ``seed=2 has less downtime than 1: 3 s less ...``."""
        metric, found = line.metric, line.difference
        assert found is not None
        size, unit = metric.change(found.mean, found.direction)
        pairs = f", {many(line.pairs, 'pair')}" if line.pairs else ""
        return (
            f"{visible(f'{self.by}={line.value}')} has {metric.word(found.direction)}"
            f" {metric.title} than {visible(self.baseline)}: {size} {unit} per run on"
            " average (95 % interval of the difference:"
            f" {metric.interval(found)}{pairs})."
        )

    def headings(self) -> tuple[str, ...]:
        """The headings of `cells`."""
        return (
            *("metric", self.by, "runs", "mean", "95 % interval", "pairs"),
            *("difference", "95 % interval ", "the metric is"),
        )

    def cells(self) -> Iterator[tuple[str, ...]]:
        """The table for people: a row for each line."""
        for line in self.lines:
            metric, mean, difference = line.metric, line.mean, line.difference
            yield (
                metric.heading if line.value == self.baseline else "",
                line.value,
                str(line.runs),
                metric.text(None if mean is None else mean.mean),
                metric.interval(mean),
                str(line.pairs or DASH),
                metric.text(None if difference is None else difference.mean),
                metric.interval(difference),
                difference.direction if difference else DASH,
            )

    def notes(self) -> list[str]:
        """How to read the intervals, and the limits of the comparison."""
        said = [
            f"Differences are to {self.by}={self.baseline}.",
            f"Intervals: {CONFIDENCE * 100:.0f} %, bootstrap (BCa).",
            f"Fewer than {FEWEST} runs or pairs are too few for an interval.",
        ]
        if self.paired_by:
            said.append(
                f"Pairs are runs with equal labels: {', '.join(self.paired_by)}."
                " A pair's own load cancels out, so its interval is narrower."
            )
        else:
            said.append(
                "Runs are not paired, because no two of them have the same seed."
            )
        if self.differing:
            said.append(
                "Caution: these labels differ, too, and may explain a difference:"
                f" {', '.join(self.differing)}."
            )
        if self.without:
            said.append(f"Runs without the label {self.by}, left out: {self.without}.")
        if self.is_cut:
            said.append(f"Only the first {RUNS:,} runs were compared.")
        return said


def compare(rows: Iterable[Row], by: str, baseline: str | None = None) -> Comparison:
    """Compares runs.

    Args:
        rows: of the query ``run_metrics``.
        by: the label.
        baseline: the value to compare the others with; None: the first one, by number
            where all values are numbers.

    Raises:
        PipelineError: the label has fewer than two values, or too many; the message
            lists the labels, or the values, that exist.
    """
    runs = list(rows)
    by_value: dict[str, list[Row]] = defaultdict(list)
    for row in runs:
        value = _labels(row).get(by)
        if value is not None:
            by_value[value].append(row)
    values = _values(runs, by, by_value, baseline)
    paired_by, mates = _pairing(by_value, by)
    lines = [
        _line(metric, value, by_value, values[0], mates)
        for metric in METRICS
        for value in values
    ]
    return Comparison(
        by,
        values,
        paired_by,
        tuple(_differing(by_value, by)),
        len(runs) - sum(map(len, by_value.values())),
        len(runs) >= RUNS,
        tuple(lines),
    )


def _labels(row: Row) -> Mapping[str, str]:
    return row["labels"] or {}


def _names(rows: Iterable[Row]) -> set[str]:
    """The labels of runs."""
    return {name for row in rows for name in _labels(row)}


def _values(
    runs: Sequence[Row],
    by: str,
    by_value: Mapping[str, Sequence[Row]],
    baseline: str | None,
) -> tuple[str, ...]:
    """The values of the label in order; the baseline is the first."""
    if not by_value:
        labels = sorted(_names(runs))
        there = f"the labels are: {_some(labels)}" if labels else "no run has labels"
        raise PipelineError(f"no run has the label {by}; {there}", 2)
    values = sorted(by_value, key=_in_order)
    if len(values) == 1:
        raise PipelineError(
            f"all {len(by_value[values[0]])} runs with the label {by} have the value"
            f" {values[0]}; a comparison needs two values",
            2,
        )
    if len(values) > VALUES:
        raise PipelineError(
            f"the label {by} has {len(values)} values; a comparison takes at most"
            f" {VALUES}",
            2,
        )
    if baseline is not None:
        if baseline not in by_value:
            raise PipelineError(
                f"no run has {by}={baseline}; the values are: {_some(values)}", 2
            )
        values.remove(baseline)
        values.insert(0, baseline)
    return tuple(values)


def _in_order(value: str) -> tuple[int, float, str]:
    """Numbers by size, then texts."""
    try:
        return 0, float(value), value
    except ValueError:
        return 1, 0.0, value


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


# -- pairs

_Mate = Callable[[Row], Hashable]
"""The key that the runs of a pair have in common; None: the run has no pair."""


def _pairing(
    by_value: Mapping[str, Sequence[Row]], by: str
) -> tuple[tuple[str, ...], _Mate | None]:
    """The labels that pairs have in common, and the key of a run."""
    names = {
        name for rows in by_value.values() for row in rows for name in _labels(row)
    }
    same = tuple(sorted(names - {by}))
    for labels in dict.fromkeys((same, tuple(sorted({"scenario", "seed"} & {*same})))):
        if "seed" not in labels:
            break

        def mate(row: Row, labels: Sequence[str] = labels) -> Hashable:
            own = _labels(row)
            return tuple(own.get(name) for name in labels) if "seed" in own else None

        keys = [{mate(row) for row in rows} - {None} for rows in by_value.values()]
        if any(one & other for one in keys for other in keys if one is not other):
            return labels, mate
    return (), None


def _differing(by_value: Mapping[str, Sequence[Row]], by: str) -> Iterable[str]:
    """Labels that may explain a difference, too."""
    names = {
        name for rows in by_value.values() for row in rows for name in _labels(row)
    }
    for name in sorted(names - {by, "seed"}):
        seen = [{_labels(row).get(name) for row in rows} for rows in by_value.values()]
        if any(each != seen[0] for each in seen):
            yield name


# -- numbers


def _line(
    metric: Metric,
    value: str,
    by_value: Mapping[str, Sequence[Row]],
    baseline: str,
    mate: _Mate | None,
) -> Line:
    own = _known(metric, by_value[value])
    points = tuple(number for _, number in own)
    others = [] if value == baseline else _known(metric, by_value[baseline])
    changes = _changes(own, others, mate) if mate is not None else []
    difference = None
    if changes:
        difference = estimate(changes)
    elif points and others:
        difference = estimate(points, [number for _, number in others])
    mean = estimate(points) if points else None
    return Line(metric, value, len(points), mean, len(changes), difference, points)


def _known(metric: Metric, rows: Sequence[Row]) -> list[tuple[Row, float]]:
    return [
        (row, float(row[metric.column]))
        for row in rows
        if row[metric.column] is not None
    ]


def _changes(
    own: Sequence[tuple[Row, float]],
    others: Sequence[tuple[Row, float]],
    mate: _Mate,
) -> list[float]:
    """Differences in pairs; runs with one key count as one, by their mean."""
    sides: list[dict[Hashable, list[float]]] = []
    for side in (own, others):
        sides.append(defaultdict(list))
        for row, number in side:
            sides[-1][mate(row)].append(number)
        sides[-1].pop(None, None)
    mine, theirs = sides
    return [
        float(np.mean(mine[key]) - np.mean(theirs[key]))
        for key in mine
        if key in theirs
    ]


def estimate(sample: Sequence[float], less: Sequence[float] | None = None) -> Estimate:
    """The mean of a sample, or its difference to that of another, with an interval.

    The interval is bias-corrected and accelerated (BCa); that of equal numbers is the
    number.
    """
    samples = [np.asarray(each) for each in (sample, less) if each is not None]
    mean = float(np.mean(samples[0]))
    if less is not None:
        mean -= float(np.mean(samples[1]))
    if min(map(len, samples)) < FEWEST:
        return Estimate(mean, None, None)
    if all(np.ptp(each) == 0 for each in samples):
        return Estimate(mean, mean, mean)
    from scipy.stats import bootstrap  # takes a second to load

    found = bootstrap(
        samples,
        np.mean if less is None else _difference,
        n_resamples=_RESAMPLES,
        batch=_AT_ONCE,
        confidence_level=CONFIDENCE,
        vectorized=True,
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    return Estimate(mean, float(found.low), float(found.high))


def _difference(sample: Any, less: Any, axis: int = -1) -> Any:
    return np.mean(sample, axis=axis) - np.mean(less, axis=axis)
