"""DescribeTopicPartitions: topics by name, their partitions page by page (KIP-966)."""

from __future__ import annotations

from kohort.broker.cluster import Cluster
from kohort.broker.handlers import operations
from kohort.broker.handlers.placement import placed
from kohort.broker.request import Request
from kohort.broker.topics import Topic, why_no_topic_name
from kohort.protocol.apis.k75_describe_topic_partitions import (
    CursorResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kohort.protocol.errors import ErrorCode


def handle(request: Request) -> None:
    """Describes one page: all topics, or those asked for, from the cursor on."""
    message: DescribeTopicPartitionsRequest = request.message
    cluster = request.node.cluster
    by_name = cluster.topics.by_name
    cursor = message.cursor
    asked = {topic.name for topic in message.topics}
    if cursor is not None and (
        cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)
    ):
        request.reply(
            DescribeTopicPartitionsResponse(
                0,
                [
                    DescribeTopicPartitionsResponseTopic(
                        ErrorCode.INVALID_REQUEST, topic.name
                    )
                    for topic in message.topics
                ],
            )
        )
        return
    first = cursor.topic_name if cursor is not None else ""
    names = sorted(name for name in asked or by_name if name >= first)
    limit = cluster.config["max.request.partition.size.limit"]
    room = max(min(limit, message.response_partition_limit), 1)
    topics, after = [], None
    for name in names:
        if not room:
            after = CursorResponse(name, 0)
            break
        topic = by_name.get(name)
        if topic is None:
            topics.append(_unknown(name))
            continue
        begin = cursor.partition_index if cursor and name == first else 0
        indexes = range(len(topic.partitions))[begin : begin + room]
        topics.append(_described(cluster, topic, indexes))
        if begin + room < len(topic.partitions):
            after = CursorResponse(name, begin + room)
            break
        room -= len(indexes)
    request.reply(DescribeTopicPartitionsResponse(0, topics, after))


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if why_no_topic_name(name):
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error, name, topic_authorized_operations=operations.TOPIC
    )


def _described(
    cluster: Cluster, topic: Topic, indexes: range
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        0,
        topic.name,
        topic.id,
        topic.is_internal,
        [_partition(cluster, topic, index) for index in indexes],
        operations.TOPIC,
    )


def _partition(
    cluster: Cluster, topic: Topic, index: int
) -> DescribeTopicPartitionsResponsePartition:
    error, leader, epoch, replicas, in_sync, offline = placed(cluster, topic, index)
    return DescribeTopicPartitionsResponsePartition(
        error, index, leader, epoch, replicas, in_sync, [], [], offline
    )
