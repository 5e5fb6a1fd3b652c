"""Settings of a Spark that lives for seconds or minutes, and has few rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=128m"
    ),
}
"""What Spark, and then Java, would compile costs more than it gains: two thirds of the
CPU of a build. In 48 MB, the usual cache of one level, a minute's code has no room."""

STORE_PACKAGES = (
    "org.apache.hadoop:hadoop-aws:3.4.1",
    "software.amazon.awssdk:s3-transfer-manager:2.25.53",
    "software.amazon.awssdk:sts:2.25.53",
)
"""Reach S3: 15 MB in place of the 558 MB of Amazon's bundle, see `NO_BUNDLE`."""
NO_BUNDLE = {"spark.jars.excludes": "software.amazon.awssdk:bundle"}


@contextmanager
def restored(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Changes a session's settings until the end of the block."""
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))
