"""The levels of loggers, as resources of type BROKER_LOGGER (KIP-412).

They belong to the process, and a restart resets them. Names are kohort's own, except
for ``root``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kohort.broker import telemetry
from kohort.broker.handlers.alteration import invalid
from kohort.broker.handlers.refusal import RefusedError
from kohort.protocol.errors import ErrorCode

ROOT = "root"

_SET, _DELETE = range(2)

LEVELS = {
    "TRACE": "debug",
    "DEBUG": "debug",
    "INFO": "info",
    "WARN": "warning",
    "ERROR": "error",
    "FATAL": "critical",
}
"""kohort's level for each of Kafka's."""
_SHOWN = {level: name for name, level in LEVELS.items()}


def levels() -> dict[str, str]:
    """The level of each logger by name, in Kafka's words."""
    found = {ROOT: telemetry.level()} | telemetry.levels()
    return {name: _SHOWN[level] for name, level in found.items()}


def _no_operation(number: int) -> RefusedError:
    # Loggers do not support the operations of lists; Kafka fails for other ones.
    code = ErrorCode.INVALID_REQUEST
    if number not in range(4):
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    return RefusedError(code, f"there is no operation {number} of loggers")


def alter(changes: Iterable[Any], validate_only: bool) -> None:
    """Sets levels, all of them or none; deleting one applies the root's level again.

    Raises:
        RefusedError: an unknown logger, level or operation.
    """
    known = levels()
    for change in changes:
        if change.config_operation not in {_SET, _DELETE}:
            raise _no_operation(change.config_operation)
        if change.name not in known:
            why = f"there is no logger {change.name[:260]!r}"
            raise RefusedError(ErrorCode.INVALID_CONFIG, why)
        if change.config_operation == _SET and change.value not in LEVELS:
            why = f"a level is one of {', '.join(LEVELS)}, not {change.value[:100]!r}"
            raise RefusedError(ErrorCode.INVALID_CONFIG, why)
        if change.config_operation == _DELETE and change.name == ROOT:
            raise invalid("the root logger has to have a level")
    if validate_only:
        return
    for change in changes:
        level = LEVELS[change.value] if change.config_operation == _SET else None
        telemetry.set_level(None if change.name == ROOT else change.name, level)
