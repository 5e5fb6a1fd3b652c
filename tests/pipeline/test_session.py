"""Spark does not start: the reason in a sentence, and what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kohort.pipeline import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def refused(call: str, **environment: str) -> str:
    """The error of a session that does not start, in a separate process."""
    program = (
        "import sys; from kohort.pipeline.session import *\n"
        f"try: {call}\n"
        "except SparkProblem as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def test_what_is_missing(tmp_path: Path) -> None:
    """PySpark, Java, a jar, or the master."""
    spark = "session('local')"
    without = "sys.modules['pyspark'] = None"
    assert "pip install '.[spark]'" in refused(f"{without}; {spark}")
    assert "pip install '.[pipeline]'" in refused(f"{without}; session()")
    assert "set it to where Java 17 is" in refused(spark, JAVA_HOME=str(tmp_path))
    assert "needs Java 17" in refused(spark, JAVA_HOME="", PATH=str(tmp_path))
    assert "there is no jar no.jar" in refused("session('local', jars=['no.jar'])")
    assert "a-b is no master" in refused("session('a-b')")
    told = refused("session('spark://127.0.0.1:1')")
    assert told.startswith("no Spark master answers at spark://127.0.0.1:1: ")


def test_python_workers_are_of_this_python(tmp_path: Path) -> None:
    """The python3 of the path may be another one, without PySpark."""
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    program = (
        "import sys; from kohort.pipeline import session\n"
        "spark = session.session('local[1]')\n"
        "rows = spark.sparkContext.parallelize([0], 1)\n"
        "print(*rows.map(lambda _: sys.executable).collect())\n"
        "session.stop(spark)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [sys.executable]


def test_a_java_that_is_too_old(tmp_path: Path) -> None:
    """It says so in its own way, and none of that is on the terminal."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    says = "java.lang.UnsupportedClassVersionError: org/apache/spark/launcher/Main"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit 1\n")
    java.chmod(0o755)
    assert "too old" in refused("session('local')", JAVA_HOME=str(tmp_path))


def test_a_download_that_fails_names_its_artifact() -> None:
    """Only the artifact that Ivy has not found is named."""
    text = (
        "\t\t::::::::::::::::::::::::::::::::::::::::::::::\n"
        "\t\t::          UNRESOLVED DEPENDENCIES         ::\n"
        "\t\t:: org.apache.spark#spark-sql-kafka-0-10_2.13;9.9: not found\n"
        "Exception: [unresolved dependency: org.apache.spark#spark-sql-kafka-0-10_2.13"
        ";9.9: not found]"
    )
    asked = {"spark.jars.packages": "a:b:1,c:d:2", "spark.master": "local"}
    says = session._why(RuntimeError("Java"), text, asked)  # noqa: SLF001 - pure
    named = "org.apache.spark:spark-sql-kafka-0-10_2.13:9.9"
    assert says.startswith(f"Spark could not fetch {named}: it takes")
    failed = "[FAILED] a#b;1!b.jar: download failed: a#b;1!b.jar(2ms)"
    assert "could not fetch a:b:1: it" in session._why(RuntimeError(), failed, asked)  # noqa: SLF001
    unknown = session._why(RuntimeError("download failed"), "", asked)  # noqa: SLF001
    assert "could not fetch a:b:1,c:d:2: it" in unknown


def test_sessions_that_start_together(tmp_path: Path) -> None:
    """One at a time fetches packages: they would break each other's downloads."""
    java, log = tmp_path / "bin" / "java", tmp_path / "log"
    java.parent.mkdir()
    slow = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
    says = f"echo begin >>{log}; {slow}; echo end >>{log}"
    java.write_text(f"#!/bin/sh\n{says}; exit 1\n")
    java.chmod(0o755)
    conf = {"spark.jars.ivy": str(tmp_path / "ivy")}
    call = f"session('local', {conf}, connector=True)"
    with ThreadPoolExecutor() as pool:
        told = [pool.submit(refused, call, JAVA_HOME=str(tmp_path)) for _ in range(3)]
    assert all("Spark does not start" in each.result() for each in told)
    assert log.read_text().split() == ["begin", "end"] * 3


def test_a_session_that_is_there(java: SparkSession) -> None:
    """It is not taken over without a word; times are UTC, and it is quiet."""
    with pytest.raises(session.SparkProblem, match="runs in this process already"):
        session.session("local")
    assert java.conf.get("spark.sql.session.timeZone") == "UTC"
    assert java.sparkContext.uiWebUrl is None
