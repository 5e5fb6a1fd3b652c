"""How views read the stream: a slice at a time, and as JSON, the same everywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from kohort.broker.events.bus import Reader

SLICE: Final = 100
"""Events that are made text of before others get their turn: one or two ms."""

_encode = json.JSONEncoder(separators=(",", ":"), default=dict).encode


async def slice_of(reader: Reader) -> list[dict[str, Any]]:
    """The next events that have come, up to `SLICE`; none where none have."""
    return [await anext(reader) for _ in range(min(len(reader.events), SLICE))]


def json_of(event: Mapping[str, Any]) -> bytes:
    """One event as JSON: in one line, without its end, and in ASCII."""
    return _encode(event).encode("ascii")
