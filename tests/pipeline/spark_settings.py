"""Settings of a Spark that lives for seconds or minutes, and has few rows."""

from __future__ import annotations

from kohort.pipeline.build import UNCOMPILED

QUICK = {
    **UNCOMPILED,
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""What Spark, and then Java, would compile costs more than it gains: two thirds of the
CPU of a build."""
