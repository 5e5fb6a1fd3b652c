"""`kohort` that writes down its memory and objects after SIGUSR1.

    python host.py FOLDER serve ...

Each look is a file of JSON: `look-0`, `look-1`, ... The broker remembers few events, so
that it has as many of them after the warm-up as at the end.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from kohort.broker.events.bus import Events
from kohort.broker.server import Broker
from kohort.control.cli import main

LOOK = signal.SIGUSR1
REMEMBERED = 500


def _memory_mb() -> float:
    status = Path("/proc/self/status").read_text()
    (line,) = [each for each in status.splitlines() if each.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


def _descriptors() -> Counter[str]:
    """Open file descriptors by kind: sockets, files and others."""
    found: Counter[str] = Counter()
    for each in Path("/proc/self/fd").iterdir():
        try:
            target = str(each.readlink())
        except OSError:
            continue  # the one that lists them
        kind = "file" if target.startswith("/") else target.partition(":")[0]
        found[kind] += 1
    return found


def _timers(objects: list[Any]) -> Counter[str]:
    """Pending timers of the loop."""
    handles = [each for each in objects if type(each).__name__ == "TimerHandle"]
    return Counter(
        repr(each).partition(" at ")[0] for each in handles if not each.cancelled()
    )


def _objects(objects: list[Any]) -> Counter[str]:
    """Objects of kohort's classes."""
    types = (type(each) for each in objects)
    return Counter(
        f"{str(each.__module__).removeprefix('kohort.')}.{each.__qualname__}"
        for each in types
        if str(each.__module__).startswith("kohort.")
    )


def look() -> dict[str, Any]:
    """Looks into this process."""
    gc.unfreeze()  # what was there at the start, too
    gc.collect()
    objects = gc.get_objects()
    (broker,) = [each for each in objects if type(each) is Broker]
    tasks = Counter(
        getattr(task.get_coro(), "__qualname__", "?") for task in asyncio.all_tasks()
    )
    return {
        "memory_mb": _memory_mb(),
        "tasks": tasks,
        "timers": _timers(objects),
        "descriptors": _descriptors(),
        "connections": len(broker.connections),
        "objects": _objects(objects),
    }


def obey_signals(folder: Path) -> None:
    """Makes the process write a look after each signal."""
    numbers = itertools.count()

    def write(*_: object) -> None:
        path = folder / f"look-{next(numbers)}"
        half = path.with_suffix(".half")
        half.write_text(json.dumps(look()))
        half.rename(path)  # so that nobody reads a part of it

    signal.signal(LOOK, write)


if __name__ == "__main__":
    assert Events.__init__.__kwdefaults__ is not None
    Events.__init__.__kwdefaults__["remembered"] = REMEMBERED
    obey_signals(Path(sys.argv.pop(1)))
    main()
