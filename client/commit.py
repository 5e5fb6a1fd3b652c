"""Commits of offsets, one after the other.

Whoever commits waits in line: a commit that is awaited in a callback cannot
overtake, or be overtaken by, one that the loop before it did not wait for. So
the last offset that was handed in is the one that stays.

A commit that is tried again goes out in the generation of the time, if its
partitions have been the member's all the time; else it fails: it might undo what
the next owner has committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kohort.client.cluster import Cluster
from kohort.client.config import ConsumerConfig
from kohort.client.errors import (
    CommitFailedError,
    KohortError,
    RequestTimedOutError,
    error_of,
)
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
from kohort.protocol.slotted import slotted

Offsets = Mapping[TopicPartition, OffsetAndMetadata]

_MOVED_ON = {
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.STALE_MEMBER_EPOCH,
}
_ABOUT_THE_MEMBER = {
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
}
_PASSES = {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}
"""A cooperative member owns partitions through a rebalance: when it has synced, a
commit of them will be taken."""
_BETWEEN = {PREPARING_REBALANCE, COMPLETING_REBALANCE}
_BY_NAME_ONLY = (0, 9)
"""From version 10 on topics go by id."""
_SEVERAL_GROUPS = 8
"""The version of OffsetFetch that asks for several groups (KIP-709)."""


@slotted
class _Posted:
    """Offsets as they were handed in, and where the member stood then."""

    offsets: Offsets
    session: Session | None
    """None where the consumer is nobody's member."""
    generation_id: int
    losses: Sequence[int]
    """Of each partition: how often it had gone."""


class Commits:
    """The offsets of a group, as one consumer commits and reads them.

    Args:
        cluster: where the group is.
        config: the consumer's.
        on_refused: is told of errors that are about the member: the generation of
            the commit, and the code.

    Attributes:
        session: the member that commits; None where partitions are assigned by hand.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        on_refused: Callable[[int, int], None],
    ) -> None:
        self.session: Session | None = None
        self._cluster = cluster
        self._config = config
        self._on_refused = on_refused
        self._group = config.group_id or ""
        self._line = asyncio.Lock()  # first come, first served
        self._tasks: set[asyncio.Task[None]] = set()
        self._losses: dict[TopicPartition, int] = {}

    def post(
        self, offsets: Offsets, timeout_ms: int | None = None
    ) -> asyncio.Task[None]:
        """Hands offsets in; what becomes of them is the task's result.

        Raises:
            KohortError: from the task; see `KohortError.retriable`.
        """
        deadline = self._cluster.deadline(timeout_ms)
        session = self.session
        generation_id = -1 if session is None else session.generation_id
        posted = _Posted(offsets, session, generation_id, self._losses_of(offsets))
        task = asyncio.create_task(self._commit(posted, deadline))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def lost(self, partitions: Iterable[TopicPartition]) -> None:
        """These are the member's no more; others may own them."""
        for place in partitions:
            self._losses[place] = self._losses.get(place, 0) + 1

    async def drained(self) -> None:
        """Returns when all that was handed in so far has come to an end."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    def stop(self) -> None:
        """Gives up what is under way."""
        for task in self._tasks:
            task.cancel()

    def under_way(self) -> list[asyncio.Task[None]]:
        """The commits that have not come to an end."""
        return [*self._tasks]

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        # Nobody may be left to see an error.
        if not task.cancelled():
            task.exception()

    def _losses_of(self, offsets: Offsets) -> list[int]:
        return [self._losses.get(place, 0) for place in offsets]

    async def _commit(self, posted: _Posted, deadline: float) -> None:
        try:
            async with asyncio.timeout(max(deadline - self._cluster.clock(), 0)):
                await self._line.acquire()
        except TimeoutError:
            raise RequestTimedOutError(
                "the commits before it took all the time",
                api="OffsetCommit",
                group=self._group,
            ) from None
        try:
            if posted.offsets:
                attempt = lambda: self._attempt(posted)  # noqa: E731 - it has no name
                await self._cluster.retrying(deadline, attempt)
        finally:
            self._line.release()

    def _is_kept(self, posted: _Posted) -> bool:
        """Whether all its partitions have been the member's all the time."""
        session = posted.session
        return (
            session is not None
            and session.owned.issuperset(posted.offsets)
            and posted.losses == self._losses_of(posted.offsets)
        )

    async def _attempt(self, posted: _Posted) -> None:
        session = posted.session
        generation_id, member_id, instance_id = -1, "", None
        is_between = False
        if session is not None:
            generation_id, member_id = session.generation_id, session.member_id
            instance_id = self._config.group_instance_id
            is_between = session.state in _BETWEEN
            is_other = generation_id != posted.generation_id
            if generation_id < 0 or (is_other and not self._is_kept(posted)):
                raise CommitFailedError(
                    "the consumer is not in a generation of the group yet, or not any "
                    "more; its partitions may be others' by now",
                    api="OffsetCommit",
                    group=self._group,
                )
        topics = _rows(posted.offsets)
        request = OffsetCommitRequest(
            self._group, generation_id, member_id, instance_id, -1, topics
        )
        response, broker = await self._cluster.call_coordinator(
            self._group, "OffsetCommit", request, versions=_BY_NAME_ONLY
        )
        # By the time of the answer the rebalance may be over for the member.
        passes = (
            session is not None
            and self._is_kept(posted)
            and (
                is_between
                or session.state in _BETWEEN
                or session.generation_id != generation_id
            )
        )
        for topic in response.topics:
            for row in topic.partitions:
                if row.error_code:
                    place = TopicPartition(topic.name, row.partition_index)
                    if session is not None and row.error_code in _ABOUT_THE_MEMBER:
                        self._on_refused(generation_id, row.error_code)
                    raise self._refused(row.error_code, broker, place, passes=passes)

    def _refused(
        self, code: int, broker: str, place: TopicPartition, *, passes: bool
    ) -> KohortError:
        topic, partition = place
        api, group = "OffsetCommit", self._group
        error = error_of(
            code, api=api, broker=broker, group=group, topic=topic, partition=partition
        )
        cls, message, retriable = type(error), error.message, None
        if passes and code in _PASSES:
            retriable = True
        elif code in _MOVED_ON:
            cls = CommitFailedError
            message = "the group has moved on without the consumer"
        return cls(
            message,
            api=api,
            broker=broker,
            group=group,
            topic=topic,
            partition=partition,
            code=error.code,
            retriable=retriable,
        )

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


def _rows(offsets: Offsets) -> list[OffsetCommitRequestTopic]:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), row in offsets.items():
        rows = topics.setdefault(topic, [])
        rows.append(
            OffsetCommitRequestPartition(
                partition, row.offset, row.leader_epoch, row.metadata
            )
        )
    return [OffsetCommitRequestTopic(t, partitions=rows) for t, rows in topics.items()]
