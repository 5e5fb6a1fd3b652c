"""A consumer group of real clients, each in its own process, and a play's verbs.

Nothing here sleeps: every wait is for a worker's event, or for the broker's response.
"""

from __future__ import annotations

import signal
import threading
import time
import uuid
from typing import TYPE_CHECKING, TypeVar

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # no __all__
    AdminClient,
    NewTopic,
    OffsetSpec,
)
from tests.patience import PATIENCE_S
from tests.workers.process import Line, Worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from confluent_kafka import ConsumerGroupState
    from confluent_kafka.admin import (  # type: ignore[attr-defined]  # no __all__
        ConsumerGroupDescription,
    )
    from tests.workers.libraries import Library
    from tests.workers.lines import Record

    from kohort.testing import Kohort

Answer = TypeVar("Answer")

THREE_NODES = pytest.mark.parametrize("nodes", [3], ids=["3 nodes"])
"""A play on three nodes, which have to be told apart: coordinators and leaders."""
PARTITIONS = 12
# No operation takes this long even on a busy machine, and a member that fails to leave
# stays for longer (LASTING_MS): a rebalance by session timeout alone fails the wait.
LIMIT_S = 75.0
LASTING_MS = 120_000
BRIEF_MS = 6_000  # group.min.session.timeout.ms: for members that should expire
HEARTBEAT_MS = 300


class Member(Worker):
    """One worker process and its events; guarded by the scene's condition."""

    def __init__(
        self, name: str, argv: list[str], folder: Path, changed: threading.Condition
    ) -> None:
        self.name = name
        self.client = name  # its client.id, once it is a member
        self.partitions: frozenset[int] = frozenset()
        self.generation: int | None = None
        self.said: set[str] = set()  # the kinds of its events
        self.dead = False
        self.wrong: str | None = None
        self.told = 0
        self.records: list[Record] = []
        self.work: list[Line] = []  # consumed batches and commits
        self.produced = 0
        # Every assignment that it has reported, with the reason.
        self.changes: list[tuple[str, frozenset[int]]] = []
        # Its reports: when (ns since the epoch) it began to read which partitions,
        # and why.
        self.reads: list[tuple[int, str, frozenset[int]]] = []
        # Transactional programs: ended transactions (True for a commit, records), and
        # the error of the fenced producer.
        self.ended: list[tuple[bool, int]] = []
        self.fenced: str | None = None
        # By generation: its assignment, and where it has led.
        self.assigned: dict[int, frozenset[int]] = {}
        self.led: set[int] = set()
        self.history: list[str] = []
        self._began = time.monotonic()
        super().__init__(argv, folder / f"{name}.stderr", changed)

    def send(self, verb: str, **words: object) -> None:
        """Writes one command to the worker."""
        with self.changed:
            self._note(f"> {verb} {words}")
        super().send(verb, **words)

    def stop(self, number: int = signal.SIGKILL) -> None:
        """Kills it, and waits until all its lines are read."""
        with self.changed:
            self.dead = True
            self.reads.append((time.time_ns(), "killed", frozenset()))
            self._note("> SIGKILL")
        super().stop(number)
        with self.changed:
            self.partitions = frozenset()  # the reader may have read one more

    @property
    def failure(self) -> str | None:
        """The error that should end the scene."""
        is_known = self.dead or "closed" in self.said
        if self.wrong is None and self.code is not None and not is_known:
            return f"exited {self.code} without being asked to"
        return self.wrong

    def failed(self) -> str:
        """Waits until it has ended with an error; returns the error."""
        self.wait(LIMIT_S)
        with self.changed:
            error, self.wrong = self.failure, None
            self.dead = True
        assert error is not None, "it has ended as it was asked to"
        return f"{self.logged()}{error}"

    def story(self) -> str:
        """Its history and its stderr, for a failed scene."""
        end = [f"exit code: {self.process.poll()}", "stderr:", self.logged()]
        return "\n".join([*self.history, *end])

    def _note(self, text: str) -> None:
        self.history.append(f"{time.monotonic() - self._began:8.3f} {text}")

    def take(self, line: Line) -> None:
        """Updates what is known of it."""
        event = line.event
        self.said.add(line.kind)
        if line.kind in {"consumed", "committed"}:
            self._take_work(line)
            return
        self._note(f"< {event}")
        match line.kind:
            case "owns":
                self._own(line)
            case "leads":
                self.led.add(int(event["generation"]))
            case "produced":
                self.produced += int(event["count"])
            case "ended":
                self.ended.append((event["is_commit"], event["records"]))
            case "fenced":
                self.fenced = event["text"]
            case "stalled" | "closed":
                if line.kind == "closed":
                    self.partitions = frozenset()
                self.reads.append((line.at_ns, line.kind, frozenset()))
            case "error":
                self.wrong = event["text"]

    def _take_work(self, line: Line) -> None:
        self.work.append(line)
        if line.kind == "committed":
            self._note(f"< {line.event}")
            return
        records = [(int(p), int(o), k, v) for p, o, k, v in line.event["records"]]
        self.records += records
        places = sorted({each[0] for each in records})
        self._note(f"< consumed {len(records)} of partitions {places}")

    def _own(self, line: Line) -> None:
        why = line.event["why"]
        self.partitions = frozenset(line.event["partitions"])
        self.generation = line.event["generation"]
        if why == "told":
            self.told += 1
            return
        self.changes.append((why, self.partitions))
        self.reads.append((line.at_ns, why, self.partitions))
        if why == "assigned" and self.generation is not None:
            self.assigned[self.generation] = self.partitions


class Scene:
    """One topic, one group, and members with one assignor.

    By default all are of one library; `start` and `prepare` take any. `here` is the
    broker, if it is in this process. `protocol` is ``consumer`` for a consumer group
    (KIP-848).
    """

    def __init__(
        self,
        library: Library,
        assignor: str,
        bootstrap: str,
        folder: Path,
        here: Kohort | None = None,
        partitions: int = PARTITIONS,
        protocol: str | None = None,
    ) -> None:
        self.library = library
        self.protocol = protocol
        self.partitions = partitions
        self.assignor = assignor
        self.bootstrap = bootstrap
        self._here = here
        self.members: list[Member] = []  # the members that should be in the group now
        self.everybody: list[Member] = []  # every process ever started
        self.sent = 0
        self._folder = folder
        self._changed = threading.Condition()
        self._commands = {library: library.command()}
        unique = uuid.uuid4().hex[:8]
        self.topic = f"interop-{unique}"
        self.group = f"interop-{library.name}-{assignor}-{unique}"
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": "scene"})
        self.admin.create_topics([NewTopic(self.topic, partitions, 1)])[
            self.topic
        ].result(PATIENCE_S)
        self._producer = self._launch("producer")

    # Members

    def prepare(self, name: str, library: Library | None = None) -> Member:
        """Starts a worker that does not join yet, and waits until it is ready to.

        On a busy machine a process takes longer to load than some timeouts last.
        """
        member = self._launch(name, library)
        self.until(f"{name} is loaded", lambda: "ready" in member.said)
        return member

    def join(
        self,
        member: Member,
        *,
        session_ms: int = LASTING_MS,
        instance: str | None = None,
        poll_ms: int | None = None,
        client: str | None = None,
    ) -> Member:
        """Makes a worker join, under its name or another client id.

        A static one has its instance id as its client id, too, as a restarted consumer
        keeps its name (Kafka would go on showing the old one).
        """
        member.client = client or instance or member.name
        member.send(
            "join",
            bootstrap=self.bootstrap,
            topic=self.topic,
            group=self.group,
            client=member.client,
            assignor=self.assignor,
            session=session_ms,
            heartbeat=HEARTBEAT_MS,
            instance=instance,
            poll=poll_ms,
            protocol=self.protocol,
        )
        self.members.append(member)
        return member

    def start(
        self,
        name: str,
        library: Library | None = None,
        *,
        session_ms: int = LASTING_MS,
        instance: str | None = None,
        poll_ms: int | None = None,
    ) -> Member:
        """Starts a worker and makes it join, without waiting for either."""
        member = self._launch(name, library)
        return self.join(
            member, session_ms=session_ms, instance=instance, poll_ms=poll_ms
        )

    def close(self, *members: Member) -> None:
        """Closes them properly, one after the other, and waits for each."""
        for member in members:
            self._close(member)

    def _close(self, member: Member) -> None:
        member.send("close")
        self.until(f"{member.name} is closed", lambda: "closed" in member.said)
        self.members.remove(member)

    def kill(self, member: Member, *, expires: bool = True) -> None:
        """Kills it; its session ends at once, or by timeout on another broker."""
        self.members.remove(member)
        member.stop()
        if expires and self._here is not None and self.protocol is None:
            self._here.group(self.group).expire(member.client)

    def failure(self, member: Member) -> str:
        """Waits until a member has failed for good; returns its library's error."""
        self.members.remove(member)
        return member.failed()

    # Waits

    def until(
        self, what: str, holds: Callable[[], bool], limit_s: float = LIMIT_S
    ) -> None:
        """Waits for workers' events until `holds`; a worker's error ends the scene."""
        deadline = time.monotonic() + limit_s
        with self._changed:
            while not holds():
                wrong = [
                    f"{each.name}: {each.failure}"
                    for each in self.everybody
                    if each.failure is not None
                ]
                left = deadline - time.monotonic()
                if wrong or left <= 0:
                    owners = {
                        each.name: sorted(each.partitions) for each in self.members
                    }
                    why = "; ".join(wrong) or f"not within {limit_s:.0f} s"
                    raise AssertionError(
                        f"waiting until {what}: {why}; partitions by member: {owners}"
                    )
                self._changed.wait(left)

    def until_settled(self) -> None:
        """Waits until partitions have one owner each, and are evenly distributed."""

        def settled() -> bool:
            sizes = [len(each.partitions) for each in self.members]
            return (
                sum(sizes) == self.partitions
                and frozenset().union(*(each.partitions for each in self.members))
                == frozenset(range(self.partitions))
                and max(sizes) - min(sizes) <= 1
            )

        self.until(f"{len(self.members)} members are settled", settled)

    def until_produced(self) -> None:
        """Waits until every record was acknowledged."""
        self.until(
            f"{self.sent} records are produced",
            lambda: self._producer.produced == self.sent,
        )

    def until_consumed(self) -> None:
        """Waits until every record was acknowledged, and consumed by a member."""
        wanted = {f"key-{number}" for number in range(self.sent)}
        self.until_produced()
        self.until(
            f"{self.sent} records are consumed",
            lambda: (
                {record[2] for each in self.everybody for record in each.records}
                >= wanted
            ),
        )

    def until_committed(self) -> None:
        """Waits until the committed offsets are the ends of the partitions."""
        ends = self._ends()
        self.until_broker(
            f"{ends} is committed", self._committed, lambda got: got == ends
        )

    def until_state(self, state: ConsumerGroupState) -> ConsumerGroupDescription:
        """Waits until the group is in `state`; returns its description."""
        return self.until_broker(
            f"the group is {state.name}", self.describe, lambda got: got.state == state
        )

    def until_broker(
        self, what: str, ask: Callable[[], Answer], good: Callable[[Answer], bool]
    ) -> Answer:
        """Queries the broker until the answer is right; handles events in between."""
        deadline = time.monotonic() + LIMIT_S
        while not good(answer := ask()):
            left = deadline - time.monotonic()
            assert left > 0, f"waiting until {what}: still {answer}"
            with self._changed:
                self._changed.wait(0.1)  # some changes make no event here
        return answer

    # -- actions

    def produce(self, count: int) -> None:
        """Makes the library's own producer send `count` records, without waiting."""
        self._producer.send(
            "produce",
            bootstrap=self.bootstrap,
            topic=self.topic,
            first=self.sent,
            count=count,
        )
        self.sent += count

    def ask_everybody(self) -> None:
        """Makes every member report its partitions; reads all earlier events."""
        before = {member.name: member.told for member in self.members}
        for member in self.members:
            member.send("tell")
        self.until(
            "all have told",
            lambda: all(each.told > before[each.name] for each in self.members),
        )

    def generation(self) -> int:
        """The common generation of all members, according to their libraries."""
        self.ask_everybody()
        generations = {each.name: each.generation for each in self.members}
        assert len(set(generations.values())) == 1, (
            f"members differ about the generation: {generations}"
        )
        (generation,) = set(generations.values())
        assert generation is not None, "a member of a group has no generation"
        return generation

    def leader(self) -> Member:
        """The leader of the common generation, according to its library."""

        def leaders() -> list[Member]:
            self.ask_everybody()
            generations = {each.generation for each in self.members}
            return [each for each in self.members if generations <= each.led]

        (leader,) = self.until_broker(
            "one member leads the one generation", leaders, lambda got: len(got) == 1
        )
        return leader

    # -- the broker's state

    def describe(self) -> ConsumerGroupDescription:
        """DescribeGroups."""
        asked = self.admin.describe_consumer_groups([self.group])
        described: ConsumerGroupDescription = asked[self.group].result(PATIENCE_S)
        return described

    def refusals(self) -> int:
        """The number of JoinGroups that the broker has refused, from its events."""
        assert self._here is not None
        rows = [e for e in self._here.events() if e["kind"] == "member_refused"]
        error = "GROUP_MAX_SIZE_REACHED"
        return sum((row["group"], row["error"]) == (self.group, error) for row in rows)

    def _ends(self) -> dict[int, int]:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {
            TopicPartition(self.topic, each): latest for each in range(self.partitions)
        }
        return {
            asked.partition: got.result(PATIENCE_S).offset
            for asked, got in self.admin.list_offsets(wanted).items()
        }

    def _committed(self) -> dict[int, int]:
        wanted = ConsumerGroupTopicPartitions(
            self.group,
            [TopicPartition(self.topic, each) for each in range(self.partitions)],
        )
        (answer,) = self.admin.list_consumer_group_offsets([wanted]).values()
        return {
            each.partition: max(0, each.offset)
            for each in answer.result(PATIENCE_S).topic_partitions
        }

    # The end

    def stop(self) -> None:
        """Ends all processes and connections of the scene."""
        for member in self.everybody:
            member.stop()
        del self.admin  # librdkafka has no other way to close one

    def _launch(self, name: str, library: Library | None = None) -> Member:
        assert all(each.name != name for each in self.everybody), (
            f"two workers called {name}"
        )
        wanted = library or self.library
        if wanted not in self._commands:
            self._commands[wanted] = wanted.command()
        argv = self._commands[wanted]
        member = Member(name, argv, self._folder, self._changed)
        self.everybody.append(member)
        return member
