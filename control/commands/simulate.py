"""The command ``kohort simulate``: plays a scenario on virtual time."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kohort.control.terminal import examples, fail, parse_pairs

if TYPE_CHECKING:
    from kohort.broker.events.seen import Seen
    from kohort.simulation.scenario.measures import Measures
    from kohort.simulation.scenario.model import Scenario
    from kohort.simulation.scenario.play import Play

_SHRINK_S: Final = 120.0
"""CPU time for the reduction of a scenario."""


def _read_seeds(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> range | None:
    """The seeds of a range such as ``0..99``, both ends included."""
    if value is None:
        return None
    first, dots, last = value.partition("..")
    if not dots or not first.isdecimal() or not last.isdecimal():
        raise click.BadParameter(f"{value!r}: must be A..B, such as 0..9")
    if int(first) > int(last):
        raise click.BadParameter(f"{value!r}: begins behind its end")
    return range(int(first), int(last) + 1)


@click.command()
@click.argument("scenario", required=False)
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, help="Determines the whole run."
)
@click.option(
    "--seeds",
    metavar="A..B",
    callback=_read_seeds,
    help="Plays it with each seed of a range, such as 0..9.",
)
@click.option(
    "--set",
    "changes",
    metavar="KEY=VALUE",
    multiple=True,
    help="Changes a value of the scenario. Can be given more than once.",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Writes the events of each run there, as SCENARIO-SEED.jsonl, and its"
    " measures, as SCENARIO-SEED.json.",
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
    "kohort simulate my.toml --seeds 0..99 --check",
    "kohort why billing --events runs/rolling-deployment-7.jsonl",
)
def simulate(
    scenario: str | None,
    *,
    seed: int,
    seeds: range | None,
    changes: tuple[str, ...],
    out: Path | None,
    checks: bool,
    lists: bool,
) -> None:
    """Plays a scenario on virtual time, and measures it.

    SCENARIO is a ready scenario or a TOML file. The coordinator, the members of the
    groups and the wire are kohort's own; clock and network are virtual. The same seed
    always gives the same events.
    """
    from kohort.simulation.scenario.model import load
    from kohort.simulation.scenario.reading import ScenarioError
    from kohort.simulation.world.scheduler import SimulationError

    if lists or scenario is None:
        if not lists:
            fail("SCENARIO is missing; --list shows the ready ones", 2)
        _list()
        return
    try:
        loaded = load(scenario, parse_pairs("--set", changes))
        with _quiet():
            if checks:
                _check(loaded, [seed] if seeds is None else seeds)
                return
            runs = [*_runs(loaded, [seed] if seeds is None else seeds, out)]
    except ScenarioError as error:
        fail(str(error), 2)
    except SimulationError as error:
        fail(f"the simulation failed: {error}", 1)
    except OSError as error:
        fail(f"{error.filename or out}: {error.strerror or error}", 1)
    _show(loaded, runs, out)


@contextmanager
def _quiet() -> Iterator[None]:
    """Logs nothing: lost connections and refused members are what is simulated."""
    from kohort.broker import telemetry

    clients, level = logging.getLogger("kohort"), telemetry.level()
    before = clients.level
    clients.setLevel(logging.CRITICAL)
    telemetry.set_level(None, "critical")
    try:
        yield
    finally:
        clients.setLevel(before)
        telemetry.set_level(None, level)


def _check(scenario: Scenario, seeds: range | list[int]) -> None:
    """Plays each seed with all checks, up to the first violation."""
    from kohort.control.terminal import counted
    from kohort.simulation.checking.run import check
    from kohort.simulation.checking.shrink import report

    for seed in seeds:
        found = check(scenario, seed)
        if found is not None:
            click.echo(report(scenario.name, scenario.values, found, _SHRINK_S))
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


def _runs(
    scenario: Scenario, seeds: range | list[int], out: Path | None
) -> Iterator[Measures]:
    """Plays each seed, and shows the progress on a terminal."""
    from rich.progress import Progress

    from kohort.control.tables import terminal
    from kohort.simulation.scenario.play import Play

    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    console = terminal(err=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as (
        progress
    ):
        bar = progress.add_task(scenario.name, total=len(seeds) * scenario.duration)
        for number, seed in enumerate(seeds):
            with ExitStack() as stack:
                listener = None
                if out is not None:
                    file = stack.enter_context(_path(scenario, seed, out).open("wb"))
                    listener = _writer(file)
                play: Play = Play(scenario, seed, listener)
                for elapsed in play.steps():
                    done = number * scenario.duration + elapsed
                    progress.update(bar, completed=done)
                measures = play.measures()
            if out is not None:
                document = {"scenario": scenario.name, "seed": seed}
                document |= measures.as_json()
                path = _path(scenario, seed, out).with_suffix(".json")
                path.write_text(json.dumps(document, indent=2) + "\n")
            yield measures


def _path(scenario: Scenario, seed: int, out: Path) -> Path:
    return out / f"{scenario.name}-{seed}.jsonl"


def _writer(file: Any) -> Any:
    from kohort.broker.events.views.reading import json_of

    def write(seen: Seen) -> None:
        file.write(json_of(seen.event) + b"\n")

    return write


def _show(scenario: Scenario, runs: list[Measures], out: Path | None) -> None:
    from kohort.control.tables import show, table
    from kohort.control.terminal import counted
    from kohort.simulation.scenario.measures import table_rows

    head = f"{scenario.title}: {counted(len(runs), 'run')}"
    show(head, table(("measure", "value"), table_rows(runs), numbers=("value",)))
    if out is not None:
        click.echo(f"events: {out}/{scenario.name}-*.jsonl")
