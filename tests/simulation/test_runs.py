"""Runs on all cores, and what is left of them."""

from __future__ import annotations

import tomllib
import weakref

from tests.simulation.test_scenario import SMALL

from kohort.simulation.scenario.model import Scenario, parse
from kohort.simulation.scenario.runs import begun, forget, play_all, task_of
from kohort.simulation.sweep.work import rows_of


def scenario(**changes: str) -> Scenario:
    """A short scenario."""
    return parse("small", tomllib.loads(SMALL), {"duration": "15s"} | changes)


def test_processes_play_the_same() -> None:
    """As one process does, in which runs follow one another."""
    tasks = [task_of(scenario(), [seed, seed + 1]) for seed in (1, 3)]
    here, there = (
        {
            number: rows_of({}, tasks[number].seeds, found)
            for number, found in play_all(tasks, processes)
        }
        for processes in (1, 2)
    )
    assert here == there
    assert here[0] != here[1]


def test_a_run_is_forgotten() -> None:
    """The broker's caches would keep the topics of thousands of runs."""
    run = begun(scenario(), 1, None)
    run.run()
    world = weakref.ref(run.world)
    del run
    forget()
    assert world() is None


def test_other_settings_are_another_run() -> None:
    """Its id is another, too, so tables keep them apart."""

    def run_id(**changes: str) -> str:
        run = begun(scenario(duration="1s", **changes), 1, None)
        run.run()
        return run.world.brokers.events.run

    assert run_id() == run_id()
    assert run_id() != run_id(**{"groups.billing.static": "true"})
