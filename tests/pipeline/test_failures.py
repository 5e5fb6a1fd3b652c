"""Failures in a sentence, from the texts in which Spark, Java and systems report them.

The texts are Spark's own, shortened; `test_real_failures` causes failures.
"""

from __future__ import annotations

import errno
import signal

import pytest
from click.testing import CliRunner

from kohort.pipeline import failures, stream
from kohort.pipeline.commands.cli import pipeline
from kohort.pipeline.commands.work import told
from kohort.pipeline.errors import PipelineError

LAKE = "/lake"
WRITES = (
    "An error occurred while calling o99.parquet.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in"
    " stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in stage 3.0 (TID 7)"
    " (127.0.0.1 executor driver): org.apache.spark.SparkException:"
    " [TASK_WRITE_FAILED] Task failed while writing rows to"
    " file:/lake/builds/B1/silver/runs. SQLSTATE: 58030\n"
    "\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailed(X.scala:1)\n"
)
READS = (
    ": org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error"
    " while reading file {file}.  SQLSTATE: KD001\n\tat org.apache.X.y(X.scala:1)\n"
    "Caused by: {why}\n\tat java.base/java.util.zip.X.y(X.java:1)\n"
)
EOF = "java.io.EOFException: Unexpected end of input stream"
LOST = (
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in"
    " stage 0.0 failed 4 times, most recent failure: Lost task 1.3 in stage 0.0 (TID 9)"
    " (10.0.0.7 executor 3): ExecutorLostFailure (executor 3 exited caused by one of"
    " the running tasks) Reason: Command exited with code 137\nDriver stacktrace:\n"
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"{WRITES}Caused by: java.io.IOException: No space left on device\n\tat x",
            (
                "the disk is full: table silver/runs of build B1"
                " (/lake/builds/B1/silver/runs) could not be written (no space left on"
                " device). Make room,"
            ),
        ),
        (
            "java.io.IOException: File too large\n\tat o.a.s.ExternalSorter.spill(X)",
            (
                "the disk is full: /lake, or Spark's temporary folder (--conf"
                " spark.local.dir=DIR), could not be written (file too large)."
            ),
        ),
        (
            f"{WRITES}Caused by: java.lang.OutOfMemoryError: Java heap space\n",
            (
                "Spark ran out of memory at table silver/runs of build B1"
                " (/lake/builds/B1/silver/runs) (OutOfMemoryError: Java heap space):"
                " give it more, --memory 4g"
            ),
        ),
        (
            LOST,
            (
                "executor 3 was lost too often (Command exited with code 137): look at"
                " its log on the worker."
            ),
        ),
        (
            "Job 3 cancelled because SparkContext was shut down",
            "the cluster ended Spark's application (SparkContext was shut down): look",
        ),
        (
            READS.format(file="file:///lake/builds/B1/gold/hours/a.parquet", why=EOF),
            (
                "table gold/hours of build B1 (/lake/builds/B1/gold/hours/a.parquet)"
                " cannot be read: it is cut off. `kohort pipeline build` makes"
            ),
        ),
        (
            READS.format(file="file:///lake/bronze/events/I1/0/a", why=EOF),
            (
                "ingest I1 (/lake/bronze/events/I1/0/a) cannot be read: it is cut"
                " off. Remove /lake/bronze/events/I1 and /lake/bronze/files.json,"
            ),
        ),
        (
            READS.format(file="file:///lake/checkpoints/live/a", why=EOF),
            (
                "stream live (/lake/checkpoints/live/a) cannot be read: it is cut"
                " off. Restore it,"
            ),
        ),
        (
            READS.format(file="hdfs://h:1/in/a%20b", why="x.y.Odd: strange"),
            "hdfs://h:1/in/a b cannot be read: it is damaged (strange). Replace the",
        ),
        (
            "RuntimeException: file:/x/a.parquet is not a Parquet file. Exp",
            "/x/a.parquet cannot be read: it is no Parquet file, or is cut off.",
        ),
        (
            "Path does not exist: file:/lake/builds/B1/silver/runs. SQLSTATE: 42",
            (
                "table silver/runs of build B1 (/lake/builds/B1/silver/runs) cannot be"
                " read: it does not exist. `kohort pipeline build`"
            ),
        ),
        (
            "FileNotFoundException: /lake/current.json (Permission denied)",
            "/lake/current.json: permission denied; give this user",
        ),
        (
            "Parquet error: Invalid Parquet file. Corrupt footer",
            "a Parquet file of /lake is damaged (Invalid Parquet file. Corrupt footer)",
        ),
        ("ERROR: Permission denied", "/lake: permission denied; give this user"),
        (
            "[RETRIES_EXCEEDED] The maximum number of retries has been exceeded.",
            "the Spark Connect server does not answer any more: look at its log, and",
        ),
        (
            "java.lang.ClassNotFoundException: Class o.a.h.S3AFileSystem not found",
            (
                "Spark has no file system for /lake: it needs the jars of the store;"
                " for s3a:// --packages org.apache.hadoop:hadoop-aws:3.4.1"
            ),
        ),
        (
            "NoSuchBucketException: The specified bucket does not exist (Status 404)",
            "/lake: NoSuchBucket; look at its address, bucket and credentials",
        ),
        (
            "Call From a/1 to h:8020 failed on connection exception: refused",
            "/lake: no answer from h:8020; look whether it runs",
        ),
        (
            "ended\nCaused by: a.b.C: c\n\tat x\nCaused by: java.io.No: no: /d\n\tat x",
            "Spark: no: /d",
        ),
        ("An error occurred while calling o1.\n: java.io.E: odd\n\tat x", "Spark: odd"),
        ("[NO_TABLE] t: not there SQLSTATE: 42", "Spark: [NO_TABLE] t: not there"),
        ("[NO_TABLE]: not in t.", "Spark: [NO_TABLE]: not in t."),
        ("see a.b: not there", "Spark: see a.b: not there"),
        ("An error occurred while calling o1.", "Spark: an error without a text"),
        (f"a.b.C: {'long ' * 200}", f"Spark: {('long ' * 200)[:397]}..."),
    ],
)
def test_a_failure_is_a_sentence(text: str, sentence: str) -> None:
    """It names the file, the table or the address, and says what to do."""
    said = failures.sentence(text, LAKE)
    assert said.startswith(sentence)
    assert "\n" not in said
    assert "\tat " not in said


@pytest.mark.parametrize(
    ("why", "words"),
    [
        (EOF, "it is cut off"),
        ("java.lang.RuntimeException: a is not a Parquet file.", "it is no Parquet"),
        ("java.util.zip.ZipException: incorrect data check", "it is no gzip file"),
        ("java.io.FileNotFoundException: /a (Permission denied)", "permission denied"),
        ("java.io.FileNotFoundException: File /a does not exist", "it does not exist"),
        ("java.io.IOException: FAILED_TO_UNCOMPRESS(5)", "it is damaged (FAILED_TO"),
    ],
)
def test_a_file_that_was_not_read_has_a_reason(why: str, words: str) -> None:
    """In few words, as the error of the job has it."""
    found = failures.why_unread(READS.format(file="file:///in/a", why=why))
    assert found is not None
    assert found.startswith(words)


def test_a_job_that_failed_otherwise_has_no_unread_file() -> None:
    """No input is blamed for a full disk."""
    assert failures.why_unread(f"{WRITES}Caused by: java.io.IOException: x") is None


def test_the_end_of_java_names_its_signal() -> None:
    """Only after SIGKILL may memory have been short."""
    killed = failures.of_java(-signal.SIGKILL, "2g")
    assert killed.startswith("Spark's Java process was killed by signal 9: run the")
    assert killed.endswith("--memory is 2g")
    ended = failures.of_java(1, "2g")
    assert ended.startswith("Spark's Java process ended with code 1: run the command")
    assert "--memory" not in ended


class _Java(Exception):  # noqa: N818 - of Java, as py4j has it
    def __str__(self) -> str:
        raise ConnectionRefusedError


_Java.__module__ = "py4j.protocol"


class _Captured(Exception):  # noqa: N818 - of PySpark, which keeps stacks apart
    def __init__(self, message: str, stack: str, cause: _Captured | None) -> None:
        super().__init__(message)
        self._stackTrace = stack
        self._cause = cause


def test_the_cause_that_pyspark_keeps_apart_is_found() -> None:
    """The plan of a stream, and the frames of Java, are no messages."""
    cause = _Captured("odd", "a.b.C: odd\n\tat X\nCaused by: a.b.D: d\n\tat Y", None)
    error = _Captured("ended\n=== Streaming Query ===\nplan", "\tat Z", cause)
    text = failures.text_of(error)
    assert failures.cause(text) == "d"
    assert failures.without_frames(text) == "ended\n\na.b.C: odd\nCaused by: a.b.D: d"


def test_errors_of_all_kinds_are_told_in_a_sentence() -> None:
    """Also one whose text only Java knows, which has ended, and faults of kohort."""
    full = OSError(errno.ENOSPC, "No space left on device")
    assert told(full, LAKE).startswith("the disk is full: /lake could not be")
    denied = PermissionError(errno.EACCES, "Permission denied", "/lake/locks")
    assert told(denied, LAKE).startswith("/lake/locks: permission denied")
    assert told(OSError("odd"), LAKE) == "odd"
    assert told(PipelineError("ours"), LAKE) == "ours"
    assert told(_Java(), LAKE) == "Spark: the Java process has ended"
    fault = told(KeyError("k"), LAKE)
    assert fault.startswith("a fault of kohort, KeyError: 'k'. Please report it")


def test_a_stack_is_only_printed_for_debugging(monkeypatch: pytest.MonkeyPatch) -> None:
    """By --debug, or KOHORT_DEBUG; the sentence comes last in any case."""
    from kohort.pipeline import session

    def breaks(*_: object, **__: object) -> None:
        raise KeyError("k")

    monkeypatch.setattr(session, "session", breaks)
    words = ["ingest", "x"]
    plain = CliRunner().invoke(pipeline, words)
    (line,) = plain.stderr.splitlines()
    assert line.startswith("kohort: a fault of kohort, KeyError: 'k'")
    for more, env in ((["--debug"], {}), ([], {"KOHORT_DEBUG": "1"})):
        shown = CliRunner(env=env).invoke(pipeline, [*words, *more])
        assert (plain.exit_code, shown.exit_code) == (1, 1)
        first, *_, last = shown.stderr.splitlines()
        assert first == "Traceback (most recent call last):"
        assert last == line


# -- streams


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            f"{WRITES}Caused by: java.io.IOException: No space left on device",
            "the stream has ended: the disk is full: table silver/runs",
        ),
        (f"timed out\n{LOST}", "the stream has ended: executor 3 was lost too often"),
        ("TimeoutException: Timed out", "b:1 does not answer any more"),
        ("x.y.Odd: strange", "the stream has ended: strange"),
    ],
)
def test_the_end_of_a_stream_is_a_sentence(text: str, words: str) -> None:
    """A failure of the disk or the cluster is not blamed on the broker."""
    said = str(stream.problem(RuntimeError(text), "b:1", LAKE))
    assert said.startswith(words)
