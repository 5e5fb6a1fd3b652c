"""``kohort pipeline``, as users run it: output and exit codes."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.commands import KOHORT, done, environment, refused
from tests.pipeline.broker_thread import serving
from tests.pipeline.kills import children
from tests.pipeline.test_build import built

from kohort.pipeline import bronze, sql_views, tables_page
from kohort.pipeline.commands import output, query
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.lake import BUILDS, Lake
from kohort.pipeline.tables import TABLES, view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROOT = Path(__file__).parents[2]
COMMANDS = ("run", "ingest", "build", "stream", "report", "compare", "query")
LOOK_S = 0.05
PYSPARKS = "ignore:unclosed <socket:ResourceWarning"
"""PySpark leaves connections to Java to the garbage collector."""
SPARK_STARTS_S = 300.0
"""As long as all processors have something else to do."""


@pytest.fixture
def without_pyspark(tmp_path: Path) -> dict[str, str]:
    """The environment of a user without PySpark."""
    package = tmp_path / "path" / "pyspark"
    package.mkdir(parents=True)
    text = "raise ModuleNotFoundError(\"No module named 'pyspark'\")\n"
    (package / "__init__.py").write_text(text)
    return {"PYTHONPATH": str(package.parent)}


# -- without Spark


def test_help_needs_no_pyspark(without_pyspark: dict[str, str]) -> None:
    """Each command has help, and the commands are listed."""
    listed = done("pipeline", "--help", **without_pyspark)
    for name in COMMANDS:
        assert f"  {name} " in listed
        told = done("pipeline", name, "--help", **without_pyspark)
        assert "--lake" in told
        assert "--master" in told


def test_without_pyspark_it_says_what_to_install(
    without_pyspark: dict[str, str], tmp_path: Path
) -> None:
    """The error is one line."""
    where = ("--lake", str(tmp_path))
    for words, extra in (
        (("run", "x.jsonl"), "pipeline"),
        (("ingest", "x.jsonl"), "pipeline"),
        (("ingest", "*.jsonl"), "pipeline"),
        (("build",), "pipeline"),
        (("query", "SELECT 1"), "pipeline"),
        (("build", "--master", "local"), "spark"),
        (("stream",), "spark"),
    ):
        line = refused("pipeline", *words, *where, code=1, **without_pyspark)
        assert f"pip install '.[{extra}]'" in line


def test_a_lake_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    """A missing lake is named before Spark starts."""
    nowhere = str(tmp_path / "nowhere")
    for words in (
        ("build",),
        ("report",),
        ("compare", "--by", "x"),
        ("query", "SELECT 1"),
    ):
        line = refused("pipeline", *words, code=1, KOHORT_LAKE=nowhere)
        assert line.startswith(f"{nowhere} does not exist: ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "build --threshold late_events",
            "--threshold 'late_events': must be KEY=VALUE",
        ),
        ("build --threshold late_events=2", "must be a share, 0 to 1"),
        ("build --threshold late_events=x", "must be a share, 0 to 1"),
        ("build --threshold copy=0", "unknown check; the checks are: missing_events, "),
        ("build --fail copy", "--fail copy: unknown check"),
        (
            "build --fail late_events --mark late_events",
            "late_events: --fail and --mark exclude each",
        ),
        ("build --conf x", "--conf 'x': must be KEY=VALUE"),
        ("stream --build-every soon", "must be a time like 30s"),
        ("stream --build-every 0", "must be a time like 30s"),
        ("stream --name a/b", "letters, digits, - and _ are allowed"),
        ("query", "needs SQL, or --name"),
        ("query x --name y", "needs SQL, or --name"),
        ("query x --json --csv", "--json and --csv exclude each other"),
        ("query x --run r", "--run needs --name"),
        ("query --name nonsense", "unknown query; the queries are: "),
        ("compare --by x --json --csv", "--json and --csv exclude each other"),
        ("compare --by x -o no/c.html", "--output no/c.html: there is no folder no"),
        ("report -o nowhere/r.html", "--output nowhere/r.html: there is no folder"),
        ("query --tables rebalance", "did you mean silver_rebalances"),
        ("ingest x --lake=", "--lake '': must be a folder"),
        ("run x -o nowhere/r.html", "--output nowhere/r.html: there is no folder"),
        ("run x --memory 4g", "--memory is an option of Spark: give --master"),
        ("run x --conf a=b", "--conf is an option of Spark: give --master"),
        ("ingest s3a://b/x", "s3a://b/x is on another file system, which needs --mas"),
    ],
)
def test_mistakes_are_told_in_a_line(words: str, told: str) -> None:
    """A wrong argument is reported in one line before Spark starts."""
    assert told in refused("pipeline", *words.split(), code=2)


def test_tables_are_listed_with_their_meaning() -> None:
    """The command lists all tables, or the columns of one."""
    listed = done("pipeline", "query", "--tables")
    for table in TABLES:
        assert f"\n{view(table)} " in listed
    columns = done("pipeline", "query", "--tables", "silver_runs")
    assert "key: run" in columns
    assert "the label scenario" in columns


def test_the_page_of_tables_is_up_to_date() -> None:
    """``python -m kohort.pipeline.tables_page`` has been run."""
    assert (ROOT / tables_page.PAGE).read_text() == tables_page.page()


# -- answers


@pytest.fixture
def asked(lake: Lake) -> Lake:
    """A lake with a build that has named tables."""
    built(lake, {"a": 3, "b": 2})
    sql_views.register(lake)
    return lake


@pytest.mark.spark
def test_mistakes_in_a_query_are_told_in_a_line(asked: Lake) -> None:
    """Errors name unknown tables with the nearest one, unknown columns, invalid SQL."""
    for sql, told in (
        ("SELECT * FROM runs", r"no table runs: did you mean silver_runs or gold_runs"),
        (
            "SELECT * FROM gold.hours",
            r"no table (gold\.)?hours: did you mean gold_hours",
        ),
        ("SELECT * FROM qqqq", r"no table qqqq: .*query --tables"),
        ("SELECT evnts FROM silver_runs", r"evnts"),
        ("SELEC 1", r"SELEC"),
    ):
        with pytest.raises(PipelineError, match=told) as raised:
            query.select(asked.spark, sql)
        assert raised.value.code == 2
        assert "SQLSTATE" not in str(raised.value)
        assert "\n" not in str(raised.value)


@pytest.mark.spark
def test_a_run_that_is_not_there_is_told_in_a_line(asked: Lake) -> None:
    """Else the report of it would be empty, and say nothing of that."""
    sql_views.must_have(asked, ["a"])
    with pytest.raises(PipelineError, match="no run nobody's; there are: a"):
        sql_views.must_have(asked, ["a", "nobody's"])


@pytest.fixture
def answer(asked: Lake) -> DataFrame:
    """One value of each type, null, and a repeated name."""
    return asked.spark.sql(
        "SELECT run, events AS n, map('c', events) AS m, array(1, 2) AS l,"
        " timestamp'2026-01-02 03:04:05' AS at, CAST(NULL AS int) AS run,"
        " 0.5D AS d FROM silver_runs ORDER BY run"
    )


@pytest.mark.spark
def test_answers_are_printed(
    answer: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    """Results are a table, JSON or CSV; times are UTC in any time zone."""
    output.show(*output.answer(answer, 1))
    head, first, _, more = capsys.readouterr().out.splitlines()
    assert head.split() == ["RUN", "N", "M", "L", "AT", "RUN_2", "D"]
    assert first.split() == [
        *("a", "3", '{"c":3}', "[1,2]", "2026-01-02", "03:04:05", "-", "0.5")
    ]
    assert more == "the first 1 rows; --limit N shows more"
    told = json.loads("".join(output.as_json(answer)))
    assert told[1] == {
        "run": "b",
        "n": 2,
        "m": {"c": 2},
        "l": [1, 2],
        "at": "2026-01-02T03:04:05Z",
        "run_2": None,
        "d": 0.5,
    }
    names, *rows = csv.reader(io.StringIO("".join(output.as_csv(answer))))
    assert names == ["run", "n", "m", "l", "at", "run_2", "d"]
    assert rows[0] == ["a", "3", '{"c":3}', "[1,2]", "2026-01-02 03:04:05", "", "0.5"]
    nothing = "".join(output.as_json(answer.where("n > 9")))
    assert json.loads(nothing) == []


# -- how they end


class Running:
    """A running command."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [*KOHORT, "pipeline", *words],
            env=environment(PYTHONWARNINGS=f"error,{PYSPARKS}"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until_it_builds(self, lake: Lake, but: Collection[str] = ()) -> None:
        """Waits until the folder of a build is there, apart from these."""
        while {*lake.names(BUILDS)} <= {*but}:
            with pytest.raises(subprocess.TimeoutExpired):
                self.process.wait(LOOK_S)

    def end(self, number: signal.Signals | None = None) -> tuple[int, str, str]:
        """Sends a signal, if any: the exit code, stdout and stderr."""
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=SPARK_STARTS_S)
        return self.process.returncode, out, err

    def line(self) -> str:
        """The next line of stdout."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@pytest.mark.spark
def test_a_stream_ends_as_it_is_told_to(lake: Lake) -> None:
    """During a build, too: it prints the counts, and exits with 0; nothing is left."""
    with serving() as served:
        served.commit(3)
        served.written()
        running = Running(
            *("stream", "-b", served.address, "--lake", lake.path),
            *("--master", "local[2]", "--build-every", "1ms"),
        )
        assert running.line().startswith("reads __kohort_events of 127.0.0.1:")
        running.until_it_builds(lake)
        code, out, err = running.end(signal.SIGINT)
    assert (code, err) == (0, "")
    assert out.split()[0] == "EVENTS"
    assert lake.names(BUILDS) == []


@pytest.mark.spark
def test_how_a_build_ends_that_is_interrupted_or_loses_java(
    lake: Lake, tmp_path: Path
) -> None:
    """It prints a line. By a signal, 128 + its number is its code, and no file is left.

    If Java is killed the code is 1. What that build leaves the next one removes.
    """
    path = tmp_path / "events.jsonl"
    event = {"schema": 1, "run": "r", "labels": {}, "node": 1, "kind": "heartbeat"}
    rows = [{**event, "sequence": n, "time_ns": n, "wall_ns": n} for n in (1, 2)]
    path.write_text("\n".join(map(json.dumps, rows)))
    bronze.ingest(lake, [str(path)])
    words = ("build", "--lake", lake.path, "--master", "local[2]")
    killed = Running(*words)
    killed.until_it_builds(lake)
    (java,) = children(killed.process.pid)
    os.kill(java, signal.SIGKILL)
    code, out, err = killed.end()
    says = "kohort: Spark's Java process was killed by signal 9: "
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(says)
    left = lake.names(BUILDS)

    ended = Running(*words)
    ended.until_it_builds(lake, but=left)
    code, out, err = ended.end(signal.SIGTERM)
    assert (code, out, err) == (128 + signal.SIGTERM, "", "kohort: interrupted\n")
    assert lake.names(BUILDS) == []
