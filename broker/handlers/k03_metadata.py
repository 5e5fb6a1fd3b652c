"""Metadata: the nodes, and the topics with their partitions' leaders."""

from __future__ import annotations

from kohort.broker.cluster import Cluster
from kohort.broker.handlers import operations
from kohort.broker.handlers.placement import placed
from kohort.broker.log.store import StorageError
from kohort.broker.request import Request
from kohort.broker.topics import Topic
from kohort.protocol.apis.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import ZERO_UUID


def handle(request: Request) -> None:
    """Describes the topics asked for, and creates those that may be created."""
    message: MetadataRequest = request.message
    cluster = request.node.cluster
    asked = message.topics
    allowed = operations.NOT_ASKED_FOR
    if message.include_topic_authorized_operations:
        allowed = operations.TOPIC
    if asked is None or (request.version == 0 and not asked):
        topics = [
            _topic(cluster, topic, allowed) for topic in cluster.topics.by_name.values()
        ]
    else:
        topics = [_asked(request, topic, allowed) for topic in asked]
    request.reply(
        MetadataResponse(
            0,
            [
                MetadataResponseBroker(node.id, node.host, node.port)
                for node in cluster.nodes.values()
                if node.is_running
            ],
            cluster.id,
            cluster.controller_id,
            topics,
            operations.CLUSTER
            if message.include_cluster_authorized_operations
            else operations.NOT_ASKED_FOR,
        )
    )


def _asked(
    request: Request, asked: MetadataRequestTopic, allowed: int
) -> MetadataResponseTopic:
    topics = request.node.cluster.topics
    if asked.name is None or asked.topic_id != ZERO_UUID:
        found = topics.by_id.get(asked.topic_id)
        if found is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
            return MetadataResponseTopic(error, None, asked.topic_id)
    else:
        found = topics.by_name.get(asked.name)
        if found is None:
            return _unknown(request, asked.name)
    return _topic(request.node.cluster, found, allowed)


def _unknown(request: Request, name: str) -> MetadataResponseTopic:
    """Kafka's first answer about a topic that it creates is that it is unknown."""
    cluster = request.node.cluster
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    may_create = request.version < 4 or request.message.allow_auto_topic_creation
    if cluster.topics.why_illegal(name):
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif may_create and cluster.config["auto.create.topics.enable"]:
        try:
            cluster.auto_create(name)
        except StorageError:
            error = ErrorCode.KAFKA_STORAGE_ERROR
    return MetadataResponseTopic(error, name)


def _topic(cluster: Cluster, topic: Topic, allowed: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        0,
        topic.name,
        topic.id,
        topic.is_internal,
        [_partition(cluster, topic, index) for index in range(len(topic.partitions))],
        allowed,
    )


def _partition(cluster: Cluster, topic: Topic, index: int) -> MetadataResponsePartition:
    error, leader, epoch, replicas, in_sync, offline = placed(cluster, topic, index)
    return MetadataResponsePartition(
        error, index, leader, epoch, replicas, in_sync, offline
    )
