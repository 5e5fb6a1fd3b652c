"""From (API key, version) to the handler, and from its response to bytes.

A route is made when the first request of its key and version comes in; the
handler's module is loaded then, too.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable
from typing import Any, Protocol

from kohort.broker.cluster import Node
from kohort.broker.coordinator.effects import Result
from kohort.protocol import registry
from kohort.protocol.errors import KIP_389_GROUP_MAX_SIZE_REACHED, ErrorCode
from kohort.protocol.messages import Buffer, WireError
from kohort.protocol.registry import Api
from kohort.protocol.slotted import replace

_HEAD = struct.Struct(">ii").pack
_FLEXIBLE_HEAD = struct.Struct(">iix").pack
KOHORT = "kohort"
"""The client software that knows GROUP_MAX_SIZE_REACHED by KIP-389's number."""


class Route:
    """What happens to requests of one API key and version.

    Attributes:
        api: the API.
        version: the version.
        flexible: whether request headers have tagged fields.
        decode: reads the request's body.
        handle: the handler; takes the `Request`.
        respond: for APIs of groups, makes the response of a coordinator's result.
    """

    __slots__ = (
        "_encode",
        "_head",
        "_head_size",
        "api",
        "decode",
        "flexible",
        "handle",
        "respond",
        "version",
    )

    def __init__(self, api: Api, version: int) -> None:
        module = importlib.import_module(
            f"kohort.broker.handlers.{api.module_name.rpartition('.')[2]}"
        )
        self.api = api
        self.version = version
        self.flexible = api.is_flexible(version)
        self.decode = api.request(version).decode
        self.handle: Callable[[Request], None] = module.handle
        self.respond: Callable[[Request, Any], None] = getattr(
            module, "respond", Request.reply
        )
        self._encode = api.response(version).encode_into
        tagged = api.response_header_version(version) >= 1
        self._head = _FLEXIBLE_HEAD if tagged else _HEAD
        self._head_size = 5 if tagged else 4

    def frame(self, correlation_id: int, response: Any) -> list[Buffer]:
        """The response as the pieces of a frame; bytes are a body that is encoded."""
        parts: list[Buffer] = [b""]
        if type(response) is bytes:
            parts.append(response)
        else:
            self._encode(response, parts.append)
        size = self._head_size + sum(map(len, parts))
        parts[0] = self._head(size, correlation_id)
        return parts


class Peer(Protocol):
    """The connection that a request came by."""

    client_host: str
    software_name: str
    software_version: str

    def send(self, request: Request, parts: list[Buffer]) -> None:
        """Sends the response to its request; no parts where there is none."""

    def fail(self, why: str) -> None:
        """Closes the connection once what has been answered is sent."""


class Request:
    """One request until it is answered.

    Attributes:
        message: the decoded body.
        version: its version.
        client_id: from the header; empty where it was null.
        node: the node that was asked.
        peer: the connection.
        abandon: called if the connection is lost before the answer.
    """

    __slots__ = (
        "_correlation_id",
        "_route",
        "abandon",
        "client_id",
        "message",
        "node",
        "peer",
        "version",
    )

    def __init__(
        self,
        route: Route,
        correlation_id: int,
        client_id: str,
        message: Any,
        node: Node,
        peer: Peer,
    ) -> None:
        self._route = route
        self._correlation_id = correlation_id
        self.client_id = client_id
        self.message = message
        self.version = route.version
        self.node = node
        self.peer = peer
        self.abandon: Callable[[], object] | None = None

    @property
    def api(self) -> Api:
        """The API that was called."""
        return self._route.api

    def answer(self, result: Result) -> None:
        """Takes a coordinator's result: the request is its own token."""
        self._route.respond(self, result)

    def reply(self, response: Any) -> None:
        """Sends the response: a message, or bytes of a body that is encoded."""
        self.peer.send(
            self, self._route.frame(self._correlation_id, self._numbered(response))
        )

    def reply_nothing(self) -> None:
        """The request asks for no response (Produce with acks 0)."""
        self.peer.send(self, [])

    def _numbered(self, response: Any) -> Any:
        """The response with the connection's number of GROUP_MAX_SIZE_REACHED.

        KIP-389's text says 77, Apache Kafka's clients know 81 only. Which goes
        out is settled here and nowhere else (``wire.error.numbering``).
        """
        if (
            self._route.api.key != 11
            or response.error_code != ErrorCode.GROUP_MAX_SIZE_REACHED
        ):
            return response
        numbering = self.node.cluster.config["wire.error.numbering"]
        if numbering == "apache" or (
            numbering == "auto" and self.peer.software_name != KOHORT
        ):
            return response
        return replace(response, error_code=KIP_389_GROUP_MAX_SIZE_REACHED)


_routes: dict[int, Route] = {}


def route_of(key_and_version: int) -> Route:
    """The route of an API key (upper 16 bits) and version (lower 16 bits).

    Raises:
        UnknownApiError: kohort does not have that API in that version.
    """
    found = _routes.get(key_and_version)
    if found is None:
        key, version = key_and_version >> 16, key_and_version & 0xFFFF
        if version > 0x7FFF:
            version -= 0x10000
        api = registry.BY_KEY.get(key)
        if api is None or not api.accepts(version):
            raise UnknownApiError(key, version)
        found = _routes[key_and_version] = Route(api, version)
    return found


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
