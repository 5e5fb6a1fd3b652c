"""DescribeConfigs: settings of topics and of the broker, with sources (KIP-226)."""

from __future__ import annotations

from collections.abc import Collection

from kohort.broker.config import (
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    STATIC_BROKER_CONFIG,
    TYPE_NUMBERS,
    Entry,
)
from kohort.broker.config_keys import BROKER_KEYS
from kohort.broker.handlers import configs
from kohort.broker.handlers.refusal import RefusedError
from kohort.broker.long_work import Pace, Work, count_values
from kohort.broker.request import Request
from kohort.protocol.apis.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kohort.protocol.errors import ErrorCode

_NODE_ID = "node.id"


_RESOURCE_COST = 5
"""Cost of looking at a resource, as `Pace` counts."""
_KEY_COST = 5
"""Cost of describing a key, with its synonyms."""


def handle(request: Request) -> Work:
    """Describes the requested keys of each resource."""
    message: DescribeConfigsRequest = request.message
    pace = Pace()
    kinds = yield from count_values(
        (each.resource_type for each in message.resources), pace
    )
    error = None
    for kind in kinds.keys() - configs.NAMES.keys():
        # In Kafka one type that it does not know spoils the whole request.
        why = f"there are no resources of type {kind}"
        error = RefusedError(ErrorCode.INVALID_REQUEST, why)
    results = []
    # Answers about all keys: a request often repeats one resource.
    whole: dict[tuple[int, str], DescribeConfigsResult] = {}
    for resource in message.resources:
        key = resource.resource_type, resource.resource_name
        if error is not None:
            result = _refused(resource, error)
        elif resource.configuration_keys:
            wanted = yield from count_values(resource.configuration_keys, pace)
            result = _result(request, resource, wanted)
        elif key in whole:
            result = whole[key]
        else:
            result = whole[key] = _result(request, resource, ())
        results.append(result)
        if pace.spend(_RESOURCE_COST + _KEY_COST * len(result.configs)):
            yield
    yield from request.reply_in_pieces(DescribeConfigsResponse(0, results))


def _refused(
    resource: DescribeConfigsResource, error: RefusedError
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error.code, error.why, resource.resource_type, resource.resource_name
    )


def _result(
    request: Request, resource: DescribeConfigsResource, wanted: Collection[str]
) -> DescribeConfigsResult:
    message: DescribeConfigsRequest = request.message
    try:
        entries = _entries(request, resource)
    except RefusedError as error:
        return _refused(resource, error)
    return DescribeConfigsResult(
        0,
        "",
        resource.resource_type,
        resource.resource_name,
        [
            _shown(resource, entry, message.include_synonyms)
            for entry in entries
            if not wanted or entry.key.name in wanted
        ],
    )


def _entries(request: Request, resource: DescribeConfigsResource) -> list[Entry]:
    kind, name = resource.resource_type, resource.resource_name
    cluster = request.node.cluster
    if kind == configs.TOPIC:
        configs.check_topic_name(name)
        topic = cluster.topics.by_name.get(name)
        if topic is None:
            raise RefusedError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}"
            )
        return configs.topic_entries(cluster.config, topic.overrides)
    if kind == configs.BROKER and not name:
        return _common_entries(request)
    if kind == configs.BROKER:
        configs.check_broker(request, name)
        described = (n for n, key in BROKER_KEYS.items() if key.mode != "hidden")
        return [_entry(request, name) for name in described]
    if kind == configs.BROKER_LOGGER:
        configs.check_broker(request, name)
        # The levels of single loggers cannot be set in kohort.
        return []
    raise configs.refused_type(kind)


def _entry(request: Request, name: str) -> Entry:
    """A key of the node that was asked; nodes differ in their ids only."""
    entry = request.node.cluster.config.entry(name)
    text = str(request.node.id)
    if name != _NODE_ID or entry.value == text:
        return entry
    source = STATIC_BROKER_CONFIG
    return Entry(entry.key, text, source, ((name, text, source),))


def _common_entries(request: Request) -> list[Entry]:
    """The settings that were changed at run time for all brokers."""
    source = DYNAMIC_DEFAULT_BROKER_CONFIG
    values = request.node.cluster.config.dynamic(source)
    return [
        Entry(BROKER_KEYS[name], text, source, ((name, text, source),))
        for name, text in values.items()
    ]


def _shown(
    resource: DescribeConfigsResource, entry: Entry, with_synonyms: bool
) -> DescribeConfigsResourceResult:
    key = entry.key
    return DescribeConfigsResourceResult(
        key.name,
        entry.value,
        resource.resource_type == configs.BROKER and key.read_only,
        entry.source,
        key.sensitive,
        [DescribeConfigsSynonym(*each) for each in entry.synonyms]
        if with_synonyms
        else (),
        TYPE_NUMBERS[key.type],
        # Documentation is optional (KIP-569); kohort has none.
        None,
    )
