"""Calls of an admin client about transactions and producers (KIP-664)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kohort.client.administering.fan_out import (
    Answers,
    Ask,
    Connected,
    NodeId,
    ask_all_brokers,
    error_in,
    fan_out,
)
from kohort.client.administering.topic_calls import ask_leaders
from kohort.client.administering.values import (
    ProducerDescription,
    ProducerEpoch,
    Results,
    TransactionDescription,
    TransactionListing,
    TransactionListings,
)
from kohort.client.errors import BrokerError, KohortError, error_of
from kohort.client.network.cluster import Cluster
from kohort.client.network.coordinators import TRANSACTION
from kohort.client.offsets import TopicPartition, by_topic
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdRequest
from kohort.protocol.apis.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kohort.protocol.apis.k61_describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from kohort.protocol.apis.k65_describe_transactions import DescribeTransactionsRequest
from kohort.protocol.apis.k66_list_transactions import ListTransactionsRequest
from kohort.protocol.errors import ErrorCode

V = TypeVar("V")

_BY_DURATION = 1
_BY_PATTERN = 2


async def list_transactions(
    admin: Connected,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    open_for_ms: int | None = None,
    pattern: str | None = None,
    timeout_ms: int | None = None,
) -> TransactionListings:
    """The transactional ids of all brokers.

    Args:
        admin: the client.
        states: only those in one of these states, such as ``Ongoing``.
        producer_ids: only those of these producers.
        open_for_ms: only transactions that are open for longer (KIP-994).
        pattern: only ids that match this regular expression of Java (KIP-1152).
        timeout_ms: see `Admin`.

    Raises:
        KohortError: no broker responds.
    """
    cluster, api = admin.cluster, "ListTransactions"
    lowest = _BY_PATTERN if pattern else _BY_DURATION if open_for_ms is not None else 0
    duration = -1 if open_for_ms is None else open_for_ms
    request = ListTransactionsRequest(states, producer_ids, duration, pattern)

    async def ask(node_id: int) -> Mapping[str, TransactionListing]:
        response = await cluster.call(node_id, api, request, versions=(lowest, 2))
        if error := error_in(response):
            raise error
        return {
            t.transactional_id: TransactionListing(
                t.transactional_id, t.producer_id, t.transaction_state, node_id
            )
            for t in response.transaction_states
        }

    return TransactionListings(*await ask_all_brokers(admin, api, ask, timeout_ms))


async def describe_transactions(
    admin: Connected, transactional_ids: Iterable[str], timeout_ms: int | None = None
) -> Results[str, TransactionDescription]:
    """The states of transactions, with their partitions."""
    cluster, api = admin.cluster, "DescribeTransactions"

    async def ask(
        node_id: NodeId, some: Sequence[str]
    ) -> Answers[str, TransactionDescription]:
        assert node_id is not None
        response = await cluster.call(node_id, api, DescribeTransactionsRequest(some))
        return {
            row.transactional_id: error_in(row) or _read_transaction(row, node_id)
            for row in response.transaction_states
        }

    return await _ask_coordinators(cluster, api, timeout_ms, transactional_ids, ask)


def _read_transaction(row: Any, coordinator_id: int) -> TransactionDescription:
    started = row.transaction_start_time_ms
    return TransactionDescription(
        row.transactional_id,
        row.transaction_state,
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
        None if started < 0 else started,
        frozenset(
            TopicPartition(topic.topic, number)
            for topic in row.topics
            for number in topic.partitions
        ),
        coordinator_id,
    )


async def fence_producers(
    admin: Connected, transactional_ids: Iterable[str], timeout_ms: int | None = None
) -> Results[str, ProducerEpoch]:
    """Fences the producers with these ids, and aborts their transactions.

    Returns:
        The new epoch of each. The next producer with the id gets the one after it.
    """
    cluster, api = admin.cluster, "InitProducerId"
    limit_ms = cluster.config.request_timeout_ms if timeout_ms is None else timeout_ms

    async def fence(node_id: int, id_: str) -> ProducerEpoch | KohortError:
        request = InitProducerIdRequest(id_, max(1, limit_ms))
        response = await cluster.call(node_id, api, request)
        found = ProducerEpoch(response.producer_id, response.producer_epoch)
        return error_in(response) or found

    async def ask(node_id: NodeId, some: Sequence[str]) -> Answers[str, ProducerEpoch]:
        assert node_id is not None
        rows = await asyncio.gather(*(fence(node_id, id_) for id_ in some))
        return dict(zip(some, rows, strict=True))

    return await _ask_coordinators(cluster, api, timeout_ms, transactional_ids, ask)


async def describe_producers(
    admin: Connected,
    partitions: Iterable[TopicPartition],
    timeout_ms: int | None = None,
) -> Results[TopicPartition, Sequence[ProducerDescription]]:
    """The producers that have written to partitions, as their leaders know them."""
    cluster, api = admin.cluster, "DescribeProducers"

    async def ask(
        node_id: NodeId, some: Sequence[TopicPartition]
    ) -> Answers[TopicPartition, Sequence[ProducerDescription]]:
        topics = [TopicRequest(*each) for each in by_topic(some).items()]
        response = await cluster.call(node_id, api, DescribeProducersRequest(topics))
        return {
            TopicPartition(topic.name, row.partition_index): error_in(row)
            or [*map(_read_producer, row.active_producers)]
            for topic in response.topics
            for row in topic.partitions
        }

    return await ask_leaders(cluster, api, timeout_ms, partitions, ask)


def _read_producer(row: Any) -> ProducerDescription:
    start = row.current_txn_start_offset
    return ProducerDescription(
        row.producer_id,
        row.producer_epoch,
        row.last_sequence,
        row.last_timestamp,
        row.coordinator_epoch,
        None if start < 0 else start,
    )


async def abort_transaction(
    admin: Connected,
    partition: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int = -1,
    timeout_ms: int | None = None,
) -> None:
    """Writes an abort marker to one partition, for a transaction without coordinator.

    `describe_producers` has the arguments of a hanging transaction.

    Args:
        admin: the client.
        partition: the partition.
        producer_id: of the open transaction.
        producer_epoch: likewise.
        coordinator_epoch: of the last marker; -1 if the producer has none.
        timeout_ms: see `Admin`.

    Raises:
        KohortError: the marker was not written.
    """
    cluster, api = admin.cluster, "WriteTxnMarkers"
    place = TopicPartition(*partition)
    rows = [WritableTxnMarkerTopic(place.topic, [place.partition])]
    marker = WritableTxnMarker(
        producer_id, producer_epoch, False, rows, coordinator_epoch
    )

    async def ask(
        node_id: NodeId, _: Sequence[TopicPartition]
    ) -> Answers[TopicPartition, None]:
        response = await cluster.call(node_id, api, WriteTxnMarkersRequest([marker]))
        codes = [
            row.error_code
            for found in response.markers
            for topic in found.topics
            for row in topic.partitions
        ]
        if not codes:
            what, code = "the response is empty", ErrorCode.UNKNOWN_SERVER_ERROR
            return {place: BrokerError(what, code=code)}
        return {place: error_of(codes[0]) if codes[0] else None}

    (await ask_leaders(cluster, api, timeout_ms, [place], ask)).check()


# -- routes


async def _to_coordinators(cluster: Cluster, ids: Sequence[str]) -> Mapping[str, Any]:
    return await cluster.coordinators(ids, TRANSACTION)


async def _ask_coordinators(
    cluster: Cluster,
    api: str,
    timeout_ms: int | None,
    ids: Iterable[str],
    ask: Ask[str, V],
) -> Results[str, V]:
    def where(transactional_id: str) -> Mapping[str, Any]:
        return {"api": api, "transactional_id": transactional_id}

    deadline = cluster.deadline(timeout_ms)
    return await fan_out(cluster, deadline, ids, _to_coordinators, ask, where)
