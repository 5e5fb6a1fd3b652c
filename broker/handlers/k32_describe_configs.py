"""DescribeConfigs: settings of resources, with their sources (KIP-226)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kohort.broker.config import (
    BROKER_LOGGER_CONFIG,
    CLIENT_METRICS_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    Config,
    Entry,
    inherited,
)
from kohort.broker.config_keys import (
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    KOHORT_KEYS,
    Key,
)
from kohort.broker.config_values import TYPE_NUMBERS
from kohort.broker.handlers import configs, loggers
from kohort.broker.handlers.refusal import RefusedError
from kohort.broker.handlers.repeated_rows import RepeatedRows
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

_RESOURCE_COST = 5
"""Cost of looking at a resource, as `Pace` counts."""
_Key = tuple[int, str, frozenset[str]]
"""Type and name of a resource, and the requested keys, if not all."""
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
        # In Kafka one unknown type fails the whole request.
        why = f"there are no resources of type {kind}"
        error = RefusedError(ErrorCode.INVALID_REQUEST, why)
    results = []
    # A request often repeats one resource.
    known: RepeatedRows[_Key, DescribeConfigsResult] = RepeatedRows()
    for resource in message.resources:
        wanted = yield from count_values(resource.configuration_keys or (), pace)
        key = resource.resource_type, resource.resource_name, frozenset(wanted)
        result = known.again(key)
        if result is None:
            if error is not None:
                result = _refused(resource, error)
            else:
                result = _result(request, resource, wanted)
            known.keep(key, result, 1 + len(result.configs))
        results.append(result)
        if pace.spend(_RESOURCE_COST + _KEY_COST * len(result.configs)):
            yield
    yield from request.finish_in_pieces(DescribeConfigsResponse(0, results))


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
        entries = _entries(request, resource, wanted)
    except RefusedError as error:
        return _refused(resource, error)
    docs = _texts(resource.resource_type) if message.include_documentation else {}
    return DescribeConfigsResult(
        0,
        "",
        resource.resource_type,
        resource.resource_name,
        [
            _shown(resource, entry, message.include_synonyms, docs.get(entry.key.name))
            for entry in entries
            if not wanted or entry.key.name in wanted
        ],
    )


def _texts(resource_type: int) -> Mapping[str, str]:
    """The documentation of the keys of a resource type (KIP-569)."""
    # Loaded on first use: few clients request it.
    from kohort.broker import config_docs

    by_type = {
        configs.TOPIC: config_docs.TOPIC_DOCS,
        configs.BROKER: config_docs.BROKER_DOCS,
        configs.GROUP: config_docs.GROUP_DOCS,
        configs.CLIENT_METRICS: config_docs.CLIENT_METRICS_DOCS,
    }
    return by_type.get(resource_type, {})


def _entries(
    request: Request, resource: DescribeConfigsResource, wanted: Collection[str]
) -> list[Entry]:
    kind, name = resource.resource_type, resource.resource_name
    cluster = request.node.cluster
    config = cluster.config
    if kind == configs.TOPIC:
        configs.check_topic_name(name)
        topic = cluster.topics.by_name.get(name)
        if topic is None:
            # Kafka sends no text with this error.
            raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return config.topic_entries(topic.overrides)
    if kind == configs.BROKER and not name:
        return _common_entries(config)
    if kind in {configs.BROKER, configs.BROKER_LOGGER}:
        configs.check_broker(request, name)
        if kind == configs.BROKER_LOGGER:
            return _loggers()
        # kohort's own keys are shown only to clients that ask for them by name.
        names = [*config.described(), *(own for own in KOHORT_KEYS if own in wanted)]
        return [
            config.entry(name, request.node.started_with)
            for name in names
            if not wanted or name in wanted
        ]
    if not name:
        why = f"the name of a resource of type {configs.NAMES[kind]} is empty"
        raise RefusedError(ErrorCode.INVALID_REQUEST, why)
    own = cluster.resource_configs.settings(kind, name)
    if kind == configs.GROUP:
        return [config.group_entry(name, own) for name in GROUP_KEYS]
    return [
        inherited(key, key.default, (), own, CLIENT_METRICS_CONFIG)
        for key in CLIENT_METRICS_KEYS.values()
    ]


def _common_entries(config: Config) -> list[Entry]:
    """The settings that were changed at run time for all brokers."""
    source = DYNAMIC_DEFAULT_BROKER_CONFIG
    entries = []
    for name, text in config.dynamic(source).items():
        entry = config.entry(name)
        synonyms = tuple(each for each in entry.synonyms if each[2] == source)
        entries.append(Entry(entry.key, text, source, synonyms))
    return entries


def _loggers() -> list[Entry]:
    return [
        Entry(
            Key(name, "unknown", None, "*", "", used=True),
            level,
            BROKER_LOGGER_CONFIG,
            (),
        )
        for name, level in loggers.levels().items()
    ]


def _shown(
    resource: DescribeConfigsResource,
    entry: Entry,
    with_synonyms: bool,
    documentation: str | None,
) -> DescribeConfigsResourceResult:
    key = entry.key
    is_logger = resource.resource_type == configs.BROKER_LOGGER
    return DescribeConfigsResourceResult(
        key.name,
        entry.value,
        resource.resource_type == configs.BROKER and key.read_only,
        entry.source,
        not is_logger and key.sensitive,
        [DescribeConfigsSynonym(*each) for each in entry.synonyms]
        if with_synonyms
        else (),
        TYPE_NUMBERS[key.type],
        "" if is_logger else documentation,
    )
