"""Comparisons of runs by a label: pairs, intervals, errors, and the page."""

from __future__ import annotations

import csv
import io
import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline import report_builds
from tests.pipeline.sql_tables import Made
from tests.pipeline.test_report import Reader, spoken

from kohort.pipeline import report
from kohort.pipeline.commands.compare import as_csv, as_rows, as_table
from kohort.pipeline.commands.output import show
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.report.comparison import (
    METRICS,
    Comparison,
    Line,
    compare,
    estimate,
)
from kohort.pipeline.report.page import comparison_page, page
from kohort.pipeline.report.queries import Answer, Answers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

DOWNTIME = METRICS[0]
NUMBERS = tuple(metric.column for metric in METRICS)


def row(run: str, labels: Mapping[str, str] | None, **numbers: float | None) -> Any:
    """A row of ``run_metrics``; other numbers are 0."""
    return {"run": run, "labels": labels, **dict.fromkeys(NUMBERS, 0), **numbers}


def paired(seeds: int = 8) -> list[Any]:
    """Each seed with both protocols: cooperative saves 9 to 11 partition-seconds."""
    rows = []
    for seed in range(seeds):
        draw = random.Random(seed)
        load = draw.uniform(100, 1000)
        for protocol, saved in (("eager", 0.0), ("cooperative", draw.uniform(9, 11))):
            labels = {"protocol": protocol, "seed": str(seed), "scenario": "roll"}
            downtime = {DOWNTIME.column: load - saved}
            rows.append(row(f"{protocol}-{seed}", labels, rebalances=5, **downtime))
    return rows


def of(compared: Comparison, value: str, column: str = DOWNTIME.column) -> Line:
    """The line of a value."""
    (line,) = (
        line
        for line in compared.lines
        if line.value == value and line.metric.column == column
    )
    return line


# -- numbers


def test_pairs_cancel_the_load_that_their_runs_have_in_common() -> None:
    """A small saving is clear in pairs, and unclear without the seeds."""
    line = of(compare(paired(), "protocol", "eager"), "cooperative")
    assert (line.runs, line.pairs) == (8, 8)
    assert line.difference is not None
    assert line.difference.direction == "less"
    assert -11 < line.difference.low < line.difference.mean < -9  # type: ignore[operator]
    unpaired = [
        {**each, "labels": {"protocol": each["labels"]["protocol"]}}
        for each in paired()
    ]
    line = of(compare(unpaired, "protocol", "eager"), "cooperative")
    assert line.pairs == 0
    assert line.difference is not None
    assert line.difference.direction == "unclear"


def test_an_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    """Of 200 samples of 20, the 95 % interval has the mean in 180 or more."""
    draw = random.Random(1)
    hits = 0
    for _ in range(200):
        mean = estimate([draw.gauss(7, 2) for _ in range(20)])
        assert mean.low is not None
        assert mean.high is not None
        hits += mean.low <= 7 <= mean.high
    assert 180 <= hits <= 200


def test_the_same_runs_give_the_same_intervals() -> None:
    """The bootstrap draws from a fixed seed."""
    assert compare(paired(), "protocol") == compare(paired(), "protocol")


def test_few_runs_have_no_interval_and_equal_ones_have_no_width() -> None:
    """Four pairs are too few; eight equal differences are exactly that."""
    line = of(compare(paired(4), "protocol"), "eager")
    assert line.difference is not None
    assert (line.difference.low, line.difference.direction) == (None, "too few")
    line = of(compare(paired(), "protocol"), "eager", "rebalances")
    assert line.difference is not None
    assert (line.difference.low, line.difference.high) == (0, 0)
    assert line.difference.direction == "equal"


def test_an_unknown_number_of_a_run_leaves_out_its_pair() -> None:
    """A run that never was stable has no time to stable, and no pair there."""
    rows = [{**each, "time_to_stable_s": 3.5} for each in paired(6)]
    rows[0]["time_to_stable_s"] = None
    line = of(compare(rows, "protocol"), "eager", "time_to_stable_s")
    assert (line.runs, line.pairs) == (5, 5)
    rows = [{**each, "time_to_stable_s": None} for each in paired(6)]
    line = of(compare(rows, "protocol"), "eager", "time_to_stable_s")
    assert (line.runs, line.mean, line.difference) == (0, None, None)


def test_runs_pair_by_all_labels_or_else_by_seed_and_say_what_differs() -> None:
    """If another label changes with the value, the notes name it."""
    rows = paired()
    assert compare(rows, "protocol").paired_by == ("scenario", "seed")
    for each in rows:
        each["labels"]["client"] = f"lib for {each['labels']['protocol']}"
    compared = compare(rows, "protocol")
    assert of(compared, "eager").pairs == 8
    assert compared.paired_by == ("scenario", "seed")
    assert compared.differing == ("client",)
    assert any("client" in note for note in compared.notes())


def test_runs_that_repeat_a_seed_count_as_one_pair() -> None:
    """Repetitions of a seed are no new evidence: their mean is the pair's side."""
    rows = [*paired(), *({**each, "run": f"2-{each['run']}"} for each in paired())]
    line = of(compare(rows, "protocol"), "eager")
    assert (line.runs, line.pairs) == (16, 8)


def test_numbers_are_in_order_and_the_baseline_is_the_first() -> None:
    """Values of 900 and 3000 are sorted as numbers; a baseline goes before them."""
    rows = [row(value, {"delay": value}) for value in ("3000", "0", "900", "off")]
    assert compare(rows, "delay").values == ("0", "900", "3000", "off")
    assert compare(rows, "delay", "3000").values == ("3000", "0", "900", "off")


@pytest.mark.parametrize(
    ("by", "baseline", "told"),
    [
        ("colour", None, "no run has the label colour; the labels are: protocol, sce"),
        ("scenario", None, "all 16 runs with the label scenario have the value roll"),
        (
            "protocol",
            "lazy",
            "no run has protocol=lazy; the values are: cooperative, e",
        ),
    ],
)
def test_a_label_that_cannot_be_compared_is_an_error(
    by: str, baseline: str | None, told: str
) -> None:
    """The message has the labels, or the values, that exist."""
    with pytest.raises(PipelineError, match=told):
        compare(paired(), by, baseline)


def test_too_many_values_and_no_labels_are_errors() -> None:
    """The label of the host, for example, has a value for each run."""
    rows = [row(str(host), {"host": str(host)}) for host in range(21)]
    with pytest.raises(PipelineError, match="21 values; a comparison takes at most 20"):
        compare(rows, "host")
    with pytest.raises(PipelineError, match="no run has labels"):
        compare([row("r", None)], "host")


# -- the command


def test_the_table_has_three_digits_and_the_notes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A metric's title stands at its baseline; other lines have the difference."""
    show(*as_table(compare(paired(), "protocol", "eager")))
    lines = capsys.readouterr().out.splitlines()
    first, second = (line.split() for line in lines[1:3])
    assert first[:3] == ["downtime,", "partition-seconds", "eager"]
    assert second[:2] == ["cooperative", "8"]
    assert second[-1] == "less"
    digits = [re.sub(r"\D", "", word).strip("0") for word in second[2:]]
    assert max(map(len, digits)) == 3
    assert "Pairs are runs with equal labels: scenario, seed." in " ".join(lines)


def test_programs_get_all_digits_and_null_for_too_few() -> None:
    """JSON and CSV have the same rows."""
    compared = compare(paired(4), "protocol")
    rows = [*as_rows(compared)]
    assert len(rows) == 2 * len(METRICS)
    assert rows[1]["value"] == "eager"
    assert (rows[1]["pairs"], rows[1]["difference_low"]) == (4, None)
    read = [*csv.DictReader(io.StringIO(as_csv(compared)))]
    assert [*read[1]] == [*rows[1]]
    assert float(read[1]["difference"]) == rows[1]["difference"]
    assert not read[1]["difference_low"]


# -- the query


def test_a_group_is_stable_when_ten_seconds_without_a_rebalance_follow(
    spark: SparkSession,
) -> None:
    """Rebalances of 2 s start at 1, 4, 12 and 60 s: stable at 14 s, a member at 0.5."""
    second = 1_000_000_000
    made = Made(spark)
    starts = {("calm", "g"): (1, 4, 12, 60), ("restless", "g"): (1,)}
    groups = (*starts, ("restless", "late"))
    labels = {"calm": {"protocol": "eager"}, "restless": {"protocol": "cooperative"}}
    made.rows(
        "gold/runs", *({"run": run, "labels": said} for run, said in labels.items())
    )
    made.rows(
        "silver/memberships",
        *({"run": run, "group": g, "from_ns": second // 2} for run, g in groups),
    )
    made.rows(
        "silver/rebalances",
        *(
            {
                "run": run,
                "group": group,
                "number": number,
                "started_ns": at * second,
                "ended_ns": (at + 2) * second,
                "outcome": "completed",
            }
            for (run, group), times in starts.items()
            for number, at in enumerate(times, 1)
        ),
    )
    compared = report.compare(spark, "protocol")
    stable = {line.value: line.points for line in compared.of(METRICS[3])}
    assert stable == {"eager": (13.5,), "cooperative": ()}


# -- the pages


def test_the_page_says_which_value_is_better() -> None:
    """Sentences and charts are of the metrics that differ; names are plain text."""
    rows = paired()
    for each in rows:
        if each["labels"]["protocol"] == "eager":
            each["labels"]["protocol"] = report_builds.SCRIPT
    compared = compare(rows, "protocol", report_builds.SCRIPT)
    answer = Answer((*rows[0],), tuple(rows))
    text = comparison_page(answer, compared)
    read = Reader(text)
    assert report_builds.SCRIPT not in text
    said = spoken(text)
    assert "protocol=cooperative has less downtime than" in said
    assert "8 pairs" in said
    assert "chart-downtime_s" in read.ids
    assert "chart-expired" not in read.ids


def page_of_shares() -> str:
    """The page of runs whose shares of downtime, and pauses, differ by protocol."""
    rows = paired()
    for each in rows:
        each["downtime_share"] = each["downtime_s"] / 10_000
        each["paused_s"] = each["downtime_s"] / 10
    answer = Answer((*rows[0],), tuple(rows))
    compared = compare(rows, "protocol", "eager")
    return comparison_page(answer, compared)


def test_each_metric_has_its_own_words_and_a_share_is_in_percent() -> None:
    """Differences of shares are percentage points."""
    text = page_of_shares()
    said = spoken(text)
    assert re.search(
        r"has a smaller share of downtime than eager: 0\.\d+ percentage points less per"
        r" run on average \(95 % interval of the difference: -0\.\d+ % to -0\.\d+ %",
        said,
    )
    assert "has shorter pauses than" in said
    assert re.search(r'"tickformat": ?"~%"', text)


def test_a_report_can_have_a_comparison(large: Answers) -> None:
    """A report of 200 runs compares its scenarios, without pairs."""
    compared = compare(large["run_metrics"], "scenario")
    said = spoken(page(large, about=report_builds.ABOUT, compared=compared))
    assert "Runs compared by scenario" in said
    assert "Runs are not paired" in said
