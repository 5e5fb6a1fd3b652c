"""Commands that use the HTTP port of a running broker."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from kohort.control.terminal import http_option, token_option
from kohort.control.verbs import PATIENCE_S

timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=PATIENCE_S,
    help="Seconds to wait.",
)


def command_of(group: click.Group) -> Callable[[Callable[..., None]], click.Command]:
    """Decorates a function as a command of a group.

    The function's first argument is the broker that ``--http`` names.
    """

    def decorate(function: Callable[..., None]) -> click.Command:
        @http_option
        @token_option
        @functools.wraps(function)
        def run(http: str, http_token: str | None, **arguments: Any) -> None:
            # The HTTP client is slow to load.
            from kohort.control.remote import reached

            with reached(http, http_token) as remote:
                function(remote, **arguments)

        name = function.__name__.removesuffix("_").replace("_", "-")
        return group.command(name=name)(run)

    return decorate
