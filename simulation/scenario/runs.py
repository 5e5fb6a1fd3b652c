"""Runs of scenarios: one after the other, or on all cores, with their files.

A `Task` is a scenario and some seeds, in values that can be sent to another process or
machine. Each run of it is played with its seed alone, so the measures do not depend on
where it is played, nor on what is played beside it.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from kohort.broker import telemetry
from kohort.broker.dispatch import ROUTES
from kohort.broker.events.seen import Seen
from kohort.broker.events.views.reading import json_of
from kohort.broker.faults.connection import FAULTY_ROUTES
from kohort.simulation.scenario.measures import Measures
from kohort.simulation.scenario.model import Scenario, parse
from kohort.simulation.scenario.play import Play, labels_of

LOOK_S: Final = 0.2
"""How often the progress of other processes is read."""

Listener = Callable[[bytes], object]
"""Takes an event, as a line of JSON."""


class Task(NamedTuple):
    """Runs that are played together, one after the other.

    Attributes:
        name, values, changes: of the `Scenario`.
        seeds: a run for each.
        out: folder for the events and the measures of each run; None: none.
        lake: the pipeline's lake, on this machine, that gets the events; None: none.
    """

    name: str
    values: Mapping[str, Any]
    changes: Mapping[str, str]
    seeds: Sequence[int]
    out: str | None = None
    lake: str | None = None

    @property
    def scenario(self) -> Scenario:
        """The scenario."""
        return parse(self.name, self.values, self.changes)


def task_of(
    scenario: Scenario,
    seeds: Sequence[int],
    out: Path | None = None,
    lake: Path | None = None,
) -> Task:
    """The runs of a scenario with some seeds."""
    folders = (None if path is None else str(path) for path in (out, lake))
    return Task(scenario.name, scenario.values, scenario.changes, [*seeds], *folders)


def has_parquet() -> bool:
    """Returns whether events can be written as Parquet."""
    return importlib.util.find_spec("pyarrow") is not None


def play_all(
    tasks: Sequence[Task],
    processes: int = 0,
    progress: Callable[[float], object] = lambda _: None,
) -> Iterator[tuple[int, list[Measures]]]:
    """Plays tasks, several at a time.

    Args:
        tasks: the tasks.
        processes: their number; 0: one per core.
        progress: called with the virtual seconds that have passed since the last call.

    Yields:
        Numbers of tasks, from 0, and their measures, as they are done.

    Raises:
        ScenarioError: a scenario has a mistake.
        SimulationError: a simulation failed.
        OSError: a file cannot be written.
    """
    processes = min(processes or _cores(), len(tasks))
    if processes > 1:
        yield from _in_processes(tasks, processes, progress)
        return
    for number, task in enumerate(tasks):
        yield number, play(task, progress)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# -- one task


def play(task: Task, progress: Callable[[float], object]) -> list[Measures]:
    """Plays all runs of a task, and writes their files."""
    scenario, found = task.scenario, []
    for seed in task.seeds:
        with quiet(), ExitStack() as stack:
            writers = [*_writers(task, scenario, seed, stack)]

            def listen(line: bytes, to: Sequence[Listener] = writers) -> None:
                for write in to:
                    write(line)

            run, done = begun(scenario, seed, listen if writers else None), 0.0
            for elapsed in run.steps():
                progress(elapsed - done)
                done = elapsed
            found.append(run.measures())
            del run
            forget()
        if task.out is not None:
            document = {"scenario": scenario.name, "seed": seed}
            document |= found[-1].as_json()
            path = _path(task.out, scenario, seed, ".json")
            path.write_text(json.dumps(document, indent=2) + "\n")
    return found


def begun(scenario: Scenario, seed: int, listener: Listener | None) -> Play:
    """A run, whose events go to a listener as lines of JSON."""

    def listen(seen: Seen) -> None:
        assert listener is not None
        listener(json_of(seen.event) + b"\n")

    return Play(scenario, seed, None if listener is None else listen)


def forget() -> None:
    """Frees the memory of a run that is over.

    The broker keeps decoders of commits for all its clusters, and what they look up.
    """
    for routes in (ROUTES, FAULTY_ROUTES):
        routes.clear()
    gc.collect()


def _writers(
    task: Task, scenario: Scenario, seed: int, stack: ExitStack
) -> Iterator[Listener]:
    if task.out is not None:
        path = _path(task.out, scenario, seed, ".jsonl")
        yield stack.enter_context(replacing(path)).write
    if task.lake is not None:
        from kohort.simulation.scenario.bronze import FOLDER, BronzeFile

        folder = Path(task.lake, FOLDER, scenario.digest(()))
        path = folder / f"{scenario.name}-{seed}.parquet"
        yield stack.enter_context(BronzeFile(path, labels_of(scenario, seed))).add


def _path(out: str, scenario: Scenario, seed: int, suffix: str) -> Path:
    return Path(out, f"{scenario.name}-{seed}{suffix}")


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears at its end, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def quiet() -> Iterator[None]:
    """Logs nothing: lost connections and refused members are what is simulated."""
    clients, level = logging.getLogger("kohort"), telemetry.level()
    before = clients.level
    clients.setLevel(logging.CRITICAL)
    telemetry.set_level(None, "critical")
    try:
        yield
    finally:
        clients.setLevel(before)
        telemetry.set_level(None, level)


# -- in other processes

_shared: dict[str, Any] = {}
"""The queue of progress, and the event of an early end, in each of the processes."""


def _in_processes(
    tasks: Sequence[Task], processes: int, progress: Callable[[float], object]
) -> Iterator[tuple[int, list[Measures]]]:
    context = multiprocessing.get_context("spawn")
    queue, stopping = context.SimpleQueue(), context.Event()
    pool = ProcessPoolExecutor(
        processes, mp_context=context, initializer=_begin, initargs=(queue, stopping)
    )
    with pool:
        futures: dict[Future[list[Measures]], int] = {
            pool.submit(_play_there, task): number for number, task in enumerate(tasks)
        }
        waiting = {*futures}
        try:
            while waiting:
                done, waiting = wait(waiting, LOOK_S, "FIRST_COMPLETED")
                while not queue.empty():
                    progress(queue.get())
                yield from ((futures[each], each.result()) for each in done)
        finally:
            stopping.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _begin(queue: Any, stopping: Any) -> None:
    """Begins a process: it ends by Ctrl-C, without a word, and with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _shared.update(queue=queue, stopping=stopping)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _play_there(task: Task) -> list[Measures]:
    def report(seconds: float) -> None:
        if _shared["stopping"].is_set():
            raise InterruptedError
        _shared["queue"].put(seconds)

    return play(task, report)
