"""Logging with structlog: pretty on a terminal, JSON for machines, always on stderr.

The first logged line imports structlog, so a program whose broker logs nothing does
without it. A process that serves calls `load` before.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Literal

Format = Literal["auto", "pretty", "json"]

LEVELS = ("debug", "info", "warning", "error", "critical")
_TRIED = ("rich", "better_exceptions", "twisted", "greenlet")
MOST_FIRST_TIMES = 1000
"""Keys that `FirstTimes` remembers."""
_NUMBERS = {level: number for number, level in enumerate(LEVELS)}


class _Settings:
    """Format and level of log lines; `configure` sets them for the process."""

    format: Format = "auto"
    # Inside a program or test a broker logs only warnings and errors; the command line
    # sets a lower level.
    level: int = LEVELS.index("warning")
    # Levels of single loggers, by name.
    levels: ClassVar[dict[str, int]] = {}
    loggers: ClassVar[dict[str, list[Logger]]] = {}
    # Incremented when settings change: a logger with an older number is bound again.
    version: int = 0
    watchers: ClassVar[list[Callable[[], object]]] = []


def configure(
    log_format: Format = "auto",
    level: Literal["debug", "info", "warning", "error", "critical"] = "info",
) -> None:
    """Sets format and level of log lines, for the whole process.

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
    """Sets the level of a logger, or the default level.

    Args:
        name: of the logger; None sets the default, for loggers without a level.
        level: one of `LEVELS`; None removes a logger's level.
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
    """Calls a function now, and whenever logging is configured."""
    _Settings.watchers.append(callback)
    callback()


class Logger:
    """A logger with a name on each line; costs nothing until it is used.

    Events are names with fields, for example ``log.info("group_created", group="g")``.
    """

    __slots__ = ("_bound", "_name", "_version", "level")

    def __init__(self, name: str) -> None:
        self._name = name
        self.level = _Settings.levels.get(name, _Settings.level)
        _Settings.loggers.setdefault(name, []).append(self)
        self._bound: Any = None
        self._version = -1

    def is_on(self, level: str) -> bool:
        """Returns whether a level is logged, for lines that are slow to make."""
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


class FirstTimes:
    """Remembers what was logged, so that it is logged once per client or group."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        # Only hashes: an id can take 128 KiB. A collision costs one line.
        self._seen: set[int] = set()

    def add(self, *key: str) -> bool:
        """Returns whether a key is new. Clients choose keys: many are forgotten."""
        number = hash(key)
        if number in self._seen:
            return False
        if len(self._seen) >= MOST_FIRST_TIMES:
            self._seen.clear()
        self._seen.add(number)
        return True


class _Stderr:
    """The current `sys.stderr`, looked up for each line, as tests replace it.

    A line that cannot be written is lost, for example on a full disk. An error here
    would stop a change of the broker halfway, while the line says why the change is
    undone.
    """

    def _write(self, line: str) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    debug = info = warning = error = critical = exception = msg = _write


class _SpeltOut:
    """A text that is shown as a Python literal."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return repr(self._text)


def _harmless(_: Any, __: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Escapes control characters for a terminal: clients choose ids and reasons.

    structlog itself escapes only text with a space or a quote.
    """
    return {
        name: _SpeltOut(value)
        if isinstance(value, str) and not value.isprintable()
        else value
        for name, value in fields.items()
    }


def load() -> None:
    """Imports structlog without the packages that it only tries, for tracebacks.

    They are most of the time of its import, and no line here needs them. For a process
    that is a broker alone: a program that uses structlog itself may want them.
    """
    hidden = [name for name in _TRIED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        importlib.import_module("structlog")
    finally:
        for name in hidden:
            del sys.modules[name]


def _bind(name: str) -> Any:
    import structlog

    terminal = sys.stderr.isatty()
    processors: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if _Settings.format == "pretty" or (_Settings.format == "auto" and terminal):
        # Plain tracebacks: rich ones take 100 ms, and print the values of locals.
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
        # Levels are dropped above, before structlog is loaded.
        wrapper_class=structlog.make_filtering_bound_logger(0),
    ).bind(logger=name)
