"""Reads a file of events, as `serve --events` writes it, line by line.

The page and `kohort why` need events in order: runs of the broker one after the other,
and in each run the events of a node by number. A broker writes them so, and the file
may be larger than memory. A file in another order, for example a dump of the topic of
events, is sorted in memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeVar

import click

from kohort.broker.events.fields import Field, Type
from kohort.broker.events.schema import BY_NAME, COMMON, ROWS, SCHEMA_VERSION
from kohort.control.terminal import fail

T = TypeVar("T")

STDIO: Final = "-"
LONG_BYTES: Final = 32 << 20
"""Files from this size on show their progress: reading them takes seconds."""
MUCH_BYTES: Final = 1 << 20
"""Bytes between two updates of the progress."""
SPOOLED_BYTES: Final = 64 << 20
"""Bytes of a pipe that are kept in memory; more go into a temporary file."""

_NEEDED: Final = {"kind": str, "run": str, "node": int, "sequence": int, "time_ns": int}


class Line(NamedTuple):
    """A line of the file without its newline, and its event."""

    text: bytes
    event: dict[str, Any]


class NoEventError(ValueError):
    """A line is not an event; the message has its number and the reason."""


class NotInOrderError(ValueError):
    """The events of a file are not in order."""


def read_in_order(
    path: str,
    name: str,
    groups: Collection[str],
    fold: Callable[[Iterable[Line]], T],
) -> T:
    """Reads a file once, or twice if it is not in order; ends the command if it cannot.

    Args:
        path: where it is; ``-`` for stdin.
        name: the file's name in messages.
        groups: the ids of the groups; empty for all events.
        fold: takes the events, in order.

    Returns:
        The result of `fold`.
    """

    def cut_off(number: int) -> None:
        click.echo(
            f"kohort: {name}, line {number} is cut off and was skipped", err=True
        )

    try:
        with _opened(path) as file:
            try:
                return fold(in_order(read(_shown(file, name), groups, cut_off)))
            except NotInOrderError:
                lines = read(_shown(file, name), groups, cut_off)
                return fold(put_in_order(lines))
    except OSError as error:
        fail(f"{path}: {error.strerror or error}", 1)
    except NoEventError as error:
        fail(f"{name}, {error}", 1)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """A file that can be read twice."""
    with contextlib.ExitStack() as stack:
        file: IO[bytes] = sys.stdin.buffer
        if path != STDIO:
            file = stack.enter_context(Path(path).open("rb"))
        if path == STDIO or not file.seekable():
            copy = stack.enter_context(tempfile.SpooledTemporaryFile(SPOOLED_BYTES))
            shutil.copyfileobj(file, copy)
            file = copy
        yield file


def _shown(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Yields the lines of a file; shows the progress on a terminal."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size < LONG_BYTES or not sys.stderr.isatty():
        yield from file
        return
    with click.progressbar(length=size, label=name, file=sys.stderr) as bar:
        read = 0
        for line in file:
            yield line
            read += len(line)
            if read >= MUCH_BYTES:
                bar.update(read)
                read = 0
        bar.update(read)


def read(
    lines: Iterable[bytes], groups: Collection[str], cut_off: Callable[[int], object]
) -> Iterator[Line]:
    """Yields the events of groups, and events without a group.

    Args:
        lines: the lines of the file, with their newlines.
        groups: the ids of the groups; empty for all events.
        cut_off: called with the number of the last line if it is incomplete, as a
            killed broker leaves it. The line is left out.

    Raises:
        NoEventError: another line is no event.
    """
    wanted = {*groups, None}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            if not line.endswith(b"\n"):
                cut_off(number)
                return
            raise NoEventError(f"line {number}: is not JSON") from None
        why_not = _why_no_event(event)
        if why_not:
            raise NoEventError(f"line {number}: {why_not}")
        if not groups or event.get("group") in wanted:
            yield Line(line.strip(), event)


def in_order(lines: Iterable[Line]) -> Iterator[Line]:
    """Yields the same lines as long as they are in order.

    Raises:
        NotInOrderError: a line is not in order.
    """
    last: dict[tuple[str, int], int] = {}
    runs: set[str] = set()
    current = None
    for line in lines:
        run, node, sequence = _place(line)
        if run != current and run in runs:
            raise NotInOrderError
        current = run
        runs.add(run)
        if sequence <= last.get((run, node), -1):
            raise NotInOrderError
        last[run, node] = sequence
        yield line


def put_in_order(lines: Iterable[Line]) -> list[Line]:
    """Returns the lines in order, without duplicates: the earliest run first."""
    found = {_place(line): line for line in lines}
    began: dict[str, int] = {}
    for line in found.values():
        run, time_ns = line.event["run"], line.event["time_ns"]
        began[run] = min(began.get(run, time_ns), time_ns)

    def when(place: tuple[str, int, int]) -> tuple[int, str, int, int, int]:
        run, node, sequence = place
        return began[run], run, found[place].event["time_ns"], node, sequence

    return [found[place] for place in sorted(found, key=when)]


def _place(line: Line) -> tuple[str, int, int]:
    event = line.event
    return event["run"], event["node"], event["sequence"]


def _why_no_event(event: Any) -> str | None:
    if not isinstance(event, dict) or type(event.get("kind")) is not str:
        return "is not an event"
    version = event.get("schema")
    if version != SCHEMA_VERSION:
        return (
            f"is an event of schema version {json.dumps(version)[:20]}, "
            f"and this kohort reads version {SCHEMA_VERSION}"
        )
    for name, kind in _NEEDED.items():
        if type(event.get(name)) is not kind:
            return f"has no {name}"
    for field, is_one in _checks(event["kind"]):
        value = event.get(field.name)
        if value is not None and not is_one(value):
            return f"has a {field.name} that is not {field.type}"
    return None


# -- types of fields


Check = Callable[[Any], bool]
"""Checks that a value is of a type."""


@cache
def _checks(kind: str) -> Sequence[tuple[Field, Check]]:
    """The fields of a kind of events; of an unknown kind, the common fields."""
    own = BY_NAME[kind].fields if kind in BY_NAME else ()
    return [(field, _check(field.type)) for field in (*COMMON, *own)]


def _check(type_: Type) -> Check:
    """Returns the check of a type of the schema."""
    if type_.startswith("["):
        return partial(_is_list, _check(type_[1:-1]))
    if type_ in ROWS:
        row = [(field, _check(field.type)) for field in ROWS[type_]]
        return partial(_is_row, row)
    return _CHECKS[type_]


def _is_list(is_one: Check, value: Any) -> bool:
    return type(value) is list and all(map(is_one, value))


def _is_row(fields: Sequence[tuple[Field, Check]], value: Any) -> bool:
    return type(value) is dict and all(
        (field.may_be_null and value.get(field.name) is None)
        or is_one(value.get(field.name))
        for field, is_one in fields
    )


_CHECKS: Final[dict[Type, Check]] = {
    "string": lambda value: type(value) is str,
    "boolean": lambda value: type(value) is bool,
    "int": lambda value: type(value) is int and -(2**31) <= value < 2**31,
    "long": lambda value: type(value) is int and -(2**63) <= value < 2**63,
    "map": lambda value: (
        type(value) is dict and all(type(each) is str for each in value.values())
    ),
}
