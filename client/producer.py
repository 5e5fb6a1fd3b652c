"""The producer: records in, offsets out."""

from __future__ import annotations

import asyncio
import operator
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, Self

from kohort.client.config import INT64_MAX, ProducerConfig
from kohort.client.errors import (
    ClosedError,
    KohortError,
    MessageTooLargeError,
    RequestTimedOutError,
    SerializationError,
    UnknownTopicError,
    error_of,
)
from kohort.client.lifecycle import Lifecycle
from kohort.client.network.cluster import Cluster
from kohort.client.network.metadata import NO_NODE, Metadata, PartitionInfo
from kohort.client.producing.accumulator import NEVER, Accumulator
from kohort.client.producing.batches import OVERHEAD, Batch, Headers, encode_tail
from kohort.client.producing.partitioners import StickyPartitioner, partition_for_key
from kohort.client.producing.sender import API, Sender
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import NO_TIMESTAMP

CLOSE_MS = 30_000
"""Default time limit of `close`."""
_LAST_MS = 500
"""The last part of that time, reserved for closing the connections."""


class RecordMetadata(NamedTuple):
    """Topic, partition, offset and timestamp of a record that was sent.

    Attributes:
        topic: the topic that it was sent to.
        partition: of the topic.
        offset: -1 if the broker returned none: with acks=0, or for a duplicate whose
            offset it no longer knows.
        timestamp: in milliseconds since the epoch: the record's own, or the time of
            the append with ``message.timestamp.type=LogAppendTime``.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


Delivery = asyncio.Future[RecordMetadata]


class _Choice(NamedTuple):
    """The partitions of a topic."""

    all: Sequence[int]
    available: Sequence[int]
    """Those that have a leader."""


class Producer:
    """Sends records.

        async with Producer(bootstrap_servers="localhost:9092") as producer:
            where = await producer.send_and_wait("orders", b"...", key=b"k")

    Records of a partition are sent in batches, and with ``enable.idempotence``,
    which is the default, each of them is written once and in order, even if
    connections break or leaders change meanwhile.

    Args:
        config: the settings; or pass them as keywords instead:
        settings: each setting, under Kafka's name with underscores.

    Raises:
        ConfigError: an unknown setting or an invalid value.
    """

    def __init__(self, config: ProducerConfig | None = None, **settings: Any) -> None:
        self.config = ProducerConfig.choose(config, settings)
        self._life = Lifecycle("producer", API)
        random = Random()
        self._random = random
        self._accumulator = Accumulator(self.config)
        self._sticky = StickyPartitioner(
            self.config.batch_size, self._accumulator.fits, random
        )
        self._choices: dict[str, _Choice] = {}
        # (bytes, waiter) for each `send` that waits for memory, in order.
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._flushes: list[tuple[int, asyncio.Future[None]]] = []
        self._gives_way = False
        # From `start` on:
        self._cluster: Cluster
        self._sender: Sender
        self._loop: asyncio.AbstractEventLoop

    # -- start and close

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Finds the cluster.

        Raises:
            ClosedError: it was started before, or closed.
            KohortError: no bootstrap server answers in ``default.api.timeout.ms``.
        """
        cluster = Cluster(
            self.config, random=self._random, allow_auto_topic_creation=True
        )
        await self._life.connect(cluster)
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster
        cluster.listeners.append(self._metadata_changed)
        self._sender = Sender(
            cluster, self.config, self._accumulator, self, self._random
        )

    async def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Sends all records, and ends all connections.

        Returns within the time; records not delivered by then fail with
        `ClosedError`, and may be in the log or not. Cancelled, it does that at once.
        Called once more, it waits for the first call to end, within its own time.
        """
        await self._life.close(timeout_ms, lambda: self._close(timeout_ms))

    async def _close(self, timeout_ms: int) -> None:
        until = self._cluster.clock() + timeout_ms / 1000
        waiters, self._waiters = self._waiters, deque()
        for _, waiter in waiters:
            if not waiter.done():
                waiter.set_exception(self._life.closed_error())
        try:
            await self._flush(max(0, timeout_ms - _LAST_MS))
        except RequestTimedOutError:
            pass  # the rest fails below
        finally:
            for batch in self._accumulator.abandon():
                what = "the producer was closed before the record was delivered"
                error = ClosedError(
                    what, api=API, topic=batch.topic, partition=batch.partition
                )
                self.failed(batch, error, {})
            self.progressed()
            left_ms = max(0, int((until - self._cluster.clock()) * 1000))
            try:
                await self._sender.stop()
            finally:
                await self._cluster.close(left_ms)

    # -- records

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
    ) -> Delivery:
        """Adds a record to a batch, which is sent later.

        It waits for the topic's metadata and for memory only.
        Cancelled meanwhile, the record is not sent.

        Args:
            topic: the topic.
            value: bytes, or an argument of ``value.serializer``; None for null.
            key: likewise.
            partition: None: the partitioner chooses.
            timestamp_ms: milliseconds since the epoch; None for now.
            headers: names and values, in order.

        Returns:
            A future: the record's metadata once the broker acknowledges it, or the
            error. You need not await it; cancelling it does not recall the record.

        Raises:
            RequestTimedOutError: no metadata or no memory in ``max.block.ms``.
            MessageTooLargeError: it exceeds ``max.request.size`` or ``buffer.memory``.
            SerializationError: key, value or headers cannot be bytes.
            ClosedError: the producer is not started, or it was closed.
            KohortError: an invalid topic name, or a topic that you may not write to.
        """
        self._life.check()
        key_bytes, tail = self._encode(topic, value, key, headers)
        if timestamp_ms is None:
            timestamp_ms = int(time.time() * 1000)
        elif not isinstance(timestamp_ms, int) or not 0 <= timestamp_ms <= INT64_MAX:
            what = f"timestamp_ms: {timestamp_ms!r} is no time since the epoch"
            raise SerializationError(what, topic=topic)
        if self._gives_way:
            # A caller that sends in a loop still leaves responses their turn.
            self._gives_way = False
            await asyncio.sleep(0)
        deadline = None
        choice = self._choices.get(topic)
        if choice is None or (partition is not None and partition >= len(choice.all)):
            deadline = self._cluster.deadline(self.config.max_block_ms)
            choice = await self._choice(topic, partition, deadline)
        size = len(tail) + OVERHEAD
        if self._waiters or not self._accumulator.has_room(size):
            if deadline is None:
                deadline = self._cluster.deadline(self.config.max_block_ms)
            await self._wait_for_room(topic, size, deadline)
        if self._life.is_closing:
            raise self._life.closed_error()
        return self._append(topic, choice, partition, key_bytes, tail, timestamp_ms)

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
    ) -> RecordMetadata:
        """Sends a record, and waits until the broker acknowledges it.

        Cancelled while it waits for the broker, the record may be written.

        Raises:
            KohortError: as `send`; or the record was not delivered.
        """
        delivery = await self.send(topic, value, key, partition, timestamp_ms, headers)
        return await delivery

    def _encode(
        self, topic: str, value: Any, key: Any, headers: Headers | None
    ) -> tuple[bytes | None, bytes]:
        """The key, and the record as a batch takes it."""
        config = self.config
        key_bytes = _as_bytes(key, config.key_serializer, "key", topic)
        value_bytes = _as_bytes(value, config.value_serializer, "value", topic)
        try:
            tail = encode_tail(key_bytes, value_bytes, headers or ())
        except (TypeError, ValueError, AttributeError) as error:
            what = f"headers: {error}"
            raise SerializationError(what, topic=topic) from error
        size = len(tail) + OVERHEAD
        if size > config.max_request_size or size > config.buffer_memory:
            raise self._too_large(topic, size)
        return key_bytes, tail

    def _append(
        self,
        topic: str,
        choice: _Choice,
        partition: int | None,
        key: bytes | None,
        tail: bytes,
        timestamp_ms: int,
    ) -> Delivery:
        if partition is None:
            partition = self._partition(topic, choice, key, len(tail))
        elif not 0 <= partition < len(choice.all):
            raise _no_partition(topic, partition)
        delivery: Delivery = self._loop.create_future()
        now = self._cluster.clock()
        when = self._accumulator.append(
            now, topic, partition, tail, timestamp_ms, delivery
        )
        if when <= now:
            self._gives_way = True
            self._sender.wake()
        elif when < NEVER:
            self._sender.wake_at(when)
        return delivery

    def _partition(
        self, topic: str, choice: _Choice, key: bytes | None, size: int
    ) -> int:
        config = self.config
        if config.partitioner is not None:
            partition = operator.index(
                config.partitioner(topic, key, choice.all, choice.available)
            )
            if not 0 <= partition < len(choice.all):
                raise _no_partition(topic, partition)
            return partition
        if key is not None and not config.partitioner_ignore_keys:
            return partition_for_key(key, len(choice.all))
        return self._sticky.partition(topic, size, choice.all, choice.available)

    def _too_large(self, topic: str, size: int) -> MessageTooLargeError:
        config = self.config
        limit, key = min(
            (config.max_request_size, "max_request_size"),
            (config.buffer_memory, "buffer_memory"),
        )
        return MessageTooLargeError(
            f"a record of up to {size} bytes, {key} is {limit}",
            topic=topic,
            code=ErrorCode.MESSAGE_TOO_LARGE,
        )

    # -- waiting for metadata, memory and delivery

    async def partitions_for(self, topic: str) -> Sequence[PartitionInfo]:
        """The partitions of a topic, with their leaders.

        Raises:
            RequestTimedOutError: no metadata in ``max.block.ms``.
            ClosedError: the producer is not started, or it was closed.
            KohortError: an invalid topic name.
        """
        self._life.check()
        deadline = self._cluster.deadline(self.config.max_block_ms)
        await self._choice(topic, None, deadline)
        return self._cluster.metadata.partitions(topic)

    async def _choice(
        self, topic: str, partition: int | None, deadline: float
    ) -> _Choice:
        """Waits until a topic has partitions, or one partition."""
        if partition is not None and partition < 0:
            raise _no_partition(topic, partition)

        async def attempt() -> None:
            await self._cluster.add_topics([topic])
            if not self._knows(topic, partition):
                await self._cluster.refresh()
            found = self._cluster.metadata.topics.get(topic)
            if not self._knows(topic, partition):
                code = found.error_code if found is not None else 0
                raise error_of(
                    code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    api="Metadata",
                    topic=topic,
                    partition=partition,
                )

        where = {"api": "Metadata", "topic": topic, "partition": partition}
        await self._cluster.retrying(deadline, attempt, **where)
        rows = self._cluster.metadata.partitions(topic)
        available = [p.partition for p in rows if p.leader_id != NO_NODE]
        choice = self._choices[topic] = _Choice(range(len(rows)), available)
        return choice

    def _knows(self, topic: str, partition: int | None) -> bool:
        return len(self._cluster.metadata.partitions(topic)) > (partition or 0)

    def _metadata_changed(self, _: Metadata) -> None:
        self._choices.clear()

    async def _wait_for_room(self, topic: str, size: int, deadline: float) -> None:
        """Waits until there is memory, in the order of calls."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        entry = (size, waiter)
        self._waiters.append(entry)
        self._accumulator.is_starved = True
        self._sender.wake()
        try:
            async with asyncio.timeout(max(0.0, deadline - self._cluster.clock())):
                await waiter
        except BaseException as error:
            self._loop.call_soon(self.progressed)
            if not isinstance(error, TimeoutError):
                raise
            raise RequestTimedOutError(
                f"buffer_memory is full for {self.config.max_block_ms} ms",
                api=API,
                topic=topic,
            ) from None
        finally:
            if entry in self._waiters:
                self._waiters.remove(entry)
            if waiter.done() and not waiter.cancelled() and not waiter.exception():
                # The bytes are the caller's, which takes them before another task runs.
                self._accumulator.release(size)

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Sends all records that were taken so far, and waits until none is left.

        Failed deliveries raise in the futures of `send`, not here.

        Args:
            timeout_ms: None for as long as it takes; ``delivery.timeout.ms`` is
                the limit for each of them.

        Raises:
            RequestTimedOutError: some records are still undelivered.
            ClosedError: the producer is not started, or it was closed.
        """
        self._life.check()
        await self._flush(timeout_ms)

    async def _flush(self, timeout_ms: int | None) -> None:
        order = self._accumulator.close_batches()
        if self._accumulator.oldest >= order:
            return
        done: asyncio.Future[None] = self._loop.create_future()
        entry = (order, done)
        self._flushes.append(entry)
        self._sender.wake()
        seconds = None if timeout_ms is None else timeout_ms / 1000
        try:
            async with asyncio.timeout(seconds):
                await done
        except TimeoutError:
            raise RequestTimedOutError(f"not flushed in {timeout_ms} ms") from None
        finally:
            if entry in self._flushes:
                self._flushes.remove(entry)

    # -- results of batches, from the sender

    def delivered(self, batch: Batch, base_offset: int, append_time_ms: int) -> None:
        """A batch is in the log."""
        topic, partition = batch.topic, batch.partition
        step = 1 if base_offset >= 0 else 0
        offset = base_offset
        for delivery, timestamp in zip(batch.deliveries, batch.timestamps, strict=True):
            if not delivery.done():
                at = timestamp if append_time_ms == NO_TIMESTAMP else append_time_ms
                delivery.set_result(RecordMetadata(topic, partition, offset, at))
            offset += step

    def failed(
        self, batch: Batch, error: KohortError, messages: Mapping[int, str]
    ) -> None:
        """Fails the records of a batch."""
        for number, delivery in enumerate(batch.deliveries):
            if delivery.done():
                continue
            each = error.copy()  # a traceback for each waiter
            if messages.get(number):
                each.message = messages[number]
            delivery.set_exception(each)

    def progressed(self) -> None:
        """Wakes calls that wait for memory, and ends finished flushes."""
        accumulator, waiters = self._accumulator, self._waiters
        while waiters and accumulator.has_room(waiters[0][0]):
            size, waiter = waiters.popleft()
            if not waiter.done():
                accumulator.reserve(size)
                waiter.set_result(None)
        accumulator.is_starved = bool(waiters)
        oldest = accumulator.oldest
        for order, done in self._flushes:
            if order <= oldest and not done.done():
                done.set_result(None)


def _as_bytes(
    value: Any, serializer: Callable[[Any], bytes] | None, what: str, topic: str
) -> bytes | None:
    if serializer is not None:
        try:
            value = serializer(value)
        except Exception as error:
            message = f"{what}: the serializer failed: {error}"
            raise SerializationError(message, topic=topic) from error
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    message = f"{what}: {type(value).__name__} is not bytes"
    raise SerializationError(message, topic=topic)


def _no_partition(topic: str, partition: int) -> UnknownTopicError:
    return UnknownTopicError(
        "the topic has no such partition",
        topic=topic,
        partition=partition,
        retriable=False,
    )
