"""``kohort why``: options, and where the events come from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from kohort.broker.cli import fail
from kohort.control.cli import DEFAULT_HTTP

if TYPE_CHECKING:
    from kohort.control.events_file import Line
    from kohort.control.why.history import History

Event = Mapping[str, Any]

STDIN = "-"


@click.command()
@click.argument("group", required=False)
@click.option(
    "--events",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="A file of `kohort serve --events`; - is stdin.",
)
@click.option(
    "--http",
    metavar="URL",
    envvar="KOHORT_HTTP",
    show_envvar=True,
    help=f"The HTTP port of a broker that runs.  [default: {DEFAULT_HTTP}]",
)
@click.option(
    "-n",
    "--last",
    metavar="N",
    type=click.IntRange(min=0),
    help="Only the last N rebalances; findings are about all.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def why(
    group: str | None,
    *,
    file: str | None,
    http: str | None,
    last: int | None,
    as_json: bool,
) -> None:
    """Says why a group rebalanced, and what helps.

    Without GROUP it says what groups there are, in a line each. A broker that runs
    remembers the latest of what happened to each group; a file has all of it.
    """
    # The environment may name a broker for other commands.
    source = click.get_current_context().get_parameter_source("http")
    if file is not None and source is click.core.ParameterSource.COMMANDLINE:
        fail("--http: --events says already where the events are", 2)
    if file is None:
        found = _of_broker(http or DEFAULT_HTTP, group)
    else:
        found = _of_file(file, group)
    if as_json:
        told = [_as_json(history, last) for history in found]
        click.echo(json.dumps(told if group is None else told[0], indent=2))
        return
    from kohort.control.why.printing import show, show_groups  # noqa: PLC0415 - slowly

    if group is None:
        show_groups(found)
    else:
        show(found[0], last)


def _as_json(history: History, last: int | None) -> dict[str, Any]:
    told = history.as_json()
    if last is not None:
        told["rebalances"] = told["rebalances"][-last:] if last else []
    return told


def _found(
    events: Iterable[Event], group: str | None, now_ns: int | None = None
) -> list[History]:
    """The history of the group, or of all of them; ends the command without one."""
    from kohort.control.group import no_group  # noqa: PLC0415 - loads late
    from kohort.control.why.history import histories, history  # noqa: PLC0415 - too

    if group is None:
        all_of_them = histories(events, now_ns)
        if not all_of_them:
            fail("there is no event of any group", 1)
        return [all_of_them[name] for name in sorted(all_of_them)]
    names: set[str] = set()
    found = history(_noted(events, names), group, now_ns)
    if not found.facts.events:
        fail(no_group(group, names, "event of group"), 1)
    return [found]


def _noted(events: Iterable[Event], names: set[str]) -> Iterator[Event]:
    """The events, and, once they are read, whose they are."""
    for event in events:
        if event.get("group") is not None:
            names.add(event["group"])
        yield event


def _of_broker(http: str, group: str | None) -> list[History]:
    from kohort.control.remote import Remote, RemoteError  # noqa: PLC0415 - loads late

    try:
        remote = Remote(http)
    except ValueError as error:
        fail(f"--http {error}", 2)
    try:
        answer = remote.get("events.json", query={"group": group} if group else {})
        if group and not answer.get("events"):
            answer = remote.get("events.json")  # for the names of the others
    except RemoteError as error:
        fail(str(error), 1)
    events, now_ns = answer.get("events"), answer.get("now_ns")
    if not isinstance(events, list):
        fail(f"{remote.url} has no events to show", 1)
    return _found(events, group, now_ns)


def _of_file(path: str, group: str | None) -> list[History]:
    from kohort.control import events_file  # noqa: PLC0415 - loads late

    name = "stdin" if path == STDIN else path

    def cut_off(number: int) -> None:
        click.echo(f"kohort: {name}, line {number}: is cut off, left out", err=True)

    try:
        with events_file.opened(path) as file:

            def lines() -> Iterator[Line]:
                shown = events_file.shown(file, name)
                return events_file.read(shown, (), cut_off)

            return _in_order(lines, group)
    except OSError as error:
        fail(f"{path}: {error.strerror or error}", 1)
    except events_file.NoEventError as error:
        fail(f"{name}, {error}", 1)


def _in_order(lines: Callable[[], Iterator[Line]], group: str | None) -> list[History]:
    """What is in a file; read as it is, or, if need be, in memory."""
    from kohort.control import events_file  # noqa: PLC0415 - loads late

    try:
        return _found((x.event for x in events_file.in_order(lines())), group)
    except events_file.NotInOrderError:
        sorted_lines = events_file.put_in_order(lines())
        return _found((line.event for line in sorted_lines), group)
