"""The partitions of topics, and the choice of one of them for each record."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from kohort.client.config import ProducerConfig
from kohort.client.errors import UnknownTopicError, error_of
from kohort.client.network.cluster import Cluster
from kohort.client.network.metadata import NO_NODE, Metadata
from kohort.client.producing.partitioners import StickyPartitioner, partition_for_key
from kohort.protocol.errors import ErrorCode


class Choice(NamedTuple):
    """The partitions of a topic."""

    all: Sequence[int]
    available: Sequence[int]
    """Those that have a leader."""


class Topics:
    """The topics of a producer.

    Args:
        cluster: has the metadata.
        config: the producer's settings.
        fits: whether a record fits into the open batch of a partition; see
            `StickyPartitioner`.
        random: source of random choices.

    Attributes:
        known: partitions by topic, until the metadata changes.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        fits: Callable[[str, int, int], bool],
        random: Random,
    ) -> None:
        self.known: dict[str, Choice] = {}
        self._cluster = cluster
        self._config = config
        self._sticky = StickyPartitioner(config.batch_size, fits, random)
        cluster.listeners.append(self._metadata_changed)

    def _metadata_changed(self, _: Metadata) -> None:
        self.known.clear()

    async def find(self, topic: str, partition: int | None, deadline: float) -> Choice:
        """Waits until a topic has partitions, or one partition.

        Args:
            topic: the topic.
            partition: a partition that it should have; None: any.
            deadline: the end of the wait, by the cluster's clock.

        Raises:
            RequestTimedOutError: it had none by the deadline.
            KohortError: an invalid topic name, or a topic that may not be written to.
        """
        if partition is not None and partition < 0:
            raise no_partition(topic, partition)

        async def attempt() -> None:
            await self._cluster.add_topics([topic])
            if not self._has(topic, partition):
                await self._cluster.refresh()
            found = self._cluster.metadata.topics.get(topic)
            if not self._has(topic, partition):
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
        choice = self.known[topic] = Choice(range(len(rows)), available)
        return choice

    def _has(self, topic: str, partition: int | None) -> bool:
        return len(self._cluster.metadata.partitions(topic)) > (partition or 0)

    def choose(self, topic: str, choice: Choice, key: bytes | None, size: int) -> int:
        """Chooses the partition of a record by the partitioner.

        Args:
            topic: the topic.
            choice: its partitions.
            key: the serialized key.
            size: of the record, in bytes.

        Raises:
            UnknownTopicError: the application's partitioner returned no partition of
                the topic.
        """
        config = self._config
        if config.partitioner is not None:
            partition = operator.index(
                config.partitioner(topic, key, choice.all, choice.available)
            )
            if not 0 <= partition < len(choice.all):
                raise no_partition(topic, partition)
            return partition
        if key is not None and not config.partitioner_ignore_keys:
            return partition_for_key(key, len(choice.all))
        return self._sticky.partition(topic, size, choice.all, choice.available)


def no_partition(topic: str, partition: int) -> UnknownTopicError:
    """The error of a partition that the topic does not have."""
    return UnknownTopicError(
        "the topic has no such partition",
        topic=topic,
        partition=partition,
        retriable=False,
    )
