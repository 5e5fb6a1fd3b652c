"""JSON bodies of HTTP requests and responses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web


def json_response(
    value: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """A JSON response that is not cached; it ends with a newline, for terminals."""
    return web.Response(
        text=json.dumps(value) + "\n",
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-store", **(headers or {})},
    )


async def fields(request: web.Request, **kinds: type) -> dict[str, Any]:
    """Returns the fields of a request's JSON object.

    Args:
        request: whose body is read; no body is an object without fields.
        kinds: the type of each field. All have to be there, and no others.

    Raises:
        web.HTTPBadRequest: the body is invalid; says why.
    """
    body = await request.read()
    try:
        given = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError):
        raise web.HTTPBadRequest(text="the body is no JSON") from None
    if not isinstance(given, dict):
        raise web.HTTPBadRequest(text="the body is no JSON object")
    unknown = given.keys() - kinds.keys()
    if unknown:
        takes = ", ".join(kinds) or "none"
        raise web.HTTPBadRequest(
            text=f"there is no field {min(unknown)[:100]!r}; the fields are: {takes}"
        )
    for name, kind in kinds.items():
        # A bool is an int to Python, but not to JSON.
        if type(given.get(name)) is not kind:
            example = {int: "a whole number", str: "a text"}[kind]
            raise web.HTTPBadRequest(text=f"{name} must be given, as {example}")
    return {name: given[name] for name in kinds}
