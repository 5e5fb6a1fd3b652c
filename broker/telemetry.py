"""Logging with structlog: pretty on a terminal, JSON for machines, always on stderr.

structlog is imported by the first line that is logged: a broker that has nothing
to say starts without it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Literal

Format = Literal["auto", "pretty", "json"]

LEVELS = ("debug", "info", "warning", "error", "critical")
_NUMBERS = {level: number for number, level in enumerate(LEVELS)}


class _Settings:
    """Format and level of log lines; `configure` sets them for the process."""

    format: Format = "auto"
    # Inside a program or test a broker logs warnings and errors only; the command
    # line sets a lower level.
    level: int = LEVELS.index("warning")
    # Levels of single loggers, by name.
    levels: ClassVar[dict[str, int]] = {}
    loggers: ClassVar[dict[str, list[Logger]]] = {}
    # Grows when settings change: a logger that has an older number is bound anew.
    version: int = 0
    watchers: ClassVar[list[Callable[[], object]]] = []


def configure(
    log_format: Format = "auto",
    level: Literal["debug", "info", "warning", "error", "critical"] = "info",
) -> None:
    """Says how lines are written from now on, in the whole process.

    Args:
        log_format: ``auto`` is ``pretty`` on a terminal, and ``json`` elsewhere.
        level: lines below it are dropped.
    """
    _Settings.format = log_format
    _Settings.level = LEVELS.index(level)
    _Settings.levels.clear()
    _changed()


def level() -> str:
    """The level below which lines are dropped."""
    return LEVELS[_Settings.level]


def levels() -> dict[str, str]:
    """The level of each logger by name."""
    return {
        name: LEVELS[_Settings.levels.get(name, _Settings.level)]
        for name in sorted(_Settings.loggers)
    }


def set_level(name: str | None, level: str | None) -> None:
    """Sets the level of a logger, or of all that have none of their own.

    Args:
        name: of the logger; None for all.
        level: one of `LEVELS`; None takes a logger's own away.
    """
    if level is None:
        _Settings.levels.pop(name or "", None)
    elif name is None:
        _Settings.level = _NUMBERS[level]
    else:
        _Settings.levels[name] = _NUMBERS[level]
    _changed()


def _changed() -> None:
    _Settings.version += 1
    for name, loggers in _Settings.loggers.items():
        for logger in loggers:
            logger.level = _Settings.levels.get(name, _Settings.level)
    for callback in _Settings.watchers:
        callback()


def watch(callback: Callable[[], object]) -> None:
    """Calls it now, and whenever logs have been set up anew."""
    _Settings.watchers.append(callback)
    callback()


class Logger:
    """A logger whose lines carry a name; costs nothing until it is used.

    Events are names with fields, as in ``log.info("group_created", group="g")``.
    """

    __slots__ = ("_bound", "_name", "_version", "level")

    def __init__(self, name: str) -> None:
        self._name = name
        self.level = _Settings.levels.get(name, _Settings.level)
        _Settings.loggers.setdefault(name, []).append(self)
        self._bound: Any = None
        self._version = -1

    def is_on(self, level: str) -> bool:
        """Whether lines of a level are written: where making them takes time."""
        return _NUMBERS[level] >= self.level

    def debug(self, event: str, **fields: Any) -> None:
        """Logs details for finding a fault in kohort."""
        if self.level <= 0:
            self._logger().debug(event, **fields)

    def info(self, event: str, **fields: Any) -> None:
        """Logs an expected event."""
        if self.level <= 1:
            self._logger().info(event, **fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Logs an event that needs attention."""
        if self.level <= 2:
            self._logger().warning(event, **fields)

    def error(self, event: str, **fields: Any) -> None:
        """Logs a failure."""
        if self.level <= 3:
            self._logger().error(event, **fields)

    def critical(self, event: str, **fields: Any) -> None:
        """Logs an error that ends the broker."""
        self._logger().critical(event, **fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Logs a failure with the traceback of the exception being handled."""
        if self.level <= 3:
            self._logger().exception(event, **fields)

    def _logger(self) -> Any:
        if self._version != _Settings.version:
            self._bound = _bind(self._name)
            self._version = _Settings.version
        return self._bound


class _Stderr:
    """`sys.stderr` as it is at the time of each line: tests put another in place.

    A line that cannot be written is lost, as on a full disk. An error here would end
    a change of the broker halfway, where the line says why it is taken back.
    """

    def _write(self, line: str) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    debug = info = warning = error = critical = exception = msg = _write


class _SpeltOut:
    """A text that is shown as Python's source has it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return repr(self._text)


def _harmless(_: Any, __: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Escapes control characters for a terminal: clients choose ids and reasons.

    structlog itself does so only for text with a space or a quote.
    """
    return {
        name: _SpeltOut(value)
        if isinstance(value, str) and not value.isprintable()
        else value
        for name, value in fields.items()
    }


def _bind(name: str) -> Any:
    import structlog

    terminal = sys.stderr.isatty()
    processors: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if _Settings.format == "pretty" or (_Settings.format == "auto" and terminal):
        # Plain tracebacks: rich ones cost 100 ms, and print the values of locals.
        traceback = structlog.dev.plain_traceback
        processors += [
            _harmless,
            structlog.dev.ConsoleRenderer(
                colors=terminal, exception_formatter=traceback
            ),
        ]
    else:
        processors += [
            structlog.processors.format_exc_info,
            structlog.processors.UnicodeDecoder(),
            structlog.processors.JSONRenderer(default=str),
        ]
    return structlog.wrap_logger(
        _Stderr(),
        processors=processors,
        # Levels are dropped above, before structlog is there.
        wrapper_class=structlog.make_filtering_bound_logger(0),
    ).bind(logger=name)
