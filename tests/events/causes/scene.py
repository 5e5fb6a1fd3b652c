"""A group of real clients at a broker in this process, and its events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.client.stage import PATIENCE, fill
from tests.events.causes.clients import Client, Membership, OnAThread
from tests.events.folding import Fold, Parts

from kohort.broker.events.seen import Seen
from kohort.broker.server import Broker
from kohort.client.admin import Admin
from kohort.client.administering.values import MemberDescription
from kohort.client.errors import GroupIdNotFoundError

GROUP = "g"
CONFIG: Mapping[str, object] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
}
PARTITIONS = 6
QUIET_BEATS = 2
"""Heartbeats of each member after which nothing more is on its way: the first would
report a rebalance, and all other messages are answers."""

Event = Mapping[str, Any]
MakeClient = Callable[[Membership], Client]


@dataclass(slots=True)
class Scene:
    """A broker, the clients of one group, and all events.

    Attributes:
        broker: the broker.
        folder: for clients that need files.
        clients: the last client of each name.
        everybody: all clients ever started.
        live: those that should be members.
        events: about the group, in order.
        topics: the topics and their numbers of partitions.
        before: the members when the group was last at rest before the act.
        between: its members when the script asked for them.
        since: the number of events then.
        group: the group's id.
    """

    make: Callable[[Mapping[str, object], int], Broker]
    folder: Path
    broker: Broker = field(init=False)
    past: list[Event] = field(default_factory=list)
    clients: dict[str, Client] = field(default_factory=dict)
    everybody: list[Client] = field(default_factory=list)
    live: set[str] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)
    topics: dict[str, int] = field(default_factory=dict)
    before: Sequence[MemberDescription] = ()
    between: Sequence[MemberDescription] = ()
    since: int = 0
    group: str = GROUP
    fold: Fold = field(default_factory=Fold)
    beats: dict[str, int] = field(default_factory=dict)
    identities: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    # -- members

    async def start(self, name: str, library: MakeClient, **options: Any) -> Client:
        """Starts a client, which joins; does not wait for that."""
        wanted = {"group": self.group, **options}
        client = library(Membership(self.broker.bootstrap_servers, name, **wanted))
        self.clients[name] = client
        self.everybody.append(client)
        await client.start()
        if client.wanted.topics:
            self.live.add(name)
        return client

    async def comes(self, name: str, library: MakeClient, **options: Any) -> Client:
        """The same, and the group is at rest with it."""
        client = await self.start(name, library, **options)
        await self.until_at_rest()
        return client

    def misses(self, name: str) -> Client:
        """A client that is to be no member any more."""
        self.live.remove(name)
        return self.clients[name]

    # -- the broker

    def move(self) -> None:
        """Another node coordinates the group."""
        now = self.broker.coordinator_of(self.group)
        (other,) = (node for node in self.broker.cluster.nodes if node != now)
        self.broker.move_coordinator(self.group, other)

    async def restart(self, config: Mapping[str, object]) -> None:
        """The broker is stopped, and there again with other settings."""
        old = self.broker
        port = int(old.bootstrap_servers.rpartition(":")[2])
        await old.stop()
        self.past += old.events.recent(self.group)
        self.broker = self.make(config, port)
        self.listen()
        await self.broker.start()

    def recent(self) -> list[Event]:
        """The remembered events of the group, with those from before the act."""
        return [*self.past, *self.broker.events.recent(self.group)]

    # -- topics

    async def make_topic(self, name: str) -> None:
        """A new topic, with a record in each partition: polls end when they have it."""
        await fill(self.broker, name, [1] * PARTITIONS)
        self.topics[name] = PARTITIONS

    async def add_partitions(self, name: str, partitions: int) -> None:
        """A topic has more partitions from now on."""
        async with self.admin() as admin:
            (await admin.create_partitions({name: partitions}))[name]
        self.topics[name] = partitions

    def admin(self) -> Admin:
        """An admin client that reads the group."""
        return Admin(bootstrap_servers=self.broker.bootstrap_servers)

    async def members(self) -> Sequence[MemberDescription]:
        """The members of the group, from DescribeGroups."""
        async with self.admin() as admin:
            try:
                return (await admin.describe_consumer_groups([self.group]))[
                    self.group
                ].members
            except GroupIdNotFoundError:
                return ()

    # -- observations

    def listen(self) -> None:
        """Collects the broker's events from now on."""
        self.broker.events.listen(self._see)

    def _see(self, seen: Seen) -> None:
        if seen.notice.group_id == self.group:
            self._take(seen.event)
            self.changed.set()

    def _take(self, event: Event) -> None:
        self.events.append(event)
        self.fold.take(event)
        kind, member_id = event["kind"], event["member_id"]
        if kind in {"member_joined", "member_replaced"}:
            self.identities[member_id] = (event["client_id"], event["instance_id"])
        if kind == "heartbeat":
            if event["error"] == "NONE":
                self.beats[member_id] = self.beats.get(member_id, 0) + 1
        elif kind in {"rebalance_started", "assignment_made", "group_loaded"}:
            self.beats.clear()
        elif kind.startswith("member_"):
            self.beats.pop(member_id, None)

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Returns as soon as events say that something is so."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not holds():
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            raise AssertionError(f"not until {what}:\n{self.story()}") from None

    async def until_event(self, kind: str, name: str, **facts: object) -> None:
        """Waits for an event about a client since the act began."""

        def holds() -> bool:
            return any(
                event["kind"] == kind
                and event["client_id"] == name
                and facts.items() <= event.items()
                for event in self.events[self.since :]
            )

        await self.until(holds, f"{kind} of {name}")

    async def until_at_rest(self, rebalances: int = 0) -> None:
        """Waits until this many rebalances have begun since the act, and none goes on.

        Then all live clients are members, own all partitions, and have had a successful
        heartbeat since the last event about them.
        """
        await self.until(
            lambda: len(self.started()) >= rebalances and self._is_at_rest(),
            f"at rest after {rebalances} rebalances",
        )

    async def until_state(self, state: str) -> None:
        """Returns when the group is in a state."""
        groups = self.fold.groups
        await self.until(
            lambda: self.group in groups and groups[self.group].state == state,
            f"it is {state}",
        )

    def has(self, kind: str) -> bool:
        """True if the act has produced this event."""
        return any(event["kind"] == kind for event in self.events[self.since :])

    def started(self) -> list[Event]:
        """The rebalances that began since the act, as the stream has them."""
        return [
            e for e in self.events[self.since :] if e["kind"] == "rebalance_started"
        ]

    def took_ns(self, run: str, node: int, sequence: int) -> int:
        """The duration of a rebalance by the broker's clock, from its events alone."""
        first = next(
            index
            for index, event in enumerate(self.events)
            if (event["run"], event["node"], event["sequence"]) == (run, node, sequence)
        )
        last = next(filter(_is_end, self.events[first + 1 :]))
        took_ns: int = last["time_ns"] - self.events[first]["time_ns"]
        return took_ns

    def _is_at_rest(self) -> bool:
        known = self.fold.groups.get(self.group)
        if known is None or known.state not in {"Stable", "Empty"}:
            return not self.live
        if not all(self._is_quiet(self.clients[name]) for name in self.live):
            return False
        owned = [place for places in known.owned.values() for place in places]
        return {*owned} == self._wanted() and len(owned) == len({*owned})

    def _is_quiet(self, client: Client) -> bool:
        wanted = client.wanted
        known = self.fold.groups[self.group]
        return any(
            self.beats.get(member_id, 0) >= QUIET_BEATS
            for member_id in known.members
            if self.identities.get(member_id) == (wanted.name, wanted.instance)
        )

    def _wanted(self) -> Parts:
        known = self.fold.groups[self.group]
        if not known.members:
            return set()
        return {(t, p) for t, count in self.topics.items() for p in range(count)}

    async def begin(self) -> None:
        """From here on the one thing happens."""
        self.before = await self.members()
        self.since = len(self.events)

    def story(self) -> str:
        """All that happened, for a failed row."""
        rows = []
        for event in self.events:
            if event["kind"] in {"heartbeat", "offsets_committed"}:
                continue
            left = {
                name: value
                for name, value in event.items()
                if name not in _DULL and value is not None
            }
            rows.append(f"{event['time_ns'] / 1e9:.3f} {left}")
        return "\n".join(rows)


def _is_end(event: Event) -> bool:
    """True if this event ends a rebalance in progress."""
    if event["kind"] == "join_completed":
        return not event["members"]
    return event["kind"] in {"assignment_made", "rebalance_started", "group_loaded"}


_DULL = {"schema", "run", "labels", "wall_ns", "group", "time_ns", "host"}


@contextlib.asynccontextmanager
async def playing(
    folder: Path, config: Mapping[str, object], nodes: int, is_kept: bool = False
) -> AsyncIterator[Scene]:
    """A scene with a topic, which ends with all that it has begun."""

    def make(more: Mapping[str, object] = config, port: int = 0) -> Broker:
        return Broker(
            {**CONFIG, **more},
            port=port,
            nodes=nodes,
            data_dir=folder / "data" if is_kept else None,
            events_heartbeats=True,
        )

    scene = Scene(make, folder)
    scene.broker = make()
    scene.listen()
    await scene.broker.start()
    try:
        await scene.make_topic("t")
        yield scene
    finally:
        # Those that block first: librdkafka closes after the rebalance that it is in,
        # and that would wait for the sessions of others that are gone.
        clients = scene.everybody
        blocking = [each for each in clients if isinstance(each, OnAThread)]
        await asyncio.gather(*(each.end() for each in blocking))
        others = [each for each in clients if not isinstance(each, OnAThread)]
        await asyncio.gather(*(each.end() for each in others))
        await scene.broker.stop()
