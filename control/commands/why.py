"""The command ``kohort why``: its options, and the source of the events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from kohort.control.terminal import DEFAULT_HTTP, examples, fail, json_option

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
    help="Reads the file that kohort serve --events has written; - is stdin.",
)
@click.option(
    "--http",
    metavar="URL",
    envvar="KOHORT_HTTP",
    show_envvar=True,
    help=f"HTTP port of a running broker.  [default: {DEFAULT_HTTP}]",
)
@click.option(
    "-n",
    "--last",
    metavar="N",
    type=click.IntRange(min=0),
    help="Shows only the last N rebalances. Findings are about all of them.",
)
@json_option
@examples("kohort why billing", "kohort why billing --events events.jsonl --last 3")
def why(
    group: str | None,
    *,
    file: str | None,
    http: str | None,
    last: int | None,
    as_json: bool,
) -> None:
    """Explains why a group rebalanced, and gives advice.

    Without GROUP it lists all groups, one line each. Needs a broker with an HTTP port
    (kohort serve --http 9080), which remembers the latest events of each group, or a
    file with all events.
    """
    # The environment may name a broker for other commands.
    source = click.get_current_context().get_parameter_source("http")
    if file is not None and source is click.core.ParameterSource.COMMANDLINE:
        fail("--http: not with --events", 2)
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
    events: Iterable[Event],
    group: str | None,
    now_ns: int | None = None,
    waiting: Mapping[tuple[str, int], int] = MappingProxyType({}),
) -> list[History]:
    """The history of the group, or of all of them; ends the command without one."""
    from kohort.control.group import no_group
    from kohort.control.why.history import histories, history

    if group is None:
        all_of_them = histories(events, now_ns, waiting)
        if not all_of_them:
            fail("there are no groups yet", 1)
        return [all_of_them[name] for name in sorted(all_of_them)]
    names: set[str] = set()
    found = history(_noted(events, names), group, now_ns, waiting)
    if not found.facts.events:
        fail(no_group(group, names, "event of group"), 1)
    return [found]


def _noted(events: Iterable[Event], names: set[str]) -> Iterator[Event]:
    """Yields the events, and adds their groups to `names`."""
    for event in events:
        if event.get("group") is not None:
            names.add(event["group"])
        yield event


def _of_broker(http: str, group: str | None) -> list[History]:
    from kohort.control.remote import reached

    with reached(http) as remote:
        wanted = {"transactions": "true"} | ({"group": group} if group else {})
        answer = remote.get("events.json", query=wanted)
        events = answer.get("events")
        if group and not any(each.get("group") == group for each in events or ()):
            answer = remote.get("events.json")  # for the names of the others
            events = answer.get("events")
    if not isinstance(events, list):
        fail(f"{remote.url} has no events to show", 1)
    waiting = {
        (row["topic"], row["partition"]): row["records"]
        for row in answer.get("waiting", ())
    }
    return _found(events, group, answer.get("now_ns"), waiting)


def _of_file(path: str, group: str | None) -> list[History]:
    from kohort.control.events_file import STDIO, Line, read_in_order

    def found(lines: Iterable[Line]) -> list[History]:
        return _found((line.event for line in lines), group)

    return read_in_order(path, "stdin" if path == STDIO else path, (), found)
