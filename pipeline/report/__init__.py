"""The report and comparisons: HTML files made from the tables of a build.

Nothing here loads PySpark or plotly before it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.pipeline.report.queries import QUERIES, sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kohort.pipeline.report.comparison import Comparison

__all__ = ["QUERIES", "compare", "sql", "write"]


def write(
    spark: SparkSession,
    output: Path,
    *,
    runs: Sequence[str] | None = None,
    about: Mapping[str, Any] | None = None,
    by: str | None = None,
) -> None:
    """Writes a report of the tables that the session has as views.

    Args:
        spark: has all tables as temporary views: ``gold_groups`` for gold/groups.
        output: the file; one that is there is replaced, once the report is complete.
        runs: of these only; None: all.
        about: the lineage of the build.
        by: the label by which it also compares the runs; None: no comparison.

    Raises:
        OSError: it cannot be written.
        PipelineError: the runs cannot be compared by this label.
    """
    from kohort.pipeline.report import comparison
    from kohort.pipeline.report.page import page
    from kohort.pipeline.report.queries import ask

    # First, because a wrong label ends the command.
    metrics = ask(spark, "run_metrics", runs)
    compared = None if by is None else comparison.compare(metrics, by)
    answers = {
        name: metrics if name == "run_metrics" else ask(spark, name, runs)
        for name in QUERIES
    }
    _replace(output, page(answers, about=about or {}, runs=runs, compared=compared))


def compare(
    spark: SparkSession,
    by: str,
    baseline: str | None = None,
    *,
    output: Path | None = None,
    runs: Sequence[str] | None = None,
) -> Comparison:
    """Compares runs by a label, and writes a page about it.

    Args:
        spark: as for `write`.
        by: the label.
        baseline: the value to compare the others with; None: the first in order.
        output: the file of the page; None: no page.
        runs: of these only; None: all.

    Raises:
        OSError: the page cannot be written.
        PipelineError: the runs cannot be compared by this label.
    """
    from kohort.pipeline.report import comparison
    from kohort.pipeline.report.queries import ask

    answer = ask(spark, "run_metrics", runs)
    compared = comparison.compare(answer, by, baseline)
    if output is not None:
        from kohort.pipeline.report.page import comparison_page

        _replace(output, comparison_page(answer, compared))
    return compared


def _replace(output: Path, text: str) -> None:
    """Writes a file; one that is there stays until the new one is complete."""
    partial = output.with_name(f".{output.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)
