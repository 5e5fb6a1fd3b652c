"""``kohort timeline``: a file of events as a page that needs nothing besides."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from kohort.broker.cli import fail

if TYPE_CHECKING:
    from kohort.control.events_file import Line
    from kohort.control.timeline.page import Packed


MANY_EVENTS = 1_000_000
"""Events of which a browser makes more than is good for it."""


@click.command()
@click.argument("events", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False, allow_dash=True),
    help="The page; - for stdout. A file that is there is replaced.",
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
    from kohort.control.events_file import (  # noqa: PLC0415 - loads late
        STDIO,
        NoEventError,
        opened,
    )
    from kohort.control.timeline.page import file_page  # noqa: PLC0415 - loads late

    if STDIO not in {events, output} and _are_same(events, output):
        fail(f"{output}: the page would take the place of the events", 2)
    # A name may have bytes that are no text.
    name = os.fsencode(Path(events).name).decode(errors="replace")
    name = "stdin" if events == STDIO else name
    try:
        with opened(events) as file:
            packed, explanations, count = _pack(file, name, groups)
    except OSError as error:
        fail(f"{events}: {error.strerror or error}", 1)
    except NoEventError as error:
        fail(f"{name}, {error}", 1)
    page = file_page(packed, name=name, explanations=explanations)
    _write(output, page.html.encode(), is_stdout=output == STDIO)
    click.echo(f"{output}: {count} events", err=output == STDIO)
    if count > MANY_EVENTS:
        click.echo("a browser needs long for so many: -g GROUP makes less", err=True)


def _are_same(first: str, second: str) -> bool:
    try:
        return Path(first).samefile(second)
    except OSError:
        return False


def _pack(
    file: IO[bytes], name: str, groups: Collection[str]
) -> tuple[Packed, dict[str, list[str]], int]:
    """The events for the page, what `kohort why` says of them, and how many."""
    from kohort.control import events_file  # noqa: PLC0415 - loads late

    def cut_off(number: int) -> None:
        click.echo(f"{name}, line {number}: is cut off, left out", err=True)

    def lines() -> Iterator[Line]:
        return events_file.read(events_file.shown(file, name), groups, cut_off)

    try:
        packing = _Packing(events_file.in_order(lines()))
    except events_file.NotInOrderError:
        packing = _Packing(events_file.put_in_order(lines()))
    if not packing.count or (groups and not packing.groups):
        fail(f"{name}: there are no events{' of these groups' if groups else ''}", 1)
    return packing.packed, packing.explanations, packing.count


class _Packing:
    """What becomes of events while they are read, once.

    Attributes:
        packed: the events, for the page.
        explanations: what `kohort why` says, as `file_page` takes it.
        count: how many events there are.
        groups: whether one of them is about a group.
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        from kohort.control.timeline.page import Packed  # noqa: PLC0415 - loads late
        from kohort.control.why.history import histories  # noqa: PLC0415 - loads late

        self.packed = Packed()
        self.count = 0
        found = histories(self._each(lines))
        self.groups = bool(found)
        self.explanations: dict[str, list[str]] = {}
        for history in found.values():
            self.explanations.update(history.sentences())

    def _each(self, lines: Iterable[Line]) -> Iterator[dict[str, Any]]:
        for text, event in lines:
            self.packed.add(text)
            self.count += 1
            yield event


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
            # Python would try again at its end, and complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        fail(f"{output}: {error.strerror or error}", 1)
