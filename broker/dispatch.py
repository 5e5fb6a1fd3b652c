"""Dispatch: from (API key, version) to the handler.

A route is made when the first request of its key and version comes in; the
handler's module is loaded then, too, so that a broker starts sooner.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kohort.broker.long_work import Work
from kohort.broker.request import Request, ResponseFormat
from kohort.protocol import registry
from kohort.protocol.generated_calls import Source
from kohort.protocol.messages import Codec, WireError
from kohort.protocol.registry import Api

HANDLERS: Final = {
    0: "kohort.broker.handlers.k00_produce",
    1: "kohort.broker.handlers.k01_fetch",
    2: "kohort.broker.handlers.k02_list_offsets",
    3: "kohort.broker.handlers.k03_metadata",
    8: "kohort.broker.handlers.k08_offset_commit",
    9: "kohort.broker.handlers.k09_offset_fetch",
    10: "kohort.broker.handlers.k10_find_coordinator",
    11: "kohort.broker.handlers.k11_join_group",
    12: "kohort.broker.handlers.k12_heartbeat",
    13: "kohort.broker.handlers.k13_leave_group",
    14: "kohort.broker.handlers.k14_sync_group",
    15: "kohort.broker.handlers.k15_describe_groups",
    16: "kohort.broker.handlers.k16_list_groups",
    17: "kohort.broker.handlers.k17_sasl_handshake",
    18: "kohort.broker.handlers.k18_api_versions",
    19: "kohort.broker.handlers.k19_create_topics",
    20: "kohort.broker.handlers.k20_delete_topics",
    21: "kohort.broker.handlers.k21_delete_records",
    22: "kohort.broker.handlers.k22_init_producer_id",
    23: "kohort.broker.handlers.k23_offset_for_leader_epoch",
    32: "kohort.broker.handlers.k32_describe_configs",
    33: "kohort.broker.handlers.k33_alter_configs",
    35: "kohort.broker.handlers.k35_describe_log_dirs",
    36: "kohort.broker.handlers.k36_sasl_authenticate",
    37: "kohort.broker.handlers.k37_create_partitions",
    42: "kohort.broker.handlers.k42_delete_groups",
    43: "kohort.broker.handlers.k43_elect_leaders",
    44: "kohort.broker.handlers.k44_incremental_alter_configs",
    45: "kohort.broker.handlers.k45_alter_partition_reassignments",
    46: "kohort.broker.handlers.k46_list_partition_reassignments",
    47: "kohort.broker.handlers.k47_offset_delete",
    48: "kohort.broker.handlers.k48_describe_client_quotas",
    49: "kohort.broker.handlers.k49_alter_client_quotas",
    55: "kohort.broker.handlers.k55_describe_quorum",
    57: "kohort.broker.handlers.k57_update_features",
    60: "kohort.broker.handlers.k60_describe_cluster",
    61: "kohort.broker.handlers.k61_describe_producers",
    74: "kohort.broker.handlers.k74_list_config_resources",
    75: "kohort.broker.handlers.k75_describe_topic_partitions",
}
"""The module of each API's handler, by API key. Its function `handle` takes the
`Request`."""
WITH_RESPOND: Final = frozenset({11, 12, 13, 14})
"""APIs whose requests are tokens of a coordinator: their modules also have `respond`,
which makes the response of the coordinator's result."""


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
        module = importlib.import_module(HANDLERS[api.key])
        self.flexible = api.is_flexible(version)
        self.decode: Decoder = api.request(version).decode
        self.handle: Callable[[Request], Work | None] = module.handle
        self.respond: Callable[[Request, Any], None] = (
            module.respond if api.key in WITH_RESPOND else Request.reply
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
    def decode(buffer: Source, position: int, end: int) -> tuple[UndecodedBody, int]:
        """The place of the body, which stands for the message until it is decoded."""
        return UndecodedBody(buffer, position, end), end

    def handle(self, request: Request) -> Work:
        """Decodes the request, and hands it to its handler.

        Raises:
            BodyError: the bytes are no request, or too much of one.
        """
        body: UndecodedBody = request.message
        try:
            request.message, _ = yield from self._codec.decode_in_pieces(*body)
        except WireError as error:
            raise BodyError(str(error)) from None
        # A view of records may keep the bytes; nothing else does.
        del body
        work = self._route.handle(request)
        if work is not None:
            yield from work


class UndecodedBody(NamedTuple):
    """The place of a long request's body in the bytes that came in."""

    buffer: Source
    position: int
    end: int


Decoder = Callable[[Source, int, int], tuple[Any, int]]

_routes: dict[int, Route] = {}


def route_of(key_and_version: int) -> Route:
    """The route of an API key (upper 16 bits) and version (lower 16 bits).

    Raises:
        UnknownApiError: kohort does not have that API in that version.
        WireError: the API's module cannot be loaded, as file descriptors are used up.
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
