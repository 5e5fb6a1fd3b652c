"""The worker's side of the protocol between a scene and a transactional program.

As in `lines.py`, a command is a line with a verb and words `key=value`, and an event is
a JSON object.

Commands:
    transform bootstrap= topic= out= group= client= abort= session= heartbeat=
        become a member of the group and copy records from `topic` to `out`, a batch per
        transaction, which commits the batch's offsets as well; every `abort`-th
        transaction is aborted after its records are acknowledged, and its records are
        copied again. The transactional id begins with the client id, or with the group
        if there is one for each partition
    fence bootstrap= out= client=
        two producers have the same transactional id, the client id. The first sends a
        record with the key `fenced` in a transaction; the second starts; the first
        tries to commit; the second commits a record with the key `fencing`
    read bootstrap= out= partitions=
        read `out` from the beginning with isolation.level=read_committed, in each
        partition up to the record with the key `end`
    leave
        close the program, report `left`, and be ready for the next `transform`
    close
        close the library properly, report `closed`, exit 0
    The end of stdin means: exit at once.

Events, beside `ready`, `consumed` (the records of a transaction that begins; those of a
reader), `note`, `left`, `closed` and `error`:
    {"event": "ended", "is_commit": bool, "records": n}
        a transaction has ended; one that the library made the worker abort is a `note`
    {"event": "fenced", "text": ...}
        the error of the first producer's commit
    {"event": "read"}
        the reader has all records
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tests.interop.workers.lines import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# Records per transaction: few, so that there are some transactions in each generation.
BATCH = 10
POLL_S = 0.1
END = "end"


@dataclass(frozen=True, slots=True)
class Transform:
    """The settings of a program that transforms; times in milliseconds."""

    bootstrap: str
    topic: str
    out: str
    group: str
    client: str
    abort: int
    session_ms: int
    heartbeat_ms: int

    def settings(self) -> dict[str, object]:
        """Arguments of a consumer, for libraries with kafka-python's names."""
        return {
            "bootstrap_servers": self.bootstrap,
            "group_id": self.group,
            "client_id": self.client,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            "session_timeout_ms": self.session_ms,
            "heartbeat_interval_ms": self.heartbeat_ms,
        }


class Program(Protocol):
    """A member that transforms."""

    def step(self) -> None:
        """One poll of at most about POLL_S seconds, and its transaction."""

    def close(self) -> None:
        """Leaves the group and closes the producer."""


Row = tuple[int, int, str, str]
"""Partition, offset, key, value."""


class Turns:
    """Counts transactions, reports their records, and says which ones to abort."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._begun = 0

    def begin(self, records: list[Row]) -> bool:
        """A transaction of these records begins; True means to abort it."""
        say("consumed", records=records)
        self._begun += 1
        return self._begun % self._every == 0


def rows_of(records: Iterable[Any]) -> list[Row]:
    """Records of a library with kafka-python's names."""
    return [
        (each.partition, each.offset, each.key.decode(), each.value.decode())
        for each in records
    ]


def say_ended(*, is_commit: bool, records: int) -> None:
    """Reports the end of a transaction."""
    say("ended", is_commit=is_commit, records=records)


def report(batches: Iterator[list[Row]], partitions: int) -> None:
    """Reports a reader's records until each partition has had its last one."""
    ended: set[int] = set()
    while len(ended) < partitions:
        rows = next(batches)
        if rows:
            say("consumed", records=[row for row in rows if row[2] != END])
        ended |= {row[0] for row in rows if row[2] == END}
    say("read")


def _read_stdin(commands: queue.SimpleQueue[list[str]]) -> None:
    for line in sys.stdin:
        commands.put(line.split())
    os._exit(3)  # the scene is gone


def serve(
    transform: Callable[[Transform], Program],
    fence: Callable[[str, str, str], str],
    read: Callable[[str, str, int], Iterator[list[Row]]],
) -> None:
    """Handles commands until `close`.

    `fence` gets the bootstrap addresses, the topic and the transactional id, and
    returns the error of the first producer. `read` gets addresses, topic and the number
    of partitions.
    """
    commands: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
    threading.Thread(target=_read_stdin, args=(commands,), daemon=True).start()
    program: Program | None = None
    say("ready")
    while True:
        if program is not None and commands.empty():
            program.step()
            continue
        verb, *pairs = commands.get()
        words = dict(pair.split("=", 1) for pair in pairs)
        if verb == "transform":
            program = transform(_transform(words))
        elif verb == "fence":
            say("fenced", text=fence(words["bootstrap"], words["out"], words["client"]))
        elif verb == "read":
            partitions = int(words["partitions"])
            report(read(words["bootstrap"], words["out"], partitions), partitions)
        elif verb == "leave" and program is not None:
            program.close()
            program = None
            say("left")
        elif verb == "close":
            if program is not None:
                program.close()
            say("closed")
            return
        else:
            say("error", text=f"no such command: {verb}")
            return


def _transform(words: dict[str, str]) -> Transform:
    return Transform(
        words["bootstrap"],
        words["topic"],
        words["out"],
        words["group"],
        words["client"],
        int(words["abort"]),
        int(words["session"]),
        int(words["heartbeat"]),
    )
