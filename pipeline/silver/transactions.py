"""silver/transactions: one row per transaction, from its begin to its last marker."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from kohort.pipeline.silver.order import IN_ORDER, along, up_to_here
from kohort.pipeline.table_functions import (
    EVENTS,
    Frames,
    Options,
    by,
    shaped,
    together,
)

ID: Final = ("run", "transactional_id")
KEY: Final = (*ID, "number")

_PREPARED: Final = ("PrepareCommit", "PrepareAbort")
_OPEN: Final = ("Ongoing", *_PREPARED)
_COMPLETE: Final = ("CompleteCommit", "CompleteAbort")


# Not SQL: nine columns are the first values in order under three conditions.
def transactions(frames: Frames, _options: Options) -> DataFrame:
    """One row per transaction that an event shows as begun."""
    states = _numbered(frames[EVENTS].where("kind = 'transaction_state'"))
    is_open = f.col("state").isin(*_OPEN)
    is_prepared = f.col("state").isin(*_PREPARED)
    is_ended = f.col("state").isin(*_COMPLETE) & (f.col("cause") == "markers_written")
    sizes = f.transform("partitions", lambda part: f.size(part["partitions"]))
    count = f.aggregate(sizes, f.lit(0), lambda sum_, size: sum_ + size)
    whole = states.groupBy(*by(*KEY)).agg(
        _first("producer_id", is_open),
        _first("producer_epoch", is_open),
        _first("timeout_ms", is_open),
        _first("client_id", is_open & f.col("client_id").isNotNull()),
        _first("started_ns", is_open, "from_ns"),
        _first("state", is_prepared, "decision"),
        _first("cause", is_prepared),
        _first("time_ns", is_prepared, "decided_ns"),
        _first("time_ns", is_ended, "until_ns"),
        f.max(f.when(is_open, count)).cast("bigint").alias("partitions"),
        f.array_sort(f.array_distinct(f.flatten(f.collect_list("group_ids")))).alias(
            "groups"
        ),
    )
    found = (
        whole.where("from_ns is not null")
        .join(_held_back(frames, states.where(is_prepared)), [*KEY], "left")
        .withColumns(
            {
                "result": f.when(
                    f.col("decision") == "PrepareCommit", "committed"
                ).when(f.col("decision") == "PrepareAbort", "aborted"),
                "open_ns": f.col("decided_ns") - f.col("from_ns"),
                "ending_ns": f.col("until_ns") - f.col("decided_ns"),
                "markers": f.coalesce("markers", f.lit(0)),
                "held_back": f.coalesce("held_back", f.lit(0)),
            }
        )
    )
    return shaped(found, "silver/transactions")


def _numbered(states: DataFrame) -> DataFrame:
    """The states with the number of their transaction: 0 before the first."""
    in_order = along(*ID)
    was_open = f.lag(f.col("state").isin(*_OPEN), 1, False).over(in_order)
    begins = f.col("state").isin(*_OPEN) & ~was_open
    return states.withColumn("begins", begins).withColumn(
        "number", f.count_if("begins").over(up_to_here(in_order))
    )


def _first(name: str, condition: Column, alias: str | None = None) -> Column:
    """The value of the first row in order for which a condition is true."""
    # The name tells aggregates apart that differ in the column alone.
    value = f"{name}_value"
    row = f.struct(*IN_ORDER, f.col(name).alias(value))
    return f.min(f.when(condition, row))[value].alias(alias or name)


def _held_back(frames: Frames, prepared: DataFrame) -> DataFrame:
    """Markers, and the records that they released, by transaction.

    A marker belongs to the transaction of its producer that was decided last.
    """
    names = ("run", "producer_id", *IN_ORDER)
    decisions = prepared.select(
        *names, f.struct("transactional_id", "number").alias("transaction")
    )
    markers = frames[EVENTS].where("kind = 'transaction_ended_in_partition'")
    window = Window.partitionBy("run", "producer_id").orderBy(
        # At the same time, a decision comes before the markers.
        "time_ns",
        f.col("transaction").isNull(),
        "node",
        "sequence",
    )
    latest = f.last("transaction", ignorenulls=True).over(up_to_here(window))
    return (
        together(markers.select(*names, "held_back"), decisions)
        .withColumn("latest", latest)
        .where("held_back is not null and latest is not null")
        .groupBy(*by("run", "latest.transactional_id", "latest.number"))
        .agg(f.count("*").alias("markers"), f.sum("held_back").alias("held_back"))
    )
