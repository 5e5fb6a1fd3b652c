"""JSON bodies of HTTP requests and responses."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec
from aiohttp import web


def json_response(
    value: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """A JSON response that is not cached; it ends with a newline, for terminals."""
    try:
        body = msgspec.json.encode(value)
    except UnicodeEncodeError:
        # A path or a header that is no UTF-8: in a sentence about it.
        body = json.dumps(value).encode()
    return web.Response(
        body=body + b"\n",
        status=status,
        content_type="application/json",
        charset="utf-8",
        headers={"Cache-Control": "no-store", **(headers or {})},
    )
