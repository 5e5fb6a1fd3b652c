"""`.ci/step.py`: failed tests run again alone, hanging steps are stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
STEP = Path(__file__).parents[2] / ".ci" / "step.py"
FIRST = """
import os, pathlib

def first(name):
    mark = pathlib.Path(name)
    known = mark.exists()
    mark.touch()
    return not known
"""
MIXED = (
    FIRST
    + """
def test_flaky():
    assert not first("flaky")

def test_broken():
    assert first is None

def test_crash():
    if first("crash"):
        os._exit(3)

def test_fine():
    pass
"""
)
HUNG = """
import asyncio, subprocess

async def wait_for_nothing(child):
    loop = asyncio.get_running_loop()
    loop.call_soon(lambda: print("\\nhangs", child.pid, flush=True))
    await asyncio.Event().wait()

def test_hung():
    asyncio.run(wait_for_nothing(subprocess.Popen(["sleep", "1000"])))
"""


def has_ended(pid: int) -> bool:
    """Returns whether a process has ended; its parent may not have noticed."""
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


class Steps:
    """The steps of a run, with test modules in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "pytest.ini").write_text("[pytest]")
        results = folder / "results"
        results.mkdir()
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("PYTEST_")
        }
        self._environment = {
            **inherited,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # it takes longer than the tests
            "PYTEST_PLUGINS": "xdist.plugin,pytest_timeout",
            "STEPS_FOLDER": str(results),
            "STEPS_BEGAN": str(time.time()),
            "STEPS_END": str(time.time() + 1000),
        }

    def write(self, name: str, source: str) -> None:
        """Writes a module of tests."""
        (self._folder / name).write_text(source)

    def finish(self, *results: dict[str, object]) -> None:
        """Adds the results of finished steps."""
        lines = [json.dumps(list(each.values())) for each in results]
        path = self._folder / "results" / "results.jsonl"
        path.write_text("\n".join(lines))

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """Starts the program."""
        return subprocess.Popen(
            [sys.executable, STEP, *argv],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def call(self, *argv: str) -> tuple[int, str]:
        """Runs the program; returns its exit status and output."""
        process = self.start(*argv)
        output, _ = process.communicate()
        return process.returncode, output

    def run(self, *argv: str, limit_s: float = 900) -> tuple[int, str]:
        """Runs a step."""
        return self.call("run", str(limit_s), "a step", *argv)

    def run_pytest(self, *arguments: str) -> tuple[int, str]:
        """Runs a step that is a run of pytest."""
        return self.run(sys.executable, "-m", "pytest", *arguments)

    def summary(self) -> tuple[int, list[str]]:
        """The summary, without the times: exit status and lines."""
        status, output = self.call("summary")
        without = re.sub(r" +[0-9]+ s, CPU +[0-9]+ s  ", " ", output)
        *lines, _total = without.split("\n")[2:-1]
        return status, lines


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    """A run in which no step has run."""
    return Steps(tmp_path)


def test_failed_tests_run_again_alone(steps: Steps) -> None:
    """A test that passes then is flaky, also if its worker died."""
    steps.write("test_mixed.py", MIXED)
    status, output = steps.run_pytest("-n", "2", ".")
    assert status == 1
    assert output.count("===== again, alone") == 3
    status, lines = steps.summary()
    assert status == 1
    assert re.fullmatch("FAILED a step: =+ 3 failed, 1 passed in .*", lines[0])
    assert lines[1].strip() == (
        "failed: test_mixed.py::test_broken: assert first is None"
    )
    crash, flaky = sorted(lines[2:])
    passed = "flaky, passed alone: test_mixed.py::test_"
    assert re.fullmatch(rf"{passed}crash \(a step\): worker .* crashed .*", crash)
    assert flaky == f"{passed}flaky (a step): AssertionError: assert not True"


def test_a_step_whose_tests_are_only_flaky_is_ok(steps: Steps) -> None:
    """The test runs with the options and the environment of its step."""
    steps.write(
        "test_flaky.py",
        FIRST
        + """
def test_flaky(pytestconfig):
    assert not first("flaky")
    assert os.environ["DEPTH"] == "7"
    assert pytestconfig.getoption("maxfail") == 9
""",
    )
    python = [sys.executable, "-m", "pytest"]
    status, _ = steps.run("env", "DEPTH=7", *python, "--maxfail=9", "test_flaky.py")
    assert status == 0
    status, lines = steps.summary()
    assert status == 0
    assert lines[1].startswith(
        "flaky, passed alone: test_flaky.py::test_flaky (a step): "
    )


def test_a_session_with_a_broken_module_fails_at_once(steps: Steps) -> None:
    """Tests that were not collected cannot run again."""
    steps.write("test_fails.py", "def test_fails():\n    raise ValueError")
    steps.write("test_broken.py", "raise ValueError")
    status, output = steps.run_pytest("--continue-on-collection-errors")
    assert (status, "again, alone" in output) == (1, False)


def test_many_failures_fail_at_once(steps: Steps) -> None:
    """The summary has the first ten, with their errors."""
    steps.write(
        "test_many.py",
        "import pytest\n\n"
        "@pytest.mark.parametrize('n', range(12))\n"
        "def test_many(n):\n    assert n < 0",
    )
    status, output = steps.run_pytest()
    assert (status, "again, alone" in output) == (1, False)
    _, lines = steps.summary()
    assert lines[1].strip() == "failed: test_many.py::test_many[0]: assert 0 < 0"
    assert lines[-1].strip() == "failed with 2 other errors"


def test_tests_that_fail_alike_share_a_line_with_the_cause(steps: Steps) -> None:
    """The line of an error from Java also has the causes that it names."""
    steps.write(
        "test_java.py",
        "import pytest\n\n"
        "@pytest.mark.parametrize('n', range(11))\n"
        "def test_java(n):\n"
        "    raise OSError('a call\\n: Aborted\\n\\tat X.java\\nCaused by: Full disk')",
    )
    steps.run_pytest()
    _, lines = steps.summary()
    error = "OSError: a call : Aborted Caused by: Full disk"
    assert (
        lines[1].strip() == f"failed: test_java.py::test_java[0] and 10 more: {error}"
    )


def test_a_hung_test_is_named_with_its_tasks(steps: Steps) -> None:
    """Stopping a step also ends the processes that its tests have started."""
    steps.write("test_hung.py", HUNG)
    argv = ["-m", "pytest", "-s", "test_hung.py"]
    step = steps.start("run", "900", "a step", sys.executable, *argv)
    assert step.stdout is not None
    for line in step.stdout:
        if line.startswith("hangs"):
            child = int(line.split()[1])
            break
    else:
        raise AssertionError("the test did not run")
    step.send_signal(signal.SIGTERM)
    output, _ = step.communicate()
    assert step.returncode == 130
    assert re.search("under way on pytest for .* s: test_hung.py::test_hung\n", output)
    assert re.search("test_hung.py:7 wait_for_nothing", output)
    assert has_ended(child)


def test_a_test_that_passes_its_limit_fails_and_the_others_run(steps: Steps) -> None:
    """Its worker ends: in an asyncio task an alarm's exception would be lost."""
    steps.write(
        "test_limits.py",
        """
import asyncio

async def wait_for_a_loop():
    task = asyncio.create_task(loop_forever())
    await asyncio.Event().wait()

async def loop_forever():
    while True:
        pass

def test_hung():
    asyncio.run(wait_for_a_loop())

def test_other():
    pass
""",
    )
    limit = ["--timeout=2", "--timeout-method=thread"]
    status, output = steps.run_pytest("-n", "1", *limit, "test_limits.py")
    assert status == 1
    assert "in loop_forever" in output
    _, lines = steps.summary()
    assert re.fullmatch("FAILED a step: =+ 1 failed, 1 passed in .*", lines[0])
    assert lines[1].strip().startswith("failed: test_limits.py::test_hung: worker ")


def test_a_step_that_passes_its_limit_is_stopped(steps: Steps) -> None:
    """The stacks of a Python program are printed; the run goes on."""
    program = "def forever():\n    while True:\n        pass\n\nforever()"
    status, output = steps.run(sys.executable, "-c", program, limit_s=0.1)
    assert status == 1
    assert "stopped: it takes more than 0.1 s" in output
    assert steps.summary() == (1, ["STOPPED a step: took more than 0.1 s"])


def test_processes_left_by_a_step_are_killed(steps: Steps) -> None:
    """A process in another session is found as well."""
    status, output = steps.run("bash", "-c", "setsid sleep 1000 & echo $!")
    assert status == 0
    assert "left behind, and killed" in output


def test_a_process_that_was_left_behind_and_ends_is_gone(steps: Steps) -> None:
    """An orphan, which has become a child of this program, is reaped."""
    orphan = "left=$(setsid true >/dev/null & echo $!)"
    status, _ = steps.run(
        "bash", "-c", f"{orphan}; while [ -e /proc/$left ]; do sleep 0.01; done"
    )
    assert status == 0


def test_four_flaky_tests_in_all_steps_fail_the_run(steps: Steps) -> None:
    """Three flaky tests do not fail the run."""

    def step(name: str, *flaky: str) -> dict[str, object]:
        tests = dict.fromkeys(flaky, "assert 0")
        common = {"name": name, "outcome": "ok", "s": 1.0, "cpu": 1.0}
        return {**common, "line": "", "flaky": tests, "failed": {}}

    steps.finish(step("1", "a", "b"), step("2", "c"))
    assert steps.summary()[0] == 0
    steps.finish(step("1", "a", "b"), step("2", "c"), step("3", "d"))
    assert steps.summary()[0] == 1
