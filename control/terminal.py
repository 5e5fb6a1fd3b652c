"""Addresses, options and errors of the command line.

Light: every command loads this module.
"""

from __future__ import annotations

import errno
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from typing import Final, NoReturn, TypeVar

import click

BOOTSTRAP_VARIABLE: Final = "KOHORT_BOOTSTRAP_SERVERS"
OWN_VARIABLES: Final = frozenset(
    {"KOHORT_COMMAND", "KOHORT_HTTP", "KOHORT_HTTP_TOKEN", BOOTSTRAP_VARIABLE}
)
"""Environment variables of options, and of the programs in ``examples`` that start
kohort; they are no configuration keys."""

DEFAULT_HTTP: Final = "127.0.0.1:9080"

http_option = click.option(
    "--http",
    metavar="URL",
    envvar="KOHORT_HTTP",
    default=DEFAULT_HTTP,
    show_envvar=True,
    help="HTTP port of the broker.",
)
token_option = click.option(
    "--http-token",
    metavar="TOKEN",
    envvar="KOHORT_HTTP_TOKEN",
    show_envvar=True,
    help="Token of the HTTP port, for requests that change something.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Prints JSON, for programs."
)


F = TypeVar("F", bound=Callable[..., object])


def examples(*lines: str) -> Callable[[F], F]:
    """Decorates the function of a command: adds examples to its help, a line each."""
    head = "Example:" if len(lines) == 1 else "Examples:"

    def decorate(function: F) -> F:
        # For click, \b starts a paragraph that is not wrapped again.
        shown = "\n".join(f"  {line}" for line in lines)
        function.__doc__ = f"{inspect.getdoc(function)}\n\n\b\n{head}\n{shown}"
        return function

    return decorate


def fail(text: str, code: int) -> NoReturn:
    """Ends the command with one line on stderr, and this exit code."""
    click.echo(f"kohort: {text}", err=True)
    sys.exit(code)


def parse_pairs(option: str, texts: Iterable[str]) -> list[tuple[str, str]]:
    """Names and values of an option that is given as KEY=VALUE, any number of times."""
    pairs = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            name = "" if option == "KEY=VALUE" else f"{option} "
            fail(f"{name}{text!r}: must be KEY=VALUE", 2)
        pairs.append((name, value))
    return pairs


def host_port(host: str, port: int) -> str:
    """The address as "host:port", with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def printable(text: str, *, kept: str = "") -> str:
    """Text on one line: control characters, newline included, are escaped.

    Clients choose names, and one with a newline would look like one more row.

    Args:
        text: the text.
        kept: control characters that are not escaped.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in kept else c.encode("unicode_escape").decode()
        for c in text
    )


def counted(number: int, name: str) -> str:
    """A number and its noun, which is plural unless the number is 1."""
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def ranges(numbers: Iterable[int], separator: str = ",") -> str:
    """Numbers in brief, sorted: "0-3,7"."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return separator.join(f"{a}-{b}" if b > a else f"{a}" for a, b in found)


def why_not(host: str, port: int, error: OSError, if_taken: str) -> str:
    """The reason why listening on an address failed, with advice for a taken port."""
    where = f"cannot listen on {host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return f"{where}: the port is taken; {if_taken}"
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error
    return f"{where}: {reason}"
