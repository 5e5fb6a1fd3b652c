"""Writes the markers that end transactions in partitions (KIP-98).

For the transaction coordinator, and for WriteTxnMarkers. Both name the node that has to
lead the partition, or none: then any leader will do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from kohort.broker.clock import Clock
from kohort.broker.events.bus import Events
from kohort.broker.log.ended_transactions import EndMarker
from kohort.broker.log.store import StorageError
from kohort.broker.notice import Notice
from kohort.broker.shards.group_shards import GroupShards
from kohort.broker.topics.topic import NO_NODE, OFFSETS_TOPIC, Topic
from kohort.broker.topics.topics import Topics
from kohort.protocol.errors import ErrorCode

__all__ = ["EndMarker", "write_marker"]

_NS_PER_MS: Final = 1_000_000


class Marked(Protocol):
    """The cluster, as far as markers concern it."""

    @property
    def topics(self) -> Topics:
        """The topics."""

    @property
    def shards(self) -> GroupShards:
        """The coordinators of groups."""

    @property
    def events(self) -> Events:
        """The stream of events."""

    @property
    def clock(self) -> Clock:
        """The broker's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""


def write_marker(
    cluster: Marked,
    node_id: int | None,
    end: EndMarker,
    topic: str,
    index: int,
    answer: Callable[[int], object],
) -> None:
    """Writes a marker to one partition.

    Args:
        cluster: the cluster.
        node_id: the node that has to lead the partition; None for any.
        end: the marker.
        topic: the topic's name; it need not exist.
        index: the partition, which need not exist.
        answer: called with the error code, NONE once the marker is in the log:
            UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_PRODUCER_EPOCH,
            TRANSACTION_COORDINATOR_FENCED or KAFKA_STORAGE_ERROR.
    """
    found = cluster.topics.by_name.get(topic)
    if found is None or not 0 <= index < len(found.partitions):
        answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return
    leader = found.leaders[index]
    if leader == NO_NODE or node_id not in (None, leader):
        answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return
    append = partial(_append, cluster, found, index, end)
    if found.name == OFFSETS_TOPIC:
        # Its coordinator has to know, and may have records to write before it.
        answer(cluster.shards.end_transaction(index, end, append))
    else:
        answer(append())


def _append(cluster: Marked, topic: Topic, index: int, end: EndMarker) -> int:
    partition = topic.partitions[index]
    state = partition.producers.get(end.producer_id)
    began = (state.first_offset, state.began_ms) if state is not None else (-1, -1)
    stable, now_ms = partition.last_stable_offset, cluster.now_ms()
    try:
        result = partition.append_marker(end, now_ms=now_ms)
    except StorageError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if not result.error_code and cluster.events.listening:
        first_offset, began_ms = began
        is_open = first_offset >= 0
        fields = {
            "topic": topic.name,
            "partition": index,
            "producer_id": end.producer_id,
            "producer_epoch": end.producer_epoch,
            "is_commit": end.is_commit,
            "first_offset": first_offset if is_open else None,
            "end_offset": result.base_offset,
            # Without the marker, which is no record.
            "held_back": min(partition.last_stable_offset, result.base_offset) - stable,
            "duration_ns": (now_ms - began_ms) * _NS_PER_MS if is_open else None,
        }
        notice = Notice("transaction_ended_in_partition", None, None, None, fields)
        node = cluster.events.of(topic.leaders[index])
        node.publish(notice, cluster.clock.now())
    return result.error_code
