"""How views read the stream: a slice at a time, and as JSON, the same everywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

SLICE: Final = 100
"""Events that are made text of before others get their turn: one or two ms."""

_encode = json.JSONEncoder(separators=(",", ":"), default=dict).encode


def json_of(event: Mapping[str, Any]) -> bytes:
    """One event as JSON: in one line, without its end, and in ASCII."""
    return _encode(event).encode("ascii")
