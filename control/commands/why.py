"""The command ``kohort why``: its options, and the source of the events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from kohort.control.terminal import DEFAULT_HTTP, fail, json_option

if TYPE_CHECKING:
    from kohort.control.why.history import History

Event = Mapping[str, Any]


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
    help=f"The HTTP port of a running broker.  [default: {DEFAULT_HTTP}]",
)
@click.option(
    "-n",
    "--last",
    metavar="N",
    type=click.IntRange(min=0),
    help="Only the last N rebalances; findings are about all.",
)
@json_option
def why(
    group: str | None,
    *,
    file: str | None,
    http: str | None,
    last: int | None,
    as_json: bool,
) -> None:
    """Explains why a group rebalanced, and gives advice.

    Without GROUP it lists the groups, one line each. A running broker remembers the
    latest events of each group; a file has all of them.
    """
    # The environment may name a broker for other commands.
    source = click.get_current_context().get_parameter_source("http")
    if file is not None and source is click.core.ParameterSource.COMMANDLINE:
        fail("--http: not with --events, which names the source of the events", 2)
    if file is None:
        found = _of_broker(http or DEFAULT_HTTP, group)
    else:
        found = _of_file(file, group)
    if as_json:
        documents = [_as_json(history, last) for history in found]
        click.echo(json.dumps(documents if group is None else documents[0], indent=2))
        return
    from kohort.control.commands.why_printing import show, show_groups

    if group is None:
        show_groups(found)
    else:
        show(found[0], last)


def _as_json(history: History, last: int | None) -> dict[str, Any]:
    document = history.as_json()
    if last is not None:
        document["rebalances"] = document["rebalances"][-last:] if last else []
    return document


def _found(
    events: Iterable[Event], group: str | None, now_ns: int | None = None
) -> list[History]:
    """The history of the group, or of all of them; ends the command without one."""
    from kohort.control.group import no_group
    from kohort.control.why.history import histories, history

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
    from kohort.control.remote import reached

    with reached(http) as remote:
        answer = remote.get("events.json", query={"group": group} if group else {})
        if group and not answer.get("events"):
            answer = remote.get("events.json")  # for the names of the others
    events, now_ns = answer.get("events"), answer.get("now_ns")
    if not isinstance(events, list):
        fail(f"{remote.url} has no events to show", 1)
    return _found(events, group, now_ns)


def _of_file(path: str, group: str | None) -> list[History]:
    from kohort.control.events_file import STDIO, Line, read_in_order

    def found(lines: Iterable[Line]) -> list[History]:
        return _found((line.event for line in lines), group)

    return read_in_order(path, "stdin" if path == STDIO else path, (), found)
