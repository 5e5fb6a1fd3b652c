"""Finds the engine of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.pipeline.engines import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def engine_of(spark: SparkSession) -> Engine:
    """The engine of a session."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        from kohort.pipeline.local_engine import LocalEngine

        return LocalEngine(spark)
    from kohort.pipeline.spark_engine import SparkEngine

    return SparkEngine(spark)
