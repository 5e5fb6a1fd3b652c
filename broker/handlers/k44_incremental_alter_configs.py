"""IncrementalAlterConfigs: sets or resets single keys, or changes their lists."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kohort.broker.handlers import config_targets, configs, loggers
from kohort.broker.handlers.alteration import alter, check_value, invalid
from kohort.broker.handlers.refusal import RefusedError
from kohort.broker.long_work import Work
from kohort.broker.request import Request
from kohort.protocol.apis.k33_alter_configs import AlterConfigsResourceResponse
from kohort.protocol.apis.k44_incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kohort.protocol.errors import ErrorCode

SET, DELETE, APPEND, SUBTRACT = range(4)

# A broker checks operations on itself and its loggers before the controller does.
_OF_CONTROLLER = {configs.TOPIC, configs.GROUP, configs.CLIENT_METRICS}


def handle(request: Request) -> Work:
    """Changes the configuration of each resource."""
    message: IncrementalAlterConfigsRequest = request.message
    fails = any(map(_fails, message.resources))

    def change(resource: Any) -> None:
        kind, name = resource.resource_type, resource.resource_name
        if fails and kind in _OF_CONTROLLER:
            why = "the request has an unknown operation"
            raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, why)
        if kind == configs.BROKER_LOGGER:
            configs.check_broker(request, name)
            loggers.alter(resource.configs, message.validate_only)
            return
        target = config_targets.target(request, kind, name)
        target.put(_new_values(target, resource), message.validate_only)

    altered = yield from alter(request, _check, change)
    rows = [AlterConfigsResourceResponse(*row) for row in altered]
    yield from request.finish_in_pieces(IncrementalAlterConfigsResponse(0, rows))


def _fails(resource: Any) -> bool:
    """Returns whether Kafka's controller fails the whole request at a resource."""
    return resource.resource_type in _OF_CONTROLLER and any(
        each.value is not None and each.config_operation not in range(4)
        for each in resource.configs
    )


def _check(resource: Any) -> None:
    for each in resource.configs:
        if each.config_operation != DELETE:
            check_value(each.name, each.value)


def _new_values(target: config_targets.Target, resource: Any) -> dict[str, str | None]:
    values = dict(target.values)
    for change in resource.configs:
        name, operation = change.name, change.config_operation
        if operation == DELETE:
            if name in target.elsewhere:
                raise RefusedError(ErrorCode.INVALID_CONFIG, f"{name} is not set here")
            values.pop(name, None)
        elif operation == SET:
            values[name] = change.value
        elif operation in {APPEND, SUBTRACT}:
            values[name] = _changed_list(target, name, operation, change.value)
        else:
            raise invalid(f"there is no operation {operation}")
    return values


def _changed_list(
    target: config_targets.Target, name: str, operation: int, value: str
) -> str:
    key = target.keys.get(name)
    if key is None or key.type != "list" or not target.has_lists:
        raise RefusedError(ErrorCode.INVALID_CONFIG, f"{name} is not a list")
    # As in Kafka, a list that is not set starts from the default of the key, whatever
    # the broker's value.
    old = target.values.get(name, key.default)
    items = [item for item in (old or "").split(",") if item]
    # Elements are compared exactly, including blanks.
    wanted = _split(value)
    if operation == APPEND:
        there = set(items)
        items += [item for item in dict.fromkeys(wanted) if item not in there]
    else:
        left = Counter(wanted)
        kept = []
        for item in items:
            # An element is removed as often as it is named.
            left[item] -= 1
            if left[item] < 0:
                kept.append(item)
        items = kept
    return ",".join(items)


def _split(text: str) -> list[str]:
    """Splits a text as Java does: without empty elements at the end."""
    items = text.split(",")
    while len(items) > 1 and not items[-1]:
        items.pop()
    return items if items[0] or len(items) > 1 or not text else []
