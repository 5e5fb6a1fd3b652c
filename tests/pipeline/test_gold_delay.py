"""gold/initial_delay: runs of the same labels, with and without the delay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.silver_rows import Made, Scenes

from kohort.pipeline.table_functions import Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DELAY = "group.initial.rebalance.delay.ms"
PATH = "gold/initial_delay"


def played(
    s: Scenes,
    run: str,
    delay: str | None,
    labels: Mapping[str, str] | None = None,
    group: str = "g",
    came: float | None = 1,
    assigned: tuple[float, ...] = (),
    still: float = 0,
) -> None:
    """Adds a run with a group: its first join, and when its rebalances of 1 s ended."""
    if not any(row["run"] == run for row in s.rows.get("silver/runs", [])):
        s.run(run, 100, **({} if delay is None else {DELAY: delay}), **(labels or {}))
    s.event(run, group, 1, "group_state")
    if came is not None:
        s.member(run, group, "m2", came + 1)
        s.member(run, group, "m1", came)
    for number, at in enumerate(assigned, 1):
        s.rebalance(run, group, number, at - 1, 1)
    if still:
        s.unread(run, group, "m1", 10, 10 + still, cause="paused")


def scenes() -> Scenes:
    """Runs with and without a partner."""
    s = Scenes()
    start = {"scenario": "start"}
    for seed in "12":
        more = {**start, "seed": seed}
        late = int(seed)
        played(s, f"0/{seed}", "0", assigned=(2, 4, 6, 8), still=6, labels=more)
        played(s, f"1000/{seed}", "1000", assigned=(3, 5), still=2, labels=more)
        played(s, f"3000/{seed}", "3000", assigned=(4 + late,), labels=more)
    # "lonely" is in only one run of its pair; "late" has an assignment in only one.
    played(s, "0/1", "0", group="lonely", assigned=(2,))
    played(s, "0/1", "0", group="late", assigned=(2,))
    played(s, "1000/1", "1000", group="late", came=None)
    # No partner: another seed, one more label, no number, no label.
    played(s, "seed 3", "1000", assigned=(3,), labels={**start, "seed": "3"})
    played(
        s,
        "members",
        "1000",
        assigned=(3,),
        labels={**start, "seed": "1", "members": "5"},
    )
    played(s, "words", "soon", assigned=(3,), labels={**start, "seed": "1"})
    played(s, "none", None, assigned=(3,), labels={**start, "seed": "1"})
    played(s, "no scenario 0", "0", assigned=(3,), labels={"seed": "1"})
    played(s, "no scenario 9", "9", assigned=(3,), labels={"seed": "1"})
    played(s, "no seed 0", "0", assigned=(3,), labels=start)
    played(s, "no seed 9", "9", assigned=(3,), labels=start)
    # Equal labels: each run is paired with each.
    for run, delay in (("a", "0"), ("b", "0"), ("c", "7")):
        played(
            s,
            f"again {run}",
            delay,
            labels={"scenario": "again", "seed": "1"},
            assigned=(3,),
        )
    return s


@pytest.fixture(scope="module")
def gold(spark: SparkSession) -> Made:
    """All scenes, computed once."""
    return Made(spark, scenes(), Options()).make("gold/hours", "gold/groups", PATH)


def the_pairs(gold: Made, **where: Any) -> list[tuple[Any, ...]]:
    """Seed, group, delay and both runs of each pair."""
    names = ("seed", "group", "delay_ms", "run_with", "run_without")
    return [tuple(row[n] for n in names) for row in gold.rows(PATH, **where)]


def test_pairs_have_the_same_labels_but_for_the_delay(gold: Made) -> None:
    """Pairs differ only in the delay; a run without a partner is in no pair."""
    assert the_pairs(gold, scenario="start", group="g") == [
        ("1", "g", 1000, "1000/1", "0/1"),
        ("1", "g", 3000, "3000/1", "0/1"),
        ("2", "g", 1000, "1000/2", "0/2"),
        ("2", "g", 3000, "3000/2", "0/2"),
    ]
    assert the_pairs(gold, scenario="again") == [
        ("1", "g", 7, "again c", "again a"),
        ("1", "g", 7, "again c", "again b"),
    ]
    assert {row["scenario"] for row in gold.rows(PATH)} == {"start", "again"}
    assert not gold.rows(PATH, group="lonely")


def test_what_it_saved_and_cost(gold: Made) -> None:
    """1000 ms save 2 of 4 rebalances and 4 of 6 partition-seconds; 3000 ms save 3 of 4.

    The first member joined at 1 s. The first assignment was at 2 s without a delay, at
    3 s with 1000 ms, at 6 s with 3000 ms and seed 2.
    """
    row = gold.row(PATH, seed="1", group="g", run_with="1000/1")
    keys = {"group", "delay_ms"}
    assert {name: row[name] for name in row.keys() - keys} == {
        "scenario": "start",
        "seed": "1",
        "run_with": "1000/1",
        "run_without": "0/1",
        "rebalances_with": 2,
        "rebalances_without": 4,
        "rebalances_saved": 2,
        "downtime_with_s": 2,
        "downtime_without_s": 6,
        "downtime_saved_s": 4,
        "first_assignment_with_s": 2,
        "first_assignment_without_s": 1,
        "later_s": 1,
    }
    other = gold.row(PATH, seed="2", run_with="3000/2")
    assert (other["rebalances_saved"], other["downtime_saved_s"]) == (3, 6)
    assert (other["first_assignment_with_s"], other["later_s"]) == (5, 4)


def test_a_group_without_an_assignment_is_later_by_nobody_knows(gold: Made) -> None:
    """The group has events in both runs, but members in only one."""
    row = gold.row(PATH, group="late")
    assert row["first_assignment_with_s"] is row["later_s"] is None
    assert (row["first_assignment_without_s"], row["rebalances_saved"]) == (1, 1)
