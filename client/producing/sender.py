"""Sends the accumulator's batches to their leaders, in order, and retries.

One function that never waits does the work: `_pump` is called after new records,
responses, connections and metadata, and at the next deadline. There are tasks only for
connecting, producer ids, and sends without a response (acks=0).
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from kohort.client.config import ProducerConfig
from kohort.client.errors import (
    ClosedError,
    ConnectionFailedError,
    KohortError,
    RequestTimedOutError,
    error_of,
)
from kohort.client.network.cluster import Cluster
from kohort.client.network.connection import Connection
from kohort.client.network.metadata import Metadata, NewLeader, Node, with_leaders
from kohort.client.network.reconnecting import Backoff
from kohort.client.offsets import TopicPartition
from kohort.client.producing.accumulator import NEVER, Accumulator, Queue
from kohort.client.producing.batches import Batch
from kohort.client.transactions.transaction_manager import TransactionManager
from kohort.protocol import compression
from kohort.protocol.apis.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdRequest
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import ZERO_UUID
from kohort.protocol.records import NO_TIMESTAMP, TRANSACTIONAL

API = "Produce"
_INIT_API = "InitProducerId"
_ZSTD_SINCE = 7
_TOPIC_IDS_SINCE = 13
_WITHOUT_ADDING = 11
"""The last version in which brokers add no partitions to a transaction (KIP-890)."""
_REQUEST_OVERHEAD = 512
"""Bytes of a request with one or a few topics, without its batches."""
_NO_TRANSACTION_MS = 2**31 - 1


class Deliveries(Protocol):
    """The producer, which takes the results of batches."""

    def delivered(self, batch: Batch, base_offset: int, append_time_ms: int) -> None:
        """A batch was written; -1 if the broker returned no offset or time."""

    def failed(
        self, batch: Batch, error: KohortError, messages: Mapping[int, str]
    ) -> None:
        """A batch has failed; some records may have their own error messages."""

    def progressed(self) -> None:
        """Batches have ended, and their memory is free."""


@dataclass(slots=True)
class _Lane:
    """The state of sending to one node."""

    node_id: int
    connection: Connection | None = None
    """The latest connection, perhaps closed."""
    requests: int = 0
    """Unanswered requests."""
    task: asyncio.Task[None] | None = None
    """Connects, or sends with acks=0; nothing else is sent meanwhile."""
    error: KohortError | None = None
    """The error of the last attempt to connect."""


class Sender:
    """Sends until it is stopped."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        accumulator: Accumulator,
        deliveries: Deliveries,
        random: Random,
        transaction: TransactionManager | None,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._accumulator = accumulator
        self._deliveries = deliveries
        self._loop = asyncio.get_running_loop()
        self._transaction = transaction
        self._flags = 0 if transaction is None else TRANSACTIONAL
        self._codec = compression.CODECS.index(config.compression_type)
        self._level = config.compression_level
        self._oldest = _ZSTD_SINCE if self._codec == compression.ZSTD else 0
        self._backoff = Backoff(
            config.retry_backoff_ms, config.retry_backoff_max_ms, random
        )
        self._lanes: dict[int, _Lane] = {}
        self._beginning: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER
        self._is_scheduled = False
        self._is_stopped = False
        cluster.listeners.append(self._metadata_changed)

    # -- the end

    async def stop(self) -> None:
        """Stops sending, and ignores later responses."""
        self._is_stopped = True
        self._cluster.listeners.remove(self._metadata_changed)
        if self._timer is not None:
            self._timer.cancel()
        tasks = [lane.task for lane in self._lanes.values()]
        tasks.append(self._beginning)
        under_way = [task for task in tasks if task is not None]
        for task in under_way:
            task.cancel()
        if under_way:
            await asyncio.wait(under_way)

    # -- wake-ups

    def wake(self) -> None:
        """Calls `_pump` soon."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._pump)

    def wake_at(self, when: float) -> None:
        """Calls `_pump` at that time."""
        if when < self._timer_at and not self._is_scheduled:
            self._arm(when, self._cluster.clock())

    def _metadata_changed(self, _: Metadata) -> None:
        self.wake()

    def _arm(self, when: float, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = when
        if when < NEVER:
            self._timer = self._loop.call_later(max(0.0, when - now), self.wake)

    def _pump(self) -> None:
        """Sends all batches that can be sent."""
        self._is_scheduled = False
        if self._is_stopped:
            return
        now = self._cluster.clock()
        due = self._accumulator.poll(now)
        for batch in due.expired:
            self._deliveries.failed(batch, self._late(batch), {})
        by_node: dict[int, deque[Queue]] = {}
        for queue in due.ready:
            if not self._may_send(queue):
                continue
            leader = self._cluster.leader(queue.topic, queue.partition)
            if leader is None:
                self._cluster.request_update()
            elif not queue.in_flight or queue.node_id == leader:
                by_node.setdefault(leader, deque()).append(queue)
        next_at = due.next_at
        for node_id, queues in by_node.items():
            next_at = min(next_at, self._feed(node_id, queues, now))
        self._arm(next_at, now)
        if due.expired:
            self._deliveries.progressed()

    def _may_send(self, queue: Queue) -> bool:
        """Returns whether a partition has a producer id, and is in the transaction."""
        transaction = self._transaction
        if transaction is not None:
            place = TopicPartition(queue.topic, queue.partition)
            return transaction.may_send(place) and not queue.lacks_an_id
        if queue.lacks_an_id:
            self._begin()
            return False
        return True

    def _late(self, batch: Batch) -> KohortError:
        """The error of a batch that was not delivered in time."""
        last = batch.last_error
        leader = self._cluster.leader(batch.topic, batch.partition)
        if last is None and leader in self._lanes:
            last = self._lanes[leader].error
        ms = self._config.delivery_timeout_ms
        what = f"not delivered within {ms} ms"
        broker, code = None, None
        if isinstance(last, KohortError):
            what += f"; the last error was: {last.message or type(last).__name__}"
            broker, code = last.broker, last.code
        elif leader is None:
            what += "; the partition has no leader"
        if broker is None and leader is not None:
            broker = self._cluster.name_of(leader)
        error = RequestTimedOutError(
            what,
            api=API,
            broker=broker,
            topic=batch.topic,
            partition=batch.partition,
            code=code,
        )
        error.__cause__ = last
        return error

    # -- the producer id

    def _begin(self) -> None:
        if self._beginning is None:
            self._beginning = self._loop.create_task(self._ask_for_id())

    async def _ask_for_id(self) -> None:
        """Gets a new producer id (KIP-98), also for partitions with a gap (KIP-360)."""
        try:
            deadline = self._cluster.deadline()
            response = await self._cluster.retrying(
                deadline, self._init_producer_id, api=_INIT_API
            )
            ids = self._accumulator.ids
            ids.assign(response.producer_id, response.producer_epoch)
        except KohortError as error:
            for queue in list(self._accumulator.waiting()):
                if not queue.lacks_an_id:
                    continue
                for batch in queue.waiting:
                    batch.last_error = error
                if not isinstance(error, RequestTimedOutError):
                    self._drop(queue, error)
            self._deliveries.progressed()
        finally:
            self._beginning = None
            self.wake()

    async def _init_producer_id(self) -> Any:
        connection = await self._cluster.connection(None)
        request = InitProducerIdRequest(None, _NO_TRANSACTION_MS)
        return await connection.call(_INIT_API, request)

    def _drop(self, queue: Queue, error: KohortError) -> None:
        """Fails the waiting batches of a partition."""
        for batch in self._accumulator.drop(queue):
            self._deliveries.failed(batch, _about(error, batch), {})

    # -- requests

    def _feed(self, node_id: int, queues: deque[Queue], now: float) -> float:
        """Sends all allowed requests to a node; returns when to check again."""
        lane = self._lanes.get(node_id)
        if lane is None:
            lane = self._lanes[node_id] = _Lane(node_id)
        connection = lane.connection
        if lane.task is not None:
            return NEVER
        if connection is None or not connection.is_open:
            if connection is not None:
                # With acks=0 a broker that does not lead closes the connection.
                self._cluster.request_update()
            lane.task = self._loop.create_task(self._connect(lane))
            return NEVER
        if connection.needs_authentication:
            lane.task = self._loop.create_task(self._connect(lane))
            return NEVER
        if pause := connection.quiet_seconds:
            return now + pause
        most = self._config.max_in_flight_requests_per_connection
        while queues and lane.requests < most and lane.task is None:
            self._post(lane, connection, self._fill(node_id, queues, now))
        return NEVER

    def _fill(self, node_id: int, queues: deque[Queue], now: float) -> list[Batch]:
        """Takes the batches of one request: one per partition, while they fit."""
        batches: list[Batch] = []
        left = self._config.max_request_size - _REQUEST_OVERHEAD
        for _ in range(len(queues)):
            queue = queues[0]
            left -= queue.waiting[0].size
            if batches and left < 0:
                break
            batches.append(self._accumulator.next_batch(queue, node_id))
            queues.popleft()
            if self._accumulator.is_ready(queue, now):
                queues.append(queue)
        return batches

    async def _connect(self, lane: _Lane) -> None:
        try:
            lane.connection = await self._cluster.connection(lane.node_id)
            await lane.connection.ready()
            lane.error = None
        except KohortError as error:
            lane.error = error
            self._cluster.request_update()
            if not error.retriable and not isinstance(error, ClosedError):
                for queue in list(self._accumulator.waiting()):
                    leader = self._cluster.leader(queue.topic, queue.partition)
                    if leader == lane.node_id:
                        self._drop(queue, error)
                self._deliveries.progressed()
        finally:
            lane.task = None
            self.wake()

    def _post(self, lane: _Lane, connection: Connection, batches: list[Batch]) -> None:
        """Sends one request."""
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in batches:
            data = PartitionProduceData(
                batch.partition, batch.seal(self._codec, self._flags, self._level)
            )
            topics.setdefault(batch.topic, []).append(data)
        ids = {name: self._topic_id(name) for name in topics}
        acks, config = self._config.required_acks, self._config
        request = ProduceRequest(
            config.transactional_id,
            acks,
            config.request_timeout_ms,
            [TopicProduceData(name, ids[name], topics[name]) for name in topics],
        )
        newest = _TOPIC_IDS_SINCE if ZERO_UUID not in ids.values() else 12
        if self._transaction is not None and self._transaction.version < 2:
            newest = _WITHOUT_ADDING
        try:
            version = connection.version(API, (self._oldest, newest))
            if acks == 0:
                lane.task = self._loop.create_task(
                    self._send_unanswered(lane, connection, version, request, batches)
                )
                return
            answer = connection.post(API, version, request)
        except KohortError as error:
            self._all_failed(batches, error)
            return
        lane.requests += 1
        answer.add_done_callback(
            functools.partial(self._answered, lane, connection, batches, ids)
        )

    def _topic_id(self, topic: str) -> bytes:
        found = self._cluster.metadata.topics.get(topic)
        return ZERO_UUID if found is None else found.topic_id

    async def _send_unanswered(
        self,
        lane: _Lane,
        connection: Connection,
        version: int,
        request: ProduceRequest,
        batches: Sequence[Batch],
    ) -> None:
        try:
            await connection.send_unanswered(API, version, request)
        except KohortError as error:
            self._all_failed(batches, error)
        else:
            for batch in batches:
                if self._accumulator.delivered(batch):
                    self._deliveries.delivered(batch, -1, NO_TIMESTAMP)
            self._deliveries.progressed()
        finally:
            lane.task = None
            self.wake()

    # -- responses

    def _answered(
        self,
        lane: _Lane,
        connection: Connection,
        batches: Sequence[Batch],
        ids: dict[str, bytes],
        answer: asyncio.Future[Any],
    ) -> None:
        lane.requests -= 1
        error = answer.exception()
        if self._is_stopped:
            return
        if isinstance(error, KohortError):
            self._all_failed(batches, error)
            return
        response: ProduceResponse = answer.result()
        self._learn(response, ids)
        rows = dict(_rows(response, ids))
        for batch in batches:
            row = rows.get((batch.topic, batch.partition))
            self._handle_row(batch, row, connection)
        self._deliveries.progressed()
        self.wake()

    def _handle_row(
        self,
        batch: Batch,
        row: PartitionProduceResponse | None,
        connection: Connection,
    ) -> None:
        """Handles the response for one batch."""
        if row is None:
            code: int = ErrorCode.UNKNOWN_SERVER_ERROR
            message: str | None = "the response does not contain the partition"
            errors: dict[int, str] = {}
        elif row.error_code in {0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}:
            if self._accumulator.delivered(batch):
                self._deliveries.delivered(
                    batch, row.base_offset, row.log_append_time_ms
                )
            return
        else:
            code, message = row.error_code, row.error_message
            errors = {
                e.batch_index: e.batch_index_error_message or ""
                for e in row.record_errors
            }
        error = error_of(
            code,
            api=API,
            broker=connection.name,
            topic=batch.topic,
            partition=batch.partition,
            message=message,
        )
        self._cluster.note(error)
        self._failed(batch, error, errors)

    def _learn(self, response: ProduceResponse, ids: dict[str, bytes]) -> None:
        """Takes new leaders from the response (KIP-951)."""
        leaders = [
            NewLeader(topic, index, leader.leader_id, leader.leader_epoch)
            for (topic, index), row in _rows(response, ids)
            if (leader := row.current_leader).leader_id >= 0
        ]
        if not leaders:
            return
        nodes = [
            Node(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints
        ]
        metadata = with_leaders(self._cluster.metadata, leaders, nodes)
        if metadata is not self._cluster.metadata:
            self._cluster.update_metadata(metadata)

    def _all_failed(self, batches: Iterable[Batch], error: KohortError) -> None:
        """Handles a request without a response."""
        if isinstance(error, ConnectionFailedError | RequestTimedOutError):
            self._cluster.request_update()
        for batch in batches:
            self._failed(batch, _about(error, batch), {})
        self._deliveries.progressed()
        self.wake()

    def _failed(
        self, batch: Batch, error: KohortError, messages: Mapping[int, str]
    ) -> None:
        """Puts a batch back for a retry, or gives it up."""
        accumulator, now = self._accumulator, self._cluster.clock()
        batch.last_error = error
        if _is_too_large(batch, error):
            accumulator.split(batch, self._codec)
            return
        goes_again = accumulator.refused(batch, error.code)
        may_go_again = error.retriable and batch.attempts <= self._config.retries
        if not batch.is_done and (goes_again or may_go_again):
            leader = self._cluster.leader(batch.topic, batch.partition)
            was_at = accumulator.node_of(batch)
            pause = self._backoff.seconds(batch.attempts)
            # No wait is needed if the new leader is known (KIP-951).
            is_moved = error.code in _MOVED and leader not in {None, was_at}
            accumulator.put_back(batch, 0.0 if is_moved else now + pause)
        elif accumulator.give_up(batch):
            self._deliveries.failed(batch, error, messages)


_MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def _is_too_large(batch: Batch, error: KohortError) -> bool:
    """Returns whether splitting the batch may help."""
    is_too_large = error.code == ErrorCode.MESSAGE_TOO_LARGE
    return is_too_large and batch.count > 1 and not batch.is_done


def _rows(
    response: ProduceResponse, ids: dict[str, bytes]
) -> Iterable[tuple[tuple[str, int], PartitionProduceResponse]]:
    """The rows of a response by partition; from v13 on topics have ids."""
    names = {topic_id: name for name, topic_id in ids.items()}
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for row in topic.partition_responses:
            yield (name, row.index), row


def _about(error: KohortError, batch: Batch) -> KohortError:
    """The error of a request, for one partition of it."""
    made = error.copy(api=API, topic=batch.topic, partition=batch.partition)
    made.__cause__ = error
    return made
