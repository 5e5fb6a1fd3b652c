"""Plays a scenario with a seed, and measures it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from typing import Final

from kohort.broker.events.seen import Seen
from kohort.simulation.scenario import happenings
from kohort.simulation.scenario.fleet import Fleet
from kohort.simulation.scenario.happenings import Happening, Stage
from kohort.simulation.scenario.measures import Measures, Meter
from kohort.simulation.scenario.model import Scenario
from kohort.simulation.world.world import World

STEPS: Final = 200
"""Steps of a simulation, between which it can be watched."""


class Play:
    """One run of a scenario.

    Args:
        scenario: the scenario.
        seed: determines everything that happens.
        listener: called with each event of the brokers, as it is published.

    Attributes:
        world: the world.
        fleets: the pods of each group.
        acts: the starts of members, and the happenings.

    Raises:
        ScenarioError: a happening has a mistake.
    """

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        listener: Callable[[Seen], object] | None = None,
    ) -> None:
        acts = happenings.read(scenario)
        self.world = World(
            seed,
            scenario.config,
            nodes=scenario.nodes,
            latency=scenario.latency,
            labels=labels_of(scenario, seed),
            run=str(uuid.UUID(scenario.digest([seed]), version=4)),
            listener=listener,
        )
        self.acts: list[asyncio.Task[None]] = []
        self._scenario = scenario
        self._meter = Meter(self.world)
        self.world.brokers.events.listen(self._meter.add)
        for topic in scenario.topics.values():
            self.world.brokers.create_topic(topic.name, topic.partitions, topic.rate)
        self.fleets = {
            spec.name: Fleet(self.world, spec) for spec in scenario.groups.values()
        }
        stage = Stage(self.world, self.fleets)
        for fleet in self.fleets.values():
            start = fleet.start_many(fleet.spec.members)
            self.acts.append(self.world.director.spawn(start))
        for happening in acts:
            self.acts.append(self.world.director.spawn(_happen(happening, stage)))

    def steps(self) -> Iterator[float]:
        """Lets time pass, in steps; yields the seconds since the start.

        Raises:
            SimulationError: a process failed, or a happening was impossible.
        """
        duration = self._scenario.duration
        try:
            for number in range(1, STEPS + 1):
                self.world.run(duration * number / STEPS - self.world.elapsed)
                yield self.world.elapsed
            self._meter.settle()
            self.world.close()
        finally:
            self.world.kill()

    def run(self) -> Measures:
        """Lets all time pass."""
        for _ in self.steps():
            pass
        return self.measures()

    def measures(self) -> Measures:
        """The measures of the whole run; once all steps are done."""
        return self._meter.measures()


def labels_of(scenario: Scenario, seed: int) -> dict[str, str]:
    """The labels of a run: its scenario, its seed, and what was changed."""
    return {**scenario.changes, "scenario": scenario.name, "seed": str(seed)}


async def _happen(happening: Happening, stage: Stage) -> None:
    await asyncio.sleep(happening.at)
    await happening.act(stage)
