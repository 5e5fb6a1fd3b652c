"""``kohort pipeline report``."""

from __future__ import annotations

from pathlib import Path

import click

from kohort.pipeline.commands.options import spark_options
from kohort.pipeline.commands.work import Access, fail


@click.command()
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="report.html",
    type=click.Path(dir_okay=False, writable=True),
    help="Where it goes.",
)
@click.option(
    "--run",
    "runs",
    metavar="RUN",
    multiple=True,
    help="Only of this; can be given again.",
)
@click.option("--build", "build_id", metavar="ID", help="Of this build.")
@spark_options
def report(
    access: Access, *, output: str, runs: tuple[str, ...], build_id: str | None
) -> None:
    """Writes a report: one HTML file, which needs no network to be read.

    It says what happened, which groups suffer and why, what to change, and how sure
    that is; each number has the query that gave it.
    """
    path = Path(output)
    if not path.parent.is_dir():
        fail(f"--output {output}: there is no folder {path.parent}", 2)
    access.must_exist()
    with access.open() as lake:
        from kohort.pipeline import build as builds
        from kohort.pipeline import report as reports
        from kohort.pipeline import sql_views

        found = sql_views.register(lake, build_id)
        sql_views.must_have(lake, runs)
        access.progress.say("writes the report")
        about = builds.about(lake, found) or {}
        reports.write(lake.spark, path, runs=[*runs] or None, about=about)
    click.echo(f"{output}: of build {found}")
