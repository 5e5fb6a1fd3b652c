"""Commits of offsets, one after the other.

Whoever commits waits in line: a commit that is awaited in a callback cannot
overtake, or be overtaken by, one that the loop before it did not wait for. So
the last offset that was handed in is the one that stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from kohort.client.cluster import Cluster
from kohort.client.config import ConsumerConfig
from kohort.client.errors import CommitFailedError, KohortError, error_of
from kohort.client.membership import COMPLETING_REBALANCE, PREPARING_REBALANCE
from kohort.client.offsets import OffsetAndMetadata, TopicPartition
from kohort.client.session import Session
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kohort.protocol.errors import ErrorCode

Offsets = Mapping[TopicPartition, OffsetAndMetadata]

_MOVED_ON = {
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.STALE_MEMBER_EPOCH,
}
_BY_NAME_ONLY = (0, 9)
"""From version 10 on topics go by id."""
_SEVERAL_GROUPS = 8
"""The version of OffsetFetch that asks for several groups (KIP-709)."""


class Commits:
    """The offsets of a group, as one consumer commits and reads them.

    Args:
        cluster: where the group is.
        config: the consumer's.
    """

    def __init__(self, cluster: Cluster, config: ConsumerConfig) -> None:
        self.session: Session | None = None
        self._cluster = cluster
        self._config = config
        self._group = config.group_id or ""
        self._last: asyncio.Task[None] | None = None

    def post(
        self, offsets: Offsets, timeout_ms: int | None = None
    ) -> asyncio.Task[None]:
        """Hands offsets in; what becomes of them is the task's result.

        Raises:
            KohortError: from the task; see `KohortError.retriable`.
        """
        deadline = self._cluster.deadline(timeout_ms)
        self._last = asyncio.create_task(self._commit(self._last, offsets, deadline))
        self._last.add_done_callback(_retrieved)
        return self._last

    async def drained(self) -> None:
        """Returns when all that was handed in has come to an end."""
        if self._last is not None and not self._last.done():
            await asyncio.wait([self._last])

    def stop(self) -> None:
        """Gives up what is under way."""
        if self._last is not None:
            self._last.cancel()

    async def _commit(
        self, before: asyncio.Task[None] | None, offsets: Offsets, deadline: float
    ) -> None:
        if before is not None and not before.done():
            try:
                await asyncio.wait([before])
            except asyncio.CancelledError:
                before.cancel()
                raise
        if offsets:
            await self._cluster.retrying(deadline, lambda: self._attempt(offsets))

    async def _attempt(self, offsets: Offsets) -> None:
        generation_id, member_id, instance_id = -1, "", None
        session = self.session
        if session is not None:
            generation_id, member_id = session.generation_id, session.member_id
            instance_id = self._config.group_instance_id
            if generation_id < 0:
                raise CommitFailedError(
                    "the consumer is no member of the group's generation; its "
                    "partitions may be others' by now",
                    api="OffsetCommit",
                    group=self._group,
                )
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), row in offsets.items():
            rows = topics.setdefault(topic, [])
            rows.append(
                OffsetCommitRequestPartition(
                    partition, row.offset, row.leader_epoch, row.metadata
                )
            )
        request = OffsetCommitRequest(
            self._group,
            generation_id,
            member_id,
            instance_id,
            -1,
            [
                OffsetCommitRequestTopic(t, partitions=rows)
                for t, rows in topics.items()
            ],
        )
        response, broker = await self._cluster.call_coordinator(
            self._group, "OffsetCommit", request, versions=_BY_NAME_ONLY
        )
        for topic in response.topics:
            for row in topic.partitions:
                if row.error_code:
                    place = TopicPartition(topic.name, row.partition_index)
                    raise self._refused(row.error_code, broker, place)

    def _refused(self, code: int, broker: str, place: TopicPartition) -> KohortError:
        if code in _MOVED_ON:
            return CommitFailedError(
                "the group has moved on without the consumer",
                api="OffsetCommit",
                broker=broker,
                group=self._group,
                topic=place.topic,
                partition=place.partition,
                code=ErrorCode(code),
            )
        error = error_of(
            code,
            api="OffsetCommit",
            broker=broker,
            group=self._group,
            topic=place.topic,
            partition=place.partition,
        )
        session = self.session
        if code == ErrorCode.REBALANCE_IN_PROGRESS and session is not None:
            # A cooperative member that owns the partition through a rebalance:
            # when it has synced the commit will be taken.
            states = PREPARING_REBALANCE, COMPLETING_REBALANCE
            return (
                KohortError(
                    error.message,
                    api=error.api,
                    broker=broker,
                    group=self._group,
                    topic=place.topic,
                    partition=place.partition,
                    code=error.code,
                    retriable=True,
                )
                if session.state in states
                else error
            )
        return error

    # -- reading

    async def committed(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What is committed of some partitions; None where nothing is.

        Nothing is tried again.

        Raises:
            KohortError: the answer has an error, or there is none.
        """
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)

        def message(version: int) -> object:
            is_stable = self._config.isolation_level == "read_committed"
            if version < _SEVERAL_GROUPS:
                rows = [OffsetFetchRequestTopic(t, p) for t, p in topics.items()]
                return OffsetFetchRequest(self._group, rows, (), is_stable)
            asked = [
                OffsetFetchRequestTopics(t, partition_indexes=p)
                for t, p in topics.items()
            ]
            group = OffsetFetchRequestGroup(self._group, None, -1, asked)
            return OffsetFetchRequest(groups=[group], require_stable=is_stable)

        response, broker = await self._cluster.call_coordinator(
            self._group, "OffsetFetch", message, versions=_BY_NAME_ONLY
        )
        found: Any = response.groups[0] if response.groups else response
        if found.error_code:
            raise error_of(
                found.error_code, api="OffsetFetch", broker=broker, group=self._group
            )
        read: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(partitions)
        for topic in found.topics:
            for row in topic.partitions:
                if row.error_code:
                    raise error_of(
                        row.error_code,
                        api="OffsetFetch",
                        broker=broker,
                        group=self._group,
                        topic=topic.name,
                        partition=row.partition_index,
                    )
                if row.committed_offset >= 0:
                    read[TopicPartition(topic.name, row.partition_index)] = (
                        OffsetAndMetadata(
                            row.committed_offset,
                            row.metadata or "",
                            row.committed_leader_epoch,
                        )
                    )
        return read


def _retrieved(task: asyncio.Task[None]) -> None:
    """Takes note of an error that nobody may be left to see."""
    if not task.cancelled():
        task.exception()
