"""The asyncio driver of a member: performs its effects, and owns its timers.

Every step is the same: submit an event, perform its effects in order.

JoinGroup and SyncGroup wait for other members, and a broker answers the requests of a
connection one after the other. So they have a separate connection, and heartbeats and
commits do not wait behind them.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, ClassVar

from kohort.client.errors import (
    ClosedError,
    ConnectionFailedError,
    KohortError,
    error_of,
)
from kohort.client.group.effects import (
    Arm,
    Call,
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
    MetadataChanged,
    PollBegan,
    PollEnded,
)
from kohort.client.group.member import Member
from kohort.client.network.cluster import Cluster
from kohort.client.network.connection import Connection
from kohort.client.network.metadata import Metadata
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import BY_NAME

log = logging.getLogger("kohort.client.group")

_LONG = {"JoinGroup", "SyncGroup"}
"""Requests that wait for other members."""

_JITTER = 0.2
"""Fraction by which back-offs differ, so that members do not retry all at once."""

_LEVELS = {
    "generation_joined": logging.DEBUG,
    "membership_lost": logging.WARNING,
    "rebalance_not_enforced": logging.WARNING,
}
"""The levels of the log, by kind of notice; INFO for the others."""

_LEAST_WAIT = 0.001
"""Minimum seconds to wait when a timer fired early."""

_POLL_BEGAN, _POLL_ENDED = PollBegan(), PollEnded()
_expired = functools.cache(Expired)

_CALL: ContextVar[Call] = ContextVar("call")
"""The current call of the listener; inherited by tasks that the listener creates."""


def _versions(send: Send) -> tuple[int, int] | None:
    return (send.lowest, BY_NAME[send.api].newest) if send.lowest else None


class Polling:
    """A context manager for polls, in which the listener may be called (KIP-62)."""

    __slots__ = ("_is_polled", "_polls", "_submit")

    def __init__(self, submit: Callable[[Event], None]) -> None:
        self._submit = submit
        self._polls = 0
        self._is_polled = asyncio.Event()

    def __enter__(self) -> None:
        self._polls += 1
        if self._polls == 1:
            self._is_polled.set()
            self._submit(_POLL_BEGAN)

    def __exit__(self, *_: object) -> None:
        self._polls -= 1
        if not self._polls:
            self._is_polled.clear()
            self._submit(_POLL_ENDED)

    async def begun(self) -> None:
        """Returns when the application polls."""
        await self._is_polled.wait()


class MemberDriver:
    """Runs one member of a group.

    Args:
        handle: takes an event and the time; returns the effects, in order.
        work: takes the task of a `Compute`; returns its result.
        on_call: calls the listener; its exception is kept in `raised`, and the member
            continues.
        on_change: called when a poll has to check for changes: a call of the listener
            begins or ends, the membership fails or ends. Most events are heartbeats,
            and change nothing.

    Attributes:
        failure: the error that has ended the membership.
        raised: an exception of the listener, until a poll raises it.
        polling: the context of a poll.
    """

    def __init__(
        self,
        cluster: Cluster,
        member: Member,
        handle: Callable[[Event, float], list[Effect]],
        work: Callable[[Any], Awaitable[Any]],
        on_call: Callable[[Call], Awaitable[None]],
        on_change: Callable[[], None],
    ) -> None:
        self.member = member
        self.failure: KohortError | Exception | None = None
        self.raised: Exception | None = None
        self.polling = Polling(self.submit)
        self._cluster = cluster
        self._group = self.member.group_id
        self._name = member.config.client_id
        self._handle = handle
        self._work = work
        self._on_call = on_call
        self._on_change = on_change
        self._tasks: dict[int, asyncio.Future[Any]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._listener_task: asyncio.Task[None] | None = None
        self._call: Call | None = None
        self._is_stopped = False
        self._answering: Connection | None = None
        self._ended = asyncio.Event()
        cluster.listeners.append(self._metadata_changed)

    # -- the consumer

    def submit(self, event: Event) -> None:
        """Gives the member an event and performs the effects."""
        if self._is_stopped:
            return
        was_unsubscribed = self.member.unsubscribed
        for effect in self._handle(event, self._cluster.clock()):
            self._perform[type(effect)](self, effect)
        if was_unsubscribed and not self.member.unsubscribed:
            self._on_change()

    @property
    def is_calling(self) -> bool:
        """True if the listener is being called, or waits for a poll."""
        return self._listener_task is not None

    @property
    def is_inside(self) -> bool:
        """True if the caller is the running listener, or a task created by it.

        It must not wait for the end of the call: it would wait for itself.
        """
        return self._call is not None and _CALL.get(None) is self._call

    @property
    def is_caller(self) -> bool:
        """True if the caller is the listener itself."""
        task = self._listener_task
        return task is not None and asyncio.current_task() is task

    def raise_from_listener(self) -> None:
        """Raises the listener's exception, once."""
        raised, self.raised = self.raised, None
        if raised is not None:
            raise raised

    async def ended(self) -> None:
        """Returns when the membership has ended."""
        await self._ended.wait()

    def stop(self) -> None:
        """Ends the membership immediately, without LeaveGroup."""
        self._is_stopped = True
        with contextlib.suppress(ValueError):
            self._cluster.listeners.remove(self._metadata_changed)
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in self.under_way():
            task.cancel()
        self._ended.set()

    def under_way(self) -> list[asyncio.Future[Any]]:
        """The unfinished tasks and requests."""
        calls = [] if self._listener_task is None else [self._listener_task]
        return [*self._tasks.values(), *calls]

    # -- effects

    def _send(self, effect: Send) -> None:
        lane = "join" if effect.api in _LONG else "group"
        connection = self._cluster.connection_at_hand(self._group, lane)
        if connection is None or not self._post(effect, connection):
            self._start(effect.token, lambda: self._request(effect, lane))

    def _post(self, send: Send, connection: Connection) -> bool:
        """Sends a request without a task, which costs half; False if that failed."""
        try:
            version = connection.version(send.api, _versions(send))
            answer = connection.post(
                send.api, version, send.request, timeout_ms=send.timeout_ms
            )
        except KohortError:
            return False
        self._tasks[send.token] = answer
        answer.add_done_callback(partial(self._answered, send, connection))
        return True

    def _answered(
        self, send: Send, connection: Connection, answer: asyncio.Future[Any]
    ) -> None:
        if answer.cancelled():
            self._give_up(send, connection)
            return
        error = answer.exception()
        if self._tasks.pop(send.token, None) is None:
            return
        if isinstance(error, KohortError):
            self.submit(self._failed(send, error, was_sent=True))
        else:
            self._answering = connection
            self.submit(Answered(send.token, answer.result()))

    def _compute(self, effect: Compute) -> None:
        self._start(effect.token, lambda: self._answer(effect))

    def _start(self, token: int, work: Callable[[], Awaitable[Event]]) -> None:
        async def run() -> None:
            event = await work()
            if self._tasks.pop(token, None) is not None:
                self.submit(event)

        self._tasks[token] = asyncio.create_task(run())

    def _cancel(self, effect: Cancel) -> None:
        task = self._tasks.pop(effect.token, None)
        if task is not None:
            task.cancel()

    def _arm(self, effect: Arm) -> None:
        earlier = self._timers.pop(effect.key, None)
        if earlier is not None:
            earlier.cancel()
        now = self._cluster.clock()
        delay = max(effect.deadline - now, 0)
        if effect.key == "retry":
            delay *= 1 + self._cluster.random.uniform(0, _JITTER)
        self._wait(effect.key, now + delay, delay)

    def _wait(self, key: str, deadline: float, delay: float) -> None:
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(delay, self._fire, key, deadline)

    def _fire(self, key: str, deadline: float) -> None:
        left = deadline - self._cluster.clock()
        if left > 0:
            # uvloop rounds to milliseconds; the member counts exactly.
            self._wait(key, deadline, max(left, _LEAST_WAIT))
            return
        del self._timers[key]
        self.submit(_expired(key))

    def _forget_coordinator(self, _: ForgetCoordinator) -> None:
        self._cluster.forget_coordinator(self._group)

    def _notice(self, notice: Notice) -> None:
        level = _LEVELS.get(notice.kind, logging.INFO)
        fields = ", ".join(f"{k}={v}" for k, v in notice.fields.items())
        name, kind = self._name, notice.kind
        log.log(level, "%s: %s: group=%s, %s", name, kind, self._group, fields)

    def _fail(self, effect: Fail) -> None:
        self.failure = effect.error
        if effect.error is None:
            self.failure = error_of(
                effect.code,
                effect.message,
                api=effect.api,
                broker=None if self._answering is None else self._answering.name,
                group=self._group,
            )
        # Only INFO: it is also raised.
        log.info("%s: the consumer has failed: %s", self._name, self.failure)
        self._on_change()

    def _end(self, _: Ended) -> None:
        self.stop()
        self._on_change()

    # -- requests

    async def _request(self, send: Send, lane: str) -> Event:
        connection = None
        try:
            async with asyncio.timeout(send.timeout_ms / 1000):
                node_id = await self._cluster.coordinator(self._group)
                connection = await self._cluster.connection(node_id, lane)
            version = connection.version(send.api, _versions(send))
            response = await connection.send(
                send.api, version, send.request, timeout_ms=send.timeout_ms
            )
        except asyncio.CancelledError:
            self._give_up(send, connection)
            raise
        except TimeoutError as error:
            return Failed(send.token, error)
        except KohortError as error:
            return self._failed(send, error, was_sent=connection is not None)
        self._answering = connection
        return Answered(send.token, response)

    def _failed(self, send: Send, error: KohortError, *, was_sent: bool) -> Failed:
        error.api = error.api or send.api
        error.group = self._group
        if isinstance(error, ClosedError):
            return Failed(send.token, error)
        was_waiting = was_sent and isinstance(error, ConnectionFailedError)
        return Failed(send.token, error, error.retriable, was_waiting)

    def _give_up(self, send: Send, connection: Connection | None) -> None:
        if connection is not None and send.api in _LONG:
            # The broker reads no more requests of it before it answers.
            connection.fail("the join is given up")

    # -- computations

    async def _answer(self, effect: Compute) -> Event:
        try:
            return Answered(effect.token, await self._work(effect.task))
        except Exception as error:  # noqa: BLE001 - any, of an assignor
            return Failed(effect.token, error, is_retriable=False)

    # -- metadata

    def _metadata_changed(self, metadata: Metadata) -> None:
        known = {}
        for topic in self.member.topics:
            info = metadata.topics.get(topic)
            # Other errors are temporary, and do not tell the number of partitions.
            if info is not None and info.error_code in (
                ErrorCode.NONE,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ):
                known[topic] = len(info.partitions)
        self.submit(MetadataChanged(known))

    # -- the listener

    def _call_listener(self, call: Call) -> None:
        self._call = call
        self._listener_task = asyncio.create_task(self._run_listener(call))

    async def _run_listener(self, call: Call) -> None:
        """Waits for a poll of the application, and calls the listener."""
        self._on_change()
        try:
            await self.polling.begun()
            _CALL.set(call)
            await self._on_call(call)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # The listener was not cancelled, but a task that it awaited.
            failed = KohortError("the listener awaited a task that was cancelled")
            failed.__cause__ = error
            self.raised = self.raised or failed
        except Exception as error:  # noqa: BLE001 - any, of the application
            log.warning("%s: the listener has failed: %r", self._name, error)
            self.raised = self.raised or error
        finally:
            # Always: otherwise the member would wait for this call forever.
            self._listener_task = self._call = None
            self.submit(ListenerDone(call.token))
            self._on_change()

    _perform: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        Send: _send,
        Arm: _arm,
        Cancel: _cancel,
        Call: _call_listener,
        Compute: _compute,
        ForgetCoordinator: _forget_coordinator,
        Fail: _fail,
        Ended: _end,
        Notice: _notice,
    }
