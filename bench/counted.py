"""A broker in a separate process, a group on it, and what their requests cost.

Three counters:

- `cpu`: CPU time, the kernel's included.
- `perf`: instructions, by the processor's counter.
- `callgrind`: instructions, by valgrind, which executes them some fifty times slower.

Instructions are those of the process, without the kernel's work for it.

Counts are repeatable because the broker has the same work in every run: hashes of
strings have a fixed seed, requests come in fixed numbers, and it is paused while they
are sent (`bench.group_load.paused`). While instructions are counted its clock advances
by a microsecond at each look, so that no request is logged as slow.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

from bench.group_load import FETCHED, PARTITIONS, GroupLoad

Counter = Literal["cpu", "perf", "callgrind"]

MEMBERS = 100
BUSY = 16
"""Members that send heartbeats and commits."""

ROWS = {
    "heartbeat": ("heartbeat", "heartbeat"),
    "rebalance": ("churn", "member"),
    "commit": ("commit", f"commit of {PARTITIONS} partitions"),
    "produce": ("produce", "MB"),
    "fetch": ("fetch", "MB"),
}
"""The method of `GroupLoad`, and the unit of which it returns the number."""
TIMES = {"heartbeat": 100, "rebalance": 5, "commit": 20, "produce": 20, "fetch": 20}
"""Repetitions of a round of CPU time: some 50 ms."""
TIMES_COUNTED = {"heartbeat": 4, "rebalance": 1, "commit": 1, "produce": 2, "fetch": 2}
"""Repetitions of a round in which instructions are counted."""

_START = """
import itertools, sys, time
if sys.argv.pop(1) == "steady":
    time.monotonic = itertools.count(time.monotonic(), 1e-6).__next__
from kohort.control.cli import main
main()
"""
_PERF = ("perf", "stat", "-x,", "-e")
PERF_EVENT = "instructions:u"


class CountError(Exception):
    """A broker does not start, or its instructions cannot be counted."""


def available() -> Counter:
    """The counter of instructions on this machine: the processor's, if it has one.

    Raises:
        CountError: there is none.
    """
    if shutil.which("perf"):
        argv = [*_PERF, PERF_EVENT, "true"]
        tried = subprocess.run(argv, capture_output=True, text=True, check=False)
        if perf_count(tried.stderr) is not None:
            return "perf"
    if shutil.which("valgrind") and shutil.which("vgdb"):
        return "callgrind"
    raise CountError(
        "Instructions cannot be counted: perf has no hardware counter here, or is "
        "missing, and valgrind is missing. Install valgrind, or measure with --cpu."
    )


def perf_count(output: str) -> int | None:
    """The number in the output of `perf stat -x,`; None if the event has none."""
    found = re.search(r"^([\d.]+),[^,]*,", output, re.MULTILINE)
    return None if found is None else int(float(found[1]))


def callgrind_count(output: str) -> int:
    """The instructions of all threads, from `status internal` of callgrind."""
    return sum(map(int, re.findall(r"^events-\d+: (\d+)$", output, re.MULTILINE)))


class CountedBroker:
    """A broker, with a group on it that is in its first generations.

    Args:
        name: for messages.
        tree: the root of the checkout that it is started from.
        counter: of its cost.
        options: of `kohort serve`.
    """

    def __init__(
        self, name: str, tree: Path, counter: Counter, options: Sequence[str] = ()
    ) -> None:
        self._counter = counter
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        clock = "real" if counter == "cpu" else "steady"
        argv = [sys.executable, "-c", _START, clock, "serve", "--port=0"]
        argv += ["--set=group.initial.rebalance.delay.ms=0", *options]
        if counter == "callgrind":
            argv = [
                *("valgrind", "-q", "--tool=callgrind", "--instr-atstart=no"),
                *(f"--callgrind-out-file={folder / 'out'}", *argv),
            ]
        environment = os.environ | {
            "PYTHONPATH": str(tree / "src"),
            "PYTHONHASHSEED": "0",
        }
        errors = folder / "stderr"
        with errors.open("wb") as log:
            self._process = subprocess.Popen(
                argv,
                env=environment,
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        found = re.search(r"on ([\d.]+):(\d+)", self._process.stdout.readline())
        if found is None:
            tail = "\n".join(errors.read_text(errors="replace").splitlines()[-5:])
            self._end()
            raise CountError(f"The broker of {name} does not start:\n{tail}")
        try:
            self._load = GroupLoad(
                (found[1], int(found[2])), MEMBERS, busy=BUSY, pid=self._process.pid
            )
        except BaseException:
            self._end()
            raise

    def warm_up(self) -> None:
        """Does everything a few times, so that its code is loaded and specialized."""
        for row, (method, _) in ROWS.items():
            times = FETCHED + 1 if row == "produce" else 4
            getattr(self._load, method)(times)
        if self._counter == "callgrind":
            self._vgdb("instrumentation", "on")

    def cost(self, row: str) -> float:
        """The cost of one heartbeat, member, commit or MB: instructions, or ns."""
        method, _ = ROWS[row]
        times = (TIMES if self._counter == "cpu" else TIMES_COUNTED)[row]
        if self._counter == "perf":
            with PerfStat(self._process.pid) as perf:
                count = getattr(self._load, method)(times)
            return perf.count / float(count)
        before = self._spent()
        count = getattr(self._load, method)(times)
        return (self._spent() - before) / float(count)

    def _spent(self) -> int:
        pid = self._process.pid
        if self._counter == "cpu":
            # CPUCLOCK_SCHED of the process, see clock_getres(2)
            return time.clock_gettime_ns((~pid << 3) | 2)
        return callgrind_count(self._vgdb("status", "internal"))

    def _vgdb(self, *command: str) -> str:
        argv = ["vgdb", f"--pid={self._process.pid}", *command]
        ran = subprocess.run(argv, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise CountError(f"{' '.join(argv)}: {ran.stderr.strip()}")
        return ran.stdout

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._folder.cleanup()

    def close(self) -> None:
        """Ends it."""
        self._load.close()
        self._end()


class PerfStat:
    """Counts instructions of a process for the duration of the block.

    Attributes:
        count: of them, after the block.

    Args:
        pid: the process.
        event: of perf, that is counted.
    """

    def __init__(self, pid: int, event: str = PERF_EVENT) -> None:
        self.count = 0
        self._argv: Sequence[str] = [*_PERF, event, "-p", str(pid), "-D", "-1"]

    def __enter__(self) -> Self:
        for_perf, self._control = os.pipe()
        self._answers, of_perf = os.pipe()
        self._perf = subprocess.Popen(
            [*self._argv, f"--control=fd:{for_perf},{of_perf}"],
            pass_fds=(for_perf, of_perf),
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(for_perf)
        os.close(of_perf)
        self._ask("enable")
        return self

    def __exit__(self, *_error: object) -> None:
        self._ask("disable")
        self._perf.send_signal(signal.SIGINT)
        _, output = self._perf.communicate()
        os.close(self._control)
        os.close(self._answers)
        count = perf_count(output)
        if count is None:
            raise CountError(f"perf counted nothing: {output.strip()}")
        self.count = count

    def _ask(self, command: str) -> None:
        os.write(self._control, f"{command}\n".encode())
        if not os.read(self._answers, 16):
            _, output = self._perf.communicate()
            raise CountError(f"perf ended: {output.strip()}")
