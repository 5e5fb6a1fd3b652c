"""Commits of offsets, one after the other.

Commits are queued: one that is awaited in a callback cannot overtake an earlier one
that was not awaited. So the last posted offset is the one that remains.

The coordinator can refuse a commit because of the member. Its caller gets the error,
and the member a `CommitRefused`, earlier than from a heartbeat. If the group does not
know the member or has another generation, the member loses its partitions, and the
listener's `on_partitions_lost` is called (`group/classic/leave.py`); a fenced member
fails, too. If the group rebalances, the member joins, and the listener is called as
in any rebalance. A member of a consumer group asks the coordinator by a heartbeat.

A retried commit has the current generation, or member epoch, if the member has owned
the partitions without interruption. Otherwise it fails, since it might overwrite a
commit of the next owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kohort.client.config import ConsumerConfig
from kohort.client.errors import (
    CommitFailedError,
    KohortError,
    RequestTimedOutError,
    error_of,
)
from kohort.client.group.member import Member
from kohort.client.network.cluster import Cluster
from kohort.client.network.group_offsets import BY_NAME, commit_rows, fetch_offsets
from kohort.client.network.reconnecting import retrieve
from kohort.client.offsets import OffsetAndMetadata, TopicPartition, by_topic
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
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
_PASSES = {
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
}
"""Retriable: a cooperative member keeps its partitions during a rebalance, and can
commit them after it has synced; a member of a consumer group when it has its new
epoch."""

_FETCHED_ANEW = {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}
"""Retriable: the next attempt is that of the member after its next heartbeat."""


@slotted
class _Posted:
    """Posted offsets, and the state of the member at that time."""

    offsets: Offsets
    member: Member | None
    """None outside of a group."""
    generation_id: int
    losses: Sequence[int]
    """How often each partition had been lost by then."""


class Commits:
    """Commits and fetches the group's offsets for one consumer.

    Args:
        on_refused: called with the commit's generation and the error code, for
            errors about the member.

    Attributes:
        member: the committing member; None if partitions are assigned by hand.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        on_refused: Callable[[int, int], None],
    ) -> None:
        self.member: Member | None = None
        self._cluster = cluster
        self._config = config
        self._on_refused = on_refused
        self._group = config.group_id or ""
        self._line = asyncio.Lock()  # in the order of the calls
        self._tasks: set[asyncio.Task[None]] = set()
        self._losses: dict[TopicPartition, int] = {}

    def post(
        self, offsets: Offsets, timeout_ms: int | None = None
    ) -> asyncio.Task[None]:
        """Starts a commit; the task has the result.

        Raises:
            KohortError: from the task; see `KohortError.retriable`.
        """
        deadline = self._cluster.deadline(timeout_ms)
        member = self.member
        generation_id = -1 if member is None else member.generation_id
        posted = _Posted(offsets, member, generation_id, self._losses_of(offsets))
        task = asyncio.create_task(self._commit(posted, deadline))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def lost(self, partitions: Iterable[TopicPartition]) -> None:
        """Marks partitions as lost: other members may own them."""
        for place in partitions:
            self._losses[place] = self._losses.get(place, 0) + 1

    async def drained(self) -> None:
        """Returns when all commits so far have ended."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    def stop(self) -> None:
        """Cancels all commits under way."""
        for task in self._tasks:
            task.cancel()

    def under_way(self) -> list[asyncio.Task[None]]:
        """The commits that have not ended."""
        return [*self._tasks]

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        retrieve(task)

    def _losses_of(self, offsets: Offsets) -> list[int]:
        return [self._losses.get(place, 0) for place in offsets]

    async def _commit(self, posted: _Posted, deadline: float) -> None:
        try:
            async with asyncio.timeout(max(deadline - self._cluster.clock(), 0)):
                await self._line.acquire()
        except TimeoutError:
            raise RequestTimedOutError(
                "earlier commits took all the time",
                api="OffsetCommit",
                group=self._group,
            ) from None
        try:
            if posted.offsets:
                await self._cluster.retrying(deadline, lambda: self._attempt(posted))
        finally:
            self._line.release()

    def _is_kept(self, posted: _Posted) -> bool:
        """Returns whether the member has owned its partitions without interruption."""
        member = posted.member
        return (
            member is not None
            and member.owned.issuperset(posted.offsets)
            and posted.losses == self._losses_of(posted.offsets)
        )

    async def _attempt(self, posted: _Posted) -> None:
        member = posted.member
        generation_id, member_id, instance_id = -1, "", None
        is_between = False
        if member is not None:
            generation_id, member_id = member.generation_id, member.member_id
            instance_id = self._config.group_instance_id
            is_between = member.is_rebalancing
            is_other = generation_id != posted.generation_id
            if generation_id < 0 or (is_other and not self._is_kept(posted)):
                raise CommitFailedError(
                    "the consumer is not in a generation of the group yet, or not any "
                    "more; its partitions may be others' by now",
                    api="OffsetCommit",
                    group=self._group,
                )
        topics = commit_rows(posted.offsets)
        request = OffsetCommitRequest(
            self._group, generation_id, member_id, instance_id, -1, topics
        )
        try:
            node_id = await self._cluster.coordinator(self._group)
            response = await self._cluster.call(
                node_id, "OffsetCommit", request, versions=(0, BY_NAME), lane="group"
            )
        except KohortError as error:
            error.group = self._group
            raise
        # The member may have finished the rebalance before the response came.
        passes = (
            member is not None
            and self._is_kept(posted)
            and (
                is_between
                or member.is_rebalancing
                or member.generation_id != generation_id
            )
        )
        for topic in response.topics:
            for row in topic.partitions:
                if row.error_code:
                    place = TopicPartition(topic.name, row.partition_index)
                    if member is not None and row.error_code in _ABOUT_THE_MEMBER:
                        self._on_refused(generation_id, row.error_code)
                    broker = self._cluster.name_of(node_id)
                    raise self._refused(row.error_code, broker, place, passes=passes)

    def _refused(
        self, code: int, broker: str, place: TopicPartition, *, passes: bool
    ) -> KohortError:
        where: dict[str, Any] = {
            "api": "OffsetCommit",
            "broker": broker,
            "group": self._group,
            **place._asdict(),
        }
        if passes and code in _PASSES:
            return error_of(code, retriable=True, **where)
        if code in _MOVED_ON:
            message = "the group has rebalanced without the consumer"
            return CommitFailedError(message, code=ErrorCode(code), **where)
        return error_of(code, **where)

    # -- reading

    async def committed(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets of some partitions; None without one. Does not retry.

        Raises:
            KohortError: no response, or a response with an error.
        """
        group, member = self._group, self.member
        identity = None
        if member is not None and member.has_epoch and member.generation_id >= 0:
            identity = member.member_id, member.generation_id
        try:
            found = await fetch_offsets(
                self._cluster,
                await self._cluster.coordinator(group),
                {group: by_topic(partitions)},
                require_stable=True,  # with any isolation level, as in Java
                lowest=0,
                lane="group",
                identity=identity,
            )
        except KohortError as error:
            error.group = group
            raise
        (offsets,) = found.values()
        if isinstance(offsets, KohortError):
            if identity is not None and offsets.code in _FETCHED_ANEW:
                if offsets.code is ErrorCode.UNKNOWN_MEMBER_ID:
                    self._on_refused(identity[1], offsets.code)
                raise error_of(offsets.code, retriable=True, group=group)
            raise offsets
        return {place: offsets.get(place) for place in partitions}
