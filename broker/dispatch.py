"""From (API key, version) to the handler.

A route is made when the first request of its key and version comes in; the
handler's module is loaded then, too.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from kohort.broker.long_work import Work
from kohort.broker.request import Request, ResponseFormat
from kohort.protocol import registry
from kohort.protocol.messages import Codec, Source, WireError
from kohort.protocol.registry import Api


class Route:
    """Route of the requests of one API key and version.

    Attributes:
        flexible: whether request headers have tagged fields.
        decode: reads the request's body.
        handle: the handler; takes the `Request`. Returns work that goes on in later
            turns of the event loop, or None.
        respond: for APIs of groups, makes the response of a coordinator's result.
        format: how responses are written.
        in_pieces: the route of requests that may take long to decode.
    """

    __slots__ = ("decode", "flexible", "format", "handle", "in_pieces", "respond")

    def __init__(self, api: Api, version: int) -> None:
        module = importlib.import_module(
            f"kohort.broker.handlers.{api.module_name.rpartition('.')[2]}"
        )
        self.flexible = api.is_flexible(version)
        self.decode: Decoder = api.request(version).decode
        self.handle: Callable[[Request], Work | None] = module.handle
        self.respond: Callable[[Request, Any], None] = getattr(
            module, "respond", Request.reply
        )
        self.format = ResponseFormat(api, version)
        self.in_pieces = RouteInPieces(self, api.request(version))


class RouteInPieces:
    """Route of long requests: they are decoded as part of their work.

    Attributes: as those of a `Route`.
    """

    __slots__ = ("_codec", "_route", "flexible", "format", "respond")

    def __init__(self, route: Route, codec: Codec) -> None:
        self._route = route
        self._codec = codec
        self.flexible = route.flexible
        self.format = route.format
        self.respond = route.respond

    @staticmethod
    def decode(buffer: Source, position: int, end: int) -> tuple[Any, int]:
        """The place of the body, which stands for the message until it is decoded."""
        return (buffer, position, end), end

    def handle(self, request: Request) -> Work:
        """Decodes the request, and hands it to its handler.

        Raises:
            BodyError: the bytes are no request, or too much of one.
        """
        buffer, position, end = request.message
        try:
            request.message, _ = yield from self._codec.decode_in_pieces(
                buffer, position, end
            )
        except WireError as error:
            raise BodyError(str(error)) from None
        # A view of records may keep it; nothing else does.
        del buffer
        work = self._route.handle(request)
        if work is not None:
            yield from work


Decoder = Callable[[Source, int, int], tuple[Any, int]]

_routes: dict[int, Route] = {}


def route_of(key_and_version: int) -> Route:
    """The route of an API key (upper 16 bits) and version (lower 16 bits).

    Raises:
        UnknownApiError: kohort does not have that API in that version.
        WireError: the API's code cannot be read, for want of file descriptors.
    """
    found = _routes.get(key_and_version)
    if found is None:
        key, version = key_and_version >> 16, key_and_version & 0xFFFF
        if version > 0x7FFF:
            version -= 0x10000
        api = registry.BY_KEY.get(key)
        if api is None or not api.accepts(version):
            raise UnknownApiError(key, version)
        try:
            found = _routes[key_and_version] = Route(api, version)
        except OSError as error:
            # asyncio and uvloop would close the connection without a line.
            raise WireError(f"{api.name} cannot be loaded: {error}") from error
    return found


class BodyError(Exception):
    """The bytes of a long request are not a request: an error of the client."""


class UnknownApiError(WireError):
    """An API key or version that kohort does not have.

    Attributes:
        key: the API key.
        version: the version.
    """

    def __init__(self, key: int, version: int) -> None:
        api = registry.BY_KEY.get(key)
        name = api.name if api else "no API of kohort's"
        super().__init__(f"API key {key} ({name}) version {version} is not supported")
        self.key = key
        self.version = version
