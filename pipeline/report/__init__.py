"""The report: one HTML file with events, affected groups, causes and advice.

Nothing here loads PySpark or plotly before it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.pipeline.report.queries import QUERIES, sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["QUERIES", "sql", "write"]


def write(
    spark: SparkSession,
    output: Path,
    *,
    runs: Sequence[str] | None = None,
    about: Mapping[str, Any] | None = None,
) -> None:
    """Writes a report of the tables that the session has as views.

    Args:
        spark: has all tables as temporary views: ``gold_groups`` for gold/groups.
        output: the file; one that is there is replaced, once the report is complete.
        runs: of these only; None: all.
        about: the lineage of the build.

    Raises:
        OSError: it cannot be written.
    """
    from kohort.pipeline.report.page import page
    from kohort.pipeline.report.queries import ask

    answers = {name: ask(spark, name, runs) for name in QUERIES}
    text = page(answers, about=about or {}, runs=runs)
    partial = output.with_name(f".{output.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)
