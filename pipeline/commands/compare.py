"""``kohort pipeline compare``."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kohort.pipeline.commands.options import spark_options
from kohort.pipeline.commands.work import Access, fail

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kohort.pipeline.report.comparison import Comparison, Estimate


@click.command()
@click.option("--by", metavar="LABEL", required=True, help="Label to compare runs by.")
@click.option(
    "--baseline",
    metavar="VALUE",
    help="Value that the others are compared with.  [default: the first in order]",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True),
    help="Also writes a page with plots.",
)
@click.option("--json", "is_json", is_flag=True, help="As JSON, for programs.")
@click.option("--csv", "is_csv", is_flag=True, help="As CSV, with a header.")
@click.option(
    "--run",
    "runs",
    metavar="RUN",
    multiple=True,
    help="Only this run; can be given again.",
)
@click.option(
    "--build", "build_id", metavar="ID", help="Build to read.  [default: the latest]"
)
@spark_options
def compare(
    access: Access,
    *,
    by: str,
    baseline: str | None,
    output: str | None,
    is_json: bool,
    is_csv: bool,
    runs: tuple[str, ...],
    build_id: str | None,
) -> None:
    """Compares runs by the values of a label.

    Shows the mean of each metric for each value, and the difference to the baseline,
    with 95 % intervals. Runs with the same seed are compared in pairs. Runs get labels
    from kohort serve --label KEY=VALUE.

    Example: kohort pipeline compare --by protocol -o compare.html
    """
    if is_json and is_csv:
        fail("compare: --json and --csv exclude each other", 2)
    if output is not None and not Path(output).parent.is_dir():
        fail(f"--output {output}: there is no folder {Path(output).parent}", 2)
    access.must_exist()
    with access.open() as lake:
        from kohort.pipeline import report as reports
        from kohort.pipeline import sql_views

        found = sql_views.register(lake, build_id)
        sql_views.must_have(lake, runs)
        access.progress.say("compares")
        compared = reports.compare(
            lake.spark,
            by,
            baseline,
            output=None if output is None else Path(output),
            runs=[*runs] or None,
        )
    if is_json:
        rows = [*as_rows(compared)]
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    elif is_csv:
        click.echo(as_csv(compared), nl=False)
    else:
        from kohort.pipeline.commands.output import show

        show(*as_table(compared))
        if output is not None:
            click.echo(f"\n{output}: of build {found}")


# -- for programs


def as_rows(compared: Comparison) -> Iterator[dict[str, Any]]:
    """A row for each metric and value; a null bound: too few runs."""
    for line in compared.lines:
        yield {
            "metric": line.metric.column,
            "unit": line.metric.unit,
            "label": compared.by,
            "value": line.value,
            "runs": line.runs,
            **_numbers("mean", line.mean),
            "baseline": compared.baseline,
            "pairs": line.pairs,
            **_numbers("difference", line.difference),
        }


def _numbers(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    bounds = (name, f"{name}_low", f"{name}_high")
    if estimate is None:
        return dict.fromkeys(bounds)
    return dict(zip(bounds, (estimate.mean, estimate.low, estimate.high), strict=True))


def as_csv(compared: Comparison) -> str:
    """The same rows as CSV, with a header; null is empty."""
    rows = [*as_rows(compared)]
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


# -- for people


def as_table(compared: Comparison) -> list[RenderableType]:
    """The table, and the notes below it."""
    from kohort.pipeline.commands.output import rows

    headings = compared.headings()
    return [rows(headings, compared.cells(), headings[2:-1]), "", *compared.notes()]
