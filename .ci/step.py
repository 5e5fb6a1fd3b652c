"""Runs one step of `.ci/run`, or prints the summary of all steps that have run.

    python3 .ci/step.py run LIMIT_S NAME COMMAND...
    python3 .ci/step.py summary

STEPS_FOLDER names the folder where results are kept, STEPS_BEGAN and STEPS_END the
seconds, since 1970, when the first step began and when all must have ended. Two steps
may run at once.

A step runs in a separate session, with `ci_watch` as a plugin of each pytest:

1. Its output is copied. A step that passes its limit is stopped: the tests under way
   and the stacks of their threads are printed, and its processes killed. Tests have
   limits of their own (pytest-timeout).
2. Tests that failed are run again, each alone, in a separate pytest. A test that
   passes then is flaky; the step fails if one fails again. A session that did not
   come to its end, or with more than MOST_FAILURES failures, fails at once.
3. Its result goes to the folder, for the summary, which fails if a step failed, or if
   there are more than MOST_FLAKY flaky tests in all steps together.

Needs Linux (/proc and subreapers) and nothing but the standard library: the first
step makes the environment.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, NamedTuple, NoReturn

MOST_FLAKY = 3
"""Flaky tests in one run of all steps. More have a common cause."""
MOST_FAILURES = 10
"""Tests of a step that are run again. More have a common cause."""
BUDGET_S = 40 * 60
"""Time for all steps. The summary says so if they took more."""
LONGEST_ERROR = 500
"""Characters of an error in the summary."""
STACKS_S = 5.0
"""Time for a process to print its stacks."""
PYTEST_OPTIONS = "-p ci_watch --durations=10 --durations-min=1"
INTERRUPTED = "INTERRUPTED"
PR_SET_CHILD_SUBREAPER = 36


class Running(NamedTuple):
    """A test under way, as `ci_watch` writes it down.

    Attributes:
        pid: of the process.
        worker: of pytest-xdist, or "pytest".
        test: node id.
        since_s: its start, by the system's monotonic clock.
    """

    pid: int
    worker: str
    test: str
    since_s: float


class Session(NamedTuple):
    """The end of a pytest session, as recorded by `ci_watch`.

    Attributes:
        command: the command line, without the places that it asked for.
        cwd: folder that node ids are relative to.
        environment: of the process.
        exit_status: of pytest; None if it has not come to its end.
        failed: the error of each failed test, one line, by node id.
        errors: modules that could not be collected.
        missed: tests that were collected, and not run.
    """

    command: list[str]
    cwd: str
    environment: dict[str, str]
    exit_status: int | None
    failed: dict[str, str]
    errors: int
    missed: int

    @property
    def may_run_again(self) -> bool:
        """True if failed tests are the only problem."""
        return (
            self.exit_status == 1
            and 0 < len(self.failed) <= MOST_FAILURES
            and not self.errors
            and not self.missed
        )


class Result(NamedTuple):
    """Result of a step.

    Attributes:
        name: of the step.
        outcome: "ok", "FAILED", "STOPPED", "NOT RUN" or INTERRUPTED.
        took_s: its time.
        cpu_s: CPU time of its processes that have ended.
        last_line: of its output.
        flaky: the tests that passed when they ran again, as in `Session.failed`.
        failed: the tests that failed again.
    """

    name: str
    outcome: str
    took_s: float
    cpu_s: float
    last_line: str
    flaky: dict[str, str]
    failed: dict[str, str]


class InterruptError(Exception):
    """A signal asked this program to end."""


def say(text: str) -> None:
    """Prints a line, between those of the step."""
    sys.stdout.buffer.write(f"{text}\n".encode())
    sys.stdout.buffer.flush()


# -- processes


def is_alive(pid: int) -> bool:
    """True if a process has not ended."""
    with contextlib.suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] != "Z"
    return False


def descendants(pid: int) -> list[int]:
    """The processes that one has started, and those that they have started.

    A process whose parent has ended is a child of this program, a subreaper.
    """
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent, *_ = path.read_text().rpartition(")")[2].split()
            if state != "Z":
                children.setdefault(int(parent), []).append(int(path.parent.name))
    found = []
    todo = [pid]
    while todo:
        of_one = children.get(todo.pop(), [])
        found += of_one
        todo += of_one
    return found


def command_of(pid: int) -> str:
    """The command line of a process."""
    with contextlib.suppress(OSError):
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        return line.replace(b"\0", b" ").decode(errors="replace")[:200]
    return "?"


def is_python(pid: int) -> bool:
    """True if faulthandler prints stacks in a process."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/exe").readlink().name.startswith("python")
    return False


def send(pid: int, number: signal.Signals) -> None:
    """Sends a signal to a process that may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def reap(other_than: int) -> None:
    """Reaps ended children that this program inherited.

    Other processes may wait until they are gone.

    Args:
        other_than: a process whose exit status the caller reads.
    """
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid == other_than:
                return
            os.waitpid(ended.si_pid, 0)


def kill_all() -> None:
    """Kills every process of the step."""
    while left := descendants(os.getpid()):
        for pid in left:
            send(pid, signal.SIGKILL)
        time.sleep(0.05)


def abort(pid: int) -> None:
    """Makes a Python process print its stacks and end."""
    send(pid, signal.SIGABRT)
    by_s = time.monotonic() + STACKS_S
    while is_alive(pid) and time.monotonic() < by_s:
        time.sleep(0.05)
    send(pid, signal.SIGKILL)


def stop_test(test: Running) -> None:
    """Ends the process that runs a test, after it has printed its stacks."""
    age_s = time.monotonic() - test.since_s
    say(f"\n===== under way on {test.worker} for {age_s:.0f} s: {test.test}")
    children = descendants(test.pid)
    send(test.pid, signal.SIGUSR1)
    time.sleep(1)
    abort(test.pid)
    for pid in children:
        send(pid, signal.SIGKILL)


def stop_step(tests: Iterable[Running]) -> None:
    """Ends the step, after the processes in question have printed their stacks."""
    busy = {test.pid: test for test in tests}
    everything = descendants(os.getpid())
    for pid in everything:
        if busy and pid not in busy:
            send(pid, signal.SIGSTOP)  # pytest-xdist would go on with other tests
    for test in busy.values():
        stop_test(test)
    for pid in everything:
        if pid not in busy:
            say(f"process {pid}: {command_of(pid)}")
            if not busy and is_python(pid):
                abort(pid)
    kill_all()


# -- one command


class Command:
    """A command whose processes and tests are watched.

    Attributes:
        last_line: of its output, of those that are not blank.
        stopped: whether it passed its limit.

    Args:
        argv: the command.
        environment: variables that are added to those set here.
        cwd: its folder.
        limit_s: the time that it has.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        cwd: str,
        limit_s: float,
    ) -> None:
        self.last_line = ""
        self.stopped = False
        self._argv = argv
        self._cwd = cwd
        self._limit_s = limit_s
        self._watch = Path(tempfile.mkdtemp(dir=os.environ["STEPS_FOLDER"]))
        self._environment = {
            **environment,
            "STEP_WATCH": str(self._watch),
            "PYTEST_ADDOPTS": PYTEST_OPTIONS,
            "PYTHONFAULTHANDLER": "1",
            "PYTHONPATH": os.pathsep.join(
                [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
            ).rstrip(os.pathsep),
        }

    def run(self) -> int:
        """Runs it to its end, or until it has to be stopped; returns its status."""
        process = subprocess.Popen(  # noqa: S603 - steps are our own
            self._argv,
            cwd=self._cwd,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        copying = threading.Thread(target=self._copy, args=(process.stdout,))
        copying.start()
        try:
            self._wait(process)
        except InterruptError:
            say("\n===== interrupted")
            stop_step(self.under_way())
            raise
        finally:
            self._kill_what_is_left()
            copying.join()
        return process.wait()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        began_s = time.monotonic()
        while process.poll() is None:
            if time.monotonic() - began_s > self._limit_s:
                say(f"\n===== stopped: it takes more than {self._limit_s:g} s")
                self.stopped = True
                stop_step(self.under_way())
                process.wait()
            reap(other_than=process.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.2)

    def _copy(self, output: IO[bytes]) -> None:
        for line in output:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            if line.strip():
                self.last_line = line.decode(errors="replace").strip()

    def _kill_what_is_left(self) -> None:
        for pid in descendants(os.getpid()):
            say(f"left behind, and killed: process {pid}, {command_of(pid)}")
        kill_all()

    def under_way(self) -> list[Running]:
        """The tests that run."""
        return [test for test in self._running() if is_alive(test.pid)]

    def _running(self) -> Iterator[Running]:
        for path in sorted(self._watch.glob("running-*.json")):
            # A test may end, and the next one be written, meanwhile.
            with contextlib.suppress(OSError, ValueError):
                yield Running(**json.loads(path.read_text()))

    def session(self) -> Session | None:
        """The session of pytest, if it was one."""
        path = self._watch / "session.json"
        return Session(**json.loads(path.read_text())) if path.exists() else None

    def failed(self) -> dict[str, str]:
        """The tests that failed, or did not come to their end."""
        session = self.session()
        unfinished = {each.test: "did not come to its end" for each in self._running()}
        return unfinished if session is None else {**unfinished, **session.failed}


# -- a step


def left_s() -> float:
    """The time that is left for all steps."""
    return float(os.environ["STEPS_END"]) - time.time()


def run_again(session: Session, test: str, limit_s: float) -> bool:
    """Runs a test alone; returns whether it passes."""
    say(f"\n===== again, alone: {test}")
    argv = [*session.command, "-n", "0", test]
    limit_s = min(limit_s, left_s())
    again = Command(argv, session.environment, session.cwd, limit_s)
    return again.run() == 0


def run(limit_s: float, name: str, argv: Sequence[str]) -> Result:
    """Runs a step."""
    began_s = time.monotonic()

    def result(outcome: str, line: str, *tests: dict[str, str]) -> Result:
        flaky, failed = tests or ({}, {})
        took_s = time.monotonic() - began_s
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = used.ru_utime + used.ru_stime
        return Result(name, outcome, took_s, cpu_s, line, flaky, failed)

    if left_s() <= 0:
        return result("NOT RUN", "no time was left")
    limit_s = min(limit_s, left_s())
    command = Command(argv, os.environ, str(Path.cwd()), limit_s)
    try:
        status = command.run()
        if command.stopped:
            line = f"took more than {limit_s:g} s"
            return result("STOPPED", line, {}, command.failed())
        if status == 0:
            return result("ok", command.last_line)
        session = command.session()
        if status != 1 or session is None or not session.may_run_again:
            line = f"{command.last_line} (exit status {status})"
            return result("FAILED", line, {}, command.failed())
        passes = {
            test: run_again(session, test, limit_s / 2) for test in session.failed
        }
    except InterruptError:
        return result(INTERRUPTED, command.last_line)
    failed = dict(session.failed)
    flaky = {test: failed.pop(test) for test, passed in passes.items() if passed}
    return result("FAILED" if failed else "ok", command.last_line, flaky, failed)


def results_file() -> Path:
    """The file of the results, a line each."""
    return Path(os.environ["STEPS_FOLDER"]) / "results.jsonl"


def summarise(results: Sequence[Result], print_line: Callable[[str], None]) -> bool:
    """Prints the results of the steps; returns whether all of them passed."""
    for each in results:
        times = f"{each.took_s:5.0f} s, CPU {each.cpu_s:5.0f} s"
        print_line(f"{each.outcome:<7} {times}  {each.name}: {each.last_line}")
        by_error: dict[str, list[str]] = {}
        for test, error in each.failed.items():
            by_error.setdefault(error[:LONGEST_ERROR], []).append(test)
        for error, (test, *others) in list(by_error.items())[:MOST_FAILURES]:
            more = f" and {len(others)} more" if others else ""
            print_line(f"                 failed: {test}{more}: {error}")
        if len(by_error) > MOST_FAILURES:
            more = str(len(by_error) - MOST_FAILURES)
            print_line(f"                 failed with {more} other errors")
    flaky = [(each.name, *test) for each in results for test in each.flaky.items()]
    for step, test, error in flaky:
        print_line(f"flaky, passed alone: {test} ({step}): {error[:LONGEST_ERROR]}")
    took_s = time.time() - float(os.environ["STEPS_BEGAN"])
    print_line(f"{took_s / 60:.0f} minutes, of {BUDGET_S // 60}")
    if len(flaky) > MOST_FLAKY:
        print_line(f"FAILED: {len(flaky)} flaky tests, more than {MOST_FLAKY}")
    outcomes = {each.outcome for each in results}
    return outcomes == {"ok"} and len(flaky) <= MOST_FLAKY


def interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Ends the step."""
    raise InterruptError


def main(arguments: Sequence[str]) -> int:
    """Runs a step, or prints the summary."""
    path = results_file()
    if arguments[0] == "summary":
        lines = path.read_text().splitlines() if path.exists() else []
        say("\n===== summary")
        return 0 if summarise([Result(*json.loads(line)) for line in lines], say) else 1
    _, limit_s, name, *argv = arguments
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    say(f"\n===== {name}: {' '.join(argv)}")
    found = run(float(limit_s), name, argv)
    with path.open("a") as file:
        file.write(json.dumps(found) + "\n")
    if found.outcome == INTERRUPTED:
        return 130  # `.ci/run` ends
    return 0 if found.outcome == "ok" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
