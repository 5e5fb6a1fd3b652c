"""``kohort timeline``: a file of events as a page that needs nothing besides."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import click

from kohort.broker.cli import fail
from kohort.broker.events.schema import SCHEMA_VERSION

STDIO = "-"


@click.command()
@click.argument("events", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False, allow_dash=True),
    help="The page; - for stdout.",
)
@click.option(
    "-g",
    "--group",
    "groups",
    metavar="GROUP",
    multiple=True,
    help="Only this group's events; can be given again.",
)
def timeline(events: str, output: str, groups: tuple[str, ...]) -> None:
    """Makes a page of a file of events, as serve --events writes it.

    EVENTS has an event in each line, as JSON; - reads stdin. The page is one file,
    and loads nothing: a browser shows it without a broker and without a network.
    """
    from kohort.control.timeline.page import file_page  # noqa: PLC0415 - loads late

    name = "stdin" if events == STDIO else Path(events).name
    try:
        if events == STDIO:
            found = list(_events(sys.stdin.buffer, name, set(groups)))
        else:
            with Path(events).open("rb") as file:
                found = list(_events(file, name, set(groups)))
    except OSError as error:
        fail(f"{events}: {error.strerror or error}", 1)
    if not {group for _, group in found} - ({None} if groups else set()):
        fail(f"{name}: there are no events{' of these groups' if groups else ''}", 1)
    lines = [line for line, _ in found]
    page = file_page(lines, name=name, explanations=_explained(lines))
    try:
        if output == STDIO:
            sys.stdout.buffer.write(page.html.encode())
            sys.stdout.buffer.flush()
        else:
            Path(output).write_text(page.html, encoding="utf-8")
    except OSError as error:
        fail(f"{output}: {error.strerror or error}", 1)
    said = f"{output}: {len(lines)} events"
    click.echo(said, err=output == STDIO)


def _explained(lines: list[bytes]) -> dict[str, list[str]]:
    """What `kohort why` says of these events."""
    from kohort.control.why.history import histories  # noqa: PLC0415 - loads late

    found: dict[str, list[str]] = {}
    for history in histories(json.loads(line) for line in lines).values():
        found.update(history.sentences())
    return found


def _events(
    file: IO[bytes], name: str, groups: set[str]
) -> Iterator[tuple[bytes, str | None]]:
    """The lines that are events, of these groups and of no group, or of all; and whose.

    A last line without an end, as a broker leaves it that is killed, is left out.
    """
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except ValueError:
            if not line.endswith(b"\n"):
                click.echo(f"{name}, line {number}: is cut off, left out", err=True)
                return
            fail(f"{name}, line {number}: is no JSON", 1)
        why_not = _why_no_event(event)
        if why_not:
            fail(f"{name}, line {number}: {why_not}", 1)
        if not groups or event.get("group") in {*groups, None}:
            yield line.rstrip(b"\r\n"), event.get("group")


def _why_no_event(event: Any) -> str | None:
    if not isinstance(event, dict) or not isinstance(event.get("kind"), str):
        return "is no event"
    if event.get("schema") != SCHEMA_VERSION:
        return (
            f"is an event of schema version {event.get('schema')}, "
            f"and this kohort reads version {SCHEMA_VERSION}"
        )
    if not isinstance(event.get("time_ns"), int):
        return "has no time_ns"
    return None
