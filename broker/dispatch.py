"""Dispatch: from (API key, version) to the handler.

The first request of a key and version makes its route and loads the handler's module,
so that a broker starts sooner.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kohort.broker.coordinator.events import GroupEvent
from kohort.broker.long_work import Work
from kohort.broker.request import Request, ResponseFormat
from kohort.protocol import registry
from kohort.protocol.alike import Decode, decoder_of
from kohort.protocol.errors import ErrorCode
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
    24: "kohort.broker.handlers.k24_add_partitions_to_txn",
    25: "kohort.broker.handlers.k25_add_offsets_to_txn",
    26: "kohort.broker.handlers.k26_end_txn",
    27: "kohort.broker.handlers.k27_write_txn_markers",
    28: "kohort.broker.handlers.k28_txn_offset_commit",
    **dict.fromkeys((29, 30, 31, 38, 39, 40, 41), "kohort.broker.handlers.security"),
    32: "kohort.broker.handlers.k32_describe_configs",
    33: "kohort.broker.handlers.k33_alter_configs",
    34: "kohort.broker.handlers.k34_alter_replica_log_dirs",
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
    50: "kohort.broker.handlers.k50_describe_user_scram_credentials",
    51: "kohort.broker.handlers.k51_alter_user_scram_credentials",
    55: "kohort.broker.handlers.k55_describe_quorum",
    57: "kohort.broker.handlers.k57_update_features",
    60: "kohort.broker.handlers.k60_describe_cluster",
    61: "kohort.broker.handlers.k61_describe_producers",
    65: "kohort.broker.handlers.k65_describe_transactions",
    66: "kohort.broker.handlers.k66_list_transactions",
    68: "kohort.broker.handlers.k68_consumer_group_heartbeat",
    69: "kohort.broker.handlers.k69_consumer_group_describe",
    74: "kohort.broker.handlers.k74_list_config_resources",
    75: "kohort.broker.handlers.k75_describe_topic_partitions",
    76: "kohort.broker.handlers.newer_groups",
    88: "kohort.broker.handlers.newer_groups",
}
"""The module of each API's handler, by API key. Its function `handle` takes the
`Request`."""
WITH_RESPOND: Final = frozenset({8, 11, 12, 13, 14, 22, 25, 26, 68})
"""APIs whose requests are tokens of a coordinator: their modules also have `respond`,
which converts the coordinator's result to the response. Those of 11 and 14 have
`template`, too: the response to `Replies`."""


class Route:
    """Route of the requests of one API key and version.

    Attributes:
        flexible: whether request headers have tagged fields.
        decode: reads the request's body; see `Codec.decode_unchecked`.
        handle: the handler; takes the `Request`. Returns work that continues in later
            turns of the event loop, or None.
        respond: for group APIs, converts a coordinator's result to the response.
        event: makes the event of a request that clients repeat; a request that equals
            the one before is not decoded, and its event is submitted again. It returns
            None for a request that the handler refuses. None for other APIs.
        format: the encoding of responses.
        in_pieces: the route of requests that may take long to decode.
    """

    __slots__ = (
        "decode",
        "event",
        "flexible",
        "format",
        "handle",
        "in_pieces",
        "respond",
    )

    def __init__(self, api: Api, version: int) -> None:
        module = importlib.import_module(HANDLERS[api.key])
        self.flexible = api.is_flexible(version)
        self.decode: Decode = decoder_of(api, version)
        self.handle: Callable[[Request], Work | None] = module.handle
        self.respond: Callable[[Request, Any], None] = (
            module.respond if api.key in WITH_RESPOND else Request.finish
        )
        self.event: Callable[[Request], GroupEvent | None] | None = getattr(
            module, "event", None
        )
        template = getattr(module, "template", None)
        self.format = ResponseFormat(api, version, template)
        self.in_pieces = RouteInPieces(self, api.request(version))


class RouteInPieces:
    """Route of long requests: they are decoded as part of their work.

    Attributes: as those of a `Route`.
    """

    __slots__ = ("_codec", "_route", "flexible", "format", "respond")
    event = None

    def __init__(self, route: Route, codec: Codec) -> None:
        self._route = route
        self._codec = codec
        self.flexible = route.flexible
        self.format = route.format
        self.respond = route.respond

    @staticmethod
    def decode(buffer: Source, position: int, end: int) -> tuple[UndecodedBody, int]:
        """Returns the place of the body, in lieu of the message until it is decoded."""
        return UndecodedBody(buffer, position, end), end

    def handle(self, request: Request) -> Work:
        """Decodes the request and passes it to its handler.

        Raises:
            BodyError: the bytes are not a request, or there are too many of them.
        """
        body: UndecodedBody = request.message
        try:
            request.message, _ = yield from self._codec.decode_in_pieces(*body)
        except WireError as error:
            raise BodyError(str(error)) from None
        # Free the bytes: only a view of records may still need them.
        del body
        work = self._route.handle(request)
        if work is not None:
            yield from work


class UndecodedBody(NamedTuple):
    """The place of a long request's body in the received bytes."""

    buffer: Source
    position: int
    end: int


class Routes(dict[int, Route]):
    """Routes by API key (upper 16 bits) and version (lower 16 bits), made on first use.

    Raises:
        UnknownApiError: kohort does not have that API in that version.
        WireError: the API's module cannot be loaded, as file descriptors are used up.
    """

    def __missing__(self, key_and_version: int) -> Route:
        key, version = key_and_version >> 16, key_and_version & 0xFFFF
        if version > 0x7FFF:
            version -= 0x10000
        api = registry.BY_KEY.get(key)
        if api is None or not api.accepts(version):
            raise UnknownApiError(key, version)
        try:
            found = self[key_and_version] = Route(api, version)
        except OSError as error:
            # After an OSError asyncio and uvloop would close the connection without a
            # log line.
            raise WireError(f"{api.name} cannot be loaded: {error}") from error
        return found


ROUTES: Final = Routes()


def checked(apis: Mapping[int, Api], key_and_version: int) -> int:
    """The key of a request's route, if a broker of this Kafka version has it.

    Args:
        apis: the broker's APIs.
        key_and_version: as the keys of `Routes`.

    Raises:
        UnknownApiError: that broker does not have the API in this version.
    """
    key, version = key_and_version >> 16, key_and_version & 0xFFFF
    api = apis.get(key)
    if api is None or not api.accepts(version):
        raise UnknownApiError(key, version)
    return key_and_version


class BodyError(Exception):
    """The bytes of a long request are not a valid request: a client's error."""


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


def versions_refusal(apis: Mapping[int, Api]) -> bytes:
    """The response to ApiVersions in an unknown version: v0, with the known ones.

    Args:
        apis: the broker's APIs.
    """
    api = apis[registry.API_VERSIONS]
    versions: Any = api.module
    refusal = versions.ApiVersionsResponse(
        ErrorCode.UNSUPPORTED_VERSION,
        [versions.ApiVersion(api.key, api.oldest, api.newest)],
    )
    return api.response(0).encode(refusal)
