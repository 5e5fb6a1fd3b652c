"""Options of the commands that are clients, and the ways in which these end."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from kohort.control.terminal import BOOTSTRAP_VARIABLE, fail, parse_pairs

if TYPE_CHECKING:
    from kohort.client.config import CommonConfig

C = TypeVar("C", bound="CommonConfig")

BOOTSTRAP = "localhost:9092"
TIMEOUT_S = 10.0
"""Less than a client waits by default, as a person waits for the command."""
REQUEST_MS = 30_000
"""`request.timeout.ms`, where the time for all is not shorter."""

_OPTIONS = (
    click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        metavar="HOST:PORT[,...]",
        envvar=BOOTSTRAP_VARIABLE,
        show_envvar=True,
        help=f"The cluster.  [default: {BOOTSTRAP}]",
    ),
    click.option(
        "-X",
        "sets",
        metavar="KEY=VALUE",
        multiple=True,
        help="Sets one of Kafka's client settings. Can be given more than once.",
    ),
    click.option(
        "-F",
        "--client-config",
        "file",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False),
        help="A properties file with client settings; -X overrides it.",
    ),
    click.option(
        "--timeout",
        metavar="SECONDS",
        type=click.FloatRange(min=0.001, max=1e6),
        default=TIMEOUT_S,
        help="Seconds to wait for brokers that do not answer.",
    ),
)

_SAID_ANYWAY = {"kohort.client.group", "kohort.client.subscription"}
"""Loggers that repeat messages of the commands: the consumer raises errors of a
member and calls its listener, and missing topics are looked for at the start."""


@dataclass(frozen=True)
class Access:
    """The connection to a cluster.

    Attributes:
        settings: of the client, as text, by Kafka's names with underscores.
        timeout_ms: how long calls may take.
    """

    settings: Mapping[str, str]
    timeout_ms: int

    def config(
        self, cls: type[C], *, usual: Mapping[str, Any] | None = None, **said: Any
    ) -> C:
        """The configuration of a client; ends the command if there can be none.

        Args:
            cls: which client's.
            usual: settings of this command, unless the user wants others.
            said: values of the command's options; None for those that are missing.
        """
        from kohort.client.errors import ConfigError

        said = {name: value for name, value in said.items() if value is not None}
        for name in said:
            if name in self.settings:
                fail(f"-X {_kafkas(name)}: another option sets it", 2)
        known = {
            "default_api_timeout_ms": self.timeout_ms,
            "request_timeout_ms": min(self.timeout_ms, REQUEST_MS),
        }
        try:
            return cls.parse({**known, **(usual or {}), **self.settings, **said})
        except ConfigError as error:
            # The user knows Kafka's names.
            name, colon, why = str(error).partition(": ")
            if colon and (name in self.settings or name in said):
                why = re.sub(r"(?<=did you mean )\w+", lambda m: _kafkas(m[0]), why)
                fail(f"{_kafkas(name)}: {why}", 2)
            fail(str(error), 2)


def client_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of clients; it gets an `Access` for them."""

    @functools.wraps(command)
    def run(
        *,
        bootstrap: str | None,
        sets: tuple[str, ...],
        file: str | None,
        timeout: float,
        **arguments: Any,
    ) -> None:
        _open_what_is_closed()
        settings = {} if file is None else _of_file(file)
        given: dict[str, str] = {}
        for key, value in parse_pairs("-X", sets):
            if _ours(key) in given:
                fail(f"-X {key}: is set twice", 2)
            given[_ours(key)] = value
        settings |= given
        source = click.get_current_context().get_parameter_source("bootstrap")
        is_said = source is click.core.ParameterSource.COMMANDLINE
        if is_said and "bootstrap_servers" in given:
            fail("-X bootstrap.servers: -b sets it", 2)
        if is_said or "bootstrap_servers" not in settings:
            settings["bootstrap_servers"] = bootstrap or BOOTSTRAP
        command(Access(settings, int(timeout * 1000)), **arguments)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run


def _open_what_is_closed() -> None:
    """Sockets shall not be taken for the streams of a process that lacks some."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest number that is free is this one.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        fail("cannot write: stdout is closed", 1)


def _ours(key: str) -> str:
    return key.strip().replace(".", "_")


def _kafkas(name: str) -> str:
    return name.replace("_", ".")


def _of_file(path: str) -> dict[str, str]:
    """The settings in a properties file: a key and a value to a line."""
    found: dict[str, str] = {}
    try:
        with Path(path).open(encoding="utf-8") as lines:
            for number, each in enumerate(lines, 1):
                line = each.strip()
                if not line or line[0] in "#!":
                    continue
                key, equals, value = line.partition("=")
                if not equals or not key.strip():
                    fail(f"{path}, line {number}: must be KEY=VALUE", 2)
                found[_ours(key)] = value.strip()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{path}: {getattr(error, 'strerror', None) or error}", 2)
    return found


def run(main: Coroutine[Any, Any, int]) -> NoReturn:
    """Runs a command to its end, and ends the process with its exit code.

    SIGINT and SIGTERM cancel it, so that it can finish pending work. The client's
    errors are printed in one line. A closed stdout is no failure: ``head`` closes it
    when it has enough.
    """
    import asyncio
    import logging

    from kohort.broker import loop
    from kohort.client.errors import ConfigError, KohortError

    logged = logging.StreamHandler()
    logged.setFormatter(logging.Formatter("kohort: %(message)s"))
    logged.addFilter(lambda record: record.name not in _SAID_ANYWAY)
    log = logging.getLogger("kohort.client")
    log.addHandler(logged)

    async def stoppable() -> int:
        task = asyncio.current_task()
        assert task is not None
        loop.on_signals(task.cancel)
        return await main

    try:
        code = loop.run(stoppable())
        sys.stdout.flush()
    except BrokenPipeError:
        _mute()
        code = 0
    except ConfigError as error:
        name, colon, why = str(error).partition(": ")
        fail(f"{_kafkas(name)}{colon}{why}", 2)
    except KohortError as error:
        text = str(error)
        if os.strerror(errno.ECONNREFUSED) in text:
            text += "; `kohort serve` starts a broker"
        fail(text, 1)
    except asyncio.CancelledError:
        fail("interrupted", 1)
    except OSError as error:
        _mute()
        fail(f"cannot write: {error.strerror or error}", 1)
    finally:
        log.removeHandler(logged)
    sys.exit(code)


def _mute() -> None:
    """Drops the rest of stdout's buffer, which Python would write at its end."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def say(text: str) -> None:
    """Prints a line for people, on stderr."""
    click.echo(f"kohort: {text}", err=True)
