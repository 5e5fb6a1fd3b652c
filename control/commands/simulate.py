"""The command ``kohort simulate``: plays a scenario on virtual time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kohort.control.terminal import examples, fail, parse_pairs

if TYPE_CHECKING:
    from kohort.simulation.scenario.measures import Measures
    from kohort.simulation.scenario.model import Scenario

FOLDERS: Final = ("first", "second")
"""Folders for the files of two scenarios."""

_SHRINK_S: Final = 120.0
"""CPU time for the reduction of a scenario."""


def read_seeds(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> range | None:
    """The seeds of a range such as ``0..99``, both ends included."""
    if value is None:
        return None
    from kohort.simulation.scenario import reading

    try:
        return reading.seeds(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("scenario", required=False)
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, help="Determines the whole run."
)
@click.option(
    "--seeds",
    metavar="A..B",
    callback=read_seeds,
    help="Plays it with each seed of a range, such as 0..9, on all cores.",
)
@click.option(
    "--set",
    "changes",
    metavar="KEY=VALUE",
    multiple=True,
    help="Changes a value of the scenario. Can be given more than once.",
)
@click.option(
    "--compare",
    "pair",
    metavar="SCENARIO SCENARIO",
    nargs=2,
    help="Compares two scenarios, with --seeds.",
)
@click.option(
    "--against",
    "others",
    metavar="KEY=VALUE",
    multiple=True,
    help="Compares the scenario with itself after this change, with --seeds. Can be"
    " given more than once, for several changes.",
)
@click.option(
    "--from",
    "recorded",
    metavar="EVENTS",
    help="Makes the scenario of a group in a file of events, as it was recorded.",
)
@click.option("--group", metavar="GROUP", help="The group of --from.")
@click.option("--print", "prints", is_flag=True, help="Prints the scenario as TOML.")
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Writes the events of each run there, as SCENARIO-SEED.jsonl, and its"
    " measures, as SCENARIO-SEED.json. DIR is also a lake of kohort pipeline.",
)
@click.option(
    "--check",
    "checks",
    is_flag=True,
    help="Checks invariants after each event, and prints no measures. A run that"
    " violates one is reduced to the smallest scenario that still does.",
)
@click.option("--list", "lists", is_flag=True, help="Lists the ready scenarios.")
@examples(
    "kohort simulate --list",
    "kohort simulate rolling-deployment --seed 7 --out runs",
    "kohort simulate cold-start --seeds 0..9 --set groups.billing.members=50",
    "kohort simulate --compare before.toml after.toml --seeds 0..9",
    "kohort simulate --from events.jsonl --against groups.billing.static=true"
    " --seeds 0..9",
    "kohort simulate my.toml --seeds 0..99 --check",
    "kohort why billing --events runs/rolling-deployment-7.jsonl",
)
def simulate(
    scenario: str | None,
    *,
    seed: int,
    seeds: range | None,
    changes: tuple[str, ...],
    pair: tuple[str, str] | None,
    others: tuple[str, ...],
    recorded: str | None,
    group: str | None,
    prints: bool,
    out: Path | None,
    checks: bool,
    lists: bool,
) -> None:
    """Plays a scenario on virtual time, and measures it.

    SCENARIO is a ready scenario or a TOML file. The coordinator, the members of the
    groups and the wire are kohort's own; clock and network are virtual. The same seed
    always gives the same events.
    """
    if lists:
        _list()
        return
    sources = [each for each in (scenario, recorded, pair) if each]
    if len(sources) != 1:
        text = "SCENARIO is missing; --list shows the ready ones"
        fail("give one of SCENARIO, --from, --compare" if sources else text, 2)
    if pair and others:
        fail("--compare and --against exclude each other", 2)
    if group is not None and recorded is None:
        fail("--group is an option of --from", 2)
    changed, against = parse_pairs("--set", changes), parse_pairs("--against", others)
    with failures(out):
        if recorded is not None:
            scenarios = [_recorded(recorded, group).changed(changed)]
        else:
            scenarios = [_loaded(name, changed) for name in pair or (str(scenario),)]
        if against:
            scenarios.append(scenarios[0].changed(against))
        chosen = [seed] if seeds is None else seeds
        if prints:
            _print(scenarios[-1])
        elif checks:
            _check(scenarios, chosen)
        else:
            _play(scenarios, chosen, out)


@contextmanager
def failures(out: Path | None) -> Iterator[None]:
    """Ends the command if a scenario has a mistake, or a simulation fails."""
    from kohort.simulation.scenario.reading import ScenarioError
    from kohort.simulation.world.scheduler import SimulationError

    try:
        yield
    except ScenarioError as error:
        fail(str(error), 2)
    except SimulationError as error:
        fail(f"the simulation failed: {error}", 1)
    except InterruptedError:
        raise
    except OSError as error:
        fail(f"{error.filename or out}: {error.strerror or error}", 1)


def _play(
    scenarios: Sequence[Scenario], seeds: Sequence[int], out: Path | None
) -> None:
    runs = _runs(scenarios, seeds, out)
    if len(scenarios) > 1:
        _show_comparison(scenarios, runs)
    else:
        _show(scenarios[0], runs[0])
    if out is not None:
        folders = [out] if len(scenarios) == 1 else [out / each for each in FOLDERS]
        for folder, scenario in zip(folders, scenarios, strict=True):
            click.echo(f"events: {folder}/{scenario.name}-*.jsonl")


def _print(scenario: Scenario) -> None:
    from kohort.simulation.scenario.toml import toml_of

    click.echo(toml_of(scenario.values), nl=False)


def _loaded(name: str, changes: Sequence[tuple[str, str]]) -> Scenario:
    from kohort.simulation.scenario.model import load

    return load(name, changes)


def _check(scenarios: Sequence[Scenario], seeds: Sequence[int]) -> None:
    """Plays each seed with all checks, up to the first violation."""
    from kohort.control.terminal import counted
    from kohort.simulation.checking.run import check
    from kohort.simulation.checking.shrink import report
    from kohort.simulation.scenario.runs import quiet

    for scenario in scenarios:
        for seed in seeds:
            with quiet():
                found = check(scenario, seed)
                if found is not None:
                    text = report(scenario.name, scenario.values, found, _SHRINK_S)
            if found is not None:
                click.echo(text)
                fail(f"seed {seed} violates an invariant", 1)
        click.echo(f"{scenario.title}: no violation in {counted(len(seeds), 'run')}")


def _list() -> None:
    import tomllib

    from kohort.control.tables import show, table
    from kohort.simulation.scenario.model import ready_scenarios

    rows = [
        (name, tomllib.loads(toml)["title"]) for name, toml in ready_scenarios().items()
    ]
    show(table(("scenario", "title"), rows))


def _recorded(path: str, group: str | None) -> Scenario:
    """The scenario of a group in a file of events."""
    from kohort.control.events_file import STDIO, read_in_order
    from kohort.simulation.scenario.model import parse
    from kohort.simulation.scenario.recorded import values_of

    return read_in_order(
        path,
        path,
        () if group is None else (group,),
        lambda lines: parse(
            "recorded" if path == STDIO else Path(path).stem,
            values_of((line.event for line in lines), group),
        ),
    )


def _runs(
    scenarios: Sequence[Scenario], seeds: Sequence[int], out: Path | None
) -> list[list[Measures]]:
    """Plays each scenario with each seed, and shows the progress on a terminal.

    The files of two scenarios go to two folders.
    """
    from rich.progress import Progress

    from kohort.control.tables import terminal
    from kohort.simulation.scenario import happenings
    from kohort.simulation.scenario.runs import has_parquet, play_all, task_of

    tasks = []
    for number, scenario in enumerate(scenarios):
        happenings.read(scenario)
        lake = out if has_parquet() else None
        many = len(scenarios) > 1
        own = out / FOLDERS[number] if many and out is not None else out
        tasks += [task_of(scenario, [seed], own, lake) for seed in seeds]
    total = len(seeds) * sum(scenario.duration for scenario in scenarios)
    console = terminal(err=True)
    shown = Progress(console=console, transient=True, disable=not console.is_terminal)
    found: dict[int, Measures] = {}
    with shown as progress:
        bar = progress.add_task(scenarios[0].name, total=total)
        for number, measures in play_all(tasks, 0, lambda s: progress.advance(bar, s)):
            found[number] = measures[0]
    runs = [found[number] for number in range(len(tasks))]
    return [
        runs[first : first + len(seeds)] for first in range(0, len(runs), len(seeds))
    ]


def _show(scenario: Scenario, runs: list[Measures]) -> None:
    from kohort.control.tables import show, table
    from kohort.control.terminal import counted
    from kohort.simulation.scenario.measures import table_rows

    head = f"{scenario.title}: {counted(len(runs), 'run')}"
    show(head, table(("measure", "value"), table_rows(runs), numbers=("value",)))


def _show_comparison(
    scenarios: Sequence[Scenario], runs: Sequence[list[Measures]]
) -> None:
    from kohort.control.tables import show, table
    from kohort.simulation.scenario.comparing import compare, verdict

    first, second = scenarios
    names = first.name, second.name
    if len({*names}) == 1:
        new = {*second.changes.items()} - {*first.changes.items()}
        changes = ", ".join(f"{key}={value}" for key, value in sorted(new))
        names = first.name, changes or f"the second {second.name}"
    found = compare(*runs)
    columns = "measure", "first", "second", "difference", "95 % interval"
    rows = [each.cells() for each in found]
    show(
        f"first: {names[0]}",
        f"second: {names[1]}",
        table(columns, rows, numbers=columns[1:]),
        verdict(found, names, len(runs[0])),
    )
