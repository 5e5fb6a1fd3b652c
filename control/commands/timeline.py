"""The command ``kohort timeline``: makes an HTML page from a file of events."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from kohort.control.terminal import examples, fail

MANY_EVENTS = 1_000_000
"""Number of events above which a browser takes long to load the page."""


@click.command()
@click.argument("events", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False, allow_dash=True),
    help="The page to write; - is stdout. An existing file is replaced.",
)
@click.option(
    "-g",
    "--group",
    "groups",
    metavar="GROUP",
    multiple=True,
    help="Only this group's events. Can be given more than once.",
)
@examples("kohort timeline events.jsonl -o timeline.html")
def timeline(events: str, output: str, groups: tuple[str, ...]) -> None:
    """Makes an HTML page from a file of events.

    EVENTS is a file that kohort serve --events has written; - reads stdin. The page is
    one file: a browser shows it without a broker or a network.
    """
    from kohort.control.events_file import STDIO, read_in_order
    from kohort.control.timeline.packing import Packing

    if STDIO not in {events, output} and _are_same(events, output):
        fail(f"{output}: the page would overwrite the events", 2)
    # A file name may have bytes that are not text.
    name = os.fsencode(Path(events).name).decode(errors="replace")
    name = "stdin" if events == STDIO else name
    packing = read_in_order(events, name, groups, Packing)
    count = packing.count
    if not count or (groups and not packing.groups):
        fail(f"{name}: there are no events{' of these groups' if groups else ''}", 1)
    page = packing.page(name)
    _write(output, page.html.encode(), is_stdout=output == STDIO)
    click.echo(f"{output}: {count} events", err=output == STDIO)
    if count > MANY_EVENTS:
        hint = "a browser takes long to load this many events: select groups with -g"
        click.echo(hint, err=True)


def _are_same(first: str, second: str) -> bool:
    try:
        return Path(first).samefile(second)
    except OSError:
        return False


def _write(output: str, page: bytes, *, is_stdout: bool) -> None:
    try:
        if is_stdout:
            left = memoryview(page)
            # Without a buffer (PYTHONUNBUFFERED) it may take less than all at once.
            while left:
                left = left[sys.stdout.buffer.write(left) :]
            sys.stdout.buffer.flush()
        else:
            Path(output).write_bytes(page)
    except OSError as error:
        if is_stdout:
            # Python would try again when it exits, and print an error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        fail(f"{output}: {error.strerror or error}", 1)
