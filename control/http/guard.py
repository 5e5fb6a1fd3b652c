"""Decides which HTTP requests a broker answers.

A browser on the same machine reaches loopback, and any page can make it send
requests there. Two checks keep those pages out:

1. A POST must be JSON, or have no body and not come from a browser. A page cannot
   send JSON, or a DELETE, to another origin without asking first (CORS), and no answer
   here allows it. Browsers name the page's origin with every POST; those that did not,
   or let JSON through, call themselves Mozilla at least.
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

JSON: Final = "application/json"
READING: Final = frozenset({"GET", "HEAD"})


class ControlError(ValueError):
    """The server cannot be opened like this; one line of text."""


def check_door(host: str, token: str | None) -> None:
    """Checks that a server may listen on this host with this token.

    Raises:
        ControlError: it may not; the message says why.
    """
    if token == "":
        raise ControlError("the token for HTTP is empty")
    if token is None and not is_loopback(host):
        raise ControlError(
            f"an HTTP port on {host or 'all addresses'} needs a token, because other "
            "machines can reach it (--http-token or KOHORT_HTTP_TOKEN)"
        )


def is_loopback(host: str) -> bool:
    """True if a host name or address is a loopback address."""
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
        if request.method not in READING and not request.match_info.http_exception:
            if request.method == "POST" and not _is_no_pages(request):
                raise web.HTTPUnsupportedMediaType(
                    text="a body must have Content-Type: application/json"
                )
            if not _is_of_no_other(request):
                raise web.HTTPForbidden(text="other origins cannot change anything")
            if token is not None and not _has_token(request, token):
                raise web.HTTPUnauthorized(
                    text="requests that change something need the token that the "
                    "broker was started with, as Authorization: Bearer TOKEN",
                    headers={"WWW-Authenticate": "Bearer"},
                )
        return await handler(request)

    return check


def _is_no_pages(request: web.Request) -> bool:
    """True if no page of another origin can have sent the POST."""
    if "Content-Type" in request.headers:
        return request.content_type == JSON
    is_browser = request.headers.get("User-Agent", "").startswith("Mozilla/")
    return not (request.body_exists or is_browser)


def _is_of_no_other(request: web.Request) -> bool:
    """True if a request names no origin, or this server's."""
    origin = request.headers.get("Origin")
    return origin is None or origin.endswith(f"://{request.headers.get('Host')}")


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
