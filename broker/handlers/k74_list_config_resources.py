"""ListConfigResources: the resources that have configurations (KIP-1142)."""

from __future__ import annotations

from kohort.broker.handlers.configs import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
)
from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.protocol.apis.k74_list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kohort.protocol.errors import ErrorCode

_TYPES = (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)
"""In the order of the response."""


def handle(request: Request) -> Work:
    """Lists the resources of the requested types, or of all."""
    message: ListConfigResourcesRequest = request.message
    wanted = set(message.resource_types) or set(_TYPES)
    if request.version == 0:
        wanted = {CLIENT_METRICS}
    if not wanted.issubset(_TYPES):
        request.finish(ListConfigResourcesResponse(0, ErrorCode.UNSUPPORTED_VERSION))
        return
    cluster = request.node.cluster
    nodes = [str(node_id) for node_id in cluster.running]
    names = {
        GROUP: cluster.resource_configs.names(GROUP),
        CLIENT_METRICS: cluster.resource_configs.names(CLIENT_METRICS),
        BROKER_LOGGER: nodes,
        BROKER: nodes,
        TOPIC: list(cluster.topics.by_name),
    }
    pace = Pace()
    rows = []
    for kind in _TYPES:
        for name in names[kind] if kind in wanted else ():
            rows.append(ConfigResource(name, kind))
            if pace.spend(1):
                yield
    yield from request.finish_in_pieces(ListConfigResourcesResponse(0, 0, rows), pace)
