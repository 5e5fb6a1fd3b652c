"""Members and a coordinator in virtual time, with a network between them.

The coordinator is the real one, in the context of its tests, which checks it after
every event. Each member has a slow listener, an assignor, and an application that
polls. `World.check` verifies the invariants after every event.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tests.coordinator.context import Context
from tests.coordinator.driver import Pending

from kohort.broker.coordinator.events import Event as GroupEvent
from kohort.broker.handlers import (
    k11_join_group,
    k12_heartbeat,
    k13_leave_group,
    k14_sync_group,
)
from kohort.broker.notice import Client as Peer
from kohort.broker.template import Encoded
from kohort.client.assignors import ASSIGNORS
from kohort.client.assignors.contract import Assignment, PartitionRacks, TopicPartition
from kohort.client.config import ConsumerConfig
from kohort.client.group.classic.assignment import AssignmentMade, MakeAssignment
from kohort.client.group.classic.member import ClassicMember
from kohort.client.group.classic.membership import handle
from kohort.client.group.classic.state import ENDED, STABLE
from kohort.client.group.effects import (
    Arm,
    Call,
    CallKind,
    Cancel,
    Compute,
    Effect,
    Ended,
    Fail,
    ForgetCoordinator,
    Notice,
    Send,
)
from kohort.client.group.events import (
    Answered,
    Closed,
    Event,
    Expired,
    Failed,
    ListenerDone,
    MetadataChanged,
    PollBegan,
    PollEnded,
    Subscribed,
)
from kohort.protocol.registry import BY_NAME

COOPERATIVE = "cooperative-sticky"
EAGER = "range"

MOST_EVENTS = 2_000_000
"""Maximum events of a scene: more would be a loop."""

LEAST_MS = 0.1
"""Minimum time of a message."""

ROUNDING_MS = 0.001
"""Added to timers, so that rounding never makes them early."""


# -- a member


class Client:
    """One process with one member.

    Attributes:
        calls: the calls of the listener, in order.
        held: the partitions that the listener holds.
        failure: the error that ended the membership, if any.
        is_cut_off: whether the network fails for this process.
    """

    def __init__(self, world: World, name: str, config: ConsumerConfig) -> None:
        self.world = world
        self.name = name
        self.member = ClassicMember(config)
        self.calls: list[tuple[CallKind, list[TopicPartition]]] = []
        self.held: set[TopicPartition] = set()
        self.failure: Fail | None = None
        self.has_ended = False
        self.is_dead = False
        self.is_cut_off = False
        self.notices: list[Notice] = []
        self.sent: list[Send] = []
        self.forgotten = 0
        self.listener_ms = 0.0
        self.assigning_ms = 0.0
        self._cancelled: set[int] = set()
        self._timers: dict[str, float] = {}
        self._call: Call | None = None

    # -- the application

    def submit(self, event: Event) -> None:
        """Gives the member an event and performs the effects."""
        if self.is_dead:
            return
        for effect in handle(self.member, event, self.world.now):
            self._perform(effect)
        self.world.check(self)

    def subscribe(self, *topics: str, is_polling: bool = True) -> None:
        """Subscribes, and polls from then on."""
        if is_polling:
            self.submit(PollBegan())
        self.submit(Subscribed(topics))

    def stall(self) -> None:
        """The application processes records and does not poll again."""
        self.submit(PollEnded())

    def poll(self) -> None:
        """The application polls."""
        self.submit(PollBegan())

    def close(self, *, leaves: bool | None = None) -> None:
        """The application closes the consumer."""
        self.submit(Closed(leaves))

    def crash(self) -> None:
        """The process crashes."""
        self.is_dead = True

    @property
    def is_stable(self) -> bool:
        """True if it has an assignment and does not join."""
        member = self.member
        is_settled = member.rejoin_reason is None and member.target is None
        return member.state is STABLE and is_settled

    def of_kind(self, api: str) -> list[Any]:
        """Its requests of a kind."""
        return [send.request for send in self.sent if send.api == api]

    # -- effects

    def _perform(self, effect: Effect) -> None:
        assert not self.has_ended, f"{effect} after the end"
        if isinstance(effect, Send):
            self.sent.append(effect)
            self.world.carry(self, effect)
        elif isinstance(effect, Cancel):
            self._cancelled.add(effect.token)
        elif isinstance(effect, Call):
            self._begin_call(effect)
        elif isinstance(effect, Compute):
            self.world.after(self.assigning_ms, lambda: self._assign(effect))
        elif isinstance(effect, Arm):
            self._arm(effect)
        elif isinstance(effect, Fail):
            assert self.failure is None, "a session fails once"
            self.failure = effect
        elif isinstance(effect, Ended):
            self.has_ended = True
            assert not self.held, "the listener gave everything back"
            assert self.member.state is ENDED
        elif isinstance(effect, ForgetCoordinator):
            self.forgotten += 1
        else:
            self.notices.append(effect)

    def _arm(self, effect: Arm) -> None:
        self._timers[effect.key] = effect.deadline
        ms = max(effect.deadline - self.world.now, 0) * 1000

        def fire() -> None:
            if self._timers.get(effect.key) == effect.deadline:
                del self._timers[effect.key]
                self.submit(Expired(effect.key))

        self.world.after(ms + ROUNDING_MS, fire)

    def _assign(self, effect: Compute) -> None:
        task: MakeAssignment = effect.task
        partitions = {t: self.world.partitions.get(t, 0) for t in task.topics}
        made: Assignment = {}
        if not task.is_skipped:
            cluster = {
                topic: [PartitionRacks(number) for number in range(count)]
                for topic, count in partitions.items()
                if count
            }
            assignor = ASSIGNORS[task.protocol_name]
            made = assignor.assign(cluster, task.subscriptions)
        self.answer(effect.token, AssignmentMade(made, partitions))

    def _begin_call(self, call: Call) -> None:
        assert self._call is None, "listener calls are one at a time"
        self._call = call
        self.calls.append((call.kind, [*call.partitions]))
        partitions = set(call.partitions)
        if call.kind is CallKind.ASSIGNED:
            assert not partitions & self.held, "assigned partitions that it holds"
            self.held |= partitions
        else:
            assert partitions, "nothing to give up is no reason to call"
            assert partitions <= self.held, "revokes partitions that it never got"
            owned = self.member.owned
            if call.kind is CallKind.REVOKED:
                assert partitions <= owned, "still owned while it is revoked"
            else:
                assert not partitions & owned, "lost partitions are no longer owned"

        def done() -> None:
            if not self.is_dead:
                self._call = None
                if call.kind is not CallKind.ASSIGNED:
                    self.held -= partitions
                self.submit(ListenerDone(call.token))

        self.world.after(self.listener_ms, done)

    def answer(self, token: int, response: Any) -> None:
        """Delivers a response."""
        if token not in self._cancelled:
            self.submit(Answered(token, response))

    def fail(self, token: int) -> None:
        """Breaks its connections."""
        if token not in self._cancelled:
            self.submit(Failed(token, ConnectionError("lost")))


# -- the world


HANDLERS: dict[str, Any] = {
    "JoinGroup": k11_join_group,
    "SyncGroup": k14_sync_group,
    "Heartbeat": k12_heartbeat,
    "LeaveGroup": k13_leave_group,
}


class Request(Pending[Any]):
    """A request as the broker's handler sees it, without a connection."""

    def note_member(self, connection: int, group_id: str, member_id: str) -> None:
        """Nothing: connections do not end here."""

    def __init__(
        self,
        context: Context,
        client: Client,
        send: Send,
        on_answer: Callable[[Any], None],
    ) -> None:
        self.handler = HANDLERS[send.api]
        super().__init__(
            f"{send.api} of {client.name}",
            lambda result: self.handler.respond(self, result),
        )
        self.api = BY_NAME[send.api]
        self.version = self.api.newest
        self.message = send.request
        self.client = Peer(client.name, "/127.0.0.1")
        self.node = self
        self._context = context
        self._on_answer = on_answer

    def handle(self) -> None:
        """Passes it to the coordinator by the handler."""
        for _ in self.handler.handle(self) or ():
            pass

    def note_sync(self, *_request: object) -> None:
        """Ignores the connection: there is none."""

    def submit_group_event(self, event: GroupEvent) -> None:
        """Passes the event to the coordinator."""
        self._context.waiting[self] = self._context.now
        self._context.submit(event)

    def encode(self, response: Any) -> bytes:
        """Encodes a response."""
        return self.api.response(self.version).encode(response)

    def finish(self, answer: Any) -> None:
        """Takes the response, perhaps encoded."""
        if isinstance(answer, bytes | Encoded):
            body = b"".join(answer.parts) if isinstance(answer, Encoded) else answer
            answer, _ = self.api.response(self.version).decode(body, 0, len(body))
        self._on_answer(answer)


class World:
    """A coordinator, members, a network, and the time that passes for all of them.

    Attributes:
        partitions: of each topic.
        latency_ms: the maximum latency of a request or a response.
        loss: the fraction of requests and responses that are lost.
        is_down: whether the coordinator does not respond.
        is_strict: whether two owners of a partition are an error. They are not if an
            admin removes members, or if listeners outlast a rebalance.
    """

    def __init__(self, seed: int = 0, **settings: int) -> None:
        chosen: dict[str, Any] = {"min_session_timeout_ms": 100, **settings}
        self.context = Context(**chosen)
        self.random = Random(seed)
        self.partitions = {"t": 6}
        self.latency_ms = 0.0
        self.loss = 0.0
        self.is_down = False
        self.is_strict = True
        self.clients: list[Client] = []
        self._under_way: dict[tuple[Client, int], None] = {}
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._owners: dict[TopicPartition, Client] = {}
        self._owned: dict[str, frozenset[TopicPartition]] = {}

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self.context.now

    def client(
        self,
        name: str,
        *protocols: str,
        instance: str | None = None,
        **settings: Any,
    ) -> Client:
        """A process that is not a member yet; cooperative by default."""
        config = ConsumerConfig(
            group_id="g",
            group_instance_id=instance,
            partition_assignment_strategy=protocols or (COOPERATIVE,),
            **{
                "session_timeout_ms": 10_000,
                "heartbeat_interval_ms": 500,
                "max_poll_interval_ms": 30_000,
                "request_timeout_ms": 5_000,
            }
            | settings,
        )
        client = Client(self, name, config)
        self.clients.append(client)
        return client

    def joined(
        self,
        name: str,
        *protocols: str,
        topic: str = "t",
        ms: float = 2_000,
        **settings: Any,
    ) -> Client:
        """A process that subscribes after some time."""
        client = self.client(name, *protocols, **settings)
        client.subscribe(topic)
        self.run(ms)
        return client

    def group(self, *names: str, protocols: Sequence[str] = ()) -> list[Client]:
        """Members of a settled group."""
        clients = [self.client(name, *protocols) for name in names]
        for client in clients:
            client.subscribe("t")
        self.run(5_000)
        assert all(client.is_stable for client in clients)
        return clients

    def set_partitions(self, **partitions: int) -> None:
        """Changes the topics, and the metadata of all members."""
        self.partitions |= partitions
        for client in [*self.clients]:
            client.submit(MetadataChanged(self.partitions))

    # -- time

    def after(self, ms: float, action: Callable[[], None]) -> None:
        """Calls a function after some time."""
        heapq.heappush(self._heap, (self.now + ms / 1000, next(self._order), action))

    def run(self, ms: float) -> None:
        """Advances the time."""
        until = self.now + ms / 1000
        for _ in range(MOST_EVENTS):
            ours = self._heap[0][0] if self._heap else math.inf
            when = min([ours, *self.context.timers.values()])
            if when > until:
                break
            self.context.sleep(max(when - self.now, 0) * 1000)
            # The coordinator's timers have fired; their responses may be next.
            if self._heap and self._heap[0][0] <= self.now:
                heapq.heappop(self._heap)[2]()
            elif when > self.now:
                self.context.sleep(ROUNDING_MS)
        else:
            raise AssertionError("the scene does not come to rest")
        self.context.sleep(max(until - self.now, 0) * 1000)

    # -- the network

    def _delay(self) -> float:
        # Never 0: a session would end at the same moment on both sides.
        return self.random.uniform(0, self.latency_ms) + LEAST_MS

    def carry(self, client: Client, send: Send) -> None:
        """Sends a request to the coordinator, and its response back."""
        is_away = self.is_down or client.is_cut_off
        if self.random.random() < self.loss or is_away:
            self.after(self._delay(), lambda: client.fail(send.token))
            return
        self._under_way[client, send.token] = None
        self.after(self._delay(), lambda: self._arrive(client, send))
        self.after(send.timeout_ms, lambda: client.fail(send.token))

    def restart(self) -> None:
        """Restarts the coordinator on its log; all connections break."""
        self.context.restart()
        for client, token in self._under_way:
            self.after(self._delay(), functools.partial(client.fail, token))
        self._under_way.clear()

    def _arrive(self, client: Client, send: Send) -> None:
        def answered(response: Any) -> None:
            self._under_way.pop((client, send.token), None)
            if self.random.random() < self.loss or client.is_cut_off:
                self.after(self._delay(), lambda: client.fail(send.token))
            else:
                self.after(self._delay(), lambda: client.answer(send.token, response))

        if (client, send.token) not in self._under_way:
            return  # its connection broke while it was on its way
        if self.is_down:
            client.fail(send.token)
        else:
            Request(self.context, client, send, answered).handle()

    # -- invariants

    def check(self, client: Client) -> None:
        """No partition has two owners; listeners know of all owned partitions."""
        owned = client.member.owned
        before = self._owned.get(client.name, frozenset())
        if owned is before:
            return
        assert owned <= client.held, "the listener knows all owned partitions"
        self._owned[client.name] = owned
        for tp in before - owned:
            if self._owners.get(tp) is client:
                del self._owners[tp]
        for tp in owned - before:
            other = self._owners.get(tp)
            if other is not None and not other.is_dead and self.is_strict:
                assert self._is_replaced(other), f"{tp}: {client.name}, {other.name}"
            self._owners[tp] = client

    def _is_replaced(self, client: Client) -> bool:
        """Returns whether another process may have taken over its instance id."""
        instance = client.member.config.group_instance_id
        return instance is not None and any(
            c.member.config.group_instance_id == instance
            for c in self.clients
            if c is not client
        )

    def check_settled(self) -> None:
        """All members agree, and own each subscribed partition once."""
        members = [
            c
            for c in self.clients
            if not c.is_dead and c.member.subscription is not None and not c.has_ended
        ]
        assert all(c.is_stable for c in members), [
            (c.name, c.member.state, c.member.generation_id) for c in members
        ]
        if not members:
            return
        group = self.context.coordinator.groups["g"]
        generations = {c.member.generation_id for c in members}
        assert generations == {group.generation_id}
        assert {c.member.member_id for c in members} == set(group.members)
        leaders = [c for c in members if c.member.is_leader]
        assert len(leaders) <= 1
        wanted = {t for c in members for t in c.member.subscription or ()}
        owned = sorted(tp for c in members for tp in c.member.owned)
        assert owned == sorted(
            (t, p) for t in wanted for p in range(self.partitions.get(t, 0))
        )
