"""Plays a scenario with all checks."""

from __future__ import annotations

from typing import Any, Final

from kohort.broker.coordinator.effects import OffsetRecord
from kohort.protocol.slotted import slotted
from kohort.simulation.checking import drivers
from kohort.simulation.checking.pods import Pods
from kohort.simulation.checking.violation import ViolationError
from kohort.simulation.scenario.fleet import Fleet
from kohort.simulation.scenario.model import Scenario
from kohort.simulation.scenario.play import Play
from kohort.simulation.scenario.reading import ScenarioError
from kohort.simulation.scenario.runs import forget
from kohort.simulation.world.records import FlowingPartition
from kohort.simulation.world.scheduler import START, SimulationError
from kohort.simulation.world.world import World

SLACK_S: Final = 5.0
"""Added to the bound: back-offs, reconnections, heartbeats."""


@slotted
class Finding:
    """A violation in a run.

    Attributes:
        seed: of the run.
        at: seconds since its start.
        words: one sentence: the invariant, or the exception of a process.
    """

    seed: int
    at: float
    words: str


class Checks:
    """All checks of one run.

    Args:
        play: the run, which has not begun.
    """

    def __init__(self, play: Play) -> None:
        self._play = play
        self._world = world = play.world
        self._pods = Pods(world, self.fail)
        self._calm_since: float | None = None
        world.watch = self._pods
        drivers.watch(world.brokers.cluster.shards, self)

    def fail(self, error: Exception) -> None:
        """Ends the run behind the present event."""
        self._world.scheduler.errors.append(error)

    def committed(self, record: OffsetRecord) -> None:
        """Takes an offset that was committed."""
        self._pods.committed(record)

    def step(self) -> None:
        """Checks that groups have settled, if that much time has passed since faults.

        Raises:
            ViolationError: one of them has not.
        """
        now, pods = self._world.scheduler.now, self._world.pods.values()
        is_over = all(act.done() for act in self._play.acts)
        has_faults = self._world.brokers.faults.is_active
        if has_faults or not is_over or any(pod.is_disturbed for pod in pods):
            self._calm_since = None
            return
        since = self._calm_since = self._calm_since or now
        for fleet in self._play.fleets.values():
            bound_s = settle_s(fleet, self._world)
            if now - since >= bound_s:
                why = _unsettled(fleet, self._world) or self._unread(fleet, since)
                if why:
                    raise ViolationError(
                        f"a group settles within {bound_s:g} s of calm, unlike "
                        f"{fleet.spec.name}: {why}"
                    )

    def _unread(self, fleet: Fleet, since: float) -> str:
        """The partition that an idle member does not read; "" if there is none."""
        topics = self._world.brokers.cluster.topics.by_name
        for pod in fleet.pods.values():
            for topic, index in sorted(pod.owned) if pod.is_idle else ():
                partition = topics[topic].partitions[index]
                assert isinstance(partition, FlowingPartition)
                end = self._pods.handled_up_to(fleet.spec.name, topic, index)
                if end < partition.arrivals.end(since):
                    return (
                        f"{pod.name} leaves the records of {topic}-{index} from {end}"
                    )
        return ""


def settle_s(fleet: Fleet, world: World) -> float:
    """The bound within which a group settles once nothing disturbs it.

    The sessions of dead members expire; the next rebalance waits for slow members, and
    a cooperative one is followed by another; members learn of new partitions; and a
    request without an answer is given up.
    """
    settings = world.brokers.cluster.config
    for pod in fleet.pods.values():
        config = pod.config
        session_ms = config.session_timeout_ms
        if config.group_protocol == "consumer":
            session_ms = settings["group.consumer.session.timeout.ms"]
        total_ms = session_ms + 2 * config.max_poll_interval_ms
        total_ms += config.metadata_max_age_ms + config.request_timeout_ms
        total_ms += settings["group.initial.rebalance.delay.ms"]
        return SLACK_S + float(total_ms) / 1000
    return SLACK_S


def _unsettled(fleet: Fleet, world: World) -> str:
    """The reason why a group has not settled; "" if it has."""
    spec, brokers = fleet.spec, world.brokers.cluster
    shards = brokers.shards
    shard = shards.for_id(spec.name) if len(shards) else None
    if shard is None or shard.driver is None:
        return ""  # no node runs, or no member has come yet
    group: Any = shard.groups.get(spec.name)
    alive = [pod for pod in fleet.pods.values() if pod.is_alive]
    waiting = sorted(pod.name for pod in alive if not pod.is_settled)
    if waiting:
        return f"{', '.join(waiting)} without an assignment"
    known = {} if group is None else group.members
    if known.keys() != {pod.member_id for pod in alive}:
        return "its coordinator has other members than are alive"
    owned = sorted(place for pod in alive for place in pod.owned)
    wanted = sorted(
        (topic, index)
        for topic in spec.topics
        for index in range(len(brokers.topics.by_name[topic].partitions))
    )
    if alive and owned != wanted:
        left = ", ".join(f"{t}-{p}" for t, p in wanted if (t, p) not in owned)
        return f"no member reads {left}" if left else "partitions have several owners"
    return ""


def check(scenario: Scenario, seed: int) -> Finding | None:
    """Plays a scenario with all checks.

    Args:
        scenario: the scenario.
        seed: of the run.

    Returns:
        The first violation, or None.

    Raises:
        ScenarioError: a happening has a mistake, or is impossible.
    """
    try:
        return _played(scenario, seed)
    finally:
        forget()


def _played(scenario: Scenario, seed: int) -> Finding | None:
    play = Play(scenario, seed)
    checks = Checks(play)
    try:
        for _ in play.steps():
            checks.step()
    except Exception as error:  # noqa: BLE001 - any of them is what is looked for
        cause = error.__cause__ if isinstance(error, SimulationError) else error
        cause = cause or error
        if isinstance(cause, ScenarioError):
            raise cause from None
        words = str(cause)
        if not isinstance(cause, ViolationError):
            words = f"a process failed: {cause!r}"
        return Finding(seed, play.world.scheduler.now - START, words)
    return None
