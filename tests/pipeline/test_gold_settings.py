"""gold/settings: for each rule a group that needs it, and groups that nearly do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.pipeline import restart_scenes, workload_scenes
from tests.pipeline.group_scenes import Group, played
from tests.pipeline.silver_rows import Made, Scenes

from kohort.pipeline.table_functions import Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PATH = "gold/settings"
SCENES = {**restart_scenes.SCENES, **workload_scenes.SCENES}


@pytest.fixture(scope="module")
def gold(spark: SparkSession) -> Iterator[Made]:
    """All scenes, computed once."""
    s = Scenes()
    s.run("r", 36_000)
    for name, (play, _) in SCENES.items():
        s.event("r", name, 1, "group_state")
        play(Group(s, name))
    played(s)
    made = Made(spark, s, Options())
    made.make("gold/hours", "gold/groups", "gold/initial_delay", PATH)
    yield made
    made.forget()


@pytest.mark.parametrize("name", SCENES)
def test_what_a_group_is_told(gold: Made, name: str) -> None:
    """These rules, and no other; with these numbers, worked out beside the scenes."""
    rows = {row["rule"]: row for row in gold.rows(PATH, run="r", group=name)}
    want = SCENES[name][1]
    assert rows.keys() == want.keys(), rows
    for rule, columns in want.items():
        assert {column: rows[rule][column] for column in columns} == columns


def test_the_same_seed_with_and_without_tells_better(gold: Made) -> None:
    """3000 ms save 4 of 5 rebalances in both seeds, and 4 s; 2 pairs: 2 / 5.

    The run of seed 1 has a pair with 1000 ms, too, which saves 2. Where pairs tell that
    it saves nothing, it is not recommended, whatever was seen.
    """
    rows = gold.rows(PATH, rule="initial-delay", group="g")
    without = [row for row in rows if row["run"].endswith(" 0")]
    assert [row["run"] for row in without] == ["start 1 0", "start 2 0"]
    for row in without:
        assert row["suggested"] == "3000"
        assert row["rebalances_saved"] == 4
        assert (row["paused_saved_s"], row["cases"], row["confidence"]) == (
            4,
            2,
            0.4,
        )
        assert row["evidence"].startswith(
            "The same seeds were played with and without a delay of 3000 ms, 2 pairs:"
            " on average it saved 4.0 rebalances, some in 100 % of them"
        )


def test_rows_are_as_agreed_on(gold: Made) -> None:
    """No number in words is missing, and none is negative."""
    for row in gold.rows(PATH):
        assert 0 < row["confidence"] < 1
        assert row["cases"] > 0
        assert "null" not in row["evidence"]
        assert row["where"] in {"broker", "client"}
        assert (row["rebalances_saved"] or 0) >= 0
        assert (row["paused_saved_s"] or 0) >= 0


def test_no_group_is_told_two_things_about_one_key(gold: Made) -> None:
    """But two rules may have the same to say."""
    told: dict[tuple[str, str, str], set[str]] = {}
    for row in gold.rows(PATH):
        key = (row["run"], row["group"], row["setting"])
        told.setdefault(key, set()).add(row["suggested"])
    assert all(len(values) == 1 for values in told.values())
