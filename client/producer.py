"""The producer: sends records in batches."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Generic, Unpack, overload

from kohort.client.config import ProducerConfig
from kohort.client.errors import (
    ClosedError,
    ConfigError,
    KohortError,
    RequestTimedOutError,
)
from kohort.client.lifecycle import Client, Lifecycle
from kohort.client.network.cluster import Cluster
from kohort.client.network.metadata import PartitionInfo
from kohort.client.offsets import (
    Committable,
    RecordMetadata,
    TopicPartition,
    committable,
)
from kohort.client.producing.accumulator import NEVER, Accumulator
from kohort.client.producing.batches import OVERHEAD, Headers
from kohort.client.producing.encoding import check_timestamp, encode
from kohort.client.producing.results import Delivery, Results
from kohort.client.producing.sender import API, Sender
from kohort.client.producing.topics import Choice, Topics, no_partition
from kohort.client.settings import K, ProducerSettings, V
from kohort.client.transactions.driver import TransactionDriver

if TYPE_CHECKING:  # a producer does not load the consumer
    from kohort.client.consuming.consumer_group import ConsumerGroupMetadata

log = logging.getLogger("kohort.client")

CLOSE_MS = 30_000
"""Default time limit of `close`."""
_LAST_MS = 500
"""The last part of that time, reserved for closing the connections."""


class Producer(Client, Generic[K, V]):
    """Sends records; keys are K and values V: bytes without serializers.

        async with Producer(bootstrap_servers="localhost:9092") as producer:
            where = await producer.send_and_wait("orders", b"...", key=b"k")

    Records are sent in batches, one partition each. With ``enable.idempotence``, the
    default, each batch is written once and in order, even if connections break or
    leaders change.

    Args:
        config: the settings; or pass them as keywords instead:
        settings: each setting, under Kafka's name with underscores.

    Raises:
        ConfigError: an unknown setting or an invalid value.
    """

    config: ProducerConfig

    @overload
    def __init__(self: Producer[Any, Any], config: ProducerConfig) -> None: ...
    @overload
    def __init__(self, **settings: Unpack[ProducerSettings[K, V]]) -> None: ...

    def __init__(self, config: ProducerConfig | None = None, **settings: Any) -> None:
        self.config = ProducerConfig.choose(config, settings)
        self._life = Lifecycle("producer", API)
        self._random = Random()
        self._accumulator = Accumulator(self.config)
        self._results = Results(self._accumulator, self.config.on_sent)
        self._gives_way = False
        # From `start` on:
        self._cluster: Cluster
        self._sender: Sender
        self._topics: Topics
        self._transactions: TransactionDriver | None = None
        self._loop: asyncio.AbstractEventLoop

    # -- start and close

    async def start(self) -> None:
        """Finds the cluster; with a ``transactional.id``, gets the id's next epoch.

        The new epoch fences earlier producers with this ``transactional.id``, and
        aborts their transaction.

        Raises:
            ClosedError: the producer was started before, or closed.
            KohortError: no bootstrap server responds in ``default.api.timeout.ms``, or
                there is no epoch in ``max.block.ms``. The producer is closed.
        """
        cluster = Cluster(
            self.config, random=self._random, allow_auto_topic_creation=True
        )
        await self._life.connect(cluster)
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster
        config, core = self.config, None
        self._topics = Topics(cluster, config, self._accumulator.fits, self._random)
        if config.transactional_id is not None:
            self._transactions = TransactionDriver(
                cluster, config, config.transactional_id, self._results
            )
            self._results.transactions = self._transactions
            core = self._transactions.core
        self._sender = Sender(
            cluster, config, self._accumulator, self._results, self._random, core
        )
        self._results.wake = self._sender.wake
        if self._transactions is not None:
            try:
                await self._transactions.start()
            except BaseException:
                await self.close(0)
                raise

    async def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Sends all records, and closes all connections; aborts an open transaction.

        Returns within the time limit; undelivered records fail with `ClosedError`, and
        may be in the log or not. If cancelled, it fails them immediately. A second call
        waits for the first one, within its own time limit.
        """
        await self._life.close(timeout_ms, lambda: self._close(timeout_ms))

    async def _close(self, timeout_ms: int) -> None:
        until = self._cluster.clock() + timeout_ms / 1000
        waiters, self._results.waiters = self._results.waiters, deque()
        for _, waiter in waiters:
            if not waiter.done():
                waiter.set_exception(self._life.closed_error())
        flush_ms = max(0, timeout_ms - _LAST_MS)
        try:
            if self._transactions is not None:
                await self._transactions.close(flush_ms)
            await self._flush(flush_ms)
        except RequestTimedOutError:
            pass  # the rest fails below
        finally:
            for batch in self._accumulator.abandon():
                what = "the producer was closed before the record was delivered"
                error = ClosedError(
                    what, api=API, topic=batch.topic, partition=batch.partition
                )
                self._results.failed(batch, error, {})
            self._results.progressed()
            left_ms = max(0, int((until - self._cluster.clock()) * 1000))
            try:
                await self._sender.stop()
            finally:
                await self._cluster.close(left_ms)

    # -- records

    async def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
    ) -> Delivery:
        """Adds a record to a batch, which is sent later.

        Waits only for the topic's metadata and for memory. If cancelled meanwhile, the
        record is not sent.

        Args:
            topic: the topic.
            value: bytes, or the argument of ``value.serializer``; None is null,
                which no serializer gets.
            key: likewise, by ``key.serializer``.
            partition: None: chosen by the partitioner.
            timestamp_ms: milliseconds since the epoch; None for now.
            headers: names and values, in order.

        Returns:
            A future of the record's metadata, set by the broker's response, or of
            the error. You need not await it. Cancelling it does not cancel the record.

        Raises:
            RequestTimedOutError: no metadata or no memory in ``max.block.ms``.
            MessageTooLargeError: it exceeds ``max.request.size`` or ``buffer.memory``.
            SerializationError: invalid headers, or a key or value that is not bytes.
            ClosedError: the producer is not started, or was closed.
            TransactionStateError: there is a ``transactional.id``, and no transaction.
            KohortError: an invalid topic name, a topic that you may not write to, or
                the error of the transaction.
        """
        self._life.check()
        if self._transactions is not None:
            self._transactions.core.check_open("send")
        try:
            key_bytes, tail = encode(self.config, topic, value, key, headers)
            if timestamp_ms is None:
                timestamp_ms = int(time.time() * 1000)
            else:
                check_timestamp(timestamp_ms, topic)
            if self._gives_way:
                # Lets responses be handled even if a caller sends in a loop.
                self._gives_way = False
                await asyncio.sleep(0)
            deadline = None
            choice = self._topics.known.get(topic)
            if choice is None or (
                partition is not None and partition >= len(choice.all)
            ):
                deadline = self._cluster.deadline(self.config.max_block_ms)
                choice = await self._topics.find(topic, partition, deadline)
            size = len(tail) + OVERHEAD
            if self._results.waiters or not self._accumulator.has_room(size):
                if deadline is None:
                    deadline = self._cluster.deadline(self.config.max_block_ms)
                await self._wait_for_room(topic, size, deadline)
            if self._life.is_closing:
                raise self._life.closed_error()
            return self._append(topic, choice, partition, key_bytes, tail, timestamp_ms)
        except KohortError as error:
            if self._transactions is not None:
                self._transactions.send_failed(error)
            raise

    async def send_and_wait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
    ) -> RecordMetadata:
        """Sends a record, and waits for the broker's acknowledgement.

        If cancelled while it waits for the broker, the record may still be written.

        Raises:
            KohortError: as `send`, or the record was not delivered.
        """
        delivery = await self.send(topic, value, key, partition, timestamp_ms, headers)
        return await delivery

    def _append(
        self,
        topic: str,
        choice: Choice,
        partition: int | None,
        key: bytes | None,
        tail: bytes,
        timestamp_ms: int,
    ) -> Delivery:
        if partition is None:
            partition = self._topics.choose(topic, choice, key, len(tail))
        elif not 0 <= partition < len(choice.all):
            raise no_partition(topic, partition)
        if self._transactions is not None:
            self._transactions.add_partition(topic, partition)
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

    # -- transactions

    async def begin_transaction(self) -> None:
        """Begins a transaction: `send` needs one if there is a ``transactional.id``.

        Raises:
            TransactionStateError: a transaction has begun, and has not ended.
            KohortError: the last transaction has to be aborted, or the producer has
                failed; see `KohortError.requires_abort` and `KohortError.fatal`.
        """
        self._transactional().core.begin()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, Committable],
        group: ConsumerGroupMetadata,
        timeout_ms: int | None = None,
    ) -> None:
        """Commits a consumer's offsets together with the transaction (KIP-447).

        Args:
            offsets: the next offset of each partition.
            group: from `Consumer.group_metadata`.
            timeout_ms: None for ``max.block.ms``.

        Raises:
            CommitFailedError: the group has rebalanced without the consumer.
            RequestTimedOutError: a later commit tries it again.
            TypeError: the group is its id only, as other clients take it.
            KohortError: as from `commit_transaction`.
        """
        if isinstance(group, str):
            text = "send_offsets_to_transaction needs consumer.group_metadata()"
            raise TypeError(f"{text}, not the group id {group!r}")
        rows = {TopicPartition(*p): committable(p, o) for p, o in offsets.items()}
        await self._transactional().commit_offsets(rows, group, timeout_ms)

    async def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Sends all records, waits for them, and commits the transaction.

        If it times out or is cancelled, the commit continues; call it again.

        Args:
            timeout_ms: None for ``max.block.ms``.

        Raises:
            RequestTimedOutError: the transaction has not ended in time.
            ProducerFencedError: another producer has taken the ``transactional.id``.
            KohortError: if `requires_abort` is set, call `abort_transaction`; if
                `fatal` is set, close the producer.
        """
        driver = self._transactional()
        self._accumulator.close_batches()
        await driver.end(is_commit=True, timeout_ms=timeout_ms)

    async def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Aborts the transaction; records that were not sent fail.

        Args:
            timeout_ms: None for ``max.block.ms``.

        Raises:
            KohortError: as from `commit_transaction`.
        """
        await self._transactional().end(is_commit=False, timeout_ms=timeout_ms)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A transaction as a context: committed at the end, aborted on an exception.

            async with producer.transaction():
                await producer.send("orders", b"...")

        Raises:
            KohortError: as from `begin_transaction` and `commit_transaction`. The
                producer can begin the next transaction unless `fatal` is set.
        """
        await self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException as cause:
            if self._transactional().core.may_abort:
                try:
                    await self.abort_transaction()
                except KohortError as error:
                    if error.fatal and isinstance(cause, KohortError):
                        raise error from cause
                    name = self.config.client_id
                    log.warning("%s: the transaction was not aborted: %s", name, error)
            raise

    def _transactional(self) -> TransactionDriver:
        self._life.check()
        if self._transactions is None:
            raise ConfigError("transactional_id: is needed for transactions")
        return self._transactions

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
        await self._topics.find(topic, None, deadline)
        return self._cluster.metadata.partitions(topic)

    async def _wait_for_room(self, topic: str, size: int, deadline: float) -> None:
        """Waits until there is memory, in the order of calls."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        entry = (size, waiter)
        self._results.waiters.append(entry)
        self._accumulator.is_starved = True
        self._sender.wake()
        try:
            async with asyncio.timeout(max(0.0, deadline - self._cluster.clock())):
                await waiter
        except BaseException as error:
            self._loop.call_soon(self._results.progressed)
            if not isinstance(error, TimeoutError):
                raise
            raise RequestTimedOutError(
                f"buffer_memory is full for {self.config.max_block_ms} ms",
                api=API,
                topic=topic,
            ) from None
        finally:
            if entry in self._results.waiters:
                self._results.waiters.remove(entry)
            if waiter.done() and not waiter.cancelled() and not waiter.exception():
                # The caller takes the reserved bytes before another task runs.
                self._accumulator.release(size)

    def metrics(self) -> dict[str, int]:
        """Counts since the start.

        Returns:
            ``records_sent`` and ``batches_sent``, which are delivered;
            ``records_failed``; ``retries``, the further attempts for batches that were
            delivered; ``bytes_waiting``, the memory of undelivered records.
        """
        results = self._results
        return {
            "records_sent": results.sent,
            "records_failed": results.unsent,
            "batches_sent": results.batches,
            "retries": results.retries,
            "bytes_waiting": self._accumulator.used,
        }

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Sends all records so far, and waits until they are delivered or have failed.

        The futures of `send` have the errors of failed records.

        Args:
            timeout_ms: None: no limit but ``delivery.timeout.ms`` for each record.

        Raises:
            RequestTimedOutError: some records are still undelivered.
            ClosedError: the producer is not started, or was closed.
        """
        self._life.check()
        await self._flush(timeout_ms)

    async def _flush(self, timeout_ms: int | None) -> None:
        order = self._accumulator.close_batches()
        if self._accumulator.oldest >= order:
            return
        done: asyncio.Future[None] = self._loop.create_future()
        entry = (order, done)
        self._results.flushes.append(entry)
        self._sender.wake()
        seconds = None if timeout_ms is None else timeout_ms / 1000
        try:
            async with asyncio.timeout(seconds):
                await done
        except TimeoutError:
            raise RequestTimedOutError(f"not flushed in {timeout_ms} ms") from None
        finally:
            if entry in self._results.flushes:
                self._results.flushes.remove(entry)
