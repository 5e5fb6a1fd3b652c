"""The engines of tests: Sail for most, and one Spark session for those that need it."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.spark_settings import NO_BUNDLE, QUICK, STORE_PACKAGES

from kohort.pipeline import session
from kohort.pipeline.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kohort.pipeline.report.queries import Answers

SETTINGS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "4",
    **QUICK,
    **NO_BUNDLE,
    "spark.sql.streaming.stopTimeout": "120s",
}


EXTRA = frozenset(
    {
        *("boto3", "duckdb", "grpc", "jinja2", "moto", "numpy", "pandas", "plotly"),
        *("py4j", "pyarrow", "pysail", "pyspark", "scipy", "wcmatch"),
    }
)
"""Packages of the extras pipeline and dev that the extra test does not have."""


NEEDS_SPARK = re.compile(r"^pytestmark = (\[\s*)?pytest\.mark\.spark", re.MULTILINE)
"""The mark of a module that is left out if an extra is missing."""


class Module(pytest.Module):
    """Tests that may not be loaded for want of an extra: all of them need Spark."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Its tests; none where those with Spark are not asked for."""
        try:
            return super().collect()
        except self.CollectError as error:
            # Half of it would be there for those that import from it.
            sys.modules.pop(f"tests.pipeline.{self.path.stem}", None)
            name = getattr(error.__cause__, "name", None) or ""
            if name.partition(".")[0] not in EXTRA:
                raise
            if NEEDS_SPARK.search(self.path.read_text(encoding="utf-8")) is None:
                raise  # others would be gone without a word
            if "not spark" in self.config.option.markexpr:
                return []
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(f"there is no {name}: pip install -e '.[dev]'")


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module:
    """Other versions of Python have the extra test alone."""
    made: pytest.Module = Module.from_parent(parent, path=module_path)
    return made


def unusable(reason: str) -> None:
    """Skips, or fails where nothing may be missing."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves connections to Java to the garbage collector."""
    for item in items:
        if item.get_closest_marker("spark") is not None:
            for each in (
                "ignore:unclosed <socket:ResourceWarning",
                "ignore:.*<socket:pytest.PytestUnraisableExceptionWarning",
            ):
                item.add_marker(pytest.mark.filterwarnings(each))


@pytest.fixture(scope="module")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """Sail, the embedded engine; with KOHORT_ENGINE=spark it is `java`.

    Modules that need Spark have a fixture of this name. PySpark's functions belong to
    Sail until it stops; a Spark of other modules waits.
    """
    if os.environ.get("KOHORT_ENGINE") == "spark":
        yield request.getfixturevalue("java")
        return
    started = session.session()
    yield started
    session.stop(started)


@pytest.fixture(scope="session")
def java() -> Iterator[SparkSession]:
    """Spark with two cores, UTC, Kafka's connector and S3; needs Java."""
    with warnings.catch_warnings():
        # Of PySpark's own, as its modules are loaded.
        warnings.simplefilter("ignore")
        try:
            started = session.session(
                "local[2]",
                SETTINGS,
                connector=True,
                packages=[session.CONNECTOR, *STORE_PACKAGES],
                driver_memory="2g",
            )
        except session.SparkProblem as error:
            unusable(str(error))
    yield started
    session.stop(started)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """The path of an empty lake."""
    return Lake(spark, tmp_path / "lake")


@pytest.fixture(scope="module")
def bad(spark: SparkSession) -> Answers:
    """The report's queries over a run in which everything went wrong."""
    from tests.pipeline import report_builds

    return report_builds.answers(report_builds.bad, spark)


@pytest.fixture(scope="module")
def large(spark: SparkSession) -> Answers:
    """The same over 200 runs with 300 groups."""
    from tests.pipeline import report_builds

    return report_builds.answers(report_builds.large, spark)


@pytest.fixture(scope="module")
def ten(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """The same over ten groups that were played."""
    from tests.pipeline import report_builds

    return report_builds.ten(spark, tmp_path_factory.mktemp("ten")).answers()
