"""The HTTP client with which commands reach a running broker."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from kohort.control.terminal import fail, printable

TIMEOUT_S = 30.0
"""Stopping a node waits for its connections, and starting one loads its groups."""
MARGIN_S = 10.0
"""Time for the answer after the broker has stopped waiting."""
PORT = 9080


class RemoteError(Exception):
    """A command failed; one line of text."""


class Remote:
    """A broker's HTTP port.

    Args:
        address: "http://host:port", "host:port", or a port of this machine.
        token: sent with requests that change something; None for none.

    Raises:
        ValueError: from the constructor; an invalid address.
        RemoteError: from the methods; no broker answers, or it refuses the request.
    """

    def __init__(self, address: str, token: str | None = None) -> None:
        self.url = _url(address)
        self._authorization = {"Authorization": f"Bearer {token}"} if token else {}
        # Proxies are for the world outside, and would not reach loopback.
        self._opener = build_opener(ProxyHandler({}))

    def get(
        self,
        *path: str,
        query: Mapping[str, str] = MappingProxyType({}),
        timeout_s: float = TIMEOUT_S,
    ) -> dict[str, Any]:
        """Reads a resource.

        Args:
            path: where, in parts that are not quoted yet.
            query: parameters, which are not quoted yet, either.
            timeout_s: the longest wait for a part of the answer.
        """
        at = self._at(path) + ("?" + urlencode(query) if query else "")
        return self._ask(Request(at), timeout_s)  # noqa: S310 - by _url

    def wait(self, *path: str, timeout_s: float, **query: str) -> dict[str, Any]:
        """Reads a resource once the broker answers, which may wait for this time."""
        query["timeout"] = str(timeout_s)
        return self.get(*path, query=query, timeout_s=timeout_s + MARGIN_S)

    def post(self, *path: str, **fields: object) -> dict[str, Any]:
        """Changes something."""
        headers = {"Content-Type": "application/json", **self._authorization}
        body = json.dumps(fields).encode()
        at = self._at(path)
        return self._ask(Request(at, body, headers))  # noqa: S310 - by _url

    def delete(self, *path: str) -> dict[str, Any]:
        """Removes something."""
        at, headers = self._at(path), self._authorization
        return self._ask(Request(at, None, headers, method="DELETE"))  # noqa: S310

    def _at(self, path: tuple[str, ...]) -> str:
        return "/".join([self.url, *(quote(part, safe="") for part in path)])

    def _ask(self, request: Request, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
        try:
            with self._opener.open(request, timeout=timeout_s) as answer:
                return dict(json.loads(answer.read()))
        except HTTPError as error:
            with error:
                raise RemoteError(_sentence(error)) from None
        except (OSError, http.client.HTTPException) as error:
            found = error.reason if isinstance(error, URLError) else error
            if isinstance(found, http.client.RemoteDisconnected):
                raise RemoteError(
                    f"{self.url} is not an HTTP port; it is not the port of "
                    "bootstrap.servers, but that of `kohort serve --http`"
                ) from None
            why = getattr(found, "strerror", None) or found
            raise RemoteError(
                f"no broker answers at {self.url} ({why}); start one with "
                f"`kohort serve --http {PORT}`, or set its address with --http or "
                "KOHORT_HTTP"
            ) from None
        except (ValueError, TypeError):
            raise RemoteError(
                f"{self.url} is not a kohort broker: its answer is not JSON"
            ) from None


@contextmanager
def reached(address: str, token: str | None = None) -> Iterator[Remote]:
    """The broker that ``--http`` names; ends the command where it cannot be used."""
    try:
        remote = Remote(address, token)
    except ValueError as error:
        fail(f"--http {error}", 2)
    try:
        yield remote
    except RemoteError as error:
        # A group's story has names that clients chose.
        fail(printable(str(error), kept="\n"), 1)


def _url(address: str) -> str:
    text = address.strip().rstrip("/")
    if text.isascii() and text.isdigit():
        text = f"127.0.0.1:{text}"
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        # `port` raises if it is invalid.
        is_one = parts.scheme in {"http", "https"} and parts.port != 0
        is_one = is_one and bool(parts.hostname)
    except ValueError:
        is_one = False
    if not is_one or not url.isprintable() or " " in url:
        raise ValueError(f"{address!r}: must be a port, host:port or a URL")
    return url


def _sentence(error: HTTPError) -> str:
    try:
        return str(json.loads(error.read())["error"])
    except (ValueError, LookupError, TypeError):
        status = f"{error.code} {error.reason}"
        return f"{error.url} is not a kohort broker: it answers {status}"
