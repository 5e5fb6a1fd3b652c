"""Measures a program and all its children: CPU, memory, room on the disk. Linux.

A Java process that a program starts is not always waited for, so `RUSAGE_CHILDREN`
would miss it: /proc is read, five times a second.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

EVERY_S: Final = 0.2
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of a program.

    Attributes:
        name: as it said itself.
        wall_s: how long it took.
        cpu_s: CPU of all processes, user and system.
        memory: peak of the resident sets, together, in bytes.
        disk: peak of the scratch folder, in bytes.
    """

    name: str
    wall_s: float
    cpu_s: float
    memory: int
    disk: int


class _Watch(threading.Thread):
    """Measures again and again until `stop`."""

    def __init__(self, pid: int, scratch: Path) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._scratch = scratch
        self._cpu: dict[tuple[int, int], float] = {}
        self._lock = threading.Lock()
        self.memory = self.disk = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(EVERY_S):
            self.look()

    def look(self) -> float:
        """Looks once.

        Returns:
            CPU seconds of all processes so far, also of those that have ended.
        """
        with self._lock:
            memory = 0
            for pid, born, cpu, resident in _tree(self._pid):
                self._cpu[pid, born] = cpu
                memory += resident
            self.memory = max(self.memory, memory)
            self.disk = max(self.disk, _size(self._scratch))
            return sum(self._cpu.values())

    def forget_peaks(self) -> None:
        """Resets the peaks for the next phase."""
        with self._lock:
            self.memory = self.disk = 0


def _tree(root: int) -> Iterator[tuple[int, int, float, int]]:
    """(pid, birth, CPU seconds, resident bytes) of a process and of all below it.

    A child that was just forked shares its parent's memory until it becomes another
    program; that memory is counted once.
    """
    found: dict[int, tuple[int, int, float, int]] = {}
    sizes: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            # The name, in brackets, may have blanks in it.
            fields = text.rpartition(")")[2].split()
            pid, parent = int(entry.name), int(fields[1])
            cpu = (int(fields[11]) + int(fields[12])) / _TICKS
            found[pid] = (pid, int(fields[19]), cpu, int(fields[21]) * _PAGE)
            sizes[pid] = int(fields[20])
            children.setdefault(parent, []).append(pid)
    left = [(root, 0)]
    while left:
        pid, parent = left.pop()
        if pid in found:
            born, cpu, resident = found[pid][1:]
            is_same = sizes[pid] == sizes.get(parent)
            yield pid, born, cpu, 0 if is_same else resident
        left += [(child, pid) for child in children.get(pid, [])]


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_blocks * 512
        except OSError:
            continue
    return total


def watched(module: str, arguments: Sequence[str], scratch: Path) -> list[Phase]:
    """Runs a program of ours, and watches it.

    Args:
        module: its name. A line ``ended NAME`` of its output ends a phase; other lines
            are printed.
        arguments: of it.
        scratch: the folder for its data that does not fit in memory.

    Returns:
        Its phases, from its start to its last ``ended`` line.

    Raises:
        RuntimeError: it failed.
    """
    command = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    watch = _Watch(process.pid, scratch)
    watch.start()
    phases: list[Phase] = []
    since, before = time.monotonic(), 0.0
    for line in process.stdout or ():
        if not line.startswith("ended "):
            print(line, end="", flush=True)
            continue
        cpu, now = watch.look(), time.monotonic()
        name = line.removeprefix("ended ").strip()
        taken = Phase(name, now - since, cpu - before, watch.memory, watch.disk)
        print(
            f"  {name}: {taken.wall_s:.1f} s, {taken.cpu_s:.1f} s CPU,"
            f" {taken.memory / 1e9:.1f} GB",
            flush=True,
        )
        phases.append(taken)
        since, before = now, cpu
        watch.forget_peaks()
    watch.ended.set()
    if process.wait():
        raise RuntimeError(f"{module} failed")
    return phases
