"""Reads a file of events, as `serve --events` writes it, line by line.

The page, and `kohort why`, take events in order: runs of the broker one after the
other, and in each run the events of a node by their numbers. So a broker writes them.
Then a file may be larger than memory. One that is not in order, such as a dump of the
topic of events, is sorted, in memory.
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
from typing import IO, Any, Final, NamedTuple

import click

from kohort.broker.events.schema import (
    BY_NAME,
    COMMON,
    ROWS,
    SCHEMA_VERSION,
    Field,
    Type,
)

STDIO: Final = "-"
LONG_BYTES: Final = 32 << 20
"""Of files so large it is shown how far it is: it takes some seconds."""
MUCH_BYTES: Final = 1 << 20
"""After so many bytes it is shown anew."""
SPOOLED_BYTES: Final = 64 << 20
"""What cannot be read twice goes into a file on disk beyond that."""

_NEEDED: Final = {"kind": str, "run": str, "node": int, "sequence": int, "time_ns": int}


class Line(NamedTuple):
    """A line of the file, without its end, and the event that it is."""

    text: bytes
    event: dict[str, Any]


class NoEventError(ValueError):
    """A line is no event; says which one, and why."""


class NotInOrderError(ValueError):
    """An event is not where it belongs."""


@contextlib.contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """A file that can be read twice.

    Args:
        path: where it is; ``-`` for stdin.

    Raises:
        OSError: it cannot be read.
    """
    with contextlib.ExitStack() as stack:
        file: IO[bytes] = sys.stdin.buffer
        if path != STDIO:
            file = stack.enter_context(Path(path).open("rb"))
        if path == STDIO or not file.seekable():
            copy = stack.enter_context(tempfile.SpooledTemporaryFile(SPOOLED_BYTES))
            shutil.copyfileobj(file, copy)
            file = copy
        yield file


def shown(file: IO[bytes], name: str) -> Iterator[bytes]:
    """The lines of a file from its beginning; on a terminal one sees how far it is.

    Args:
        file: it can be read twice.
        name: what the user is told that it is.
    """
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
    """The events of these groups and of no group.

    Args:
        lines: of the file, with their ends.
        groups: the groups' ids; none for everything.
        cut_off: is told the number of the last line, if that is half a line: a broker
            that is killed leaves one. It is left out.

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
            raise NoEventError(f"line {number}: is no JSON") from None
        why_not = _why_no_event(event)
        if why_not:
            raise NoEventError(f"line {number}: {why_not}")
        if not groups or event.get("group") in wanted:
            yield Line(line.strip(), event)


def in_order(lines: Iterable[Line]) -> Iterator[Line]:
    """The same, as long as they are in order.

    Raises:
        NotInOrderError: one of them is not.
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
    """The same in order: the run that began first comes first; none comes twice."""
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
        return "is no event"
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
            return f"has a {field.name} that is no {field.type}"
    return None


# -- types of fields


Check = Callable[[Any], bool]
"""Whether a value is of a type."""


@cache
def _checks(kind: str) -> Sequence[tuple[Field, Check]]:
    """The fields that events of a kind have; of an unknown one, those of all."""
    own = BY_NAME[kind].fields if kind in BY_NAME else ()
    return [(field, _check(field.type)) for field in (*COMMON, *own)]


def _check(type_: Type) -> Check:
    """What tells if a value is of a type of the schema."""
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
