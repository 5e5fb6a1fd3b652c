"""AlterConfigs: replaces all settings of a resource."""

from __future__ import annotations

from typing import Any

from kohort.broker.handlers import config_targets
from kohort.broker.handlers.alteration import alter, check_value
from kohort.broker.long_work import Work
from kohort.broker.request import Request
from kohort.protocol.apis.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(request: Request) -> Work:
    """Replaces the configuration of each resource."""
    message: AlterConfigsRequest = request.message

    def change(resource: Any) -> None:
        target = config_targets.target(
            request, resource.resource_type, resource.resource_name
        )
        values = {each.name: each.value for each in resource.configs}
        target.put(values, message.validate_only)

    altered = yield from alter(request, _check, change)
    rows = [AlterConfigsResourceResponse(*row) for row in altered]
    yield from request.finish_in_pieces(AlterConfigsResponse(0, rows))


def _check(resource: Any) -> None:
    for each in resource.configs:
        check_value(each.name, each.value)
