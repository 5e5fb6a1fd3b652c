"""The worker's side of the conversation between a scene and one client library.

A worker is a process that knows one library. It reads commands from its stdin, one
per line, a verb and words `key=value`; it writes events to its stdout, one JSON object
per line.

Commands:
    join bootstrap= topic= group= client= assignor= session= heartbeat= [instance=]
            [poll=]
        become a member, consume, and commit after every batch; times in milliseconds;
        poll is max.poll.interval.ms (confluent-kafka and kafka-clients only)
    produce bootstrap= topic= first= count=
        send records first .. first+count-1: key `key-N`, value `value-N`, placed by the
        library's own partitioner
    tell
        say what the library itself thinks it owns, in an `owns` event
    stall
        say `stalled` with the next batch in hand, and go on to commit it when the next
        line comes (Python and Java only). A library that works on an event loop of ours
        has a blocked loop meanwhile
    close
        close the library properly, say `closed`, exit 0
    The end of stdin means: exit at once.

Events, each with "at_ns", the time since the epoch (Python and Java only):
    {"event": "ready"}
        the library is loaded, commands are read
    {"event": "owns", "why": WHY, "partitions": [...], "generation": n | null}
        the whole present assignment; WHY is assigned, revoked, lost or told
    {"event": "leads", "generation": n}
        the member leads that generation: it has made the assignment, or the answer to
        its JoinGroup says so (kohort, confluent-kafka and kafka-clients only)
    {"event": "consumed", "records": [[partition, offset, key, value], ...]}
        a key that is null is ""
    {"event": "committed", "offsets": [[partition, offset], ...]}
    {"event": "produced", "count": n}
        all of them are acknowledged
    {"event": "note", "text": ...}
        for the history that a failed scene prints
    {"event": "stalled"}
    {"event": "closed"}
    {"event": "error", "text": ...}
        the worker cannot go on
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Records per poll: few, so that a rebalance finds members in the middle of their work.
BATCH = 50
# How long a poll waits for records, and so how late a command is read.
POLL_S = 0.1
PRODUCE_S = 60.0

Record = tuple[int, int, str, str]  # partition, offset, key, value


def say(event: str, **fields: object) -> None:
    """Write one event, in one write: callbacks on other threads must not mix lines."""
    said = {"event": event, "at_ns": time.time_ns(), **fields}
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


# What is consumed and not committed yet. A commit that a rebalance refused is repeated
# for the partitions that stay: no later record might come and commit them along.
_pending: dict[int, int] = {}


def say_owns(why: str, partitions: Iterable[int], generation: int | None) -> None:
    """Report the whole present assignment, and what made it so."""
    owned = sorted(partitions)
    for gone in set(_pending).difference(owned):
        del _pending[gone]
    say("owns", why=why, partitions=owned, generation=generation)


def say_leads(generation: int) -> None:
    """Report that this member leads a generation."""
    say("leads", generation=generation)


@dataclass(frozen=True, slots=True)
class Join:
    """What a member is to be; times in milliseconds."""

    bootstrap: str
    topic: str
    group: str
    client: str
    assignor: str
    session_ms: int
    heartbeat_ms: int
    instance: str | None
    poll_ms: int | None

    def settings(self, assignor: object) -> dict[str, Any]:
        """Arguments of a consumer of the libraries that name them as kafka-python."""
        return {
            "bootstrap_servers": self.bootstrap,
            "group_id": self.group,
            "client_id": self.client,
            "group_instance_id": self.instance,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": self.session_ms,
            "heartbeat_interval_ms": self.heartbeat_ms,
            "partition_assignment_strategy": [assignor],
        }


@dataclass(frozen=True, slots=True)
class Produce:
    """Which records to send: `first` .. `first + count - 1`."""

    bootstrap: str
    topic: str
    first: int
    count: int

    def records(self) -> Iterable[tuple[bytes, bytes]]:
        """Keys and values, in order."""
        for number in range(self.first, self.first + self.count):
            yield b"key-%d" % number, b"value-%d" % number


class Member(Protocol):
    """One consumer of some library."""

    def poll(self) -> list[Record]:
        """Up to BATCH records, after at most about POLL_S seconds."""

    def commit(self, offsets: dict[int, int]) -> str | None:
        """Commit by partition and wait for the answer; what was wrong, if anything.

        A rebalance may always come between, so a commit that fails is no error.
        """

    def owns(self) -> list[int]:
        """The partitions that the library says are assigned to it."""

    def generation(self) -> int | None:
        """The generation that the library holds, None if it has none at the moment."""

    def close(self) -> None:
        """Leave, as an application does that shuts down."""


def _read_stdin(commands: queue.SimpleQueue[list[str]]) -> None:
    for line in sys.stdin:
        commands.put(line.split())
    # The scene is gone: nobody is left to close politely for.
    os._exit(3)


def _words(command: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in command[1:])


def _join(words: dict[str, str]) -> Join:
    return Join(
        words["bootstrap"],
        words["topic"],
        words["group"],
        words["client"],
        words["assignor"],
        int(words["session"]),
        int(words["heartbeat"]),
        words.get("instance"),
        int(words["poll"]) if "poll" in words else None,
    )


def _consume(member: Member, records: list[Record]) -> None:
    if records:
        say("consumed", records=records)
    for partition, offset, _key, _value in records:
        _pending[partition] = max(_pending.get(partition, 0), offset + 1)
    if not _pending:
        return
    offsets = dict(_pending)
    wrong = member.commit(offsets)
    if wrong is not None:
        say("note", text=f"commit failed: {wrong}")
        return
    _pending.clear()
    say("committed", offsets=sorted(offsets.items()))


def serve(join: Callable[[Join], Member], produce: Callable[[Produce], None]) -> None:
    """Answer commands until `close`."""
    commands: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
    threading.Thread(target=_read_stdin, args=(commands,), daemon=True).start()
    member: Member | None = None
    say("ready")
    while True:
        if member is not None and commands.empty():
            _consume(member, member.poll())
            continue
        command = commands.get()
        if command[0] == "join":
            member = join(_join(_words(command)))
        elif command[0] == "produce":
            words = _words(command)
            wanted = Produce(
                words["bootstrap"],
                words["topic"],
                int(words["first"]),
                int(words["count"]),
            )
            produce(wanted)
            say("produced", count=wanted.count)
        elif command[0] == "tell" and member is not None:
            say_owns("told", member.owns(), member.generation())
        elif command[0] == "stall" and member is not None:
            while not (records := member.poll()):
                pass
            say("stalled")
            commands.get()
            _consume(member, records)
        elif command[0] == "close":
            if member is not None:
                member.close()
            say("closed")
            return
        else:
            say("error", text=f"no such command: {command}")
            return
