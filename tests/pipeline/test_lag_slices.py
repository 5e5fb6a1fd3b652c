"""The lag of one hot group: summed up in slices of time, by several tasks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.spark_settings import restored

from kohort.pipeline.table_functions import EVENTS, Frames, Options
from kohort.pipeline.tables import BY_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

commits = importlib.import_module("kohort.pipeline.silver.lags")
"""The module: its package has the function of the same name."""

COMMITS = 6_000
"""Ten per second, for ten minutes, of eight partitions."""
PARTITIONS = 8
TASKS = 8
STARTS_S = (5, 130, 130.05, 239.95, 500)
"""Seconds at which rebalances start; the third interrupts the second."""
IS_COMPLETED = (True, False, True, True, True)


def hot_group(spark: SparkSession) -> Frames:
    """The tables of a group whose lag rises and falls, and of its rebalances."""
    ns = 1_000_000_000
    told = spark.range(COMMITS).selectExpr(
        *("'r' as run", "'hot' as `group`", "'t' as topic"),
        *(f"cast(id % {PARTITIONS} as int) as partition", "0 as node"),
        *("1000 + id as sequence", "id * 100000000 as time_ns"),
        "cast(null as string) as error",
        # Waves of several lengths, so that peaks come at any time.
        "1000000 as offset",
        "1000000 + cast(500 + 300 * sin(id / 97) + 200 * sin(id / 1009) as bigint)"
        " as end_offset",
    )
    starts = [
        ("r", "hot", 0, number, round(at * ns), "rebalance_started")
        for number, at in enumerate(STARTS_S)
    ]
    schema = "run string, `group` string, node int, sequence long, time_ns long"
    rebalances = [
        (*row[:5], "completed" if whole else "interrupted", row[4] + ns // 4)
        for row, whole in zip(starts, IS_COMPLETED, strict=True)
    ]
    more = "outcome string, ended_ns long"
    frames = Frames(spark)
    frames[EVENTS] = spark.createDataFrame(starts, f"{schema}, kind string")
    frames["silver/commits"] = told
    frames["silver/unread"] = spark.createDataFrame([], BY_PATH["silver/unread"].ddl)
    frames["silver/rebalances"] = spark.createDataFrame(
        rebalances, f"{schema}, {more}"
    ).selectExpr("*", "sequence + 1 as number", "time_ns as started_ns")
    return frames


@pytest.fixture(scope="module")
def spark(java: SparkSession) -> SparkSession:
    """Spark: Sail has no tasks."""
    return java


@pytest.fixture(scope="module")
def hot(spark: SparkSession) -> Frames:
    """The tables of `hot_group` on the module's engine."""
    return hot_group(spark)


def found(frames: Frames) -> list[Any]:
    """The rows of silver/lags."""
    frames["silver/lag_changes"] = commits.lag_changes(frames, Options())
    return sorted(tuple(row) for row in commits.lags(frames, Options()).collect())


def test_slices_make_no_difference(
    hot: Frames, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One slice, slices of a minute, and such of a few events have the same rows."""
    lags = found(hot)
    assert len(lags) == sum(IS_COMPLETED)
    assert sum(row[-1] is not None for row in lags) > 1
    for slice_ns in (10**18, 700_000_000):
        monkeypatch.setattr(commits, "SLICE_NS", slice_ns)
        assert found(hot) == lags


def test_no_task_has_most_rows(spark: SparkSession, hot: Frames) -> None:
    """The commits of one group are divided between the tasks that sum them up."""
    from pyspark.sql import functions as sql

    settings = {
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.shuffle.partitions": str(TASKS),
    }
    with restored(spark, settings):
        running = commits.running_lag(commits.lag_changes(hot, Options()))
        by_task = running.groupBy(sql.spark_partition_id()).count().collect()
    counts = [row["count"] for row in by_task]
    assert sum(counts) == COMMITS + len(STARTS_S)
    assert max(counts) < sum(counts) / 2
