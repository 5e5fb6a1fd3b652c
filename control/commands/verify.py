"""The command ``kohort verify``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from kohort.broker import telemetry
from kohort.control.terminal import examples, fail, json_option


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@json_option
@examples("kohort verify data")
def verify(directory: Path, *, as_json: bool) -> None:
    """Checks every file of a data directory; changes nothing.

    DIR is a data directory of kohort or of Apache Kafka, or the folder of one
    partition. No broker may be using it. Prints the records that are damaged or
    missing, and the repairs that a broker would make at its start. Exits 0 if nothing
    is damaged, 1 if something is, 2 if it cannot be checked.
    """
    from kohort.control.data_dir import verification
    from kohort.control.data_dir.verification_output import write_verification

    # A start is rehearsed; the verdict has its messages.
    telemetry.configure(level="critical")
    try:
        with _reading(directory) as progress:
            found = verification.verify(directory, progress)
    except verification.VerifyError as error:
        fail(str(error), 2)
    write_verification(found, as_json=as_json, out=sys.stdout)
    sys.exit(1 if found.is_damaged else 0)


@contextmanager
def _reading(directory: Path) -> Iterator[Callable[[str, int], None]]:
    """Shows the progress of reading all segments, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _, __: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    size = sum(log.stat().st_size for log in directory.rglob("*.log"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=size)
        yield lambda name, count: shown.update(task, advance=count, description=name)
