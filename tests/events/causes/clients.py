"""Consumers of several libraries in this process, told what to do in one way."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import (
    RangePartitionAssignor as AiokafkaRange,
)
from aiokafka.coordinator.assignors.roundrobin import (
    RoundRobinPartitionAssignor as AiokafkaRoundRobin,
)
from confluent_kafka import Consumer as LibrdkafkaConsumer

from kohort.client.consumer import Consumer

T = TypeVar("T")

HEARTBEAT_MS = 50
"""How soon members hear of a rebalance."""
LASTING_MS = 120_000
"""Timeouts that no test waits for."""
BRIEF_MS = 1_500
"""Timeouts that tests wait for: long enough for a busy machine."""
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Membership:
    """Settings of a member; times in milliseconds.

    Attributes:
        servers: the broker's addresses.
        name: its client.id.
        is_static: True if it has a group.instance.id: `instance`.
        topics: its subscription; none: it waits for `subscribe`.
        assignors: the assignors that it supports, by Kafka's names.
        session_ms: session.timeout.ms.
        poll_ms: max.poll.interval.ms, which is the rebalance timeout.
        metadata_ms: metadata.max.age.ms: the interval of its metadata.
        group: its group.id.
    """

    servers: str
    name: str
    is_static: bool = False
    topics: tuple[str, ...] = ("t",)
    assignors: tuple[str, ...] = ("range",)
    session_ms: int = LASTING_MS
    poll_ms: int = LASTING_MS
    metadata_ms: int = LASTING_MS
    group: str = "g"

    @property
    def instance(self) -> str | None:
        """Its group.instance.id."""
        return f"i-{self.name}" if self.is_static else None


class Client(ABC):
    """A consumer that polls until it is closed or `stop_polling` is called.

    Attributes:
        wanted: its settings.
        is_polling: True while its application polls.
    """

    def __init__(self, wanted: Membership) -> None:
        self.wanted = wanted
        self.is_polling = True

    @abstractmethod
    async def start(self) -> None:
        """Connects, and joins if it has topics."""

    @abstractmethod
    async def close(self) -> None:
        """Ends as an application does that shuts down."""

    async def subscribe(self, *topics: str) -> None:
        """Subscribes to these topics, and to no others."""
        raise NotImplementedError(f"{type(self).__name__} cannot subscribe anew")

    async def subscribe_to(self, pattern: str) -> None:
        """Subscribes to the topics that match a pattern."""
        raise NotImplementedError(f"{type(self).__name__} cannot subscribe anew")

    async def unsubscribe(self) -> None:
        """Subscribes to nothing."""
        raise NotImplementedError(f"{type(self).__name__} cannot subscribe anew")

    def stop_polling(self) -> None:
        """The application is busy from now on."""
        self.is_polling = False

    async def enforce(self, reason: str) -> None:
        """Asks the group to rebalance."""
        raise NotImplementedError(f"{type(self).__name__} cannot do that: {reason}")

    def hold(self) -> None:
        """From now on its assignor blocks until `go_on`."""
        raise NotImplementedError(f"{type(self).__name__} has no such assignor")

    def go_on(self) -> None:
        """See `hold`."""
        raise NotImplementedError(f"{type(self).__name__} has no such assignor")

    def busy(self) -> AbstractAsyncContextManager[None]:
        """The application does something else meanwhile, and does not poll."""
        raise NotImplementedError(f"{type(self).__name__} polls all the time")

    async def crash(self) -> None:
        """Ends without a LeaveGroup, like a killed process."""
        raise NotImplementedError(f"{type(self).__name__} cannot do that in a process")

    async def end(self) -> None:
        """Closes it in any state, so that nothing of it outlives the scene."""
        with contextlib.suppress(Exception):
            await self.close()


# -- clients on the event loop


class _OnTheLoop(Client):
    """A task polls."""

    consumer: Any
    _polling: asyncio.Task[None] | None = None

    def _begin(self) -> None:
        self._polling = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        while self.is_polling:
            await self.consumer.getmany(timeout_ms=20)

    async def _stop(self) -> None:
        self.is_polling = False
        if self._polling is not None:
            with contextlib.suppress(Exception):
                await self._polling
            self._polling = None


class KohortClient(_OnTheLoop):
    """kohort's own."""

    consumer: Consumer

    async def start(self) -> None:
        """As above."""
        wanted = self.wanted
        self.consumer = Consumer(
            *wanted.topics,
            bootstrap_servers=wanted.servers,
            group_id=wanted.group,
            client_id=wanted.name,
            group_instance_id=wanted.instance,
            partition_assignment_strategy=[*wanted.assignors],
            session_timeout_ms=wanted.session_ms,
            max_poll_interval_ms=wanted.poll_ms,
            metadata_max_age_ms=wanted.metadata_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            retry_backoff_ms=10,
            fetch_max_wait_ms=50,
            auto_offset_reset="earliest",
        )
        await self.consumer.start()
        self._begin()

    async def subscribe(self, *topics: str) -> None:
        """As above."""
        self.consumer.subscribe(topics)

    async def subscribe_to(self, pattern: str) -> None:
        """As above."""
        self.consumer.subscribe(pattern=pattern)

    async def unsubscribe(self) -> None:
        """As above."""
        await self.consumer.unsubscribe()

    async def enforce(self, reason: str) -> None:
        """As above."""
        self.consumer.enforce_rebalance(reason)

    async def close(self) -> None:
        """As above."""
        await self.consumer.close()
        await self._stop()

    async def crash(self) -> None:
        """As above."""
        await self.consumer.close(0, leaves=False)
        await self._stop()

    async def end(self) -> None:
        """As above."""
        await self.crash()


class AiokafkaClient(_OnTheLoop):
    """aiokafka."""

    _ASSIGNORS = {"range": AiokafkaRange, "roundrobin": AiokafkaRoundRobin}  # noqa: RUF012

    def __init__(self, wanted: Membership) -> None:
        super().__init__(wanted)
        self._news = asyncio.Event()

    async def start(self) -> None:
        """As above."""
        wanted = self.wanted
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=wanted.servers,
            group_id=wanted.group,
            client_id=wanted.name,
            group_instance_id=wanted.instance,
            partition_assignment_strategy=[
                self._ASSIGNORS[name] for name in wanted.assignors
            ],
            session_timeout_ms=wanted.session_ms,
            max_poll_interval_ms=wanted.poll_ms,
            metadata_max_age_ms=wanted.metadata_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            rebalance_timeout_ms=wanted.poll_ms,
            fetch_max_wait_ms=50,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await self.consumer.start()
        if wanted.topics:  # `start` would wait for the group
            await self.subscribe(*wanted.topics)
        self._begin()

    async def _poll(self) -> None:
        while self.is_polling:
            if self.consumer.subscription():
                await self.consumer.getmany(timeout_ms=20)
            else:  # it raises if it has nothing to poll for
                self._news.clear()
                await self._news.wait()

    async def _stop(self) -> None:
        self._news.set()
        await super()._stop()

    async def subscribe(self, *topics: str) -> None:
        """As above."""
        self.consumer.subscribe(topics)
        self._news.set()

    async def subscribe_to(self, pattern: str) -> None:
        """As above."""
        self.consumer.subscribe(pattern=pattern)
        self._news.set()

    async def unsubscribe(self) -> None:
        """As above."""
        self.consumer.unsubscribe()

    async def close(self) -> None:
        """As above."""
        await self._stop()
        await self.consumer.stop()


# -- clients that block


class OnAThread(Client):
    """A consumer on a thread, which polls and runs calls between polls."""

    consumer: Any

    def __init__(self, wanted: Membership) -> None:
        super().__init__(wanted)
        self._calls: queue.SimpleQueue[Callable[[], object] | None]
        self._calls = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @abstractmethod
    def _make(self) -> None:
        """Makes the consumer."""

    @abstractmethod
    def _poll(self) -> None:
        """Polls once."""

    def _run(self) -> None:
        while True:
            if self._calls.empty() and self.is_polling and hasattr(self, "consumer"):
                try:
                    self._poll()
                except Exception:  # noqa: BLE001 - fenced, refused: the scene sees it
                    self.is_polling = False
                continue
            call = self._calls.get()
            if call is None:
                return
            call()

    async def _do(self, act: Callable[[], T]) -> T:
        """Has the thread do something, and waits for that."""
        done: Future[T] = Future()

        def call() -> None:
            try:
                done.set_result(act())
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                done.set_exception(error)

        self._calls.put(call)
        return await asyncio.wrap_future(done)

    @contextlib.asynccontextmanager
    async def busy(self) -> AsyncIterator[None]:
        """The application does something else meanwhile, and does not poll."""
        polls_no_more: Future[None] = Future()
        is_free = threading.Event()

        def be_busy() -> None:
            polls_no_more.set_result(None)
            is_free.wait()

        busy = asyncio.ensure_future(self._do(be_busy))
        try:
            # A poll that is under way could still join again.
            await asyncio.wrap_future(polls_no_more)
            yield
        finally:
            is_free.set()
            await busy

    async def start(self) -> None:
        """As above."""
        self._thread.start()
        await self._do(self._make)

    async def close(self) -> None:
        """As above."""
        if self._thread.is_alive():
            await self._do(self._close)
            self._calls.put(None)
            await asyncio.to_thread(self._thread.join)

    def _close(self) -> None:
        self.is_polling = False
        self.consumer.close()

    async def subscribe(self, *topics: str) -> None:
        """As above."""
        await self._do(lambda: self.consumer.subscribe([*topics]))

    async def unsubscribe(self) -> None:
        """As above."""
        await self._do(self.consumer.unsubscribe)


class LibrdkafkaClient(OnAThread):
    """librdkafka, by confluent-kafka."""

    def _make(self) -> None:
        wanted = self.wanted
        settings: dict[str, Any] = {
            "bootstrap.servers": wanted.servers,
            "group.id": wanted.group,
            "client.id": wanted.name,
            "partition.assignment.strategy": ",".join(wanted.assignors),
            "session.timeout.ms": min(wanted.session_ms, wanted.poll_ms),
            "max.poll.interval.ms": wanted.poll_ms,
            "topic.metadata.refresh.interval.ms": wanted.metadata_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "fetch.wait.max.ms": 50,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        if wanted.instance is not None:
            settings["group.instance.id"] = wanted.instance
        consumer = LibrdkafkaConsumer(settings)
        if wanted.topics:
            consumer.subscribe([*wanted.topics])
        self.consumer = consumer

    def _poll(self) -> None:
        self.consumer.poll(POLL_S)

    async def subscribe_to(self, pattern: str) -> None:
        """As above."""
        await self.subscribe(f"^{pattern}")


# -- clients that are loaded where they are needed


def kafka_python(wanted: Membership) -> Client:
    """kafka-python."""
    module = import_module("tests.events.causes.kafka_python")
    client: Client = module.KafkaPythonClient(wanted)
    return client


def slow_leader(wanted: Membership) -> Client:
    """A kafka-python whose assignor can be held: see `Client.hold`."""
    module = import_module("tests.events.causes.kafka_python")
    client: Client = module.SlowLeader(wanted)
    return client
