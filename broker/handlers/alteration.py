"""The common part of AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from kohort.broker.handlers import configs
from kohort.broker.handlers.refusal import RefusedError
from kohort.broker.long_work import Pace, count_values
from kohort.broker.request import Request
from kohort.protocol.errors import ErrorCode

NewValues = Callable[[configs.Target, Any], Mapping[str, str | None]]


_ALTERED_COST = 1000
"""Cost of altering a resource, as `Pace` counts: that is written down, and
flushed."""


def alter(
    request: Request, new_values: NewValues
) -> Generator[None, None, list[tuple[int, str | None, int, str]]]:
    """Alters each resource of the request, all of its keys or none.

    Args:
        request: its message has `resources` and `validate_only`.
        new_values: makes all values to set of a resource.

    Returns:
        A row of the response each: error code, error message, type and name.
    """
    message = request.message
    pace = Pace()
    times = yield from count_values(
        ((each.resource_type, each.resource_name) for each in message.resources), pace
    )
    rows: list[tuple[int, str | None, int, str]] = []
    for resource in message.resources:
        kind, name = resource.resource_type, resource.resource_name
        names = yield from count_values((each.name for each in resource.configs), pace)
        cost = 1
        try:
            if times[kind, name] > 1:
                raise _invalid("the request names the resource twice")
            if len(names) < len(resource.configs):
                raise _invalid("a key occurs twice")
            target = configs.target(request, kind, name)
            target.put(new_values(target, resource), message.validate_only)
            cost = _ALTERED_COST
        except RefusedError as error:
            rows.append((error.code, error.why, kind, name))
        else:
            rows.append((0, None, kind, name))
        if pace.spend(cost):
            yield
    return rows


def given(name: str, value: str | None) -> str:
    """The value of a key; raises RefusedError where it is null."""
    if value is None:
        raise _invalid(f"{name} is null")
    return value


def _invalid(why: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, why)
