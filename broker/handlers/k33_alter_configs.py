"""AlterConfigs: replaces all settings of a resource."""

from __future__ import annotations

from typing import Any

from kohort.broker.handlers import configs
from kohort.broker.handlers.alteration import alter, given
from kohort.broker.long_work import Work
from kohort.broker.request import Request
from kohort.protocol.apis.k33_alter_configs import (
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(request: Request) -> Work:
    """Replaces the configuration of each resource."""
    altered = yield from alter(request, _new_values)
    rows = [AlterConfigsResourceResponse(*row) for row in altered]
    yield from request.reply_in_pieces(AlterConfigsResponse(0, rows))


def _new_values(_: configs.Target, resource: Any) -> dict[str, str]:
    return {each.name: given(each.name, each.value) for each in resource.configs}
