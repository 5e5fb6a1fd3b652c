"""``kohort pipeline run``: from a file of events to a report in one command."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import pytest
from tests.commands import KOHORT, environment
from tests.pipeline.test_event_schema import SAMPLES
from tests.pipeline.test_stream import event

pytestmark = pytest.mark.spark
PATIENCE_S = 300.0
"""As long as all processors have something else to do."""


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs the command where no Java is found, to its end."""
    return subprocess.run(
        [*KOHORT, "pipeline", *words],
        env=environment(PATH="/nowhere", JAVA_HOME="", TMPDIR=str(cwd)),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_a_report_without_java(tmp_path: Path) -> None:
    """The report is there, and no lake is left."""
    ended = run("run", str(SAMPLES / "*.jsonl"), "-o", "r.html", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "1,006" in ended.stdout
    assert "rebalances_without_account" in ended.stdout
    assert ended.stdout.splitlines()[-1] == "r.html"
    report = (tmp_path / "r.html").read_text()
    assert "Sail" in report
    assert [each.name for each in tmp_path.iterdir()] == ["r.html"]


def test_a_lake_keeps_the_tables(tmp_path: Path) -> None:
    """The other commands read them, and a second run adds only new events."""
    (tmp_path / "a.jsonl").write_text(json.dumps(event(1)))
    lake = ("--lake", "lake")
    assert run("run", "a.jsonl", *lake, cwd=tmp_path).returncode == 0
    (tmp_path / "b.jsonl").write_text(f"{json.dumps(event(1))}\n{json.dumps(event(2))}")
    again = run("run", "a.jsonl", "b.jsonl", *lake, cwd=tmp_path)
    assert again.stdout.splitlines()[1].split() == ["1", "1", "1", "1", "0"]
    asked = run(
        *("query", "SELECT run, events FROM silver_runs", "--csv"), *lake, cwd=tmp_path
    )
    assert asked.stdout.splitlines() == ["run,events", "r,2"]
    unknown = run("query", "SELECT * FROM runs", *lake, cwd=tmp_path)
    assert unknown.returncode == 2
    assert "no table runs: did you mean silver_runs" in unknown.stderr


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """It is named, and the others are ingested: exit code 3; or 1, and none is."""
    (tmp_path / "a.jsonl").write_text(json.dumps(event(1)))
    cut = gzip.compress(json.dumps(event(2)).encode())[:-9]
    (tmp_path / "b.jsonl.gz").write_bytes(cut)
    words = ("run", "a.jsonl", "b.jsonl.gz")
    bad = f"{tmp_path}/b.jsonl.gz"
    lake = ("--lake", "lake")
    strict = run("ingest", *words[1:], *lake, "--strict", cwd=tmp_path)
    said = f"kohort: nothing was ingested: {bad}: it is cut off\n"
    assert (strict.returncode, strict.stderr) == (1, said)
    said = f"kohort: {bad} was not ingested: it is cut off\n"
    for done in (
        run("ingest", *words[1:], *lake, cwd=tmp_path),
        run(*words, cwd=tmp_path),
    ):
        assert (done.returncode, done.stderr) == (3, said)
        assert done.stdout.splitlines()[1].split() == ["1", "0", "1", "0", "0"]
    assert (tmp_path / "report.html").exists()


def test_how_it_fails(tmp_path: Path) -> None:
    """A missing file, a failed check, and no event: exit code 1, and no report."""
    missing = run("run", "x.jsonl", cwd=tmp_path)
    assert missing.returncode == 1
    assert missing.stderr.startswith("kohort: x.jsonl: no such file")
    (tmp_path / "a.jsonl").write_text(json.dumps(event(7)))
    failed = run("run", "a.jsonl", "--fail", "missing_events", cwd=tmp_path)
    assert (failed.returncode, failed.stderr) == (1, "")
    assert "not published, checks failed" in failed.stdout
    (tmp_path / "b.jsonl").write_text("nothing")
    empty = run("run", "b.jsonl", cwd=tmp_path)
    assert empty.returncode == 1
    assert "has no events yet" in empty.stderr
    assert not (tmp_path / "report.html").exists()
