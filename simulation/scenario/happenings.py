"""Happenings of a scenario: ``[[happenings]]`` with a time ``at`` and a verb ``do``.

Each happening is read when the scenario is, and returns a coroutine function, which the
director's process runs at its time. Faults of the brokers, ``[[faults]]``, are
happenings, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from kohort.broker.cluster.cluster import ClusterError
from kohort.broker.faults.rule import FaultError, Rule
from kohort.protocol.slotted import slotted
from kohort.simulation.scenario import reading
from kohort.simulation.scenario.fleet import Fleet, until_ready
from kohort.simulation.scenario.model import MOST_MEMBERS, MOST_PARTITIONS, Scenario
from kohort.simulation.scenario.reading import ScenarioError, Table
from kohort.simulation.world.brokers import host_of
from kohort.simulation.world.network import Link
from kohort.simulation.world.randomness import constant
from kohort.simulation.world.world import World


@slotted
class Stage:
    """The world of a scenario, and the pods of its groups by name."""

    world: World
    fleets: Mapping[str, Fleet]


Act = Callable[[Stage], Awaitable[None]]


@slotted
class Happening:
    """Something that happens at a time, in seconds since the start."""

    at: float
    act: Act


def read(scenario: Scenario) -> list[Happening]:
    """Reads all happenings of a scenario.

    Raises:
        ScenarioError: one of them has a mistake.
    """
    found = []
    for table in scenario.happenings:
        at = table.take("at", reading.seconds)
        verb = table.take("do", reading.word(*_VERBS))
        act = _VERBS[verb](table, scenario)
        table.close()
        if at > scenario.duration:
            where = table.name("at")
            raise ScenarioError(f"{where}: is after the end, {scenario.duration:g} s")
        found.append(Happening(at, act))
    return found + [_fault(table) for table in scenario.faults]


def _fault(table: Table) -> Happening:
    """A rule by which the brokers misbehave, from ``at`` until ``until``."""
    at = table.take("at", reading.seconds, 0.0)
    until = table.take("until", reading.seconds, None)
    if until is not None and until <= at:
        raise ScenarioError(f"{table.name('until')}: is not after its begin")
    values = table.settings()
    keys = {key: values[key] for key in values if key not in {"at", "until"}}
    try:
        Rule.from_dict(keys)
    except FaultError as error:
        raise ScenarioError(f"{table.place}: {error}") from None

    async def act(stage: Stage) -> None:
        brokers = stage.world.brokers
        with brokers.process.running():
            rule = brokers.faults.add(Rule.from_dict(keys))
        if until is not None:
            await asyncio.sleep(until - at)
            with brokers.process.running():
                brokers.faults.remove(rule.id)

    return Happening(at, act)


# -- members


def _group(table: Table, scenario: Scenario) -> str:
    names = [*scenario.groups]
    return table.take("group", reading.word(*names), names[0])


_MEMBERS: Final = reading.count(1, MOST_MEMBERS)
_SLOT: Final = _MEMBERS
"""The number of a member, in the order in which they started."""


def _start(table: Table, scenario: Scenario) -> Act:
    """Starts new members."""
    group = _group(table, scenario)
    count = table.take("members", _MEMBERS)

    async def act(stage: Stage) -> None:
        await stage.fleets[group].start_many(count)

    return act


def _end(table: Table, scenario: Scenario, *, crashes: bool) -> Act:
    """Ends members: all, some at random, the newest, or a certain one."""
    group = _group(table, scenario)
    count = table.take("members", _MEMBERS, None)
    number = table.take("slot", _SLOT, None)
    newest = table.take("newest", reading.flag, False)
    leaves = None if crashes else table.take("leaves", reading.flag, None)
    restart_s = table.take("restart_after_s", reading.distribution_s, None)

    async def one(fleet: Fleet, slot: int) -> None:
        await fleet.end(slot, crashes=crashes, leaves=leaves)
        if restart_s is not None:
            await asyncio.sleep(restart_s.draw(fleet.random))
            fleet.start(slot)

    async def act(stage: Stage) -> None:
        fleet = stage.fleets[group]
        slots = fleet.chosen(count, newest=newest, slot=number)
        await asyncio.gather(*(one(fleet, slot) for slot in slots))

    return act


def _stop(table: Table, scenario: Scenario) -> Act:
    return _end(table, scenario, crashes=False)


def _crash(table: Table, scenario: Scenario) -> Act:
    return _end(table, scenario, crashes=True)


def _roll(table: Table, scenario: Scenario) -> Act:
    """Restarts all members: a deployment of another version.

    ``at_once`` pods are replaced at the same time; 0 means all. The next one follows
    when the new pod has an assignment, or after ``ready_timeout``.
    """
    group = _group(table, scenario)
    at_once = table.take("at_once", reading.count(0, MOST_MEMBERS), 1)
    down_s = table.take("down_s", reading.distribution_s, constant(1.0))
    leaves = table.take("leaves", reading.flag, None)
    keeps = table.take("identity", reading.word("same", "new"), "same") == "same"
    timeout_s = table.take("ready_timeout", reading.seconds, 60.0)

    async def act(stage: Stage) -> None:
        fleet = stage.fleets[group]
        slots = fleet.alive()

        async def worker() -> None:
            while slots:
                slot = slots.pop(0)
                await fleet.end(slot, leaves=leaves)
                await asyncio.sleep(down_s.draw(fleet.random))
                pod = fleet.start(slot if keeps else None)
                await until_ready(pod, timeout_s)

        await asyncio.gather(*(worker() for _ in range(at_once or len(slots))))

    return act


def _scale(table: Table, scenario: Scenario) -> Act:
    """An autoscaler: every so often it starts members, or ends the newest ones."""
    group = _group(table, scenario)
    step = table.take("step", reading.count(-MOST_MEMBERS, MOST_MEMBERS))
    every = table.take("every", reading.seconds)
    times = table.take("times", reading.count(1, MOST_MEMBERS))

    async def act(stage: Stage) -> None:
        fleet = stage.fleets[group]
        for number in range(times):
            if number:
                await asyncio.sleep(every)
            if step > 0:
                await fleet.start_many(step)
            else:
                slots = fleet.chosen(-step, newest=True) if step else []
                await asyncio.gather(*map(fleet.end, slots))

    return act


def _suspend(table: Table, scenario: Scenario, *, whole: bool) -> Act:
    group = _group(table, scenario)
    count = table.take("members", _MEMBERS, None)
    number = table.take("slot", _SLOT, None)
    length_s = table.take("seconds", reading.distribution_s)

    async def act(stage: Stage) -> None:
        fleet = stage.fleets[group]
        for slot in fleet.chosen(count, slot=number):
            seconds = length_s.draw(fleet.random)
            pod = fleet.pods[slot]
            if whole:
                pod.pause(seconds)
            else:
                pod.stall(seconds)

    return act


def _pause(table: Table, scenario: Scenario) -> Act:
    """Stops processes for some time, heartbeats included: a garbage collection."""
    return _suspend(table, scenario, whole=True)


def _stall(table: Table, scenario: Scenario) -> Act:
    """Makes applications take so long before the next poll; heartbeats go on."""
    return _suspend(table, scenario, whole=False)


# -- topics


def _grow(table: Table, scenario: Scenario) -> Act:
    """Adds partitions to a topic, up to a number."""
    topic = table.take("topic", reading.word(*scenario.topics))
    partitions = table.take("partitions", reading.count(1, MOST_PARTITIONS))
    if partitions <= scenario.topics[topic].partitions:
        where = table.name("partitions")
        raise ScenarioError(f"{where}: {topic} has as many at the start")

    async def act(stage: Stage) -> None:
        stage.world.brokers.grow_topic(topic, partitions)

    return act


# -- nodes and the network


def _node(table: Table, scenario: Scenario) -> int:
    return table.take("node", reading.count(1, scenario.nodes), 1)


def _on_node(change: Callable[[World, int], None]) -> Callable[[Table, Scenario], Act]:
    def read(table: Table, scenario: Scenario) -> Act:
        node_id = _node(table, scenario)
        where = table.place

        async def act(stage: Stage) -> None:
            try:
                change(stage.world, node_id)
            except ClusterError as error:
                raise ScenarioError(f"{where}: {error}") from None

        return act

    return read


def _crash_node(table: Table, scenario: Scenario) -> Act:
    """Kills a node, perhaps by a loss of power: see `Brokers.crash`."""
    is_power_lost = table.take("power", reading.flag, False)
    return _on_node(
        lambda world, node: world.brokers.crash(node, is_power_lost=is_power_lost)
    )(table, scenario)


def _move(table: Table, scenario: Scenario) -> Act:
    """Moves the coordinator of a group to a node."""
    group = _group(table, scenario)
    return _on_node(lambda world, to: world.brokers.move_coordinator(group, to))(
        table, scenario
    )


def _on_links(
    table: Table, scenario: Scenario, begin: Callable[[World, str, str], Any]
) -> Act:
    """Changes the links of members to a node; see `_cut`."""
    group = _group(table, scenario)
    count = table.take("members", _MEMBERS, None)
    node_id = table.take("node", reading.count(1, scenario.nodes), None)
    length = table.take("seconds", reading.seconds)
    times = table.take("times", reading.count(1, MOST_MEMBERS), 1)
    every = table.take("every", reading.seconds, 2 * length)

    async def act(stage: Stage) -> None:
        world, fleet = stage.world, stage.fleets[group]
        nodes = [node_id] if node_id else [*world.brokers.cluster.nodes]
        for number in range(times):
            if number:
                await asyncio.sleep(every - length)
            ends = [
                begin(world, fleet.pods[slot].host, host_of(each))
                for slot in fleet.chosen(count)
                for each in nodes
            ]
            await asyncio.sleep(length)
            for end in ends:
                end()

    return act


def _cut(table: Table, scenario: Scenario) -> Act:
    """Holds the traffic between members and nodes back for some time."""

    def begin(world: World, pod: str, node: str) -> Callable[[], None]:
        world.network.cut(pod, node)
        return lambda: world.network.heal(pod, node)

    return _on_links(table, scenario, begin)


def _slow(table: Table, scenario: Scenario) -> Act:
    """Multiplies the latency between members and nodes for some time."""
    factor = table.take("factor", reading.number)

    def begin(world: World, pod: str, node: str) -> Callable[[], None]:
        link: Link = world.network.link(pod, node)
        link.factor = factor

        def end() -> None:
            link.factor = 1.0

        return end

    return _on_links(table, scenario, begin)


def _disconnect(table: Table, scenario: Scenario) -> Act:
    """Resets the connections of members."""
    group = _group(table, scenario)
    count = table.take("members", _MEMBERS, None)

    async def act(stage: Stage) -> None:
        fleet = stage.fleets[group]
        for slot in fleet.chosen(count):
            stage.world.network.disconnect(fleet.pods[slot].process)

    return act


_VERBS: Final[Mapping[str, Callable[[Table, Scenario], Act]]] = {
    "start": _start,
    "stop": _stop,
    "crash": _crash,
    "roll": _roll,
    "scale": _scale,
    "pause": _pause,
    "stall": _stall,
    "grow": _grow,
    "stop-node": _on_node(lambda world, node: world.brokers.stop(node)),
    "crash-node": _crash_node,
    "start-node": _on_node(lambda world, node: world.brokers.start(node)),
    "move-coordinator": _move,
    "cut": _cut,
    "slow": _slow,
    "disconnect": _disconnect,
}
