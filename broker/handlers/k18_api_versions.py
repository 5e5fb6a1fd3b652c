"""ApiVersions: kohort's APIs, and the name of the client's software (KIP-511)."""

from __future__ import annotations

import re

from kohort.broker.request import Request
from kohort.protocol.apis.k18_api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kohort.protocol.errors import ErrorCode

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?").fullmatch

_LEAST_MAY_BE_0 = 4
"""First version whose clients accept a feature with a lowest level of 0."""


def handle(request: Request) -> None:
    """Lists the broker's APIs; remembers the client's software for its connection."""
    message: ApiVersionsRequest = request.message
    if request.version >= 3:
        name = message.client_software_name
        version = message.client_software_version
        if not (_SOFTWARE(name) and _SOFTWARE(version)):
            request.finish(ApiVersionsResponse(ErrorCode.INVALID_REQUEST))
            return
        request.peer.software_name = name
        request.peer.software_version = version
    cluster = request.node.cluster
    apis = cluster.apis.values()
    keys = [ApiVersion(api.key, api.advertised, api.newest) for api in apis]
    request.finish(
        ApiVersionsResponse(
            ErrorCode.NONE,
            keys,
            0,
            [
                SupportedFeatureKey(name, least, most)
                for name, (least, most) in cluster.features.supported.items()
                if least > 0 or request.version >= _LEAST_MAY_BE_0
            ],
            cluster.changes,
            [
                FinalizedFeatureKey(name, level, level)
                for name, level in cluster.features.levels.items()
                if level > 0
            ],
        )
    )
