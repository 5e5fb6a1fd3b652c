"""Kills the whole stream job repeatedly while events keep coming.

    python -m tests.pipeline.kills --kills 10

Each job is a process group: Python and its Java. It is killed at one of `MOMENTS`,
which new files indicate, and started again. At the end a last job reads the rest; exits
1 unless each event of the broker is in bronze exactly once.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.pipeline.broker_thread import Serving, serving
from tests.pipeline.test_stream import once, told, without_nulls

from kohort.pipeline import bronze, session
from kohort.pipeline.lake import Lake

ROOT = Path(__file__).parents[2]
PATIENCE_S = 300.0
LOOK_S = 0.0005
"""Between two looks at the folders; the phases last for tens of milliseconds."""
COMMITS = 10
"""Events in one go, of those that keep coming."""
PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Seen:
    """The files of a stream in a lake: names by kind."""

    planned: frozenset[str]
    committed: frozenset[str]
    staged: frozenset[str]
    stored: frozenset[str]


def look(lake: Path) -> Seen:
    """The current files."""
    checkpoints = lake / "checkpoints"
    (checkpoint,) = _names(checkpoints) or ("none",)
    return Seen(
        _numbers(checkpoints / checkpoint / "offsets"),
        _numbers(checkpoints / checkpoint / "commits"),
        _names(lake / "bronze/new"),
        _names(lake / "bronze/events"),
    )


def _names(folder: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))  # noqa: PTH208 - a thousand times a second
    except FileNotFoundError:
        return frozenset()


def _numbers(folder: Path) -> frozenset[str]:
    return frozenset(name for name in _names(folder) if name.isdigit())


Reached = Callable[[Seen, Seen], bool]
"""Decides from the files at the job's start and now if the moment has come."""

MOMENTS: dict[str, Reached] = {
    "a batch is planned": lambda was, now: len(now.planned - was.planned) > 0,
    "it is being written": lambda was, now: bool(now.staged - was.staged),
    "it counts, and the stream has not committed": lambda was, now: (
        now.stored > was.stored and bool(now.planned - now.committed)
    ),
    "the stream has committed": lambda was, now: now.committed > was.committed,
    "the second batch is planned": lambda was, now: (
        len(now.committed - was.committed) >= 1
        and len(now.planned - now.committed) >= 1
    ),
    "several batches are done": lambda was, now: (
        len(now.committed - was.committed) >= 4
    ),
}


def start(*arguments: str) -> subprocess.Popen[bytes]:
    """Starts a job in its own process group, which gets ready and waits for `go`."""
    command = [sys.executable, "-m", "tests.pipeline.killable_job", *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, start_new_session=True, stdin=subprocess.PIPE
    )


def go(process: subprocess.Popen[bytes]) -> None:
    """Waits until a job is ready, and starts it."""
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    process.stdin.flush()


def kill(process: subprocess.Popen[bytes]) -> None:
    """Ends the whole group at once, as the machine's end would."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with process:
        process.wait()


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for each in threads for child in each.read_text().split()]


def until(process: subprocess.Popen[bytes], is_here: Callable[[], bool]) -> None:
    """Waits for a moment of a job that is alive."""
    give_up = time.monotonic() + PATIENCE_S
    while not is_here():
        if process.poll() is not None:
            raise AssertionError(f"the job has ended by itself: {process.returncode}")
        if time.monotonic() > give_up:
            raise AssertionError(f"nothing came in {PATIENCE_S} s")
        time.sleep(LOOK_S)


@contextmanager
def coming(served: Serving) -> Iterator[None]:
    """Causes events until the end of the block."""
    stop = threading.Event()

    def commit() -> None:
        while not stop.wait(PAUSE_S):
            served.commit(COMMITS)

    thread = threading.Thread(target=commit)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def killed(lake: Path, process: subprocess.Popen[bytes], moment: str) -> float:
    """Lets a job go, and kills it at that moment; how long it took, in seconds."""
    began = time.monotonic()
    was = look(lake)
    go(process)
    until(process, lambda: MOMENTS[moment](was, look(lake)))
    kill(process)
    return time.monotonic() - began


def wrong(lake: Lake, served: Serving) -> list[str]:
    """The differences from the broker's events, one sentence each."""
    once(lake, served)
    expected = without_nulls(served.events())
    found = told(bronze.events(lake))
    rows = bronze.events(lake).select("sequence").collect()
    copies = Counter(row["sequence"] for row in rows)
    says = [f"{number} is there {n} times" for number, n in copies.items() if n > 1]
    numbers = {each["sequence"] for each in found}
    says += [
        f"{each['sequence']} is missing, or another"
        for each, got in itertools.zip_longest(expected, found)
        if each is None or each != got
    ][:20]
    if len(numbers) != len(found) or len(found) != len(expected):
        says.append(f"{len(found)} events, of {len(expected)}")
    if bronze.quarantine(lake).count():
        says.append("something is in quarantine")
    return says


def run(kills: int, folder: Path) -> list[str]:
    """Kills the job this many times; returns the differences at the end."""
    where = folder / "lake"
    with serving() as served, ExitStack() as started:

        def ready() -> subprocess.Popen[bytes]:
            process = start("stream", str(where), served.address)
            started.callback(kill, process)
            return process

        spare = ready()
        with coming(served):
            for number in range(kills):
                moment = [*MOMENTS][number % len(MOMENTS)]
                process, spare = spare, ready()
                took = killed(where, process, moment)
                now = look(where)
                print(
                    f"kill {number + 1}, {took:.1f} s: {moment}; batches planned"
                    f" {len(now.planned)}, committed {len(now.committed)}",
                    flush=True,
                )
        kill(spare)
        served.written()
        spark = session.session("local[2]", connector=True, driver_memory="1g")
        try:
            found = wrong(Lake(spark, where), served)
        finally:
            session.stop(spark)
        print(f"events: {len(served.seen)}; wrong: {len(found)}")
    return found


def main() -> int:
    """Runs it and prints the differences."""
    parser = argparse.ArgumentParser(prog="python -m tests.pipeline.kills")
    parser.add_argument("--kills", type=int, default=len(MOMENTS))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kohort-kills-") as folder:
        found = run(asked.kills, Path(folder))
    for each in found:
        print(f"  {each}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
