"""Groups that play a script against kohort's coordinator, on virtual time.

The script says when each process starts, stops, crashes or hangs. While it plays, the
readers of partitions are looked up in the clients themselves: the truth that the
broker's events are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bench.pipeline.lives import (
    HEARTBEAT_S,
    REBALANCE_MS,
    STEP_S,
    TOPIC,
    Client,
    Kind,
    Life,
)
from tests.coordinator.consumer.member import Consumer

from kohort.broker.coordinator.effects import ConsumerHeartbeatResult
from kohort.protocol.consumer import Subscription, encode

BEGIN_NS: Final = 1_748_822_400_000_000_000
"""2025-06-02 00:00 UTC."""
QUICK_S: Final = 0.3
"""How long a client needs to finish the records at hand, unless a script says."""
OVERRUN_S: Final = 20.0
"""How long after it left an application polls again."""
HANG_S: Final = 14.0
"""How long a process hangs."""
COMES_BACK: Final = -2
"""The epoch with which a static member leaves (KIP-848)."""
_UNKNOWN_MEMBER_ID: Final = 25
_FENCED: Final = frozenset({_UNKNOWN_MEMBER_ID, 110})
"""Errors after which a member of a consumer group joins again."""

Step = tuple[float, str, int | None]
"""Seconds since the start, an incident, and the number of its client."""


@dataclass(frozen=True, slots=True)
class Script:
    """A group and its incidents.

    Attributes:
        kind: its members, partitions and settings.
        steps: its incidents, besides the start of all members and their end.
        seconds: how long it lasts.
        start_s: seconds from the start of a member to that of the next one.
        slow: clients that need longer to finish their records: seconds by number.
        more: assignors that a client offers besides the group's, by number.
        is_consumer_group: its members have the consumer protocol (KIP-848).
    """

    kind: Kind
    steps: Sequence[Step] = ()
    seconds: float = 900.0
    start_s: float = 0.0
    slow: dict[int, float] = field(default_factory=dict)
    more: dict[int, tuple[str, ...]] = field(default_factory=dict)
    is_consumer_group: bool = False


class Process(Client):
    """A client of a script."""

    finish_s = QUICK_S
    hangs_until = 0.0
    is_doomed = False
    more: tuple[str, ...] = ()

    def _to_finish_s(self) -> float:
        return self.finish_s

    def _subscription(self) -> list[tuple[str, bytes]]:
        said = encode(Subscription((TOPIC,)), 1)
        others = [(name, said) for name in self.more]
        return [*others, *super()._subscription()]

    def _sync(self, assignments: Sequence[tuple[str, bytes]]) -> None:
        if self.is_doomed:
            self.is_doomed = False
            self.crash()
        else:
            super()._sync(assignments)

    def overrun(self, seconds: float) -> None:
        """The application does not poll in time: it leaves, and rejoins at its poll."""
        self._here.leave()
        self._here.member_id = ""
        self.owned = ()
        self._wait("rejoining", seconds)

    def ask_for_an_id(self) -> None:
        """Sends its first JoinGroup, gets an id, and is never heard of again."""
        name, offer = f"{self.name}-leftover", self._subscription()
        self.life.context.member(name, protocols=offer).join()

    def hang(self, seconds: float) -> None:
        """The process sends nothing, and reads nothing."""
        self.hangs_until = self.quiet_until = self.life.now + seconds

    @property
    def reads(self) -> tuple[int, ...]:
        """The partitions that it reads now."""
        is_reading = self.is_up and self.life.now >= self.hangs_until
        return self.owned if is_reading else ()


class _Member(Consumer):
    @property
    def generation_id(self) -> int:
        """Its epoch, by its name in OffsetCommit."""
        return self.epoch


class ConsumerProcess(Process):
    """A client of a script whose group is a consumer group.

    It stops reading a partition with the response that takes it away, commits, and says
    so in its next heartbeat.
    """

    _consumer: _Member
    _starts = 0

    @property
    def member_id(self) -> str:
        """Its member id, which is new in each process."""
        return self._consumer.member_id if self._starts else ""

    @property
    def _here(self) -> Any:
        return self._consumer

    def start(self) -> None:
        """The process begins, and joins."""
        self.is_up = True
        self._starts += 1
        self._consumer = _Member(
            self.life.context,
            self.name,
            TOPIC,
            instance=self.instance,
            rebalance_ms=REBALANCE_MS,
        )
        self._consumer.member_id = f"{self.name}-{self._starts}"
        self._join()

    def stop(self) -> None:
        """The process commits, and ends; a static member says that it comes back."""
        if self.is_up:
            self._commit()
            self._consumer.leave(-1 if self.instance is None else COMES_BACK)
        self.crash()

    def say_goodbye(self) -> None:
        """The process ends for good, and leaves."""
        if self._starts:
            self._consumer.leave()
        self.crash()

    def overrun(self, seconds: float) -> None:
        """The application does not poll in time: it leaves, and rejoins at its poll."""
        self._consumer.leave()
        self._begin_again(_UNKNOWN_MEMBER_ID)
        self._wait("joining", seconds)

    def step(self) -> None:
        """Does its next actions that are due."""
        if not self.is_up or self.life.now < self.quiet_until:
            return
        if self.doing == "joining":
            self._join()
        elif self.doing == "revoking":
            self._commit()
            self._settle()
        else:
            if self.life.now >= self._next_commit:
                self._next_commit = self.life.now + self.life.kind.commit_s
                self._commit()
            if self.life.now >= self._next_beat:
                self._see(self._consumer.beat())

    def _join(self) -> None:
        self.doing = "joining"
        self._see(self._consumer.join())

    def _begin_again(self, code: int) -> None:
        """Drops its partitions, and joins again, if it was fenced."""
        if code in _FENCED:
            self._consumer.give_up()
            self.owned = ()
            self.doing = "joining"

    def _see(self, result: ConsumerHeartbeatResult) -> None:
        if result.error_code:
            self._begin_again(result.error_code)
            self.quiet_until = self.life.now + QUICK_S
            return
        self.doing = "working"
        self._next_beat = self.life.now + HEARTBEAT_S
        assigned = self._assigned
        if {*self.owned} - assigned:
            self.owned = tuple(p for p in self.owned if p in assigned)
            self._wait("revoking", self._to_finish_s())
        elif self._consumer.may_own != self._consumer.owns:
            self._settle()

    @property
    def _assigned(self) -> set[int]:
        return {*self._consumer.assigned.get(TOPIC, ())}

    def _settle(self) -> None:
        """Reads its assignment, and tells the coordinator."""
        for partition in self._assigned.difference(self.owned):
            self.positions[partition] = self.life.committed.get(partition, 0.0)
        self.owned = tuple(sorted(self._assigned))
        self._worked_until = self.life.now
        self._see(self._consumer.settle())


class Played(Life):
    """A script while it plays.

    Attributes:
        downtime_s: partition-seconds in which no client read a partition that a client
            had read before, while the coordinator had members, up to the end of the
            group's work.
        partition_s: partition-seconds in which partitions had a reader, or downtime.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.downtime_s = self.partition_s = 0.0
        self._known: set[int] = set()
        # By partition without a reader: since when, and downtime so far.
        self._open: dict[int, tuple[float, float]] = {}
        self._told: list[dict[str, Any]] = []
        super().__init__(script.kind, script.seconds, "script")
        if script.is_consumer_group:
            self.context.topics.create(TOPIC, script.kind.partitions)
            self.context.configure(
                consumer_session_timeout_ms=script.kind.session_ms,
                consumer_heartbeat_interval_ms=round(HEARTBEAT_S * 1000),
            )

    clients: list[Process]  # type: ignore[assignment]

    def _client(self, number: int) -> Process:
        process = ConsumerProcess if self.script.is_consumer_group else Process
        made = process(self, *self._name(number))
        made.finish_s = self.script.slow.get(number, QUICK_S)
        made.more = self.script.more.get(number, ())
        return made

    def _name(self, number: int) -> tuple[str, str | None]:
        name = f"app-{number}"
        return name, name if self.kind.is_static else None

    def _plan(self) -> None:
        for number, client in enumerate(self.clients):
            self._at(number * self.script.start_s, "start", client)
        for when, what, who in self.script.steps:
            self._at(when, what, None if who is None else self.clients[who])
        # Together: members that end one by one have rebalances in between.
        for client in self.clients:
            self._at(self.seconds * 0.9 - 10, "end", client)

    def _happen(self, what: str, client: Client | None) -> None:
        if isinstance(client, Process) and what == "overrun":
            client.overrun(OVERRUN_S)
        elif isinstance(client, Process) and what == "hang":
            client.hang(HANG_S)
        elif isinstance(client, Process) and what == "doomed":
            client.is_doomed = True
            client.start()
        elif isinstance(client, Process) and what == "ghost":
            client.ask_for_an_id()
        elif isinstance(client, Process) and what == "end" and not client.is_up:
            return
        else:
            super()._happen(what, client)

    def step(self) -> None:
        """Plays what is due, and notes the readers of all partitions."""
        super().step()
        read = {partition for client in self.clients for partition in client.reads}
        self._known |= read
        for partition in read & self._open.keys():
            self.downtime_s += self._open.pop(partition)[1]
        group = self.context.coordinator.groups.get("g")
        if group is not None and group.members:
            for partition in self._known - read:
                since_s, down_s = self._open.get(partition, (self.now, 0.0))
                self._open[partition] = since_s, down_s + STEP_S
            self.partition_s += STEP_S * len(self._known)

    def play(self) -> None:
        """Plays the script to its end."""
        self._told = self.live()
        # Nobody reads these any more: downtime up to the teardown, whose stops follow
        # one another within 5 s.
        end_s = self.now
        for since_s, _ in sorted(self._open.values(), reverse=True):
            if end_s - since_s > 5 and end_s < self.now:
                break
            end_s = since_s
        for since_s, down_s in self._open.values():
            self.downtime_s += min(down_s, max(end_s - since_s, 0))

    def events(self, run: str, group: str) -> list[dict[str, Any]]:
        """Its events in the broker's form."""
        return [
            {
                "schema": 1,
                "labels": {},
                **event,
                "run": run,
                "group": group,
                "node": event["hops"],
                "sequence": number,
                "time_ns": BEGIN_NS + event["t_ns"],
                "wall_ns": BEGIN_NS + event["t_ns"],
            }
            for number, event in enumerate(self._told, 1)
        ]
