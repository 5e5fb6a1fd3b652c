"""Streams of events for the page, from coordinators on virtual time.

A scene plays one group; the events of several scenes are merged by time.

    group = Scene("orders")
    group.arrive(4)
    group.crash(group.members[2])
    events = merge(group)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from typing import Any

from tests.coordinator.context import Context
from tests.coordinator.driver import START, Pending
from tests.coordinator.member import Member, subscribed
from tests.events.build import own_fields

from kohort.broker.clock import ns
from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.events import Leave, LeavingMember
from kohort.broker.events.findings.fold import Folding
from kohort.broker.events.schema import SCHEMA_VERSION
from kohort.broker.notice import Client
from kohort.control.timeline.packing import event_of
from kohort.protocol.consumer import Assignment, TopicPartitions, encode

Event = dict[str, Any]

LABELS = {"scene": "made by tests"}
MS = 1_000_000
START_NS = ns(START)
PARTITIONS = 12
WINDOW_MS = 3000
REBALANCE_MS = 8000
SESSION_MS = 10_000
UNLIMITED = 2**31 - 1
"""The default of group.max.size."""


class _Coordinator(Context):
    """A coordinator that tells heartbeats, too.

    Attributes:
        is_checked: whether its invariants are checked; takes long in large groups.
    """

    is_checked = True

    def _check(self) -> None:
        if self.is_checked:
            super()._check()

    def _new_coordinator(self) -> Coordinator:
        settings = super()._new_coordinator().settings
        numbers = self._numbers

        def new_id(prefix: str) -> str:
            text = f"{prefix}/{next(numbers)}"
            return f"{prefix}-{sha256(text.encode()).hexdigest()[:32]}"

        return Coordinator(settings, new_id, heartbeats=True)


class Scene:
    """The life of one group.

    Args:
        name: the group's id.
        partitions: the number of partitions of its only topic.
        at_ms: its start.
        is_checked: True to check the coordinator's invariants.

    Attributes:
        members: the current members, in the order in which they joined.
        context: the group's coordinator.
    """

    def __init__(
        self,
        name: str,
        partitions: int = PARTITIONS,
        at_ms: float = 0,
        *,
        is_checked: bool = True,
    ) -> None:
        self.name = name
        self.topic = f"{name}-topic"
        self.partitions = partitions
        self.members: list[Member] = []
        self.context = _Coordinator(initial_rebalance_delay_ms=WINDOW_MS)
        self.context.is_checked = is_checked
        self.wait(at_ms)
        self._count = 0
        self._first = 0

    @property
    def at_ms(self) -> float:
        """The time since all scenes began."""
        return (ns(self.context.now) - START_NS) / MS

    @property
    def count(self) -> int:
        """The number of events."""
        return len(self.context.notices)

    def events(self) -> list[Event]:
        """The group's events, since the coordinator was started last."""
        return self.context.events(self._first)

    # -- actions

    def wait(self, ms: float) -> None:
        """Time passes."""
        self.context.sleep(ms)

    def arrive(self, count: int = 1, *names: str, **options: Any) -> list[Member]:
        """New members join within one window, or one more generation.

        Args:
            count: how many.
            names: their client ids; numbered ones by default.
            options: of a `Member`, or of its `Client`; static: with an instance id.
        """
        fresh = [
            self._newcomer(*names[number : number + 1], **options)
            for number in range(count)
        ]
        for each in fresh:
            each.enter()
            self.wait(2000 / count)
        self.members += fresh
        self._rejoin()
        return fresh

    def leave(self, who: Member, reason: str | None = None) -> None:
        """A member says goodbye."""
        pending: Pending[Any] = Pending("leave")
        self.context.waiting[pending] = self.context.now
        leaving = [LeavingMember(who.member_id, who.instance, reason)]
        self.context.submit(Leave(pending, self.name, leaving))
        self.members.remove(who)
        self._rejoin()

    def crash(self, who: Member) -> None:
        """A member is not heard of for its session timeout."""
        self.members.remove(who)
        while self.context.state(self.name) == "Stable":
            self.heartbeats(3000)
        self._rejoin()

    def lag(self, who: Member) -> None:
        """The leader asks for a rebalance, and a member only sends heartbeats."""
        leader = next(each for each in self.members if each.told)
        leader.join()
        self.members.remove(who)
        self._rejoin(late=[who])

    def return_static(self, who: Member, *, rebalances: bool = False) -> None:
        """A static member comes back under a new id, after one and a half seconds."""
        self.wait(1500)
        who.member_id = ""
        if rebalances:
            who.protocols = who.protocols[1:]
        who.join()
        if rebalances:
            self._rejoin()
        else:
            who.sync()

    def refuse(self) -> None:
        """A newcomer finds the group full."""
        self.context.configure(max_size=len(self.members))
        self._newcomer().enter()
        self.context.configure(max_size=UNLIMITED)

    def heartbeats(self, for_ms: float, every_ms: float = 3000) -> None:
        """All members give signs of life for a while."""
        turns = round(for_ms / every_ms)
        for _ in range(turns):
            for each in self.members:
                each.heartbeat()
                self.wait(for_ms / turns / len(self.members))

    def commit(self, *, is_late: bool = False) -> None:
        """All members commit; late ones as of the generation before."""
        for who in self.members:
            who.commit(self.topic, 100, generation_id=who.generation_id - int(is_late))

    def restart(self, after_ms: float) -> None:
        """The coordinator goes; later another one reads the group from its log."""
        self._first = self.count
        self.wait(after_ms)
        self.context.restart()

    def forget(self) -> None:
        """The events until now are missing."""
        self._first = self.count

    # -- how a rebalance goes

    def _rejoin(self, late: Sequence[Member] = ()) -> None:
        """Members rejoin one after the other, and the leader assigns in turn."""
        if not self.members:
            return
        waiting = {str(pending) for pending in self.context.waiting}
        for number, each in enumerate(self.members):
            if f"join of {each.name}" not in waiting:
                self.wait(min(800 / len(self.members), 90 + 30 * (number % 5)))
                each.join()
        while self.context.state(self.name) == "PreparingRebalance":
            for each in late:
                each.heartbeat()
            self.wait(100)
        (leader,) = (each for each in self.members if each.told)
        for each in self.members:
            if each is not leader:
                each.sync()
        self.wait(7)
        leader.sync([self._assigned(*pair) for pair in enumerate(self.members)])

    def _assigned(self, index: int, who: Member) -> tuple[str, bytes]:
        parts = range(index, self.partitions, len(self.members))
        return who.member_id, encode(
            Assignment([TopicPartitions(self.topic, [*parts])])
        )

    def _newcomer(
        self,
        name: str | None = None,
        *,
        static: bool = False,
        host: str | None = None,
        connection: int | None = None,
        **options: Any,
    ) -> Member:
        self._count += 1
        number = self._count
        protocols = ["range", "roundrobin"]
        usual = {
            "group": self.name,
            "instance": f"{self.name}-{number}" if static else None,
            "session_ms": SESSION_MS,
            "rebalance_ms": REBALANCE_MS,
            "protocols": [
                row
                for each in protocols
                for row in subscribed(self.topic, protocol=each)
            ],
        }
        name = name or f"{self.name}-consumer-{number}"
        made = self.context.member(name, **usual | options)
        host = host or f"/10.0.{number // 250}.{number % 250 + 1}"
        made.client = Client(name, host, connection or made.client.connection)
        return made


# -- streams


def broker_event(kind: str, at_ms: float, **fields: Any) -> Event:
    """An event that is about no group."""
    at = START_NS + int(at_ms * MS)
    return {"kind": kind, "time_ns": at, **fields}


def merge(
    *scenes: Scene,
    also: Sequence[Event] = (),
    run: str = "a1b2c3",
    without: Collection[str] = (),
) -> list[Event]:
    """One stream of a single node: by time, counted, with accounts of rebalances."""
    every = [*also, *(event for scene in scenes for event in scene.events())]
    every.sort(key=lambda event: event["time_ns"])
    folding = Folding()
    numbered: list[Event] = []

    def number(event: Event) -> Event:
        common = {"schema": SCHEMA_VERSION, "run": run, "labels": LABELS, "node": 0}
        common |= {"wall_ns": event["time_ns"], "sequence": len(numbered) + 1}
        numbered.append({**event, **common})
        return numbered[-1]

    for event in every:
        if event["kind"] not in without:
            for account in folding.take(number(event)):
                number({**event_of(account), **own_fields(account, folding)})
    return numbered


def story() -> list[Event]:
    """Two groups; every state of a member, and most causes."""
    orders = Scene("orders", at_ms=200)
    _, ben, cleo = orders.arrive(3)
    orders.heartbeats(6000)
    orders.commit()
    (dora,) = orders.arrive(session_ms=6000)
    orders.heartbeats(3000)
    orders.refuse()
    orders.heartbeats(3000)
    orders.leave(ben, "the consumer is being closed")
    orders.heartbeats(3000)
    orders.commit(is_late=True)
    orders.lag(cleo)
    orders.heartbeats(3000)
    orders.crash(dora)
    orders.heartbeats(3000)
    payments = Scene("payments", at_ms=4000, partitions=6)
    leader, follower, last = payments.arrive(3, static=True)
    payments.heartbeats(9000)
    payments.return_static(follower)
    payments.heartbeats(6000)
    payments.return_static(leader, rebalances=True)
    payments.wait(2000)
    payments.leave(last)
    payments.heartbeats(6000)
    started = broker_event("node_started", 0)
    loaded = broker_event(
        "shard_loaded", 20, partition=7, groups=0, duration_ns=2_000_000
    )
    return merge(orders, payments, also=[started, loaded])


def restart() -> tuple[list[Event], list[Event]]:
    """A broker stops and starts again from its log: the events of both runs."""
    orders = Scene("orders")
    _, ben = orders.arrive(2)
    orders.wait(2000)
    first = merge(orders, also=[broker_event("node_stopped", orders.at_ms)])
    orders.restart(3000)
    started = broker_event("node_started", orders.at_ms)
    orders.wait(1000)
    orders.leave(ben)
    return first, merge(orders, also=[started], run="d4e5f6")


def deployment(members: int = 1000) -> list[Event]:
    """One large group that comes up, and loses some."""
    fleet = Scene("fleet", partitions=2 * members, is_checked=False)
    fleet.arrive(members)
    fleet.wait(5000)
    for number in range(4):
        fleet.crash(fleet.members[(number * 37 + 11) % len(fleet.members)])
        fleet.wait(4000)
    fleet.arrive(max(1, members // 50))
    fleet.wait(5000)
    return merge(fleet, without={"heartbeat"})


def many(count: int = 100_000, groups: int = 20) -> list[Event]:
    """This many events, of groups with members that join and leave."""
    scenes = [
        Scene(f"group-{number:02}", at_ms=number * 150, is_checked=False)
        for number in range(groups)
    ]
    for scene in scenes:
        scene.arrive(10)
    turns = _turns(scenes)
    while sum(scene.count for scene in scenes) < count:
        next(turns)
    return merge(*scenes)[:count]


def _turns(scenes: Sequence[Scene]) -> Iterator[None]:
    """In each of them something happens, for ever."""
    number = 0
    while True:
        for scene in scenes:
            scene.heartbeats(12_000)
            who = scene.members[number % len(scene.members)]
            if number % 3:
                scene.leave(who)
            else:
                scene.crash(who)
            scene.wait(2000)
            scene.arrive()
            scene.commit()
            yield
        number += 1


def when(events: list[Event], kind: str, **fields: object) -> float:
    """The time of the first event of a kind, in ms after the first of all."""
    first = events[0]["time_ns"]
    for event in events:
        if event["kind"] == kind and fields.items() <= event.items():
            return float(event["time_ns"] - first) / 1e6
    raise LookupError(kind)
