"""The command ``kohort sweep``: a scenario over a grid of settings and seeds.

Tasks are played in processes of this machine, or on Spark; either way the command keeps
the results of a task when it is done, and makes the report of all results at the end.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kohort.control.commands.simulate import failures, read_seeds
from kohort.control.terminal import counted, examples, fail, parse_pairs
from kohort.pipeline.commands.options import run_options

if TYPE_CHECKING:
    from markupsafe import Markup

    from kohort.pipeline.commands.work import Access
    from kohort.pipeline.report import page
    from kohort.simulation.scenario.comparing import Interval
    from kohort.simulation.scenario.measures import Number
    from kohort.simulation.scenario.runs import Task
    from kohort.simulation.sweep.grid import Settings, Sweep
    from kohort.simulation.sweep.results import Point
    from kohort.simulation.sweep.work import Results

PER_SLOT: Final = 4
"""Tasks of Spark at a time, for each that it can play at the same time: the results of
all of them are kept together."""
_INTERVALS: Final = (
    "Whiskers and ± are 95 % intervals of the mean. A goal is met if the upper end of"
    " the interval does not exceed it."
)
_NO_INTERVALS: Final = "These are too few seeds for intervals: the mean decides."
CHARTS: Final = ("unread_s", "rebalances")
"""Numbers with charts, if the sweep has no goals."""

Tasks = Sequence[tuple["Settings", "Task"]]


@click.command()
@click.argument("sweep", required=False, metavar="SWEEP")
@click.option(
    "--set",
    "changes",
    metavar="KEY=VALUE",
    multiple=True,
    help="Changes a value of the scenario in all runs. Can be given more than once.",
)
@click.option(
    "--seeds",
    metavar="A..B",
    callback=read_seeds,
    help="Seeds in place of those of SWEEP.",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the results and the report.  [default: the name of SWEEP]",
)
@click.option("--list", "lists", is_flag=True, help="Lists the ready sweeps.")
@examples(
    "kohort sweep --list",
    "kohort sweep protocols",
    "kohort sweep sweep.toml --lake lake",
    "kohort sweep sweep.toml --master spark://host:7077 --lake s3a://bucket/lake",
)
@run_options
def sweep(
    access: Access,
    *,
    sweep: str | None,
    changes: tuple[str, ...],
    seeds: range | None,
    out: Path | None,
    lists: bool,
) -> int:
    """Finds settings that meet goals, by many simulations.

    SWEEP is a ready sweep or a TOML file: a scenario, which is played with each
    combination of some settings and with many seeds. The report has a curve for each
    setting, and the settings that meet each goal. A sweep that was interrupted goes on
    where it was. Runs are played on all cores, or on Spark (--master); the results are
    the same, to the byte. With --lake their events go into that lake.
    """
    from kohort.simulation.sweep.grid import load
    from kohort.simulation.sweep.work import Results

    if lists:
        _list()
        return 0
    if sweep is None:
        fail("SWEEP is missing; --list shows the ready ones", 2)
    if any(importlib.util.find_spec(each) is None for each in ("jinja2", "pyarrow")):
        fail(
            "sweeps need an extra: in a checkout of kohort, pip install '.[tables]'", 2
        )
    with failures(out):
        found = load(sweep, parse_pairs("--set", changes), seeds)
        out = Path(found.name) if out is None else out
        on_spark = bool(access.master or access.remote)
        lake = Path(access.lake_path) if access.lake_path and not on_spark else None
        tasks = [*found.tasks(lake)]
        results = Results(out / "results")
        left = [each for each in tasks if not results.has(each[1])]
        play = partial(_on_spark, name=found.name) if on_spark else _here
        for number, text in play(access, left):
            results.keep(left[number][1], text)
        _report(found, tasks, results, out)
    return 0


def _list() -> None:
    import tomllib

    from kohort.control.tables import show, table
    from kohort.simulation.sweep.grid import ready_sweeps

    ready = ready_sweeps().items()
    rows = [(name, tomllib.loads(toml)["title"]) for name, toml in ready]
    show(table(("sweep", "title"), rows))


# -- playing


def _here(access: Access, tasks: Tasks) -> Iterator[tuple[int, str]]:
    """Plays tasks in processes of this machine; yields their numbers and results."""
    from kohort.simulation.scenario.runs import play_all
    from kohort.simulation.sweep.work import rows_of

    total = sum(task.scenario.duration * len(task.seeds) for _, task in tasks)
    done, passed = 0, 0.0

    def advance(seconds: float = 0.0) -> None:
        nonlocal passed
        passed += seconds
        access.must_go_on()
        share = f"{100 * passed / total:.0f} %"
        access.progress.say(f"{done} of {counted(len(tasks), 'task')}, {share}")

    for number, measures in play_all([task for _, task in tasks], 0, advance):
        settings, task = tasks[number]
        yield number, rows_of(settings, task.seeds, measures)
        done += 1
        advance()


def _on_spark(access: Access, tasks: Tasks, name: str) -> Iterator[tuple[int, str]]:
    """Plays tasks on Spark; yields their numbers and results."""
    from kohort.pipeline.played import played
    from kohort.simulation.scenario.bronze import SOURCE
    from kohort.simulation.sweep.work import lines, packed

    if not tasks:
        return
    keeps = bool(access.lake_path)
    with access.open() as lake:
        size = PER_SLOT * _slots(lake.spark)
        for first in range(0, len(tasks), size):
            access.progress.say(f"{first} of {counted(len(tasks), 'task')}")
            some = tasks[first : first + size]
            texts = [packed(number, *each) for number, each in enumerate(some)]
            for text in played(lake, texts, lines, f"{SOURCE}/{name}", keeps=keeps):
                number, rows = json.loads(text)
                yield first + number, rows
            access.must_go_on()


def _slots(spark: Any) -> int:
    """Tasks that Spark plays at the same time."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001 - Spark Connect does not tell
        return 16


# -- the report


def _report(sweep: Sweep, tasks: Tasks, results: Results, out: Path) -> None:
    """Writes all results and the page, and prints the recommendations."""
    from kohort.control.tables import show, table
    from kohort.pipeline.report.page import sweep_page
    from kohort.simulation.scenario.comparing import FEWEST
    from kohort.simulation.sweep.results import recommendation, summed_up
    from kohort.simulation.sweep.work import write

    rows = [row for _, task in tasks for row in results.rows(task)]
    write(out / "results.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    points = summed_up(rows)
    groups = [[goal] for goal in sweep.goals]
    if len(groups) > 1:
        groups.append([*sweep.goals])
    goals = [
        (
            goals[0].title if len(goals) == 1 else "All goals together",
            recommendation(sweep.grid, points, goals),
        )
        for goals in groups
    ]
    seeds = sweep.seeds
    told = (
        f"{counted(len(rows), 'run')}: {counted(len(points), 'combination')} of"
        f" settings, each with the seeds {seeds[0]} to {seeds[-1]}. "
    )
    told += _NO_INTERVALS if len(seeds) < FEWEST else _INTERVALS
    page = sweep_page(sweep.title, told, _body(sweep, points, goals))
    write(out / "report.html", page)
    show(told, *([table(("goal", "settings"), goals)] if goals else []))
    click.echo(f"{out / 'report.html'}")


def _body(
    sweep: Sweep, points: Sequence[Point], goals: list[tuple[str, str]]
) -> page.Sweep:
    """The contents of the page: numbers that are not the same everywhere."""
    from kohort.pipeline.report import page
    from kohort.simulation.sweep.grid import MEASURED
    from kohort.simulation.sweep.results import short

    names = short(sweep.grid)
    most = {goal.number.name: goal.most for goal in sweep.goals}
    differing = [
        number
        for number in MEASURED
        if len({point.numbers[number.name].mean for point in points}) > 1
    ]
    figures = [
        (
            f"{number.title.strip().capitalize()} by {names[key]}",
            _chart(key, number, points, names, most.get(number.name)),
        )
        for number in differing
        if number.name in (most or CHARTS)
        for key, values in sweep.grid.items()
        if len(values) > 1
    ]
    rows = [
        [
            *point.settings.values(),
            *(_cell(point.numbers[each.name]) for each in differing),
        ]
        for point in points
    ]
    headings = [*names.values(), *(each.title.strip() for each in differing)]
    return page.Sweep(goals, figures, headings, len(names), rows)


def _chart(
    key: str,
    number: Number,
    points: Sequence[Point],
    names: Mapping[str, str],
    most: float | None,
) -> Markup:
    """The curves of a number by a setting, one for each combination of the others."""
    from kohort.pipeline.report import charts

    lines: dict[str, list[charts.Mark]] = {}
    for point in points:
        found = point.numbers[number.name]
        mark = charts.Mark(point.settings[key], found.mean, found.low, found.high)
        others = [f"{names[k]}={v}" for k, v in point.settings.items() if k != key]
        lines.setdefault(", ".join(others), []).append(mark)
    return charts.curves(names[key], number.title.strip(), lines, most)


def _cell(found: Interval) -> str:
    if found.high is None or found.low == found.high:
        return f"{found.mean:,.1f}"
    reach = f"{found.high - found.mean:,.1f}"
    return f"{found.mean:,.1f}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{reach}"
