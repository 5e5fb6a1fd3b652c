"""Scenarios: their files, their mistakes, and what happens in them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kohort.broker.events.seen import Seen
from kohort.simulation.scenario import happenings
from kohort.simulation.scenario.measures import Measures, table_rows
from kohort.simulation.scenario.model import load, parse, ready_scenarios
from kohort.simulation.scenario.play import Play
from kohort.simulation.scenario.reading import ScenarioError

SMALL = """
duration = "90s"
[brokers.config]
"group.initial.rebalance.delay.ms" = 100
[topics.orders]
partitions = 6
rate = 2
[groups.billing]
members = 3
record_ms = 10
[groups.billing.settings]
"session.timeout.ms" = 10_000
"""


def played(toml: str, seed: int = 1) -> Measures:
    """The measures of a scenario."""
    return Play(parse("small", tomllib.loads(toml)), seed).run()


def test_the_ready_scenarios_are_valid() -> None:
    """With all their happenings."""
    names = [*ready_scenarios()]
    assert {"cold-start", "rolling-deployment", "runaway-autoscaler"} <= {*names}
    for name in names:
        happenings.read(load(name))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("duration", "soon"), "duration: 'soon': must be seconds"),
        (("groups.billing.members", "-1"), "groups.billing.members: -1: must be a"),
        (("groups.billing.member", "3"), "groups.billing.member: is no key here; did"),
        (("groups.billing.protocol", "lazy"), "must be one of eager, cooperative"),
        (("groups.billing.topics", "bills"), "there is no topic 'bills', only orders"),
        (("groups.billing.record_ms", "{a = 1}"), "must be a number from 0 on"),
        (("groups.billing.settings.session.timeout.ms", "no"), "session"),
        (("groups.billing.settings.sesion.timeout.ms", "1"), "session_timeout_ms"),
        (("brokers.config.group.max.size", "0"), "brokers.config: group.max.size"),
        (("brokers.nodes", "0"), "brokers.nodes: 0: must be a whole number"),
        (("network.latency", "1"), "network.latency: is no key here; did you mean"),
        (("happenings", "[{at = 1, do = 'explode'}]"), "happenings[1].do: 'explode'"),
        (("happenings", "[{do = 'roll'}]"), "happenings[1].at: is missing"),
        (("happenings", "[{at = 500, do = 'roll'}]"), "is after the end, 90 s"),
        (("happenings", "[{at = 5, do = 'roll', pods = 1}]"), "happenings[1].pods: is"),
        (("happenings", "[{at = 5, do = 'stop-node', node = 2}]"), "node: 2: must be"),
        (("duration.x", "1"), "duration.x: duration is no table"),
        (
            ("faults", "[{api = 'Join', error = 'NONE'}]"),
            "faults[1]: api: there is no 'Join'; did",
        ),
        (("faults", "[{api = 'Fetch'}]"), "faults[1]: a rule needs an effect"),
        (("faults", "[{at = 2, until = 1}]"), "faults[1].until: is not after its beg"),
    ],
)
def test_a_mistake_names_its_place(
    change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    """And says what is allowed."""
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    with pytest.raises(ScenarioError) as raised:
        happenings.read(load(str(file), [change]))
    assert message in str(raised.value)


def test_an_unknown_scenario_lists_the_ready_ones() -> None:
    """A name that is neither a ready one nor a file."""
    with pytest.raises(ScenarioError, match="ready scenarios are cold-start, commits-"):
        load("warm-start")


def test_a_change_sets_settings_with_dots(tmp_path: Path) -> None:
    """Kafka's keys have dots, as paths do."""
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    changes = [
        ("brokers.config.group.max.size", "7"),
        ("groups.billing.settings.session.timeout.ms", "6000"),
        ("groups.billing.static", "true"),
    ]
    scenario = load(str(file), changes)
    assert scenario.config["group.max.size"] == 7
    group = scenario.groups["billing"]
    assert group.settings["session_timeout_ms"] == 6000
    assert group.is_static


def test_members_read_and_nothing_is_lost() -> None:
    """Without happenings."""
    measures = played(SMALL)
    assert measures.rebalances == {"member_joined": 1}
    assert measures.settled == measures.alive == 3
    assert 90 * 12 - 36 <= measures.records <= 90 * 12 + 6
    assert not measures.again_certain + measures.again_possible + measures.skipped
    assert measures.wire_bytes > 0
    assert measures.cpu_s > 0


def test_a_deployment_replaces_all_pods() -> None:
    """One after the other: two rebalances for each of the eager members."""
    roll = '[[happenings]]\nat = "20s"\ndo = "roll"\ndown_s = 8\n'
    measures = played(SMALL + roll)
    assert measures.rebalances["member_left"] == 3
    assert measures.rebalances["member_joined"] == 4
    assert measures.settled == 3
    assert measures.unread_s > 0
    assert not measures.expiries


def test_static_members_restart_without_a_rebalance() -> None:
    """Within their sessions."""
    roll = '[[happenings]]\nat = "20s"\ndo = "roll"\ndown_s = 1\n'
    static = SMALL.replace("members = 3", "members = 3\nstatic = true")
    measures = played(static + roll)
    assert measures.rebalances == {"member_joined": 1}
    assert measures.settled == 3


def test_an_expiry_of_a_live_process_is_a_false_one() -> None:
    """A pause is not a crash."""
    both = """
    [[happenings]]
    at = "20s"
    do = "crash"
    members = 1
    [[happenings]]
    at = "50s"
    do = "pause"
    members = 1
    seconds = 15
    """
    measures = played(SMALL + both)
    assert measures.expiries == 2
    assert measures.false_expiries == 1


def test_an_autoscaler_meets_the_limit() -> None:
    """KIP-389: the members that are too many are refused."""
    scale = """
    [[happenings]]
    at = "20s"
    do = "scale"
    step = 2
    every = "10s"
    times = 3
    """
    limit = "[brokers.config]\n"
    toml = SMALL.replace(limit, f'{limit}"group.max.size" = 5\n')
    measures = played(toml + scale)
    assert measures.settled == 5
    assert measures.refusals == {"full": 4}
    assert measures.failed == 4


def test_other_happenings() -> None:
    """Each of them plays; a node that is stopped twice is a mistake of the scenario."""
    rest = """
    happenings = [
        {at = 20, do = "start", members = 1},
        {at = 30, do = "stop", members = 1, restart_after_s = 2},
        {at = 40, do = "stall", members = 1, seconds = 2},
        {at = 45, do = "cut", members = 1, seconds = 1, times = 3},
        {at = 50, do = "slow", factor = 20, seconds = 5},
        {at = 55, do = "disconnect"},
        {at = 60, do = "grow", topic = "orders", partitions = 9},
        {at = 65, do = "move-coordinator", node = 2},
        {at = 70, do = "crash-node", node = 2},
        {at = 75, do = "start-node", node = 2},
        {at = 76, do = "scale", step = -1, every = 1, times = 1},
    ]
    """
    nodes = SMALL.replace("[brokers.config]", "[brokers]\nnodes = 2\n[brokers.config]")
    measures = played(rest + nodes)
    assert measures.settled == measures.alive == 3
    with pytest.raises(Exception, match="node 2 is stopped"):
        played(
            "happenings = [{at = 1, do = 'stop-node', node = 2},"
            "{at = 2, do = 'crash-node', node = 2}]\n" + nodes
        )


def test_brokers_misbehave_by_rules() -> None:
    """From one time to another; afterwards connections are as before."""
    rules = """
    faults = [
        {at = "20s", until = "50s", black_hole = true, client_id = "billing-1"},
        {at = "20s", until = "40s", api = "OffsetCommit", error = "NOT_COORDINATOR"},
    ]
    """
    scenario = parse("small", tomllib.loads(rules + SMALL))
    strikes: list[str] = []

    def listen(seen: Seen) -> None:
        if seen.notice.kind == "fault_struck":
            event: Mapping[str, Any] = seen.event
            strikes.append(event["fault"])

    play = Play(scenario, 1, listen)
    measures = play.run()
    assert {"fault 1", "fault 2"} == {*strikes}
    assert measures.expiries == measures.false_expiries == 1
    assert measures.settled == 3
    assert not play.world.brokers.faults.rules


def test_a_table_of_several_runs_has_means_and_ranges() -> None:
    """One run has its own numbers."""
    runs = [played(SMALL, seed) for seed in (1, 2)]
    (name, value), *_ = table_rows(runs[:1])
    assert (name, value) == ("rebalances", "1")
    (name, value), *_ = table_rows(runs)
    assert (name, value) == ("rebalances", "1.0  (1 to 1)")
