"""The worker's side of the protocol between a scene and one client library.

A worker is a process that knows one library. It reads commands from its stdin, one per
line, a verb and words `key=value`; it writes events to its stdout, one JSON object per
line.

Commands:
    join bootstrap= topic= group= client= assignor= session= heartbeat= [instance=]
            [poll=] [request=] [plain=1] [service=] [reset=]
        become a member, consume, and commit after every batch; times in milliseconds;
        poll is max.poll.interval.ms, or the rebalance timeout if the library has that
        instead; request is the time that a request may take; plain: without the
        worker's own workarounds for defects of the library; reset is
        auto.offset.reset, by default `earliest`; service is one of
            after     commits each batch after it has handled it (the default)
            before    commits each batch, and only then handles it
            late      commits after each 7th record, and at no other time
            released  commits when partitions are revoked, and when it closes
            never     commits nothing
            auto      the library's auto-commit
    produce bootstrap= topic= first= count= [request=]
        send records first .. first+count-1: key `key-N`, value `value-N`, placed by the
        library's own partitioner; delivery takes at most four times `request`
        (confluent-kafka and kafka-clients only)
    tell
        report the library's own assignment, in an `owns` event
    stall
        report `stalled` with a batch in hand, and commit it when the next line
        comes (Python and Java only). A library that works on an event loop of ours
        has a blocked loop meanwhile
    seek partition= offset=
        go on from there
    leave
        close the consumer properly, report `left`, and be ready for the next `join`
    close
        close the library properly, report `closed`, exit 0
    The end of stdin means: exit at once.

Events, each with "at_ns", the time since the epoch:
    {"event": "ready"}
        the library is loaded, commands are read
    {"event": "owns", "why": WHY, "partitions": [...], "generation": n | null}
        the whole present assignment; WHY is assigned, revoked, lost or told
    {"event": "leads", "generation": n}
        the member leads that generation: it has made the assignment, or the answer to
        its JoinGroup says so (kohort, confluent-kafka and kafka-clients only)
    {"event": "consumed", "records": [[partition, offset, key, value], ...]}
        a null key is ""
    {"event": "committed", "offsets": [[partition, offset], ...]}
    {"event": "produced", "count": n}
        all of them are acknowledged
    {"event": "note", "text": ...}
        for the history that a failed scene prints; an error that the library has raised
    {"event": "log", "text": ...}
        likewise; a line of the library's log (kafkajs only)
    {"event": "stalled"}
    {"event": "left"}
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

# Records per poll: few, so that a rebalance interrupts members in their work.
BATCH = 50
# The longest wait of a poll for records, and so the delay of commands.
POLL_S = 0.1
PRODUCE_S = 60.0
# Records per commit of a service that commits `late`.
LATE = 7

Record = tuple[int, int, str, str]  # partition, offset, key, value


def say(event: str, **fields: object) -> None:
    """Writes one event in one write, as callbacks run in other threads."""
    said = {"event": event, "at_ns": time.time_ns(), **fields}
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


# Consumed but uncommitted offsets. A commit that a rebalance refused is repeated for
# the remaining partitions: perhaps no later record commits them.
_pending: dict[int, int] = {}


class Service:
    """How the application commits.

    Attributes:
        name: as in the command `join`.
        handled: records since it joined.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.handled = 0

    @property
    def due_at_release(self) -> dict[int, int]:
        """The offsets to commit when partitions are revoked, and at the end."""
        return dict(_pending) if self.name == "released" else {}

    def consume(self, member: Member, records: list[Record]) -> None:
        """Handles records, and commits at its time."""
        if self.name == "before":
            _note(records)
            _commit(member)
        if self.name != "late" and records:
            say("consumed", records=records)
        if self.name == "late":
            self._handle_one_by_one(member, records)
        elif self.name != "before":
            _note(records)
        if self.name == "after":
            _commit(member)
        self.handled += len(records)

    def _handle_one_by_one(self, member: Member, records: list[Record]) -> None:
        for number, record in enumerate(records, self.handled + 1):
            if record[0] not in member.owns():
                continue
            say("consumed", records=[record])
            _note([record])
            if number % LATE == 0:
                _commit(member)


def _note(records: Iterable[Record]) -> None:
    for partition, offset, _key, _value in records:
        _pending[partition] = max(_pending.get(partition, 0), offset + 1)


def _commit(member: Member) -> None:
    if not _pending:
        return
    offsets = dict(_pending)
    wrong = member.commit(offsets)
    if wrong is not None:
        say("note", text=f"commit failed: {wrong}")
        return
    _pending.clear()
    say("committed", offsets=sorted(offsets.items()))


def say_owns(why: str, partitions: Iterable[int], generation: int | None) -> None:
    """Reports the whole present assignment, and its reason."""
    owned = sorted(partitions)
    for gone in set(_pending).difference(owned):
        del _pending[gone]
    say("owns", why=why, partitions=owned, generation=generation)


def say_leads(generation: int) -> None:
    """Reports that this member leads a generation."""
    say("leads", generation=generation)


@dataclass(frozen=True, slots=True)
class Join:
    """The settings of a member; times in milliseconds."""

    bootstrap: str
    topic: str
    group: str
    client: str
    assignor: str
    session_ms: int
    heartbeat_ms: int
    instance: str | None
    poll_ms: int | None
    request_ms: int | None
    is_plain: bool
    service: Service
    reset: str

    @property
    def is_auto(self) -> bool:
        """Whether the library commits."""
        return self.service.name == "auto"

    def settings(self, assignor: object) -> dict[str, Any]:
        """Arguments of a consumer, for libraries with kafka-python's names."""
        chosen: dict[str, Any] = {}
        if self.request_ms is not None:
            chosen["request_timeout_ms"] = self.request_ms
        return {
            **chosen,
            "bootstrap_servers": self.bootstrap,
            "group_id": self.group,
            "client_id": self.client,
            "group_instance_id": self.instance,
            "auto_offset_reset": self.reset,
            "enable_auto_commit": self.is_auto,
            "session_timeout_ms": self.session_ms,
            "heartbeat_interval_ms": self.heartbeat_ms,
            "partition_assignment_strategy": [assignor],
        }


@dataclass(frozen=True, slots=True)
class Produce:
    """The records to send: `first` .. `first + count - 1`."""

    bootstrap: str
    topic: str
    first: int
    count: int
    request_ms: int | None

    def records(self) -> Iterable[tuple[bytes, bytes]]:
        """Keys and values, in order."""
        for number in range(self.first, self.first + self.count):
            yield b"key-%d" % number, b"value-%d" % number


class Member(Protocol):
    """One consumer of some library."""

    def poll(self) -> list[Record]:
        """Up to BATCH records, after at most about POLL_S seconds."""

    def commit(self, offsets: dict[int, int]) -> str | None:
        """Commits by partition, waits for the response, and returns the error, if any.

        A rebalance may always come in between, so a failed commit is no error.
        """

    def owns(self) -> list[int]:
        """The partitions assigned to it according to the library."""

    def generation(self) -> int | None:
        """The library's generation; None if it has none at the moment."""

    def seek(self, partition: int, offset: int) -> None:
        """Goes on from an offset."""

    def close(self) -> None:
        """Leaves, like an application that shuts down."""


def _read_stdin(commands: queue.SimpleQueue[list[str]]) -> None:
    for line in sys.stdin:
        commands.put(line.split())
    # The scene is gone: no one needs a clean close.
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
        _number(words, "poll"),
        _number(words, "request"),
        "plain" in words,
        Service(words.get("service", "after")),
        words.get("reset", "earliest"),
    )


def _produce(words: dict[str, str]) -> Produce:
    return Produce(
        words["bootstrap"],
        words["topic"],
        int(words["first"]),
        int(words["count"]),
        _number(words, "request"),
    )


def _number(words: dict[str, str], name: str) -> int | None:
    return int(words[name]) if name in words else None


def _close(member: Member, service: Service) -> None:
    offsets = service.due_at_release
    # Not again in the callback of the last revocation.
    _pending.clear()
    if offsets:
        member.commit(offsets)
    member.close()


def _stall(
    member: Member, service: Service, commands: queue.SimpleQueue[list[str]]
) -> None:
    while not (records := member.poll()):
        pass
    say("stalled")
    commands.get()
    service.consume(member, records)


_OF_A_MEMBER = frozenset({"tell", "stall", "seek"})


def _tell(
    member: Member,
    service: Service,
    command: list[str],
    commands: queue.SimpleQueue[list[str]],
) -> None:
    if command[0] == "tell":
        say_owns("told", member.owns(), member.generation())
    elif command[0] == "stall":
        _stall(member, service, commands)
    else:
        words = _words(command)
        member.seek(int(words["partition"]), int(words["offset"]))


def serve(join: Callable[[Join], Member], produce: Callable[[Produce], None]) -> None:
    """Handles commands until `close`."""
    commands: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
    threading.Thread(target=_read_stdin, args=(commands,), daemon=True).start()
    member: Member | None = None
    service = Service("after")
    say("ready")
    while True:
        if member is not None and commands.empty():
            service.consume(member, member.poll())
            continue
        command = commands.get()
        if command[0] == "join":
            wanted_join = _join(_words(command))
            service = wanted_join.service
            member = join(wanted_join)
        elif command[0] == "produce":
            wanted = _produce(_words(command))
            produce(wanted)
            say("produced", count=wanted.count)
        elif command[0] in _OF_A_MEMBER and member is not None:
            _tell(member, service, command, commands)
        elif command[0] == "leave" and member is not None:
            _close(member, service)
            member = None
            _pending.clear()
            say("left")
        elif command[0] == "close":
            if member is not None:
                _close(member, service)
            say("closed")
            return
        else:
            say("error", text=f"no such command: {command}")
            return
