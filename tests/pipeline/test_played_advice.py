"""Gold of played groups: downtime, and rules that speak where a change would help."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.events import Row, frame, made, rows, with_accounts
from tests.pipeline.played_scenes import CHANGES, SCRIPTS, played, wanted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs/reference/pipeline-settings.md"
NEEDED = ("gold/hours", "gold/groups", "gold/initial_delay", "gold/settings")
Gold = Mapping[str, list[Row]]


@pytest.fixture(scope="module")
def spark(without_java: SparkSession) -> SparkSession:
    """The local engine; `tests.pipeline.test_engines` compares it with Spark."""
    return without_java


@pytest.fixture(scope="module")
def gold(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Gold:
    """Tables of gold; each script is the group ``g`` of a run with its name."""
    from kohort.pipeline import gold, silver

    folder = tmp_path_factory.mktemp("played")
    told = (with_accounts(played(name).events(name, "g")) for name in SCRIPTS)
    bronze = frame(spark, folder, itertools.chain.from_iterable(told))
    functions = {**silver.TABLE_FUNCTIONS, **gold.TABLE_FUNCTIONS}
    only = (*silver.TABLE_FUNCTIONS, *NEEDED)
    tables = made(functions, bronze, folder, only)
    return {path: rows(tables[path]) for path in NEEDED}


def of_run(table: list[Row], name: str) -> list[Row]:
    """Rows of a script."""
    return [row for row in table if row["run"] == name]


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_share_of_downtime_is_that_of_the_script(gold: Gold, name: str) -> None:
    """Partitions are owned or down for as long as in the script."""
    (group,) = of_run(gold["gold/groups"], name)
    assert group["partition_s"] == pytest.approx(played(name).partition_s, rel=0.02)
    by_cause = group["downtime_by_cause"] or {}  # null without any
    assert sum(by_cause.values()) == pytest.approx(group["downtime_s"])
    assert group["downtime_share"] == group["downtime_s"] / group["partition_s"]


def test_ways_to_restart_rank_as_in_their_scripts(gold: Gold) -> None:
    """Partitions of static members wait for their processes."""
    names = ("a rolling restart, eager", "a rolling restart, cooperative")
    by_script = {n: played(n).downtime_s for n in (*names, "static restarts")}
    by_gold = {n: of_run(gold["gold/groups"], n)[0]["downtime_s"] for n in by_script}
    assert sorted(by_gold, key=by_gold.__getitem__) == sorted(
        by_script, key=by_script.__getitem__
    )
    # The stop of a static member is seen at its last heartbeat: 3 s, of 4 partitions.
    assert by_gold == pytest.approx(by_script, rel=0.06, abs=6 * 4 * 3)


def test_slow_pollers_hold_their_partitions(gold: Gold) -> None:
    """Five times four partitions, for a max.poll.interval.ms of 15 s; others do not."""
    held = {n: of_run(gold["gold/groups"], n)[0]["unprocessed_s"] for n in SCRIPTS}
    slow = {name for name, seconds in held.items() if seconds}
    assert slow == {name for name in SCRIPTS if "slow poller" in name} | {
        "slow to rejoin"
    }
    assert held["a slow poller, eager"] == 5 * 4 * 15


@pytest.mark.parametrize("name", SCRIPTS)
def test_savings_are_parts_of_the_downtime(gold: Gold, name: str) -> None:
    """Rules save no more together than their sum, nor than there was."""
    (group,) = of_run(gold["gold/groups"], name)
    said = of_run(gold["gold/settings"], name)
    saved_s = sum(row["downtime_saved_s"] or 0 for row in said)
    for row in said:
        assert 0 <= (row["together_s"] or 0) <= min(saved_s, group["downtime_s"]) + 1e-6


def table(gold: Gold) -> list[str]:
    """The lines of the page's table: by rule, scripts and what was said about them."""
    said = {
        name: {row["rule"] for row in of_run(gold["gold/settings"], name)}
        for name in SCRIPTS
    }
    lines = [
        "| rule | needed | found | missed | wrong | precision | recall |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for rule in CHANGES:
        found: Counter[tuple[bool, bool]] = Counter(
            (rule in wanted(name), rule in said[name]) for name in SCRIPTS
        )
        right, silent, wrong = found[True, True], found[True, False], found[False, True]
        lines.append(
            f"| `{rule}` | {right + silent} | {right} | {silent} | {wrong}"
            f" | {_share(right, wrong)} | {_share(right, silent)} |"
        )
    return lines


def _share(right: int, others: int) -> str:
    return f"{right / (right + others):.0%}" if right + others else "-"


def test_the_page_has_the_precision_and_recall_of_each_rule(gold: Gold) -> None:
    """The table in the docs is the one that the scripts give."""
    text = PAGE.read_text(encoding="utf-8")
    assert "\n".join(table(gold)) in text, "\n" + "\n".join(table(gold))
    assert f"{len(SCRIPTS)} scripts" in text


@pytest.mark.parametrize(
    ("name", "rule", "is_said"),
    [
        ("a slow poller, cooperative", "static-membership", False),
        ("a slow poller, eager", "static-membership", False),
        ("a slow poller, cooperative", "max-poll-interval", True),
        ("a crash loop, cooperative", "crash-loop", True),
        ("a crash loop, cooperative", "static-membership", False),
        ("a deploy with a slow start, eager", "static-membership", False),
        ("a deploy with a slow start, cooperative", "static-membership", False),
        ("killed at the end", "session-timeout-lower", False),
    ],
)
def test_advice_that_would_do_harm(
    gold: Gold, name: str, rule: str, *, is_said: bool
) -> None:
    """A rejoin is no restart, a loop is to be mended, and an end is no departure."""
    rules = {row["rule"] for row in of_run(gold["gold/settings"], name)}
    assert (rule in rules) is is_said
