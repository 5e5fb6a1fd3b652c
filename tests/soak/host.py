"""The broker of a soak, in a separate process that reports its memory and objects.

    python -m tests.soak.host FOLDER NODES

Lines of JSON on stdin are commands, each answered by a line: `look`, `stop` and `start`
(a node), `move` (the coordinator of a group). The end of stdin stops it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import uvloop

from kohort.broker.server import Broker

CONFIG = {
    "group.initial.rebalance.delay.ms": 0,
    # Small, so that logs roll and are cleaned meanwhile.
    "log.segment.bytes": 1 << 20,
    "offsets.topic.segment.bytes": 1 << 20,
    "log.cleaner.backoff.ms": 1_000,
}


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


def _timers() -> Counter[str]:
    """Pending timers of the loop."""
    handles = [
        each for each in gc.get_objects() if type(each).__name__ == "TimerHandle"
    ]
    return Counter(
        repr(each).partition(" at ")[0] for each in handles if not each.cancelled()
    )


def _objects() -> Counter[str]:
    """Objects of kohort's classes."""
    types = (type(each) for each in gc.get_objects())
    return Counter(
        f"{str(each.__module__).removeprefix('kohort.')}.{each.__qualname__}"
        for each in types
        if str(each.__module__).startswith("kohort.")
    )


def _look(broker: Broker) -> dict[str, Any]:
    gc.collect()
    tasks = Counter(
        getattr(task.get_coro(), "__qualname__", "?") for task in asyncio.all_tasks()
    )
    return {
        "memory_mb": _memory_mb(),
        "tasks": tasks,
        "timers": _timers(),
        "descriptors": _descriptors(),
        "connections": len(broker.connections),
        "objects": _objects(),
    }


async def _obey(broker: Broker, command: dict[str, Any]) -> object:
    match command:
        case {"stop": int(node)}:
            await broker.stop_node(node)
        case {"start": int(node)}:
            await broker.start_node(node)
        case {"move": str(group), "to": int(node)}:
            broker.move_coordinator(group, node)
        case {"look": _}:
            return _look(broker)
        case _:
            raise ValueError(command)
    return None


def _say(message: object) -> None:
    print(json.dumps(message), flush=True)


async def _main(folder: str, nodes: int) -> None:
    loop = asyncio.get_running_loop()
    async with Broker(CONFIG, nodes=nodes, data_dir=folder) as broker:
        await broker.wait_until_loaded()
        _say({"bootstrap": broker.bootstrap_servers, "nodes": [*broker.cluster.nodes]})
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            _say(await _obey(broker, json.loads(line)))


if __name__ == "__main__":
    uvloop.run(_main(sys.argv[1], int(sys.argv[2])))
