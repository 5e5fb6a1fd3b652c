"""Sweeps: their grids, their results, and their recommendations."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.simulation.test_scenario import SMALL

from kohort.simulation.scenario.comparing import Interval
from kohort.simulation.scenario.measures import NUMBERS
from kohort.simulation.scenario.reading import ScenarioError
from kohort.simulation.scenario.runs import play_all
from kohort.simulation.sweep import work
from kohort.simulation.sweep.grid import Goal, Sweep, load, parse, ready_sweeps
from kohort.simulation.sweep.results import Point, recommendation, short, summed_up

VALUES: dict[str, Any] = {
    "scenario": "small.toml",
    "seeds": "0..2",
    "seeds_per_task": 2,
    "set": {"duration": "20s"},
    "grid": {
        "groups": {"billing": {"static": [False, True]}},
        "groups.billing.settings.session.timeout.ms": [6000, 10000],
    },
    "goals": {"unread_s": 1},
}
STATIC = "groups.billing.static"
SESSION = "groups.billing.settings.session.timeout.ms"
GRID = {"a.static": ["false", "true"], "a.settings.x.ms": ["1", "5", "10"]}


def made(folder: Path, **changes: Any) -> Sweep:
    """A sweep over a small scenario."""
    (folder / "small.toml").write_text(SMALL)
    return parse("sweep", {**VALUES, **changes}, folder)


def test_a_grid_has_all_combinations(tmp_path: Path) -> None:
    """Each with all seeds, divided into tasks."""
    sweep = made(tmp_path)
    assert [[*settings.values()] for settings, _ in sweep.points] == [
        [*each] for each in itertools.product(("false", "true"), ("6000", "10000"))
    ]
    tasks = [task for _, task in sweep.tasks()]
    assert [[*task.seeds] for task in tasks] == [[0, 1], [2]] * 4
    assert tasks[0].changes == {
        "duration": "20s",
        STATIC: "false",
        SESSION: "6000",
    }
    assert tasks[0].scenario.duration == 20


def test_the_ready_sweeps_are_valid() -> None:
    """With all their combinations."""
    for name in ready_sweeps():
        assert load(name).goals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": {}}, "grid: must have 1 to"),
        ({"grid": {STATIC: True}}, f"grid.{STATIC}: True: must be a list"),
        ({"grid": {STATIC: [3]}}, f"{STATIC}: 3: must be true or false"),
        ({"seeds": "9..1"}, "seeds: '9..1': begins behind its end"),
        ({"goals": {"unread": 1}}, "goals.unread: is no key here; did you mean unread"),
        ({"goal": {}}, "goal: is no key here; did you mean goals"),
        ({"scenario": "large"}, "large: No such file"),
    ],
)
def test_a_mistake_names_its_place(
    changes: Mapping[str, Any], message: str, tmp_path: Path
) -> None:
    """Mistakes of the sweep or of its scenario are named."""
    with pytest.raises(ScenarioError) as raised:
        made(tmp_path, **changes)
    assert message in str(raised.value)


def test_results_are_kept(tmp_path: Path) -> None:
    """By all that determines them; on Spark they are the same."""
    sweep = made(tmp_path, grid={STATIC: [False]})
    results = work.Results(tmp_path / "results")
    (settings, task), (_, other) = sweep.tasks()
    ((_, measures),) = play_all([task])
    text = work.rows_of(settings, task.seeds, measures)
    assert not results.has(task)
    results.keep(task, text)
    assert results.has(task)
    assert not results.has(other)
    changed = made(tmp_path, grid={STATIC: [False]}, set={"duration": "21s"})
    assert not any(results.has(each) for _, each in changed.tasks())
    (point,) = summed_up(results.rows(task))
    assert point.settings == {STATIC: "false"}
    assert point.numbers["rebalances"].mean == 1
    lines = [*work.lines(work.packed(7, settings, task))]
    assert lines[-1] == ("result", json.dumps([7, text]))
    assert lines[0][0] == "event"
    assert '"node_started"' in lines[0][1]


# -- recommendations


def told(meets: Callable[[str, int], bool]) -> str:
    """The recommendation for a grid, of which some settings meet the goal."""
    goal = Goal(NUMBERS[0], 10)
    points = [
        Point(
            dict(zip(GRID, values, strict=True)),
            {"unread_s": Interval(5.0 if meets(values[0], int(values[1])) else 50, *n)},
        )
        for values in itertools.product(*GRID.values())
        for n in [(None, None)]
    ]
    return recommendation(GRID, points, [goal])


def test_recommendations() -> None:
    """Ranges where there are, and else value by value."""
    assert told(lambda *_: True) == "all settings of this grid"
    assert told(lambda _, ms: ms <= 5) == "x.ms at most 5"
    assert told(lambda _, ms: ms >= 5) == "x.ms at least 5"
    assert told(lambda _, ms: ms == 5) == "x.ms=5"
    both = told(lambda static, ms: static == "true" and ms < 10)
    assert both == "static=true and x.ms at most 5"
    either = told(lambda static, ms: static == "true" or ms == 1)
    assert either == (
        "with static=false: x.ms at most 1; with static=true: all settings of this grid"
    )
    assert told(lambda *_: False) == (
        "no settings of this grid; the nearest are static=false, x.ms=1, with a mean"
        " of 50.0"
    )


def test_the_upper_end_of_an_interval_counts() -> None:
    """The mean alone may be chance."""
    goal = Goal(NUMBERS[0], 10)
    assert Point({}, {"unread_s": Interval(9.0, 8.5, 9.5)}).meets(goal)
    assert not Point({}, {"unread_s": Interval(9.0, 7.0, 11.0)}).meets(goal)


def test_short_names_differ() -> None:
    """Kafka's own names where they do."""
    keys = ["brokers.config.group.max.size", "groups.a.static", "groups.b.static"]
    assert [*short(keys).values()] == ["group.max.size", *keys[1:]]
