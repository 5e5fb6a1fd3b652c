"""The common part of AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from kohort.broker.handlers.refusal import RefusedError
from kohort.broker.long_work import Pace, count_values
from kohort.broker.request import Request
from kohort.protocol.errors import ErrorCode

_ALTERED_COST = 1000
"""Cost of altering a resource, as `Pace` counts: the change is written and flushed."""


def alter(
    request: Request,
    check: Callable[[Any], object],
    change: Callable[[Any], object],
) -> Generator[None, None, list[tuple[int, str | None, int, str]]]:
    """Alters each resource of the request, all of its keys or none.

    Args:
        request: its message has `resources`.
        check: checks the changes of a resource of any type.
        change: makes them; called only for resources that pass the check.

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
                raise invalid("the request names the resource twice")
            if len(names) < len(resource.configs):
                raise invalid("a key occurs twice")
            check(resource)
            change(resource)
            cost = _ALTERED_COST
        except RefusedError as error:
            rows.append((error.code, error.why, kind, name))
        else:
            rows.append((0, None, kind, name))
        if pace.spend(cost):
            yield
    return rows


def check_value(name: str, value: str | None) -> None:
    """Checks that a key has a value.

    Raises:
        RefusedError: INVALID_REQUEST if it is null.
    """
    if value is None:
        raise invalid(f"{name} is null")


def invalid(why: str) -> RefusedError:
    """INVALID_REQUEST."""
    return RefusedError(ErrorCode.INVALID_REQUEST, why)
