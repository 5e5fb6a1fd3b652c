"""The protocol between a harness and the program of one client library.

A worker is a process that knows one library. It reads commands from its stdin, one per
line, a verb and words `key=value`; it writes events to its stdout, one JSON object per
line. A process can have several clients, each on a thread: the word `as=NAME` of a
command says which one, and their events have "as", too (Python only).

Commands:
    join bootstrap= topic= group= client= assignor= session= heartbeat= [instance=]
            [poll=] [request=] [plain=1] [service=] [reset=] [out= abort=]
            [patient=1] [pace=] [wait=] [protocol=consumer]
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
        out: a transactional program. It copies records to that topic, a batch per
        transaction, which commits the batch's offsets as well; every `abort`-th
        transaction is aborted after its records are acknowledged, and its records are
        copied again. The transactional id begins with the client id, or with the group
        if there is one for each partition
        patient: the broker may be away at any time; pace: pause between two polls;
        wait is fetch.max.wait.ms (Python only, and not librdkafka's)
        protocol: of a consumer group (KIP-848); the assignor is the broker's, and so
        are session timeout and heartbeat interval (kohort, confluent-kafka,
        kafka-clients and franz-go only)
    produce bootstrap= topic= first= count= [request=]
        send records first .. first+count-1: key `key-N`, value `value-N`, placed by the
        library's own partitioner; delivery takes at most four times `request`
        (confluent-kafka and kafka-clients only)
    stream bootstrap= topic= client= partitions= window= [settings=JSON]
        send numbered records to each partition in turn, `window` at a time, until
        `leave`; a later `stream` of the client goes on (Python but kafka-python)
    commit bootstrap= topic= group= partitions= seed=
        commit ascending offsets of some partitions at a time, without being a member,
        each with a text (confluent-kafka and kafka-python only)
    fence bootstrap= out= client=
        two producers have the same transactional id, the client id. The first sends a
        record with the key `fenced` in a transaction; the second starts; the first
        tries to commit; the second commits a record with the key `fencing`
    read bootstrap= out= partitions=
        read `out` from the beginning with isolation.level=read_committed, in each
        partition up to the record with the key `end`
    tell
        report the library's own assignment, in an `owns` event
    stall
        report `stalled` with a batch in hand, and commit it when the next line
        comes (Python and Java only). A library that works on an event loop of ours
        has a blocked loop meanwhile
    seek partition= offset=
        go on from there
    leave
        close the client properly, report `left`, and be ready for the next one
    close
        close all clients properly, report `closed`, exit 0
    The end of stdin means: exit at once.

Events, each with "at_ns", the time since the epoch:
    {"event": "ready"}
        the library is loaded, commands are read
    {"event": "owns", "why": WHY, "partitions": [...], "generation": n | null}
        the whole present assignment; WHY is assigned, revoked, lost or told; Python's
        have the member id: "member"
    {"event": "leads", "generation": n}
        the member leads that generation: it has made the assignment, or the answer to
        its JoinGroup says so (kohort, confluent-kafka and kafka-clients only)
    {"event": "consumed", "records": [[partition, offset, key, value], ...]}
        a null key is ""; also those of a transaction that begins, and of a reader
    {"event": "committed", "offsets": [[partition, offset], ...]}
    {"event": "ended", "is_commit": bool, "records": n}
        a transaction has ended; one that the library made the worker abort is a `note`
    {"event": "produced", "count": n}
        all of them are acknowledged
    {"event": "acked", "partition": p, "number": n, "offset": o}
        a record of a stream; -1 if the library names no offset
    {"event": "gave_up", "partition": p, "number": n, "reason": ...}
        a record of a stream, which is sent no more
    {"event": "sent", "offsets": [[partition, offset], ...]}
        those of a `commit`, before its request
    {"event": "fenced", "text": ...}
        the error of the first producer's commit
    {"event": "read"}
        the reader has all records
    {"event": "note", "text": ...}
        for the history that a failed scene prints; an error that the library has raised
    {"event": "log", "text": ...}
        likewise; a line of the library's log (kafkajs only)
    {"event": "told"}
        the answer to `tell` of a client that is no member
    {"event": "stalled"}
    {"event": "left"}
        a stream's has "sent": the number of records by partition
    {"event": "closed"}
    {"event": "error", "text": ...}
        the worker cannot go on
"""

from __future__ import annotations

import faulthandler
import json
import os
import queue
import random
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn, Protocol

BATCH = 50
"""Records per poll: few, so that a rebalance interrupts members in their work."""
TRANSACTION_BATCH = 10
"""Records per transaction: few, so that there are some in each generation."""
POLL_S = 0.1
"""The longest wait of a poll for records, and so the delay of commands."""
PRODUCE_S = 60.0
FLUSH_S = 120.0
LATE = 7
"""Records per commit of a service that commits `late`."""
RETRY_MS = 20
"""Pause of patient clients before they connect again, or repeat a request."""
PACE_S = 0.05
"""Pause of streams and of those that only commit: it limits the load, so that a small
machine can still run the broker."""
END = "end"

Record = tuple[int, int, str, str]
"""Partition, offset, key, value."""
Words = Mapping[str, str]


class Say(Protocol):
    """Writes one event of a client, in one write: callbacks run in other threads."""

    def __call__(self, event: str, **fields: object) -> None:
        """Writes it."""


_writing = threading.Lock()


def _voice(name: str) -> Say:
    """Reports for one client."""
    common = {"as": name} if name else {}

    def say(event: str, **fields: object) -> None:
        said = {"event": event, "at_ns": time.time_ns(), **common, **fields}
        data = (json.dumps(said) + "\n").encode()
        with _writing:
            while data:  # a pipe takes a long line in parts
                data = data[os.write(1, data) :]

    return say


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
    service: str
    reset: str
    out: str | None
    abort: int
    is_patient: bool
    pace_s: float
    wait_ms: int | None
    is_consumer: bool

    @classmethod
    def of(cls, words: Words) -> Join:
        """Those in the words of the command."""
        return cls(
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
            words.get("service", "never" if "out" in words else "after"),
            words.get("reset", "earliest"),
            words.get("out"),
            int(words.get("abort", 0)),
            "patient" in words,
            int(words.get("pace", 0)) / 1000,
            _number(words, "wait"),
            words.get("protocol") == "consumer",
        )

    @property
    def is_auto(self) -> bool:
        """Whether the library commits."""
        return self.service == "auto"

    @property
    def batch(self) -> int:
        """The number of records of one poll."""
        return TRANSACTION_BATCH if self.out else BATCH

    def settings(self, assignor: object) -> dict[str, Any]:
        """Arguments of a consumer, for libraries with kafka-python's names."""
        chosen: dict[str, Any] = {}
        if self.request_ms is not None:
            chosen["request_timeout_ms"] = self.request_ms
        if self.wait_ms is not None:
            chosen["fetch_max_wait_ms"] = self.wait_ms
        if self.is_patient:
            chosen["retry_backoff_ms"] = RETRY_MS
        if self.out:
            chosen["isolation_level"] = "read_committed"
        if self.is_consumer:
            chosen["group_protocol"] = "consumer"
            chosen["group_remote_assignor"] = assignor
        else:
            chosen["session_timeout_ms"] = self.session_ms
            chosen["heartbeat_interval_ms"] = self.heartbeat_ms
            chosen["partition_assignment_strategy"] = [assignor]
        return {
            **chosen,
            "bootstrap_servers": self.bootstrap,
            "group_id": self.group,
            "client_id": self.client,
            "group_instance_id": self.instance,
            "auto_offset_reset": self.reset,
            "enable_auto_commit": self.is_auto,
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


def _number(words: Words, name: str) -> int | None:
    return int(words[name]) if name in words else None


def rows_of(polled: Mapping[Any, Iterable[Any]]) -> list[Record]:
    """The result of a poll, of libraries with kafka-python's names."""
    return [
        (each.partition, each.offset, (each.key or b"").decode(), each.value.decode())
        for records in polled.values()
        for each in records
    ]


def ends_of(records: Iterable[Record]) -> dict[int, int]:
    """The offsets to commit behind these records, by partition."""
    ends: dict[int, int] = {}
    for partition, offset, _key, _value in records:
        ends[partition] = max(ends.get(partition, 0), offset + 1)
    return ends


class Client(ABC):
    """A client that works until it has to leave."""

    @abstractmethod
    def step(self) -> None:
        """Does a little work, and returns after about POLL_S."""

    @abstractmethod
    def close(self) -> dict[str, object]:
        """Ends like an application that shuts down; returns fields of `left`."""

    @abstractmethod
    def obey(self, verb: str, words: Words, wait: Callable[[], object]) -> None:
        """Another command; `wait` waits for the next one."""


class Member(Client):
    """A member of a group: the application, and what it reports.

    The methods that raise NotImplementedError are the library's.

    Attributes:
        wanted: its settings.
        say: reports.
        held: its partitions, according to the library's callbacks.
        pending: offsets to commit. A commit that a rebalance refused is repeated for
            the remaining partitions: perhaps no later record commits them.
    """

    def __init__(self, words: Words, say: Say) -> None:
        self.wanted = Join.of(words)
        self.say = say
        self.held: set[int] = set()
        self.pending: dict[int, int] = {}
        self._handled = 0
        self._begun = 0

    # -- the library's part

    def poll(self) -> list[Record]:
        """Up to `wanted.batch` records, after at most about POLL_S seconds."""
        raise NotImplementedError

    def commit(self, offsets: dict[int, int]) -> str | None:
        """Commits by partition, waits for the response, and returns the error, if any.

        A rebalance may always come in between, so a failed commit is no error.
        """
        raise NotImplementedError

    def owns(self) -> list[int]:
        """The partitions assigned to it according to the library."""
        raise NotImplementedError

    def identity(self) -> tuple[str, int | None]:
        """The library's member id and generation; None if it has none at the moment."""
        raise NotImplementedError

    def seek(self, partition: int, offset: int) -> None:
        """Goes on from an offset."""
        raise NotImplementedError

    def transact(self, records: list[Record], *, aborts: bool) -> str | None:
        """Copies records in a transaction.

        Returns:
            The error, if the library has made it abort instead.
        """
        raise NotImplementedError

    def shut(self) -> None:
        """Leaves, like an application that shuts down."""
        raise NotImplementedError

    # -- its callbacks

    def gained(self, partitions: Iterable[int]) -> None:
        """Partitions were assigned; a cooperative rebalance names only new ones."""
        self.held = self.held | set(partitions)
        self._say_owns("assigned", self.held)

    def released(self, partitions: Iterable[int], why: str = "revoked") -> None:
        """Partitions were revoked, or lost."""
        self.held = self.held - set(partitions)
        self._say_owns(why, self.held)

    @property
    def due_at_release(self) -> dict[int, int]:
        """The offsets to commit when partitions are revoked, and at the end."""
        return dict(self.pending) if self.wanted.service == "released" else {}

    # -- the application

    def step(self) -> None:
        """One poll, and its records."""
        self.consume(self.poll())
        if self.wanted.pace_s:
            self.pause(self.wanted.pace_s)  # limits the load

    def pause(self, seconds: float) -> None:
        """Returns after the time."""
        time.sleep(seconds)

    def consume(self, records: list[Record]) -> None:
        """Handles records, and commits at the service's time."""
        service = self.wanted.service
        if self.wanted.out:
            if records:
                self.copy(records)
            return
        if service == "late":
            self._handle_one_by_one(records)
            return
        if service == "before":
            self._note(records)
            self._commit()
        if records:
            self.say("consumed", records=records)
        if service != "before":
            self._note(records)
        if service == "after":
            self._commit()

    def copy(self, records: list[Record]) -> None:
        """One transaction."""
        aborts = self.begins(records)
        wrong = self.transact(records, aborts=aborts)
        if wrong is None:
            self.say("ended", is_commit=not aborts, records=len(records))
        else:
            self.say("note", text=f"aborts: {wrong}")

    def begins(self, records: list[Record]) -> bool:
        """A transaction of these records begins; True means to abort it."""
        self.say("consumed", records=records)
        self._begun += 1
        return self._begun % self.wanted.abort == 0

    def _handle_one_by_one(self, records: list[Record]) -> None:
        for record in records:
            self._handled += 1
            if record[0] not in self.owns():
                continue
            self.say("consumed", records=[record])
            self._note([record])
            if self._handled % LATE == 0:
                self._commit()

    def _note(self, records: Iterable[Record]) -> None:
        for partition, end in ends_of(records).items():
            # Not of one that was taken away: its new owner may be further.
            if partition in self.held:
                self.pending[partition] = max(self.pending.get(partition, 0), end)

    def _commit(self) -> None:
        offsets = dict(self.pending)
        if not offsets:
            return
        wrong = self.commit(offsets)
        if wrong is not None:
            self.say("note", text=f"commit failed: {wrong}")
            return
        self.pending.clear()
        self.say("committed", offsets=sorted(offsets.items()))

    def _say_owns(self, why: str, partitions: Iterable[int]) -> None:
        """Reports the whole present assignment, and its reason."""
        owned = sorted(partitions)
        for gone in set(self.pending).difference(owned):
            del self.pending[gone]
        member, generation = self.identity()
        self.say(
            "owns", why=why, partitions=owned, generation=generation, member=member
        )

    def obey(self, verb: str, words: Words, wait: Callable[[], object]) -> None:
        """Tells, stalls, or seeks."""
        if verb == "tell":
            self._say_owns("told", self.owns())
        elif verb == "seek":
            self.seek(int(words["partition"]), int(words["offset"]))
        elif verb == "stall":
            while not (records := self.poll()):
                pass
            self.say("stalled")
            wait()
            self.consume(records)
        else:
            raise ValueError(f"no such command: {verb}")

    def close(self) -> dict[str, object]:
        """Leaves the group."""
        offsets = self.due_at_release
        self.pending.clear()  # not again in the callback of the last revocation
        if offsets:
            self.commit(offsets)
        self.shut()
        return {}


# -- clients of long runs


def key_of(producer: str, partition: int) -> bytes:
    """The key of all records that a stream sends to a partition."""
    return f"{producer}/{partition}".encode()


def value_of(number: int) -> bytes:
    """The value of a stream's record: its number, and up to 199 more bytes."""
    return b"%d%s" % (number, b"." * (number * 7 % 200))


def text_of(group: str, offset: int) -> str:
    """The metadata of commits by `commit`."""
    return f"{group} at {offset}" * (offset % 4)


class Stream(Client):
    """A producer that sends numbered records to each partition in turn.

    Attributes:
        wanted: the words of the command.
        settings: the library's.
        window: the number of records that may wait for their acknowledgement.
    """

    _sent: dict[str, list[int]] = {}  # noqa: RUF012 - by client, for the next one

    def __init__(self, wanted: Words, say: Say) -> None:
        self.wanted = wanted
        self.say = say
        self.settings: dict[str, Any] = json.loads(wanted.get("settings", "{}"))
        self.window = int(wanted["window"])
        fresh = [0] * int(wanted["partitions"])
        self._numbers = self._sent.setdefault(wanted["client"], fresh)

    def next(self) -> tuple[int, int, bytes, bytes]:
        """Partition, number, key and value of the next record."""
        place = self._numbers.index(min(self._numbers))
        number = self._numbers[place]
        self._numbers[place] += 1
        return place, number, key_of(self.wanted["client"], place), value_of(number)

    def answered(self, place: int, number: int, offset: int | None, error: str) -> None:
        """Reports the answer to a record: its offset, or else the error."""
        if error:
            self.say("gave_up", partition=place, number=number, reason=error)
        else:
            known = -1 if offset is None else offset
            self.say("acked", partition=place, number=number, offset=known)

    def shut(self) -> None:
        """Waits for every acknowledgement, and closes the producer."""
        raise NotImplementedError

    def close(self) -> dict[str, object]:
        """Waits for every acknowledgement."""
        self.shut()
        return {"sent": self._numbers}

    def obey(self, verb: str, words: Words, wait: Callable[[], object]) -> None:
        """Tells."""
        self.say("told")


class Committer(Client):
    """Commits for a group without being its member.

    Attributes:
        wanted: the words of the command.
    """

    def __init__(self, wanted: Words, say: Say) -> None:
        self.wanted = wanted
        self.say = say
        self.group = wanted["group"]
        self._random = random.Random(wanted["seed"])
        self._offsets = [0] * int(wanted["partitions"])

    def commit(self, offsets: dict[int, int]) -> list[int]:
        """Commits with `text_of` each; returns the acknowledged partitions."""
        raise NotImplementedError

    def shut(self) -> None:
        """Closes the consumer."""
        raise NotImplementedError

    def step(self) -> None:
        """One commit."""
        offsets: dict[int, int] = {}
        count = self._random.randint(1, len(self._offsets))
        for place in self._random.sample(range(len(self._offsets)), count):
            self._offsets[place] += self._random.randint(1, 3)
            offsets[place] = self._offsets[place]
        self.say("sent", offsets=[*offsets.items()])
        done = [(place, offsets[place]) for place in self.commit(offsets)]
        if done:
            self.say("committed", offsets=done)
        time.sleep(PACE_S)

    def close(self) -> dict[str, object]:
        """Closes the consumer."""
        self.shut()
        return {}

    def obey(self, verb: str, words: Words, wait: Callable[[], object]) -> None:
        """Tells."""
        self.say("told")


# -- serving


Begin = Callable[[Words, Say], Client]
"""Makes the client that a command asks for."""
Task = Callable[[Words, Say], None]
"""Does what a command asks for, without a client."""


NO_TASKS: Mapping[str, Task] = MappingProxyType({})


def producing(produce: Callable[[Produce], None]) -> Task:
    """The command `produce`; the function waits for every acknowledgement."""

    def task(words: Words, say: Say) -> None:
        where = words["bootstrap"], words["topic"]
        numbers = int(words["first"]), int(words["count"])
        produce(Produce(*where, *numbers, _number(words, "request")))
        say("produced", count=int(words["count"]))

    return task


def fencing(fence: Callable[[str, str, str], str]) -> Task:
    """The command `fence`; the function returns the error of the first producer."""

    def task(words: Words, say: Say) -> None:
        say("fenced", text=fence(words["bootstrap"], words["out"], words["client"]))

    return task


def reading(read: Callable[[str, str, int], Iterator[list[Record]]]) -> Task:
    """The command `read`; the function yields what each poll returns."""

    def task(words: Words, say: Say) -> None:
        partitions = int(words["partitions"])
        batches = read(words["bootstrap"], words["out"], partitions)
        ended: set[int] = set()
        while len(ended) < partitions:
            rows = next(batches)
            if rows:
                say("consumed", records=[row for row in rows if row[2] != END])
            ended |= {row[0] for row in rows if row[2] == END}
        say("read")

    return task


class _Seat:
    """The place of one client in the process: a thread, and its commands."""

    def __init__(
        self, clients: Mapping[str, Begin], tasks: Mapping[str, Task], name: str
    ) -> None:
        self.commands: queue.SimpleQueue[tuple[str, Words]] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self._clients = clients
        self._tasks = tasks
        self._say = _voice(name)
        self._client: Client | None = None
        self.thread.start()

    def _run(self) -> None:
        try:
            while self._take():
                pass
        except BaseException:  # noqa: BLE001 - the harness finds it
            traceback.print_exc()
            _exit(1)

    def _take(self) -> bool:
        """Does a little work, or obeys a command; returns False after `close`."""
        if self._client is not None and self.commands.empty():
            self._client.step()
            return True
        verb, words = self.commands.get()
        if verb in {"leave", "close"}:
            fields = {} if self._client is None else self._client.close()
            self._client = None
            if verb == "leave":
                self._say("left", **fields)
        elif verb in self._tasks:
            self._tasks[verb](words, self._say)
        elif verb in self._clients:
            self._client = self._clients[verb](words, self._say)
        elif self._client is not None:
            self._client.obey(verb, words, self.commands.get)
        else:
            raise ValueError(f"no such command: {verb}")
        return verb != "close"


def serve(clients: Mapping[str, Begin], tasks: Mapping[str, Task] = NO_TASKS) -> None:
    """Handles commands until `close`.

    Args:
        clients: by the command that makes them.
        tasks: by command.
    """
    faulthandler.enable()
    seats: dict[str, _Seat] = {}
    _voice("")("ready")
    for line in sys.stdin:
        verb, *pairs = line.split()
        words = dict(pair.split("=", 1) for pair in pairs)
        name = words.pop("as", "")
        if verb == "close":
            # One after the other: a member that leaves makes the others rejoin.
            for seat in seats.values():
                seat.commands.put((verb, words))
                seat.thread.join()
            _voice("")("closed")
            _exit(0)
        if name not in seats:
            seats[name] = _Seat(clients, tasks, name)
        seats[name].commands.put((verb, words))
    _exit(3)  # the harness is gone: no one needs a clean close


def _exit(code: int) -> NoReturn:
    """Ends at once: threads of aiokafka and librdkafka need not finish."""
    sys.stderr.flush()
    os._exit(code)
