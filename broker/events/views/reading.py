"""Reads the stream for views: a slice at a time, and the same JSON everywhere."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

from kohort.broker.events.bus import Reader

if TYPE_CHECKING:
    from kohort.broker.events.types import Event

SLICE: Final = 100
"""Events converted to text before other tasks run: one or two ms."""
LARGE_SLICE: Final = 1_000
"""The same while the buffer is half full: each of a thousand connections may make an
event in one turn of the loop, and a slower reader would fall behind."""


def take(reader: Reader) -> list[Event]:
    """The next slice of waiting events; may be empty."""
    is_behind = 2 * len(reader) > reader.size or 2 * reader.rows > reader.most_rows
    return reader.take(LARGE_SLICE if is_behind else SLICE)


async def pause(closing: asyncio.Event, seconds: float) -> None:
    """Waits before the next write; returns at once if the view is closing."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await closing.wait()


_in_ascii = json.JSONEncoder(separators=(",", ":"), default=dict).encode


def json_of(event: Mapping[str, Any]) -> bytes:
    """One event as JSON: one line, without its end, in ASCII."""
    # orjson takes a fifteenth of the time, which matters for large groups, but it
    # writes UTF-8, and rejects a lone surrogate of a label.
    try:
        text = orjson.dumps(event, default=dict)
    except orjson.JSONEncodeError:
        text = b"\xff"
    return text if text.isascii() else _in_ascii(event).encode("ascii")
