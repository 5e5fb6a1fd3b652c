"""Drives a `TransactionManager`: sends its requests, waits, and retries.

1. The producer calls `begin`, `add_partition`, `commit_offsets` or `end`.
2. `wake` starts a task if the transaction has a request to send.
3. The task sends one request after the other, with a back-off between retries.
4. After each response `_sync` passes the producer id to the batches, drops those that
   must not be sent any more, and completes the calls that wait.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kohort.client.config import ProducerConfig
from kohort.client.errors import (
    ClosedError,
    KohortError,
    RequestTimedOutError,
    SerializationError,
    TransactionAbortedError,
    error_of,
)
from kohort.client.network.cluster import Cluster
from kohort.client.network.connection import Connection
from kohort.client.offsets import TopicPartition
from kohort.client.transactions.requests import (
    AddOffsets,
    AddPartitions,
    CommitOffsets,
    EndTransaction,
    InitProducer,
    Offsets,
    Request,
)
from kohort.client.transactions.state import (
    ABORTABLE_ERROR,
    ABORTING_TRANSACTION,
    FATAL_ERROR,
)
from kohort.client.transactions.transaction_manager import Operation, TransactionManager
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdRequest
from kohort.protocol.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kohort.protocol.apis.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from kohort.protocol.apis.k26_end_txn import EndTxnRequest
from kohort.protocol.apis.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kohort.protocol.errors import ErrorCode

if TYPE_CHECKING:  # a producer does not load the consumer
    from kohort.client.consuming.consumer_group import ConsumerGroupMetadata

_FEATURE = "transaction.version"
_BUMPS_SINCE = 3
"""The first version of InitProducerId that takes an epoch (KIP-360)."""
_CLIENTS_ADD = (0, 3)
"""Versions of AddPartitionsToTxn for clients; the others are for brokers."""
_WITH_MEMBER = 3
"""The first version of TxnOffsetCommit with a member (KIP-447)."""
_BEFORE_BUMPS = 4
"""The last version of EndTxn and TxnOffsetCommit for transaction version 1."""
_NEWEST = 2**15 - 1
_FIRST_RETRY_S = 0.02
"""The previous transaction is still being completed, which does not take long."""
_AWAY = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
}


class Batches(Protocol):
    """The producer, which has the batches of the transaction."""

    @property
    def has_batches(self) -> bool:
        """True if batches are undelivered."""

    def take_id(self, producer_id: int, epoch: int) -> None:
        """Numbers further batches with this id."""

    def drop_batches(self, error: KohortError, *, all_of_them: bool) -> None:
        """Fails all batches, or those that were never sent."""

    def resume(self) -> None:
        """Sends batches that can be sent now."""


class TransactionDriver:
    """The transactions of one producer.

    Attributes:
        core: their state.
    """

    def __init__(
        self, cluster: Cluster, config: ProducerConfig, id_: str, batches: Batches
    ) -> None:
        self.core = TransactionManager(id_)
        self._id = id_
        self._cluster = cluster
        self._config = config
        self._batches = batches
        self._task: asyncio.Task[None] | None = None
        self._waiters: dict[Operation, list[asyncio.Future[None]]] = {}
        self._last: KohortError | None = None

    # -- calls of the producer

    async def start(self) -> None:
        """Gets a producer id, within ``max.block.ms``.

        Raises:
            KohortError: it got none.
        """
        what = "no producer id in {} ms"
        await self._finish(self.core.initialize(), None, what, "InitProducerId")

    def add_partition(self, topic: str, partition: int) -> None:
        """Adds a partition that gets records.

        Raises:
            KohortError: there is no transaction, or it has an error.
        """
        self.core.add_partition(TopicPartition(topic, partition))
        self.wake()

    async def commit_offsets(
        self, offsets: Offsets, group: ConsumerGroupMetadata, timeout_ms: int | None
    ) -> None:
        """Commits offsets as part of the transaction.

        Raises:
            KohortError: they were not committed.
        """
        operation = self.core.add_offsets(offsets, group)
        what = "the offsets were not committed in {} ms"
        await self._finish(operation, timeout_ms, what, "TxnOffsetCommit")

    async def end(self, *, is_commit: bool, timeout_ms: int | None) -> None:
        """Commits or aborts.

        Raises:
            KohortError: it did not end.
        """
        operation = self.core.end(is_commit=is_commit)
        self._sync()
        word = "commit" if is_commit else "abort"
        what = f"the {word} has not ended in {{}} ms; call {word}_transaction again"
        await self._finish(operation, timeout_ms, what, "EndTxn")

    async def close(self, timeout_ms: int) -> None:
        """Ends the current transaction, if there is one, and stops."""
        core = self.core
        try:
            if timeout_ms:
                if core.may_abort:
                    core.end(is_commit=False)
                    self._sync()
                await self._wait(core.pending, timeout_ms)
        finally:
            if self._task is not None:
                self._task.cancel()
            core.close(ClosedError("the producer was closed"))
            self._sync()

    async def _finish(
        self, operation: Operation, timeout_ms: int | None, what: str, api: str
    ) -> None:
        """Waits for the end of an operation, and raises its error."""
        if timeout_ms is None:
            timeout_ms = self._config.max_block_ms
        await self._wait(operation, timeout_ms)
        if not operation.is_done:
            late = RequestTimedOutError(what.format(timeout_ms), api=api)
            late.transactional_id = self._id
            if self._last is not None:
                late.message += f"; the last error was: {self._last.message}"
            raise late from self._last
        if operation.error is not None:
            raise operation.error.copy()

    async def _wait(self, operation: Operation | None, timeout_ms: int) -> None:
        """Returns when an operation is done, or after the time limit."""
        self.wake()
        if operation is not None and not operation.is_done:
            left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.setdefault(operation, []).append(left)
            await asyncio.wait([left], timeout=timeout_ms / 1000)

    # -- the task

    def wake(self) -> None:
        """Sends the next request, if there is one and none is under way."""
        if self._task is None and self._next() is not None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def _next(self) -> Request | None:
        before = self.core.state
        request = self.core.next_request(has_batches=self._batches.has_batches)
        if before is not self.core.state:  # there was nothing to end
            self._sync()
        return request

    async def _run(self) -> None:
        failures = 0
        try:
            # By now more partitions may have been added.
            while (request := self._next()) is not None:
                error = await self._attempt(request)
                self._last = error
                if error is not None:
                    failures += 1
                    limit_s = self._longest_wait(request, error)
                    await self._cluster.back_off(failures, limit_s)
                else:
                    failures = 0
        finally:
            self._task = None

    def _longest_wait(self, request: Request, error: KohortError) -> float:
        is_first = isinstance(request, AddPartitions) and not self.core.partitions
        waits = error.code == ErrorCode.CONCURRENT_TRANSACTIONS
        return _FIRST_RETRY_S if is_first and waits else math.inf

    async def _attempt(self, request: Request) -> KohortError | None:
        """Sends a request; returns the error if it has to be retried."""
        try:
            await self._send(request)
        except KohortError as error:
            error.fill(api=_api_of(request))
            if not self.core.refused(request, error):
                self._sync()
                return None
            self._cluster.note(error)
            return error
        self._sync()
        return None

    def _sync(self) -> None:
        core, batches = self.core, self._batches
        batches.take_id(core.producer_id, core.epoch)
        if core.state is FATAL_ERROR:
            assert core.error is not None
            batches.drop_batches(core.error, all_of_them=True)
        elif core.state is ABORTABLE_ERROR:
            assert core.error is not None
            batches.drop_batches(core.error, all_of_them=False)
        elif core.state is ABORTING_TRANSACTION:
            what = "the transaction was aborted before the record was sent"
            error = TransactionAbortedError(what, transactional_id=self._id)
            batches.drop_batches(error, all_of_them=False)
        for operation in [each for each in self._waiters if each.is_done]:
            for left in self._waiters.pop(operation):
                if not left.done():
                    left.set_result(None)
        batches.resume()

    def failed(self, error: KohortError) -> KohortError:
        """Takes the error of a batch; returns it with its consequence."""
        self.core.batch_failed(error)
        self._sync()
        return error.marked(fatal=self.core.state is FATAL_ERROR)

    def send_failed(self, error: KohortError) -> None:
        """Takes the error of a record that is in no batch."""
        if not isinstance(error, SerializationError | ClosedError):
            self.core.send_failed(error)
            self._sync()

    # -- requests

    async def _send(self, request: Request) -> None:
        match request:
            case InitProducer():
                await self._init_producer(request)
            case AddPartitions():
                await self._add_partitions(request)
            case AddOffsets():
                await self._add_offsets(request)
            case CommitOffsets():
                await self._commit_offsets(request)
            case EndTransaction():
                await self._end_transaction(request)

    async def _call(
        self, api: str, message: object, versions: tuple[int, int] = (0, _NEWEST)
    ) -> tuple[Any, Connection]:
        """Asks the transaction coordinator.

        Raises:
            KohortError: no response, or the response's own error.
        """
        cluster = self._cluster
        try:
            node_id = await cluster.transaction_coordinator(self._id)
            connection = await cluster.reach(node_id)
            supported = connection.supported
            self.core.learn(
                supported.features.get(_FEATURE),
                supported.features_epoch,
                can_bump=connection.version("InitProducerId") >= _BUMPS_SINCE,
            )
            response = await cluster.call(node_id, api, message, versions=versions)
            if getattr(response, "error_code", 0):
                raise connection.error_of(response.error_code, api)
        except KohortError as error:
            error.transactional_id = self._id
            raise
        return response, connection

    async def _init_producer(self, request: InitProducer) -> None:
        timeout_ms = self._config.transaction_timeout_ms
        message = InitProducerIdRequest(
            self._id, timeout_ms, request.producer_id, request.epoch
        )
        response, _ = await self._call("InitProducerId", message)
        self.core.initialized(response.producer_id, response.producer_epoch)

    async def _add_partitions(self, request: AddPartitions) -> None:
        core, api = self.core, "AddPartitionsToTxn"
        topics: dict[str, list[int]] = {}
        for topic, number in request.partitions:
            topics.setdefault(topic, []).append(number)
        message = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=core.producer_id,
            v3_and_below_producer_epoch=core.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(*each) for each in topics.items()
            ],
        )
        response, connection = await self._call(api, message, _CLIENTS_ADD)
        codes = {
            TopicPartition(topic.name, row.partition_index): row.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for row in topic.results_by_partition
        }
        self._raise_first(codes, api, connection)
        core.partitions_added(request)

    async def _add_offsets(self, request: AddOffsets) -> None:
        core = self.core
        message = AddOffsetsToTxnRequest(
            self._id, core.producer_id, core.epoch, request.group_id
        )
        await self._call("AddOffsetsToTxn", message)
        core.group_added()

    async def _commit_offsets(self, request: CommitOffsets) -> None:
        core, cluster, api = self.core, self._cluster, "TxnOffsetCommit"
        group = request.group
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, number), offset in request.offsets.items():
            row = TxnOffsetCommitRequestPartition(
                number, offset.offset, offset.leader_epoch, offset.metadata
            )
            topics.setdefault(topic, []).append(row)
        message = TxnOffsetCommitRequest(
            self._id,
            group.group_id,
            core.producer_id,
            core.epoch,
            group.generation_id,
            group.member_id,
            group.group_instance_id,
            [TxnOffsetCommitRequestTopic(*each) for each in topics.items()],
        )
        # An older broker would not check the member.
        lowest = _WITH_MEMBER if group.member_id or group.generation_id >= 0 else 0
        newest = _BEFORE_BUMPS if request.version < 2 else _NEWEST
        try:
            node_id = await cluster.coordinator(group.group_id)
            connection = await cluster.reach(node_id)
            response = await cluster.call(
                node_id, api, message, versions=(lowest, newest)
            )
        except KohortError as error:
            error.group = group.group_id
            raise
        codes = {
            TopicPartition(topic.name, row.partition_index): row.error_code
            for topic in response.topics
            for row in topic.partitions
        }
        core.offsets_committed([place for place, code in codes.items() if not code])
        if not _AWAY.isdisjoint(codes.values()):
            cluster.forget_coordinator(group.group_id)
        self._raise_first(codes, api, connection, group.group_id)

    async def _end_transaction(self, request: EndTransaction) -> None:
        core = self.core
        message = EndTxnRequest(
            self._id, core.producer_id, core.epoch, request.is_commit
        )
        newest = _BEFORE_BUMPS if request.version < 2 else _NEWEST
        response, _ = await self._call("EndTxn", message, (0, newest))
        core.ended(response.producer_id, response.producer_epoch)

    def _raise_first(
        self,
        codes: dict[TopicPartition, int],
        api: str,
        connection: Connection,
        group: str | None = None,
    ) -> None:
        """Raises the error that decides: one that is final, else any.

        Raises:
            KohortError: a partition has an error.
        """
        errors: Sequence[KohortError] = [
            error_of(
                code,
                api=api,
                broker=connection.name,
                group=group,
                transactional_id=None if group else self._id,
                **place._asdict(),
            )
            for place, code in codes.items()
            if code
        ]
        final = [error for error in errors if not error.retriable]
        # OPERATION_NOT_ATTEMPTED is a consequence of another partition's error.
        final.sort(key=lambda error: error.code == ErrorCode.OPERATION_NOT_ATTEMPTED)
        if errors:
            raise [*final, *errors][0]


_APIS = {
    InitProducer: "InitProducerId",
    AddPartitions: "AddPartitionsToTxn",
    AddOffsets: "AddOffsetsToTxn",
    CommitOffsets: "TxnOffsetCommit",
    EndTransaction: "EndTxn",
}


def _api_of(request: Request) -> str:
    return _APIS[type(request)]
