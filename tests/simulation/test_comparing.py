"""Comparisons of two scenarios."""

from __future__ import annotations

import tomllib

import pytest
from tests.simulation.test_scenario import SMALL

from kohort.protocol.slotted import replace
from kohort.simulation.scenario.comparing import compare, interval, quantile, verdict
from kohort.simulation.scenario.measures import Measures
from kohort.simulation.scenario.model import parse
from kohort.simulation.scenario.runs import play_all, task_of

NAMES = ("dynamic", "static")


@pytest.fixture(scope="module")
def run() -> Measures:
    """The measures of a run."""
    scenario = parse("small", tomllib.loads(SMALL), {"duration": "10s"})
    ((_, found),) = play_all([task_of(scenario, [1])])
    return found[0]


def test_the_quantiles_are_students() -> None:
    """As tables have them."""
    known = {4: 2.7764, 5: 2.5706, 9: 2.2622, 30: 2.0423, 1000: 1.9623}
    for freedom, value in known.items():
        assert quantile(freedom) == pytest.approx(value, rel=1e-3)


def test_an_interval() -> None:
    """Few numbers have none; equal ones have an empty one."""
    assert interval([1.0, 2.0]).low is None
    found = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found.mean == 3.0
    assert found.low == pytest.approx(1.037, abs=0.01)
    assert interval([2.0] * 5).low == 2.0


def test_the_better_one_has_less_time_without_a_reader(run: Measures) -> None:
    """It may be worse in another number."""
    first = [replace(run, unread_s=100.0 + seed, failed=1) for seed in range(5)]
    second = [replace(run, unread_s=10.0, skipped=2) for _ in range(5)]
    found = compare(first, second)
    by_name = {each.number.name: each for each in found}
    assert by_name["unread_s"].by.mean == -92
    assert by_name["unread_s"].better == 1
    assert by_name["skipped"].better == 0
    assert by_name["records"].better == -1
    said = verdict(found, NAMES, 5)
    assert said.startswith(
        "static is better: 102.0 partition-seconds without a reader per run in dynamic,"
        " 10.0 in static, a difference of -92.0 (95 % interval -94.0 to -90.0, 5 pairs)"
    )
    assert said.endswith(
        "also better in: pods failed. It is worse in: records skipped."
    )


def test_without_a_difference_neither_is_better(run: Measures) -> None:
    """With too few seeds there is no verdict."""
    assert "too few seeds" in verdict(compare([run], [run]), NAMES, 1)
    assert "Neither" in verdict(compare([run] * 5, [run] * 5), NAMES, 5)
