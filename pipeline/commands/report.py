"""``kohort pipeline report``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kohort.pipeline.commands.options import spark_options
from kohort.pipeline.commands.work import Access, fail

if TYPE_CHECKING:
    from kohort.pipeline.lake import Lake

output_option = click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="report.html",
    type=click.Path(dir_okay=False, writable=True),
    help="File to write.",
)


@click.command()
@output_option
@click.option(
    "--run",
    "runs",
    metavar="RUN",
    multiple=True,
    help="Only this run; can be given again.",
)
@click.option(
    "--compare",
    "by",
    metavar="LABEL",
    help="Also compares the runs by this label, as kohort pipeline compare does.",
)
@click.option(
    "--build", "build_id", metavar="ID", help="Build to read.  [default: the latest]"
)
@spark_options
def report(
    access: Access,
    *,
    output: str,
    runs: tuple[str, ...],
    by: str | None,
    build_id: str | None,
) -> None:
    """Writes the report: one HTML file for a browser.

    It ranks and compares the groups by the time in which partitions had no reader, and
    has the settings worth changing, with their savings; the rest opens by a click. The
    file loads nothing from the network.

    Example: kohort pipeline report -o report.html
    """
    path = writable(output)
    access.must_exist()
    with access.open() as lake:
        found = written(access, lake, path, runs, build_id, by)
    click.echo(f"{output}: of build {found}")


def writable(output: str) -> Path:
    """The path of the report; ends the command if its folder is missing."""
    path = Path(output)
    if not path.parent.is_dir():
        fail(f"--output {output}: there is no folder {path.parent}", 2)
    return path


def written(
    access: Access,
    lake: Lake,
    path: Path,
    runs: Sequence[str] = (),
    build_id: str | None = None,
    by: str | None = None,
) -> str:
    """Writes the report, with progress; returns the id of its build."""
    from kohort.pipeline import build as builds
    from kohort.pipeline import report as reports
    from kohort.pipeline import sql_views

    found = sql_views.register(lake, build_id)
    sql_views.must_have(lake, runs)
    access.progress.say("writes the report")
    about = builds.about(lake, found) or {}
    reports.write(lake.spark, path, runs=[*runs] or None, about=about, by=by)
    return found
