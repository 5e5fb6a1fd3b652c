"""`bench.run` compares two revisions, and fails where one takes more instructions."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from bench import counted, run
from bench.counted import CountedBroker, CountError
from bench.run import HERE, UsageError

ROOT = Path(__file__).parents[2]
STATUS = """\
instrumentation: on
threads: 1 2
events-1: 854740591
frames-1: 2
function-1-0: uv_run
events-1-0: 46248191
events-2: 9
frames-2: 0
"""


def costs(before: list[float], now: list[float]) -> run.Rounds:
    """Rounds of one row."""
    return {"commit": {"abc": before, HERE: now}}


class Repository:
    """A repository of git.

    Args:
        path: its root.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        run.git(path, "init", "-q", "-b", "main")
        run.git(path, "config", "user.name", "ann")
        run.git(path, "config", "user.email", "ann@localhost")

    def commit(self, name: str, message: str = "change") -> str:
        """Changes a file; returns the new commit."""
        file = self.path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{file.read_text() if file.exists() else ''}{message}\n")
        run.git(self.path, "add", ".")
        run.git(self.path, "commit", "-q", "-m", message)
        return run.git(self.path, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """An empty repository."""
    return Repository(tmp_path)


def test_instructions_of_all_threads() -> None:
    """Callgrind's instructions are those of all threads, not those of functions."""
    assert counted.callgrind_count(STATUS) == 854740600


@pytest.mark.parametrize(
    ("output", "count"),
    [
        ("4711,,instructions:u,650000,100.00,,\n", 4711),
        ("12.50,msec,task-clock,650000,100.00,,\n", 12),
        ("<not supported>,,instructions:u,0,100.00,,\n", None),
        ("<not counted>,,instructions:u,0,100.00,,\n", None),
    ],
)
def test_count_of_perf(output: str, count: int | None) -> None:
    """An event that the processor does not count has no number."""
    assert counted.perf_count(output) == count


def test_no_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without perf and valgrind the message names both, and the way without them."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CountError, match=r"perf .* valgrind .* --cpu"):
        counted.available()


def test_broker_that_does_not_start(tmp_path: Path) -> None:
    """The message names the tree, and shows the end of the broker's log."""
    package = tmp_path / "src" / "kohort"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('half a merge')")
    with pytest.raises(CountError, match=r"(?s)of abc does not start.*half a merge"):
        CountedBroker("abc", tmp_path, "cpu")


def test_options_are_those_of_serve() -> None:
    """A wrong one is named in the error."""
    with pytest.raises(CountError, match=r"(?s)of this does not start.*--sideways"):
        CountedBroker("this", ROOT, "cpu", ["--sideways"])


def test_each_row_has_a_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker gets the requests of each row, and is not left paused."""
    monkeypatch.setattr(counted, "MEMBERS", 4)
    monkeypatch.setattr(counted, "TIMES", dict.fromkeys(counted.ROWS, 1))
    with contextlib.closing(CountedBroker("this", ROOT, "cpu")) as broker:
        assert all(broker.cost(row) > 0 for row in counted.ROWS)


def test_growth_of_least_costs() -> None:
    """The change is that from the least cost to the least cost, in percent."""
    rounds = costs([200.0, 100.0, 140.0], [130.0, 110.0, 900.0])
    assert run.growth(rounds["commit"]) == pytest.approx(10)


def test_table() -> None:
    """A row has the least cost and the span of each tree, in thousands."""
    rounds = costs([2_000.0, 1_000.0], [1_100.0, 5_500.0])
    assert list(run.table(rounds, "CPU us")) == [
        "| CPU us | abc | working tree | change |",
        "| --- | ---: | ---: | ---: |",
        "| commit, per commit of 10 partitions | 1 (1..2) | 1.1 (1.1..5.5) | +10.0 % |",
    ]


@pytest.mark.parametrize(
    ("now", "allowed", "said"),
    [
        (104.9, {}, None),
        (50.0, {}, None),
        (105.1, {"commit": "checks"}, "commit: +5.1 %, more than 5 %; allowed: checks"),
    ],
)
def test_change_that_passes(
    now: float, allowed: dict[str, str], said: str | None
) -> None:
    """A row may grow by the limit, and by more with a reason for it."""
    lines: list[str] = []
    assert run.judge(costs([100.0], [now]), 5, allowed, lines.append)
    assert lines == ([] if said is None else [said])


def test_change_that_fails() -> None:
    """A row that grew by more fails; a reason for another row does not help."""
    lines: list[str] = []
    rounds = costs([100.0], [105.1])
    assert not run.judge(rounds, 5, {"fetch": "checks"}, lines.append)
    (line,) = lines
    assert line.startswith("commit: +5.1 %, more than 5 %. ")
    assert line.endswith("add to a commit: Slower: commit: <reason>")


def test_reasons() -> None:
    """Each `Slower` line of all messages allows a row; a reason may have colons."""
    messages = (
        "log: check records\n\nMore work.\n\nSlower: produce: KIP-1: CRC of each\n"
        "client: x\n\nSlower: commit: rows are checked\nNot Slower: fetch: this\n"
    )
    assert run.reasons(messages) == {
        "produce": "KIP-1: CRC of each",
        "commit": "rows are checked",
    }


@pytest.mark.parametrize(
    "line", ["Slower: everything: because", "Slower: commit", "Slower: commit:  "]
)
def test_reason_without_row_or_text(line: str) -> None:
    """A line that names no row or gives no reason is an error."""
    with pytest.raises(UsageError, match="rows are heartbeat, rebalance, commit"):
        run.reasons(f"log: change\n\n{line}\n")


def test_base_is_before_the_last_change_of_code(repository: Repository) -> None:
    """Commits that change documents or tests are not compared with each other."""
    repository.commit("broker/a.py")
    before = repository.commit("docs/b.md")
    repository.commit("broker/a.py")
    repository.commit("docs/b.md")
    assert run.before_last_change(repository.path) == before


def test_base_of_a_merge_is_its_first_parent(repository: Repository) -> None:
    """A branch of several commits counts as one change when it is merged."""
    repository.commit("broker/a.py")
    main = repository.commit("docs/b.md")
    run.git(repository.path, "checkout", "-q", "-b", "branch", "HEAD~1")
    repository.commit("broker/c.py")
    repository.commit("broker/d.py")
    run.git(repository.path, "checkout", "-q", "main")
    run.git(repository.path, "merge", "-q", "--no-ff", "-m", "merge", "branch")
    assert run.before_last_change(repository.path) == main


def test_base_of_uncommitted_changes_is_the_last_commit(repository: Repository) -> None:
    """Whoever changes code compares it with the commit that it started from."""
    repository.commit("broker/a.py")
    last = repository.commit("broker/a.py")
    (repository.path / "broker" / "a.py").write_text("uncommitted")
    assert run.before_last_change(repository.path) == last


def test_no_base(repository: Repository, tmp_path: Path) -> None:
    """The first commit, and the last one of a shallow clone, have none before them."""
    repository.commit("broker/a.py")
    assert run.before_last_change(repository.path) is None
    repository.commit("broker/a.py")
    shallow = tmp_path / "shallow"
    source = repository.path.as_uri()
    run.git(tmp_path, "clone", "-q", "--depth=1", source, str(shallow))
    assert run.before_last_change(shallow) is None


def test_checked_out(repository: Repository) -> None:
    """A revision has a temporary worktree, of which the repository keeps nothing."""
    first = repository.commit("broker/a.py", "one")
    repository.commit("broker/a.py", "two")
    with run.checked_out(repository.path, first) as tree:
        assert (tree / "broker" / "a.py").read_text() == "one\n"
    assert len(run.git(repository.path, "worktree", "list").splitlines()) == 1


def test_unknown_revision() -> None:
    """An unknown revision is one line, and exit status 2."""
    argv = [sys.executable, "-m", "bench.run", "--vs", "no-such-revision"]
    ran = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr == f"{ROOT} has no revision 'no-such-revision'\n"


def test_check_needs_instructions(capsys: pytest.CaptureFixture[str]) -> None:
    """CPU time is too noisy to fail on."""
    with pytest.raises(SystemExit):
        run.arguments(["--cpu", "--check"])
    assert "--check judges instructions" in capsys.readouterr().err
    assert run.arguments(["--check"]).check == run.LIMIT
