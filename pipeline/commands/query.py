"""``kohort pipeline query``."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from kohort.pipeline import failures
from kohort.pipeline.commands.options import spark_options
from kohort.pipeline.commands.work import Access, fail
from kohort.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

_SHOWN_ROWS: Final = 100


@click.command()
@click.argument("sql", required=False)
@click.option("--name", help="Name of a query of the report; see --names.")
@click.option("--names", "is_names", is_flag=True, help="Lists the report's queries.")
@click.option(
    "--tables",
    "is_tables",
    is_flag=True,
    help="Lists the tables; with a table's name as SQL, its columns.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
@click.option("--csv", "as_csv", is_flag=True, help="As CSV, with a header.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    default=_SHOWN_ROWS,
    help="Largest number of rows to show; JSON and CSV have all rows.",
)
@click.option(
    "--run",
    "runs",
    metavar="RUN",
    multiple=True,
    help="With --name: only rows of this run; can be given again.",
)
@click.option(
    "--build", "build_id", metavar="ID", help="Build to read.  [default: the latest]"
)
@spark_options
def query(
    access: Access,
    *,
    sql: str | None,
    name: str | None,
    runs: tuple[str, ...],
    is_names: bool,
    is_tables: bool,
    as_json: bool,
    as_csv: bool,
    limit: int,
    build_id: str | None,
) -> None:
    """Queries the tables in SQL, or by a query's name.

    A name stands for a query of the report; --names lists them.

    Example: kohort pipeline query "SELECT `group`, rebalances FROM gold_groups"
    """
    if is_tables:
        _list_tables(sql)
        return
    if is_names:
        _list_names()
        return
    if (sql is None) == (name is None):
        fail("query: needs SQL, or --name", 2)
    if runs and name is None:
        fail("query: --run needs --name; in SQL it is WHERE run = '...'", 2)
    if as_json and as_csv:
        fail("query: --json and --csv exclude each other", 2)
    text = sql if name is None else _named(name, [*runs] or None)
    access.must_exist()
    with access.open() as lake:
        from kohort.pipeline import sql_views

        sql_views.register(lake, build_id)
        sql_views.must_have(lake, runs)
        if "bronze_" in (text or "").lower():
            sql_views.register_bronze(lake)
        access.progress.say("queries")
        _print(select(lake.spark, text or ""), as_json, as_csv, limit)


def _list_tables(name: str | None) -> None:
    from kohort.pipeline.commands.output import of_tables, show
    from kohort.pipeline.sql_views import meant
    from kohort.pipeline.tables import TABLES, view

    if name is None:
        show(*of_tables())
    elif name in map(view, TABLES):
        show(*of_tables([name]))
    else:
        fail(f"there is no table {name}: {meant(name)}", 2)


def _list_names() -> None:
    from kohort.pipeline.report import QUERIES

    for name in QUERIES:
        click.echo(name)


def _named(name: str, runs: Sequence[str] | None) -> str:
    from kohort.pipeline import report as reports

    if name not in reports.QUERIES:
        there = ", ".join(reports.QUERIES)
        fail(f"--name {name}: unknown query; the queries are: {there}", 2)
    return str(reports.sql(name, runs))


def select(spark: SparkSession, text: str) -> DataFrame:
    """Runs a query.

    Raises:
        PipelineError: the query is invalid; the message says why.
    """
    from pyspark.errors import PySparkException

    from kohort.pipeline.sql_views import meant

    try:
        found = spark.sql(text)
        found.schema  # noqa: B018 - Sail looks at a query only now
    except PySparkException as error:
        name = _missing_table(error)
        if name is not None:
            raise PipelineError(f"there is no table {name}: {meant(name)}", 2) from None
        raise PipelineError(_mistake(error), 2) from None
    return found


def _missing_table(error: PySparkException) -> str | None:
    """The table that a query names and that does not exist; None: another error."""
    if (error.getCondition() or "").startswith("TABLE_OR_VIEW_NOT_FOUND"):
        said = error.getMessageParameters() or {}
        return str(said.get("relationName", "")).replace("`", "")
    found = re.search(r"Table or view not found: (\S+)", str(error))
    return found and found[1]


def _mistake(error: BaseException) -> str:
    """Spark's message about a query, without the error class and the plan."""
    return re.sub(r"^\[[A-Z_.0-9]+\] ", "", failures.cause(str(error)))


def _print(found: DataFrame, as_json: bool, as_csv: bool, limit: int) -> None:
    from kohort.pipeline.commands import output

    if as_json or as_csv:
        for piece in output.as_json(found) if as_json else output.as_csv(found):
            sys.stdout.write(piece)
        return
    output.show(*output.answer(found, limit))
