"""``kohort why``: options, and where the events come from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from kohort.broker.cli import fail

DEFAULT_HTTP = "127.0.0.1:9080"


@click.command()
@click.argument("group")
@click.option(
    "--events",
    "file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
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
    group: str, *, file: str | None, http: str | None, last: int | None, as_json: bool
) -> None:
    """Says why a group rebalanced, and what helps.

    Of a broker that runs it knows what that remembers: its last 10,000 events. A file
    has all of them.
    """
    # The environment may name a broker for other commands.
    source = click.get_current_context().get_parameter_source("http")
    if file is not None and source is click.core.ParameterSource.COMMANDLINE:
        fail("--http: --events says already where the events are", 2)
    from kohort.control.why.history import history  # noqa: PLC0415 - loads late

    events = _of_broker(http or DEFAULT_HTTP, group) if file is None else _of_file(file)
    found = history(events, group)
    if not found.facts.events:
        fail(f"there is no event of group {group!r}", 1)
    if as_json:
        told = found.as_json()
        if last is not None:
            told["rebalances"] = told["rebalances"][-last:] if last else []
        click.echo(json.dumps(told, indent=2))
    else:
        from kohort.control.why.printing import show  # noqa: PLC0415 - rich, slowly

        show(found, last)


def _of_broker(http: str, group: str) -> list[dict[str, Any]]:
    from kohort.control.remote import Remote, RemoteError  # noqa: PLC0415 - loads late

    try:
        remote = Remote(http)
    except ValueError as error:
        fail(f"--http {error}", 2)
    try:
        events = remote.get("events.json", query={"group": group}).get("events")
    except RemoteError as error:
        fail(str(error), 1)
    if not isinstance(events, list):
        fail(f"{remote.url} has no events to show", 1)
    return events


def _of_file(path: str) -> Iterator[dict[str, Any]]:
    """The events of a file: an object to a line; ends the command where one is none.

    A broker that was killed leaves half a line behind, at the end.
    """
    broken: int | None = None
    try:
        with click.open_file(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if broken is not None:
                    fail(f"{path}, line {broken}: is no event", 1)
                if not line.strip():
                    continue
                event = _event(line)
                if event is None:
                    broken = number
                else:
                    yield event
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{path}: {getattr(error, 'strerror', None) or error}", 1)
    if broken is not None:
        click.echo(f"kohort: {path}, line {broken}: the last one is cut off", err=True)


_NEEDED = {"kind": str, "run": str, "node": int, "sequence": int, "time_ns": int}


def _event(line: str) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict):
        return None
    is_one = all(type(event.get(name)) is kind for name, kind in _NEEDED.items())
    return event if is_one else None
