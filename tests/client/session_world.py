"""Sessions and a coordinator on virtual time, with a network between them.

The coordinator is the broker's own, in the context of its own tests, which
checks it after every event. Members hold listeners that take their time, an
assignor each, and a loop that polls. After everything that happens it is checked
what has to hold whatever happens: see `World.check`.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from tests.coordinator.context import Context, Pending

from kohort.broker.coordinator import events as asked
from kohort.broker.coordinator.effects import (
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    SyncResult,
)
from kohort.client.membership import (
    ENDED,
    STABLE,
    Answered,
    Arm,
    AssignmentMade,
    Call,
    CallKind,
    Cancel,
    Closed,
    Effect,
    Ended,
    Event,
    Expired,
    Fail,
    Failed,
    ForgetCoordinator,
    ListenerDone,
    MakeAssignment,
    MetadataChanged,
    Notice,
    Offer,
    PollBegan,
    PollEnded,
    Send,
    SessionSettings,
    Subscribed,
    TopicPartition,
)
from kohort.client.session import Session
from kohort.protocol.apis.k11_join_group import (
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from kohort.protocol.apis.k12_heartbeat import HeartbeatResponse
from kohort.protocol.apis.k13_leave_group import LeaveGroupResponse, MemberResponse
from kohort.protocol.apis.k14_sync_group import SyncGroupResponse
from kohort.protocol.consumer import Subscription

COOPERATIVE = "cooperative-sticky"
EAGER = "range"

MOST_EVENTS = 2_000_000
"""Of one scene: more is a loop."""

LEAST_MS = 0.1
"""What any message takes."""

ROUNDING_MS = 0.001
"""Timers never fire early: what is lost in rounding is made good for."""


def offers(*names: str) -> list[Offer]:
    """What a member supports, in order."""
    return [Offer(n, n == COOPERATIVE, lambda owned, generation: None) for n in names]


# -- two small assignors: fair, and obedient to KIP-429


def deal(
    subscriptions: Mapping[str, Subscription], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Deals every topic out to those who want it, in turns."""
    dealt: dict[str, list[TopicPartition]] = {m: [] for m in subscriptions}
    turn = itertools.count()
    for topic, count in sorted(partitions.items()):
        takers = [m for m, s in sorted(subscriptions.items()) if topic in s.topics]
        for partition in range(count) if takers else ():
            dealt[takers[next(turn) % len(takers)]].append((topic, partition))
    return dealt


def deal_cooperatively(
    subscriptions: Mapping[str, Subscription], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """As `deal`, but nobody gets what another one still owns."""
    owners: dict[TopicPartition, tuple[int, str]] = {}
    claimed: set[TopicPartition] = set()
    for member, subscription in sorted(subscriptions.items()):
        for row in subscription.owned_partitions:
            for partition in row.partitions:
                tp = row.topic, partition
                claimed.add(tp)
                claim = subscription.generation_id, member
                owners[tp] = max(owners.get(tp, claim), claim)
    wanted = {tp: m for m, row in deal(subscriptions, partitions).items() for tp in row}
    dealt: dict[str, list[TopicPartition]] = {m: [] for m in subscriptions}
    for tp, member in wanted.items():
        if tp not in claimed or owners[tp][1] == member:
            dealt[member].append(tp)
    return dealt


# -- a member


class Client:
    """One process with one session.

    Attributes:
        calls: what the listener was called with, in order.
        held: what the listener believes to hold.
        failure: what the session ended with, if it failed.
        is_cut_off: whether the network works for all but this one.
    """

    def __init__(self, world: World, name: str, settings: SessionSettings) -> None:
        self.world = world
        self.name = name
        self.session = Session(settings)
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

    # -- what the application does

    def tell(self, event: Event) -> None:
        """Hands the session an event and performs what it asks for."""
        if self.is_dead:
            return
        for effect in self.session.handle(event, self.world.now):
            self._perform(effect)
        self.world.check(self)

    def subscribe(self, *topics: str, is_polling: bool = True) -> None:
        """Subscribes, and polls from then on."""
        if is_polling:
            self.tell(PollBegan())
        self.tell(Subscribed(topics))

    def stall(self) -> None:
        """Its application works on records, and does not come back."""
        self.tell(PollEnded())

    def poll(self) -> None:
        """Its application waits for records."""
        self.tell(PollBegan())

    def close(self, *, leaves: bool | None = None) -> None:
        """Its application closes it."""
        self.tell(Closed(leaves))

    def crash(self) -> None:
        """Its process is gone."""
        self.is_dead = True

    @property
    def is_stable(self) -> bool:
        """Whether it has an assignment and wants no other."""
        return self.session.state is STABLE and not self.session.is_rebalancing

    def of_kind(self, api: str) -> list[Any]:
        """The requests of a kind that it has sent."""
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
        elif isinstance(effect, MakeAssignment):
            self.world.after(self.assigning_ms, lambda: self._assign(effect))
        elif isinstance(effect, Arm):
            self._arm(effect)
        elif isinstance(effect, Fail):
            assert self.failure is None, "a session fails once"
            self.failure = effect
        elif isinstance(effect, Ended):
            self.has_ended = True
            assert not self.held, "the listener gave everything back"
            assert self.session.state is ENDED
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
                self.tell(Expired(effect.key))

        self.world.after(ms + ROUNDING_MS, fire)

    def _assign(self, effect: MakeAssignment) -> None:
        if effect.token in self._cancelled:
            return
        partitions = {t: self.world.partitions.get(t, 0) for t in effect.topics}
        dealt: dict[str, list[TopicPartition]] = {}
        if not effect.is_skipped:
            subscriptions = {m: s for m, _, s in effect.members}
            is_careful = effect.protocol_name == COOPERATIVE
            dealt = (deal_cooperatively if is_careful else deal)(
                subscriptions, partitions
            )
        self.tell(AssignmentMade(effect.token, dealt, partitions))

    def _begin_call(self, call: Call) -> None:
        assert self._call is None, "listener calls are one at a time"
        self._call = call
        self.calls.append((call.kind, [*call.partitions]))
        partitions = set(call.partitions)
        if call.kind is CallKind.ASSIGNED:
            assert not partitions & self.held, "assigned what it holds"
            self.held |= partitions
        else:
            assert partitions, "nothing to give up is no reason to call"
            assert partitions <= self.held, "gives up what it never got"
            owned = self.session.owned
            if call.kind is CallKind.REVOKED:
                assert partitions <= owned, "still owned while it is revoked"
            else:
                assert not partitions & owned, "what is lost is owned no more"

        def done() -> None:
            if not self.is_dead:
                self._call = None
                if call.kind is not CallKind.ASSIGNED:
                    self.held -= partitions
                self.tell(ListenerDone(call.token))

        self.world.after(self.listener_ms, done)

    def answer(self, token: int, response: Any) -> None:
        """A response has come."""
        if token not in self._cancelled:
            self.tell(Answered(token, response))

    def fail(self, token: int) -> None:
        """A connection has broken."""
        if token not in self._cancelled:
            self.tell(Failed(token, ConnectionError("lost")))


# -- the world


class World:
    """A coordinator, members, a network, and the time that passes for all of them.

    Attributes:
        partitions: of each topic.
        latency_ms: how long a request or a response takes, at most.
        loss: the share of requests and of responses that are lost.
        is_down: whether the coordinator does not answer at all.
        is_strict: whether two owners of a partition are a mistake. They are not
            where an admin removes members, or listeners outlast a rebalance.
    """

    def __init__(self, seed: int = 0, **settings: int) -> None:
        self.context = Context(**{"min_session_timeout_ms": 100} | settings)
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
        """A process that is not a member yet; cooperative unless told otherwise."""
        made = SessionSettings(
            "g",
            offers(*protocols or (COOPERATIVE,)),
            instance,
            settings.get("session_timeout_ms", 10_000),
            settings.get("heartbeat_interval_ms", 500),
            settings.get("max_poll_interval_ms", 30_000),
            settings.get("request_timeout_ms", 5_000),
        )
        client = Client(self, name, made)
        self.clients.append(client)
        return client

    def group(self, *names: str, protocols: Sequence[str] = ()) -> list[Client]:
        """Members of one group that has settled."""
        clients = [self.client(name, *protocols) for name in names]
        for client in clients:
            client.subscribe("t")
        self.run(5_000)
        assert all(client.is_stable for client in clients)
        return clients

    def set_partitions(self, **partitions: int) -> None:
        """The topics change, and everybody hears of it."""
        self.partitions |= partitions
        for client in [*self.clients]:
            client.tell(MetadataChanged(self.partitions))

    # -- time

    def after(self, ms: float, action: Callable[[], None]) -> None:
        """Does something after some time."""
        heapq.heappush(self._heap, (self.now + ms / 1000, next(self._order), action))

    def run(self, ms: float) -> None:
        """Lets time pass."""
        until = self.now + ms / 1000
        for _ in range(MOST_EVENTS):
            ours = self._heap[0][0] if self._heap else math.inf
            when = min([ours, *(row[0] for row in self.context.timers.values())])
            if when > until:
                break
            self.context.sleep(max(when - self.now, 0) * 1000)
            # The coordinator's timers have fired; their answers may be next.
            if self._heap and self._heap[0][0] <= self.now:
                heapq.heappop(self._heap)[2]()
            elif when > self.now:
                self.context.sleep(ROUNDING_MS)
        else:
            raise AssertionError("the scene does not come to rest")
        self.context.sleep(max(until - self.now, 0) * 1000)

    # -- the network

    def _delay(self) -> float:
        # Never no time at all: a session would end at once at both ends of it.
        return self.random.uniform(0, self.latency_ms) + LEAST_MS

    def carry(self, client: Client, send: Send) -> None:
        """Takes a request to the coordinator, and its answer back."""
        is_away = self.is_down or client.is_cut_off
        if self.random.random() < self.loss or is_away:
            self.after(self._delay(), lambda: client.fail(send.token))
            return
        self._under_way[client, send.token] = None
        self.after(self._delay(), lambda: self._arrive(client, send))
        self.after(send.timeout_ms, lambda: client.fail(send.token))

    def restart(self) -> None:
        """The coordinator starts again on its log; all connections break."""
        self.context.restart()
        for client, token in self._under_way:
            self.after(self._delay(), functools.partial(client.fail, token))
        self._under_way.clear()

    def _arrive(self, client: Client, send: Send) -> None:
        def answered(result: Any) -> None:
            response = RESPONSES[send.api](result)
            self._under_way.pop((client, send.token), None)
            if self.random.random() < self.loss or client.is_cut_off:
                self.after(self._delay(), lambda: client.fail(send.token))
            else:
                self.after(self._delay(), lambda: client.answer(send.token, response))

        if self.is_down:
            client.fail(send.token)
            return
        pending: Pending[Any] = Pending(f"{send.api} of {client.name}", answered)
        event = REQUESTS[send.api](pending, client.name, send.request)
        self.context._ask(event, pending)  # noqa: SLF001 - the network of its tests

    # -- what has to hold

    def check(self, client: Client) -> None:
        """No partition has two owners; listeners know of all that is owned."""
        owned = client.session.owned
        before = self._owned.get(client.name, frozenset())
        if owned is before:
            return
        assert owned <= client.held, "the listener knows what is owned"
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
        """Whether its instance id may be another one's, which it has yet to hear."""
        instance = client.session.settings.group_instance_id
        return instance is not None and any(
            c.session.settings.group_instance_id == instance
            for c in self.clients
            if c is not client
        )

    def check_settled(self) -> None:
        """All members agree, and own all partitions that anybody wants, once."""
        members = [
            c
            for c in self.clients
            if not c.is_dead and c.session.subscription is not None and not c.has_ended
        ]
        assert all(c.is_stable for c in members), [
            (c.name, c.session.state, c.session.generation_id) for c in members
        ]
        if not members:
            return
        group = self.context.coordinator.groups["g"]
        generations = {c.session.generation_id for c in members}
        assert generations == {group.generation_id}
        assert {c.session.member_id for c in members} == set(group.members)
        leaders = [c for c in members if c.session.is_leader]
        assert len(leaders) <= 1
        wanted = {t for c in members for t in c.session.subscription or ()}
        owned = sorted(tp for c in members for tp in c.session.owned)
        assert owned == sorted(
            (t, p) for t in wanted for p in range(self.partitions.get(t, 0))
        )


# -- between the wire's messages and the coordinator's events


def _join(token: object, name: str, request: Any) -> asked.Join:
    return asked.Join(
        token,
        request.group_id,
        request.member_id,
        request.group_instance_id,
        name,
        "/127.0.0.1",
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        request.protocol_type,
        [(p.name, p.metadata) for p in request.protocols],
        request.reason,
        True,
        True,
    )


def _sync(token: object, _: str, request: Any) -> asked.Sync:
    return asked.Sync(
        token,
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        True,
        [(a.member_id, a.assignment) for a in request.assignments],
    )


def _heartbeat(token: object, _: str, request: Any) -> asked.Heartbeat:
    return asked.Heartbeat(
        token,
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
    )


def _leave(token: object, _: str, request: Any) -> asked.Leave:
    return asked.Leave(
        token,
        request.group_id,
        [
            asked.LeavingMember(m.member_id, m.group_instance_id, m.reason)
            for m in request.members
        ],
    )


def _joined(result: JoinResult) -> JoinGroupResponse:
    return JoinGroupResponse(
        0,
        result.error_code,
        result.generation_id,
        result.protocol_type,
        result.protocol_name,
        result.leader,
        result.skip_assignment,
        result.member_id,
        [JoinGroupResponseMember(*row) for row in result.members],
    )


def _synced(result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        0,
        result.error_code,
        result.protocol_type,
        result.protocol_name,
        result.assignment,
    )


def _alive(result: HeartbeatResult) -> HeartbeatResponse:
    return HeartbeatResponse(0, result.error_code)


def _left(result: LeaveResult) -> LeaveGroupResponse:
    rows = [MemberResponse(*row) for row in result.members]
    return LeaveGroupResponse(0, result.error_code, rows)


REQUESTS: dict[str, Callable[[object, str, Any], Any]] = {
    "JoinGroup": _join,
    "SyncGroup": _sync,
    "Heartbeat": _heartbeat,
    "LeaveGroup": _leave,
}
RESPONSES: dict[str, Callable[[Any], Any]] = {
    "JoinGroup": _joined,
    "SyncGroup": _synced,
    "Heartbeat": _alive,
    "LeaveGroup": _left,
}
