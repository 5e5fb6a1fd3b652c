"""The functions that make tables of the tables before them.

A table is a pure function of them, whether events came from files or from a stream.
Tables are views of the session, ``silver_runs`` and so on: see `Frames`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Final

from kohort.pipeline.tables import BY_PATH, TABLES, VIEWS, Table, view

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

GROUP: Final = ("run", "group")
"""The columns that tell groups apart."""
EVENTS: Final = "bronze/events"
"""The path of the table that all others are made from."""


@dataclass(frozen=True, slots=True)
class Options:
    """The user's settings of tables.

    Attributes:
        storm_rebalances: rebalances that count as a storm
        storm_seconds: when they start within this many seconds.
    """

    storm_rebalances: int = 5
    storm_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Frames:
    """The tables of a session, by their paths.

    Attributes:
        spark: the session; its view ``silver_runs`` is the table ``silver/runs``.
    """

    spark: SparkSession

    def __getitem__(self, path: str) -> DataFrame:
        return self.spark.table(view(path))

    def __setitem__(self, path: str, rows: DataFrame) -> None:
        rows.createOrReplaceTempView(view(path))


TableFunction = Callable[[Frames, Options], "DataFrame"]
"""Computes a table of those before it, with the columns of the table's schema."""


def functions(
    layer: str, others: Mapping[str, TableFunction]
) -> dict[str, TableFunction]:
    """The functions of a layer's tables: of those with a query, and the others."""
    made: dict[str, TableFunction] = {}
    for table in TABLES:
        if table.layer == layer and table.sql:
            made[table.path] = partial(_queried, table)
        elif table.path in others:
            made[table.path] = others[table.path]
    return made


def _queried(table: Table, frames: Frames, options: Options) -> DataFrame:
    """A table made by its query, and by the queries of `VIEWS` that it reads."""
    for name, text in VIEWS.items():
        if re.search(rf"\b{name}\b", table.sql):
            query(frames, options, text).createOrReplaceTempView(name)
    return shaped(query(frames, options, table.sql), table.path)


def query(frames: Frames, options: Options, sql: str) -> DataFrame:
    """Runs SQL, in which a name in braces stands for an option."""
    values = {
        "storm_rebalances": options.storm_rebalances,
        "storm_ns": round(options.storm_seconds * 1_000_000_000),
    }
    for name, value in values.items():
        sql = sql.replace(f"{{{name}}}", str(value))
    return frames.spark.sql(sql)


def together(*parts: DataFrame) -> DataFrame:
    """The rows of all parts; columns that a part does not have are null.

    Their nulls have a type: a union of Sail takes that of the first part, even if it is
    no type at all.
    """
    from pyspark.sql import functions as sql

    types = {field.name: field.dataType for part in parts for field in part.schema}
    whole = [
        part.select(
            *(
                name if name in part.columns else sql.lit(None).cast(type_).alias(name)
                for name, type_ in types.items()
            )
        )
        for part in parts
    ]
    return reduce(lambda one, other: one.unionByName(other), whole)


def by(*keys: Column | str) -> list[Column]:
    """Columns for ``groupBy``, which takes names, too.

    Of names the client asks a server, each time, for the columns of the whole plan, to
    look whether they exist.
    """
    from pyspark.sql import functions as sql

    return [sql.col(key) if isinstance(key, str) else key for key in keys]


def shaped(frame: DataFrame, path: str) -> DataFrame:
    """The columns of a table, in its order, with its types; others are left out."""
    from pyspark.sql import functions as sql

    return frame.select(
        *[
            sql.col(column.name).cast(column.type).alias(column.name)
            for column in BY_PATH[path].columns
        ]
    )
