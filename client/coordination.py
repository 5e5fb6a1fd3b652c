"""Drives a `Session` by asyncio: its requests, its timers, its calls.

Requests that wait for others have a connection of their own, so that heartbeats
and commits are not stuck behind them: a broker answers one request of a
connection after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from random import Random

from kohort.client.assignors import (
    ASSIGNORS,
    Assignment,
    Assignor,
    MemberSubscription,
    PartitionInfo,
    RebalanceProtocol,
)
from kohort.client.cluster import Cluster
from kohort.client.config import ConsumerConfig
from kohort.client.errors import (
    ClosedError,
    ConfigError,
    ConnectionFailedError,
    KohortError,
    error_of,
)
from kohort.client.membership import (
    ENDED,
    Answered,
    Arm,
    AssignmentFailed,
    AssignmentMade,
    Call,
    Cancel,
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
)
from kohort.client.metadata import Metadata
from kohort.client.session import Session
from kohort.protocol.errors import ErrorCode

log = logging.getLogger("kohort.client")

_LONG = {"JoinGroup", "SyncGroup"}
"""Requests that wait for other members."""

_LARGE = 100
"""Members from which on an assignment is made in a thread: heartbeats go on."""

_JITTER = 0.2
"""The part of itself by which a back-off differs: not all members come at once."""

_LEAST_WAIT = 0.001
"""What is waited for at least, in seconds, when a timer has come early."""

_CALL: ContextVar[Call] = ContextVar("call")
"""The listener's call that code runs in, also in tasks that the listener has made."""


def settings_of(config: ConsumerConfig) -> SessionSettings:
    """The member's part of a consumer's configuration.

    Raises:
        ConfigError: an assignor is not known.
    """
    unknown = [n for n in config.partition_assignment_strategy if n not in ASSIGNORS]
    if unknown:
        known = ", ".join(sorted(ASSIGNORS))
        raise ConfigError(
            f"partition_assignment_strategy: {unknown[0]!r} is not one of {known}"
        )
    return SessionSettings(
        config.group_id or "",
        [_offer(ASSIGNORS[n]) for n in config.partition_assignment_strategy],
        config.group_instance_id,
        config.session_timeout_ms,
        config.heartbeat_interval_ms,
        config.max_poll_interval_ms,
        config.request_timeout_ms,
        config.retry_backoff_ms,
        config.retry_backoff_max_ms,
        config.client_rack or None,
    )


def _offer(assignor: Assignor) -> Offer:
    is_cooperative = RebalanceProtocol.COOPERATIVE in assignor.protocols
    return Offer(assignor.name, is_cooperative, assignor.metadata_user_data)


class Coordination:
    """A member of a group, as long as it lives.

    Args:
        cluster: where the group is.
        config: the consumer's.
        on_call: performs what the listener is called for; what it raises is kept
            in `raised`, and the group goes on.
        on_change: is called when a poll has something to look at.

    Attributes:
        session: the member's state.
        failure: why it is a member no more, for good.
        raised: what a call has raised, until somebody takes it.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        on_call: Callable[[Call], Awaitable[None]],
        on_change: Callable[[], None],
    ) -> None:
        self.session = Session(settings_of(config))
        self.failure: KohortError | Exception | None = None
        self.raised: Exception | None = None
        self._cluster = cluster
        self._group = config.group_id or ""
        self._on_call = on_call
        self._on_change = on_change
        self._random = Random()  # noqa: S311 - jitter is no secret
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._call: asyncio.Task[None] | None = None
        self._called: Call | None = None
        self._is_stopped = False
        self._gate = asyncio.Event()
        self._polls = 0
        self._broker: str | None = None
        self._ended = asyncio.Event()
        cluster.listeners.append(self._metadata_changed)

    # -- what the consumer asks for

    def tell(self, event: Event) -> None:
        """Hands the session an event, and performs what it wants done."""
        if self._is_stopped:
            return
        for effect in self.session.handle(event, self._cluster.clock()):
            self._perform(effect)

    @property
    def is_calling(self) -> bool:
        """Whether the listener is being called, or is to be."""
        return self._call is not None

    @property
    def is_inside(self) -> bool:
        """Whether the caller is the listener, or works for it, and it runs.

        To wait for the end of the call would be to wait for oneself.
        """
        return self._called is not None and _CALL.get(None) is self._called

    @property
    def is_caller(self) -> bool:
        """Whether the caller is the listener itself."""
        return self._call is not None and asyncio.current_task() is self._call

    @contextlib.contextmanager
    def polling(self) -> Iterator[None]:
        """The application waits: its listener may be called (KIP-62)."""
        self._polls += 1
        if self._polls == 1:
            self._gate.set()
            self.tell(PollBegan())
        try:
            yield
        finally:
            self._polls -= 1
            if not self._polls:
                self._gate.clear()
                self.tell(PollEnded())

    async def ended(self) -> None:
        """Returns when the session is over."""
        await self._ended.wait()

    def stop(self) -> None:
        """Ends everything at once, and for good; nobody is told."""
        self._is_stopped = True
        with contextlib.suppress(ValueError):
            self._cluster.listeners.remove(self._metadata_changed)
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in self.under_way():
            task.cancel()
        self._ended.set()

    def under_way(self) -> list[asyncio.Task[None]]:
        """The tasks that are not done."""
        calls = [] if self._call is None else [self._call]
        return [*self._tasks.values(), *calls]

    # -- effects

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, Send):
            self._start(effect.token, lambda: self._send(effect))
        elif isinstance(effect, Arm):
            self._arm(effect)
        elif isinstance(effect, Cancel):
            task = self._tasks.pop(effect.token, None)
            if task is not None:
                task.cancel()
        elif isinstance(effect, Call):
            self._called = effect
            self._call = asyncio.create_task(self._serve(effect))
        elif isinstance(effect, MakeAssignment):
            self._start(effect.token, lambda: self._assign(effect))
        elif isinstance(effect, ForgetCoordinator):
            self._cluster.forget_coordinator(self._group)
        elif isinstance(effect, Fail):
            self._fail(effect)
        elif isinstance(effect, Ended):
            self.stop()
            self._on_change()
        else:
            self._notice(effect)

    def _start(self, token: int, work: Callable[[], Awaitable[Event]]) -> None:
        async def run() -> None:
            event = await work()
            if self._tasks.pop(token, None) is not None:
                self.tell(event)
                self._on_change()

        self._tasks[token] = asyncio.create_task(run())

    def _arm(self, effect: Arm) -> None:
        earlier = self._timers.pop(effect.key, None)
        if earlier is not None:
            earlier.cancel()
        delay = max(effect.deadline - self._cluster.clock(), 0)
        if effect.key == "retry":
            delay *= 1 + self._random.uniform(0, _JITTER)
        self._wait(effect.key, self._cluster.clock() + delay, delay)

    def _wait(self, key: str, deadline: float, delay: float) -> None:
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(delay, self._fire, key, deadline)

    def _fire(self, key: str, deadline: float) -> None:
        left = deadline - self._cluster.clock()
        if left > 0:
            # uvloop rounds to milliseconds; the session takes time at its word.
            self._wait(key, deadline, max(left, _LEAST_WAIT))
            return
        del self._timers[key]
        self.tell(Expired(key))
        self._on_change()

    def _notice(self, notice: Notice) -> None:
        level = logging.DEBUG if notice.kind == "generation_joined" else logging.INFO
        if notice.kind == "membership_lost":
            level = logging.WARNING
        fields = ", ".join(f"{k}={v}" for k, v in notice.fields.items())
        log.log(level, "%s: group=%s, %s", notice.kind, self._group, fields)

    def _fail(self, effect: Fail) -> None:
        self.failure = effect.error
        if effect.error is None:
            self.failure = error_of(
                effect.code, api=effect.api, broker=self._broker, group=self._group
            )
        # Not louder: it is raised as well.
        log.info("the consumer has failed: %s", self.failure)
        self._on_change()

    # -- requests

    async def _send(self, send: Send) -> Event:
        lane = "join" if send.api in _LONG else "group"
        connection = None
        try:
            async with asyncio.timeout(send.timeout_ms / 1000):
                node_id = await self._cluster.coordinator(self._group)
                connection = await self._cluster.connection(node_id, lane)
            version = connection.version(send.api)
            response = await connection.send(
                send.api, version, send.request, timeout_ms=send.timeout_ms
            )
        except asyncio.CancelledError:
            if connection is not None and lane == "join":
                # The broker would read nothing else before it has answered.
                connection.fail("the join is given up")
            raise
        except TimeoutError as error:
            return Failed(send.token, error)
        except KohortError as error:
            error.api = error.api or send.api
            error.group = self._group
            if isinstance(error, ClosedError):
                return Failed(send.token, error)
            broke = isinstance(error, ConnectionFailedError)
            was_waiting = broke and connection is not None
            return Failed(send.token, error, error.retriable, was_waiting)
        self._broker = connection.name
        return Answered(send.token, response)

    # -- the leader's duties

    async def _assign(self, effect: MakeAssignment) -> Event:
        try:
            # The group waits for as long; then the leader is a member no more.
            interval_ms = self.session.settings.max_poll_interval_ms
            await self._cluster.retrying(
                self._cluster.deadline(interval_ms),
                lambda: self._cluster.add_topics(effect.topics),
            )
            metadata = self._cluster.metadata
            partitions = {t: len(metadata.partitions(t)) for t in effect.topics}
            made: Assignment = {}
            if not effect.is_skipped:
                made = await self._divide(effect, metadata)
        except Exception as error:  # noqa: BLE001 - whatever an assignor raises
            return AssignmentFailed(effect.token, error)
        return AssignmentMade(effect.token, made, partitions)

    async def _divide(self, effect: MakeAssignment, metadata: Metadata) -> Assignment:
        cluster = {
            topic: [
                PartitionInfo(
                    info.partition,
                    [
                        node.rack if (node := metadata.nodes.get(replica)) else None
                        for replica in info.replicas
                    ],
                )
                for info in metadata.partitions(topic)
            ]
            for topic in effect.topics
            if metadata.partitions(topic)
        }
        subscriptions = {
            member_id: MemberSubscription(
                said.topics,
                said.user_data,
                [(o.topic, p) for o in said.owned_partitions for p in o.partitions],
                said.generation_id,
                instance_id,
                said.rack_id or None,
            )
            for member_id, instance_id, said in effect.members
        }
        assignor = ASSIGNORS[effect.protocol_name]
        if len(subscriptions) < _LARGE:
            return assignor.assign(cluster, subscriptions)
        return await asyncio.to_thread(assignor.assign, cluster, subscriptions)

    def _metadata_changed(self, metadata: Metadata) -> None:
        known = {}
        for topic in self.session.topics:
            info = metadata.topics.get(topic)
            # Other errors pass; they say nothing about how many there are.
            if info is not None and info.error_code in (
                ErrorCode.NONE,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ):
                known[topic] = len(info.partitions)
        if self.session.state is not ENDED:
            self.tell(MetadataChanged(known))

    # -- the listener

    async def _serve(self, call: Call) -> None:
        """Waits until the application does nothing else, and makes the call."""
        self._on_change()
        try:
            await self._gate.wait()
            _CALL.set(call)
            await self._on_call(call)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Not the listener was cancelled, but what it has waited for.
            failed = KohortError("the listener has waited for what was cancelled")
            failed.__cause__ = error
            self.raised = self.raised or failed
        except Exception as error:  # noqa: BLE001 - the application's own
            log.warning("the listener has failed: %r", error)
            self.raised = self.raised or error
        finally:
            # Whatever it was: nobody may wait for this call for ever.
            self._call = self._called = None
            self.tell(ListenerDone(call.token))
            self._on_change()
