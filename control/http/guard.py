"""Decides which HTTP requests a broker answers.

A browser on the same machine reaches loopback, and any page can make it send
requests there. Two checks keep those pages out:

1. A request that changes something must be JSON. A page cannot send JSON to another
   origin without asking first (CORS), and no answer here allows it.
2. On loopback, only loopback's own names are accepted as Host. So a page cannot reach
   it under a domain that an attacker points there (DNS rebinding).

A server with a token, which is required beyond loopback, also demands it from each
request that changes something.
"""

from __future__ import annotations

import hmac
import ipaddress
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

READING: Final = frozenset({"GET", "HEAD"})


class ControlError(ValueError):
    """Why the server is not opened like that; one line of text."""


def check_door(host: str, token: str | None) -> None:
    """Whether a server may be opened there with this token.

    Raises:
        ControlError: it may not; says why.
    """
    if token == "":
        raise ControlError("the token for HTTP is empty")
    if token is None and not is_loopback(host):
        raise ControlError(
            f"HTTP on {host or 'all addresses'} is beyond loopback, and needs a token "
            "(--http-token or KOHORT_HTTP_TOKEN)"
        )


def is_loopback(host: str) -> bool:
    """Whether a host, as a name or an address, is this machine for itself only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def guard(host: str, token: str | None) -> Middleware:
    """The middleware that refuses requests, for a server on this host."""
    is_local = is_loopback(host)

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        named = request.headers.get("Host", "")
        if is_local and not is_loopback(_hostname(named)):
            raise web.HTTPForbidden(
                text=f"the host {named[:100]!r} is not this machine's loopback"
            )
        if request.method not in READING:
            if request.content_type != "application/json":
                raise web.HTTPUnsupportedMediaType(
                    text="requests that change something must have "
                    "Content-Type: application/json"
                )
            if token is not None and not _has_token(request, token):
                raise web.HTTPUnauthorized(
                    text="requests that change something need the token that the "
                    "broker was started with, as Authorization: Bearer TOKEN",
                    headers={"WWW-Authenticate": "Bearer"},
                )
        return await handler(request)

    return check


def _hostname(netloc: str) -> str:
    """The host of a Host header, without its port."""
    try:
        return urlsplit(f"//{netloc}").hostname or ""
    except ValueError:
        return ""


def _has_token(request: web.Request, token: str) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    # Headers are decoded with surrogates where they are no UTF-8.
    is_it = hmac.compare_digest(
        given.strip().encode(errors="surrogateescape"), token.encode()
    )
    return scheme.lower() == "bearer" and is_it
