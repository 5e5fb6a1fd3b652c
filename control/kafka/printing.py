"""Results of calls about several items: lines for successes, and for errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from kohort.client.administering.values import Results
from kohort.client.errors import KohortError
from kohort.control.kafka.options import say
from kohort.control.terminal import printable

K = TypeVar("K")


def report(errors: Iterable[KohortError]) -> int:
    """Prints errors; returns the exit code."""
    code = 0
    for error in errors:
        say(str(error))
        code = 1
    return code


def report_all(
    results: Results[K, Any],
    text: Callable[[K], str],
    ignored: type[KohortError] | None = None,
    otherwise: Callable[[K], str] | None = None,
) -> int:
    """Prints the outcome of each item; returns the exit code.

    Args:
        results: the items.
        text: of one that worked.
        ignored: an error that counts as success.
        otherwise: the text for it.
    """
    code = 0
    errors: Mapping[K, KohortError] = results.errors
    for item in results:
        error = errors.get(item)
        if error is None:
            click.echo(printable(text(item)))
        elif ignored is not None and isinstance(error, ignored):
            if otherwise is not None:
                click.echo(printable(otherwise(item)))
        else:
            code = report([error])
    return code
