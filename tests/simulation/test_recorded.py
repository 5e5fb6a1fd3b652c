"""Scenarios of recorded groups, and scenarios as TOML."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from typing import Any

import pytest
from tests.simulation.test_scenario import SMALL

from kohort.simulation.scenario.model import parse, ready_scenarios
from kohort.simulation.scenario.reading import ScenarioError
from kohort.simulation.scenario.recorded import values_of
from kohort.simulation.scenario.runs import begun
from kohort.simulation.scenario.toml import toml_of

ROLL = '[[happenings]]\nat = "20s"\ndo = "roll"\ndown_s = 4\n'


def events(*changes: str) -> list[dict[str, Any]]:
    """The events of a small scenario with other values."""
    pairs = dict(change.split("=", 1) for change in changes)
    scenario = parse("small", tomllib.loads(SMALL), pairs)
    lines: list[bytes] = []
    begun(scenario, 1, lines.append).run()
    return [*map(json.loads, lines)]


def group_of(found: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The recorded scenario, which can be played."""
    values = values_of(found, None)
    assert parse("recorded", values).groups["billing"]
    return values


@pytest.mark.parametrize("protocol", ["eager", "cooperative", "consumer"])
def test_the_group_is_as_it_was(protocol: str) -> None:
    """Members, partitions, pace and timeouts."""
    changes = [] if protocol != "consumer" else ["groups.billing.settings={}"]
    values = group_of(events(f"groups.billing.protocol={protocol}", *changes))
    assert values["topics"] == {"orders": {"partitions": 6, "rate": 2.0}}
    group = values["groups"]["billing"]
    assert (group["members"], group["protocol"]) == (3, protocol)
    assert not group["static"]
    assert not values["happenings"]
    if protocol != "consumer":
        assert group["settings"]["session.timeout.ms"] == 10_000
        assert values["brokers"]["config"] == {"group.initial.rebalance.delay.ms": 100}


def test_a_deployment_stays_a_deployment() -> None:
    """Each member was restarted once: the next one follows when one is ready."""
    roll = "happenings=[{at = 20, do = 'roll', down_s = 4}]"
    (happening,) = group_of(events(roll))["happenings"]
    assert happening["do"] == "roll"
    assert happening["at_once"] == 1
    assert 4 <= happening["down_s"]["median"] < 8


def test_departures_happen_again() -> None:
    """At their times, to the same members; with their returns."""
    what = (
        "happenings=[{at = 20, do = 'crash', slot = 2, restart_after_s = 15},"
        "{at = 60, do = 'stop', slot = 3}, {at = 70, do = 'start', members = 1}]"
    )
    crash, stop = group_of(events(what, "duration=100"))["happenings"]
    assert (crash["do"], crash["slot"]) == ("crash", 2)
    assert abs(crash["at"] - 20) < 4
    assert abs(crash["restart_after_s"] - 15) < 4
    # A new member that comes soon after one went is in its place.
    assert (stop["do"], stop["slot"]) == ("stop", 3)
    assert abs(stop["restart_after_s"] - 10) < 4


def test_a_static_member_was_away() -> None:
    """It came back under another id: it is a restart, and no departure."""
    what = "happenings=[{at = 20, do = 'stop', slot = 1, restart_after_s = 5}]"
    values = group_of(events(what, "groups.billing.static=true"))
    assert values["groups"]["billing"]["static"]
    (stop,) = values["happenings"]
    assert (stop["do"], stop["slot"]) == ("stop", 1)
    assert 4 <= stop["restart_after_s"] <= 9


def test_mistakes_name_the_groups() -> None:
    """A file without the group is refused."""
    with pytest.raises(ScenarioError, match="the groups are billing"):
        values_of(events("duration=10"), "others")
    with pytest.raises(ScenarioError, match="there is no group"):
        values_of([], None)


def test_scenarios_are_written_as_toml() -> None:
    """And read again as the same."""
    for text in (*ready_scenarios().values(), SMALL + ROLL):
        values = tomllib.loads(text)
        assert tomllib.loads(toml_of(values)) == values
