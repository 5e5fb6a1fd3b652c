"""Finds the engine of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.pipeline.engines import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def engine_of(spark: SparkSession) -> Engine:
    """The engine of a session."""
    if not is_remote(spark):
        from kohort.pipeline.spark_engine import SparkEngine

        return SparkEngine(spark)
    from kohort.pipeline import local_engine
    from kohort.pipeline.spark_engine import ConnectEngine

    is_ours = local_engine.is_ours(spark)
    return local_engine.LocalEngine(spark) if is_ours else ConnectEngine(spark)


def is_remote(spark: SparkSession) -> bool:
    """True if a session talks Spark Connect, as that of the local engine does."""
    return type(spark).__module__.startswith("pyspark.sql.connect")
