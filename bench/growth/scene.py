"""A broker in a separate process, whose CPU time is read, and the rows of the table."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from bench.group_load import Connection, frame_of, message_of
from tests.long_runs.broker_process import BrokerProcess

from kohort.protocol.errors import ErrorCode

Measure = Callable[[], float]
"""Does some operations; returns the broker's CPU time per operation, in us.

For the rows of memory: returns kB per member.
"""


class Row(NamedTuple):
    """An operation whose cost may not grow with the size of something.

    Attributes:
        name: the operation, and the size that grows.
        unit: of the cost: CPU time of the broker "per" this.
        sizes: the smallest first.
        quick: the sizes for `--quick`.
        bound: the most that the cost of the largest size may be, in the least cost of
            the others.
        reason: for the bound.
        scene: prepares a size, and measures each time that it is called.
    """

    name: str
    unit: str
    sizes: Sequence[int]
    quick: Sequence[int]
    bound: float
    reason: str
    scene: Callable[[int], AbstractContextManager[Measure]]


class Broker:
    """A broker that runs.

    Args:
        served: its process.
    """

    def __init__(self, served: BrokerProcess) -> None:
        self.served = served
        self._clock = (~served.pid << 3) | 2  # CPUCLOCK_SCHED, see clock_getres(2)

    @property
    def address(self) -> tuple[str, int]:
        """The address on which it listens."""
        return "127.0.0.1", self.served.ports[0]

    def cpu_us(self) -> float:
        """The CPU time that it has taken, of all threads."""
        return time.clock_gettime_ns(self._clock) / 1000

    def user_us(self) -> float:
        """The CPU time in user mode, to 10 ms: without the system's work on files."""
        stat = Path(f"/proc/{self.served.pid}/stat").read_text()
        ticks = int(stat.rpartition(")")[2].split()[11])
        return ticks * 1_000_000 / os.sysconf("SC_CLK_TCK")

    def memory_kb(self) -> int:
        """The memory that it has in use."""
        status = Path(f"/proc/{self.served.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])

    def ask(self, connection: Connection, name: str, message: object) -> object:
        """Sends a request, and returns the response."""
        connection.send(frame_of(name, message))
        return message_of(name, connection.receive())


@contextlib.contextmanager
def running(folder: Path, *settings: str, data: bool = False) -> Iterator[Broker]:
    """A broker, until the end of the block.

    Args:
        folder: for its log and its data directory.
        settings: each `KEY=VALUE`.
        data: whether it has a data directory.
    """
    arguments = ["--set", "group.initial.rebalance.delay.ms=0", "--log-level=warning"]
    for setting in settings:
        arguments += ["--set", setting]
    if data:
        arguments.append(f"--data-dir={folder / 'data'}")
    served = BrokerProcess(folder, 1, arguments)
    served.start()
    try:
        served.until_ready()
        yield Broker(served)
    finally:
        served.close()


@contextlib.contextmanager
def fresh(*settings: str, data: bool = False) -> Iterator[Broker]:
    """Like `running`, in a folder that is deleted."""
    with (
        tempfile.TemporaryDirectory(prefix="kohort-growth-") as name,
        running(Path(name), *settings, data=data) as broker,
    ):
        yield broker


def must_be(found: int, wanted: ErrorCode = ErrorCode.NONE) -> None:
    """Raises an error unless the broker has answered with this code.

    Raises:
        RuntimeError: it has not.
    """
    if found != wanted:
        raise RuntimeError(f"error {found}, not {wanted}")
