"""Comparisons of two scenarios."""

from __future__ import annotations

import tomllib

import pytest
from tests.simulation.test_scenario import SMALL

from kohort.simulation.scenario.comparing import compare, interval, quantile, verdict
from kohort.simulation.scenario.measures import Measures
from kohort.simulation.scenario.model import parse
from kohort.simulation.scenario.runs import play_all, task_of

ROLL = '[[happenings]]\nat = "20s"\ndo = "roll"\ndown_s = 1\n'
NAMES = ("dynamic", "static")


def runs(static: str, seeds: range) -> list[Measures]:
    """Runs of a small deployment, in one process."""
    changes = {"groups.billing.static": static, "duration": "60s"}
    scenario = parse("small", tomllib.loads(SMALL + ROLL), changes)
    ((_, found),) = play_all([task_of(scenario, seeds)])
    return found


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


def test_static_members_are_better() -> None:
    """In a deployment: they come back within their sessions."""
    found = compare(runs("false", range(5)), runs("true", range(5)))
    by_name = {each.number.name: each for each in found}
    assert by_name["rebalances"].second == 1
    assert by_name["rebalances"].better == 1
    assert by_name["records"].better == -1
    said = verdict(found, NAMES, 5)
    assert " is better: " in said
    assert "95 % interval" in said
    assert "rebalances" in said


def test_without_a_difference_neither_is_better() -> None:
    """And with too few seeds nobody knows."""
    same = runs("true", range(1))
    assert "too few seeds" in verdict(compare(same, same), NAMES, 1)
    assert "Neither" in verdict(compare(same * 5, same * 5), NAMES, 5)
