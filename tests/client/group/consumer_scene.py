"""One member of the consumer protocol, played by hand: a test is its coordinator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kohort.client.config import ConsumerConfig
from kohort.client.group.consumer.member import ConsumerMember
from kohort.client.group.consumer.membership import handle
from kohort.client.group.consumer.topics import FindTopics
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
    Event,
    Expired,
    Failed,
    ListenerDone,
    PollBegan,
    Subscribed,
)
from kohort.protocol.apis.k68_consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

T, U = b"t" * 16, b"u" * 16
"""The ids of the topics t and u."""

INTERVAL_MS = 5_000
"""The interval of heartbeats, which the coordinator sets."""

ROUNDING_S = 0.000_001

Numbers = Mapping[bytes, Sequence[int]]


class Scene:
    """A member, its application that polls, and its network.

    Attributes:
        topics: names by id, for look-ups.
        sent: all requests; `lowest` has the lowest version of each.
        calls: the calls of the listener, in order.
        is_slow: if true, calls of the listener end by `listener_returns`.
    """

    def __init__(self, instance: str | None = None, **settings: Any) -> None:
        config = ConsumerConfig(
            group_id="g",
            group_protocol="consumer",
            group_instance_id=instance,
            **{"max_poll_interval_ms": 30_000} | settings,
        )
        self.member = ConsumerMember(config, member_id="m")
        self.topics = {T: "t", U: "u"}
        self.sent: list[ConsumerGroupHeartbeatRequest] = []
        self.lowest: list[int] = []
        self.calls: list[tuple[CallKind, list[tuple[str, int]]]] = []
        self.held: set[tuple[str, int]] = set()
        self.lookups: list[FindTopics] = []
        self.notices: list[str] = []
        self.failure: Fail | None = None
        self.has_ended = False
        self.forgotten = 0
        self.is_slow = False
        self.now = 0.0
        self._timers: dict[str, float] = {}
        self._under_way: list[int] = []
        self._call: Call | None = None

    # -- the application

    def submit(self, event: Event) -> None:
        """Gives the member an event and performs the effects."""
        for effect in handle(self.member, event, self.now):
            self._perform(effect)

    def subscribe(self, *topics: str, pattern: str | None = None) -> None:
        """Subscribes, and polls from then on."""
        self.submit(PollBegan())
        self.submit(Subscribed(topics, pattern))

    @property
    def is_called(self) -> bool:
        """True while the listener is called."""
        return self._call is not None

    def listener_returns(self) -> None:
        """The listener's call ends."""
        call, self._call = self._call, None
        assert call is not None, "no call is running"
        if call.kind is not CallKind.ASSIGNED:
            self.held -= set(call.partitions)
        self.submit(ListenerDone(call.token))

    def stable(self, assignment: Numbers | None = None, epoch: int = 1) -> Scene:
        """The scene after the member has joined, owns partitions and polls."""
        self.subscribe("t")
        self.answer(epoch, {T: [0, 1, 2]} if assignment is None else assignment)
        self.answer(epoch)
        self.calls.clear()
        return self

    # -- time

    def wait(self, seconds: float) -> None:
        """Advances the time, and fires timers."""
        until = self.now + seconds
        while self._timers and min(self._timers.values()) <= until:
            key = min(self._timers, key=self._timers.__getitem__)
            self.now = max(self._timers.pop(key), self.now) + ROUNDING_S
            self.submit(Expired(key))
        self.now = max(until, self.now)

    def wait_for_beat(self) -> ConsumerGroupHeartbeatRequest:
        """Waits until the next heartbeat is due, and returns it."""
        count = len(self.sent)
        self.wait(INTERVAL_MS / 1000)
        assert len(self.sent) == count + 1
        return self.last

    # -- the coordinator

    @property
    def last(self) -> ConsumerGroupHeartbeatRequest:
        """The last request."""
        return self.sent[-1]

    @property
    def is_waiting(self) -> bool:
        """True if a request is under way."""
        return bool(self._under_way)

    def answer(
        self,
        epoch: int = 1,
        assignment: Numbers | None = None,
        *,
        code: int = 0,
        message: str | None = None,
        member_id: str | None = "m",
    ) -> None:
        """Responds to the heartbeat that is under way."""
        rows = None
        if assignment is not None:
            rows = Assignment([TopicPartitions(*each) for each in assignment.items()])
        (token,) = self._under_way
        self._under_way.clear()
        response = ConsumerGroupHeartbeatResponse(
            0, code, message, member_id, epoch, INTERVAL_MS, rows
        )
        self.submit(Answered(token, response))

    def lose_request(self, error: Exception | None = None) -> None:
        """The heartbeat under way gets no response, or an error of the client."""
        (token,) = self._under_way
        self._under_way.clear()
        is_retriable = error is None
        self.submit(Failed(token, error or ConnectionError(), is_retriable))

    # -- effects

    def _perform(self, effect: Effect) -> None:
        assert not self.has_ended, f"{effect} after the end"
        if isinstance(effect, Send):
            assert effect.api == "ConsumerGroupHeartbeat"
            assert not self._under_way, "one heartbeat at a time"
            self.sent.append(effect.request)
            self.lowest.append(effect.lowest)
            self._under_way.append(effect.token)
        elif isinstance(effect, Cancel):
            self._under_way = [t for t in self._under_way if t != effect.token]
        elif isinstance(effect, Call):
            self._begin(effect)
        elif isinstance(effect, Compute):
            self.lookups.append(effect.task)
            ids = effect.task.topic_ids
            found = {t: self.topics[t] for t in ids if t in self.topics}
            self.submit(Answered(effect.token, found))
        elif isinstance(effect, Arm):
            self._timers[effect.key] = effect.deadline
        elif isinstance(effect, Fail):
            assert self.failure is None, "a member fails once"
            self.failure = effect
        elif isinstance(effect, Ended):
            self.has_ended = True
            assert not self.held, "the listener gave everything back"
        elif isinstance(effect, ForgetCoordinator):
            self.forgotten += 1
        else:
            assert isinstance(effect, Notice)
            self.notices.append(effect.kind)

    def _begin(self, call: Call) -> None:
        assert self._call is None, "listener calls are one at a time"
        self._call = call
        self.calls.append((call.kind, [*call.partitions]))
        partitions = set(call.partitions)
        if call.kind is CallKind.ASSIGNED:
            assert not partitions & self.held, "assigned partitions that it holds"
            self.held |= partitions
        else:
            assert partitions <= self.held, "revokes partitions that it never got"
            is_owned = call.kind is CallKind.REVOKED
            assert bool(partitions & self.member.owned) == is_owned
        if not self.is_slow:
            self.listener_returns()


def owned(request: ConsumerGroupHeartbeatRequest) -> dict[bytes, list[int]] | None:
    """The partitions in a heartbeat, by the id of their topic."""
    if request.topic_partitions is None:
        return None
    return {row.topic_id: [*row.partitions] for row in request.topic_partitions}


def names(request: ConsumerGroupHeartbeatRequest) -> list[str] | None:
    """The names of topics in a heartbeat."""
    found = request.subscribed_topic_names
    return None if found is None else [*found]
