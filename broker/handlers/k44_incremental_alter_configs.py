"""IncrementalAlterConfigs: single keys are set, reset, or their lists changed."""

from __future__ import annotations

from typing import Any

from kohort.broker.handlers import configs
from kohort.broker.handlers.alteration import alter, given
from kohort.broker.handlers.refusal import RefusedError
from kohort.broker.long_work import Work
from kohort.broker.request import Request
from kohort.protocol.apis.k33_alter_configs import AlterConfigsResourceResponse
from kohort.protocol.apis.k44_incremental_alter_configs import (
    IncrementalAlterConfigsResponse,
)
from kohort.protocol.errors import ErrorCode

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def handle(request: Request) -> Work:
    """Changes the configuration of each resource."""
    altered = yield from alter(request, _new_values)
    rows = [AlterConfigsResourceResponse(*row) for row in altered]
    yield from request.reply_in_pieces(IncrementalAlterConfigsResponse(0, rows))


def _new_values(target: configs.Target, resource: Any) -> dict[str, str | None]:
    values = dict(target.values)
    for change in resource.configs:
        name, operation = change.name, change.config_operation
        if operation == _DELETE:
            values.pop(name, None)
            continue
        value = given(name, change.value)
        if operation == _SET:
            values[name] = value
        elif operation in {_APPEND, _SUBTRACT}:
            values[name] = _changed_list(target, name, operation, value)
        else:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST, f"there is no operation {operation}"
            )
    return values


def _changed_list(target: configs.Target, name: str, operation: int, value: str) -> str:
    key = target.keys.get(name)
    if key is None or key.type != "list":
        raise RefusedError(ErrorCode.INVALID_CONFIG, f"{name} is not a list")
    old = target.values[name] if name in target.values else target.default(name)
    items = _items(old or "")
    # Elements are compared as they stand, blanks and all, as Kafka does.
    wanted = dict.fromkeys(_items(value))
    if operation == _APPEND:
        there = set(items)
        items += [item for item in wanted if item not in there]
    else:
        items = [item for item in items if item not in wanted]
    return ",".join(items)


def _items(text: str) -> list[str]:
    return text.split(",") if text.strip() else []
