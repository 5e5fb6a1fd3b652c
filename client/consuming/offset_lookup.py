"""Looks up start positions, and validates positions after a change of leaders.

A position comes from the committed offset, from ``auto.offset.reset``, or from a
timestamp. After a change of leaders it is validated before the next fetch: after an
unclean election the log may have been truncated below it (KIP-320).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kohort.client.config import ConsumerConfig
from kohort.client.consuming.commits import Commits
from kohort.client.consuming.partition import Partition
from kohort.client.errors import (
    KohortError,
    LogTruncationError,
    NoOffsetForPartitionError,
    NotLeaderError,
    OffsetOutOfRangeError,
    UnsupportedVersionError,
    error_of,
)
from kohort.client.network.cluster import Cluster
from kohort.client.network.log_offsets import Found, list_offsets
from kohort.client.offsets import (
    EARLIEST,
    LATEST,
    OffsetAndTimestamp,
    TopicPartition,
)
from kohort.protocol.apis.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kohort.protocol.errors import ErrorCode

_WITHOUT_TIERS = (1, 9)
_FOR_CONSUMERS = (3, 4)
"""Before version 3, OffsetForLeaderEpoch required a broker's permissions."""
_CONSUMER = -1
"""Replica id of a consumer."""

RESETS = {"earliest": EARLIEST, "latest": LATEST}

_Asked = tuple[Partition, int, int, int]
"""A partition, its position, the position's epoch, and the leader's epoch."""


class OffsetLookup:
    """Looks up positions.

    Args:
        commits: committed offsets; None without a group.
        on_failure: called with a partition, for its back-off.
        fail: takes errors for the application.
        on_change: called when a position was found.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        commits: Commits | None,
        on_failure: Callable[[Partition], None],
        fail: Callable[[KohortError], None],
        on_change: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._commits = commits
        self._back_off = on_failure
        self._fail = fail
        self._on_change = on_change
        self._resolving: asyncio.Task[None] | None = None
        self._checking: dict[int, asyncio.Task[None]] = {}

    def under_way(self) -> list[asyncio.Task[None]]:
        """The tasks that are not done."""
        resolving = [] if self._resolving is None else [self._resolving]
        return [*self._checking.values(), *resolving]

    # -- start positions

    def resolve(self, partitions: Sequence[Partition]) -> None:
        """Starts look-ups: committed offsets first, else ``auto.offset.reset``.

        If others are under way, these start when the others are done.
        """
        if self._resolving is None:
            self._resolving = asyncio.create_task(self._resolve(partitions))

    async def _resolve(self, partitions: Sequence[Partition]) -> None:
        try:
            await self._cluster.add_topics({p.place.topic for p in partitions})
            await self._from_commits([p for p in partitions if p.reset is None])
            await self._from_times([p for p in partitions if p.reset is not None])
        except KohortError as error:
            for partition in partitions:
                if partition.position is None:
                    self._failed(partition, error)
            if not error.retriable:
                self._fail(error)
        finally:
            self._resolving = None
        self._on_change()

    async def _from_commits(self, partitions: Sequence[Partition]) -> None:
        if partitions and self._commits is not None:
            found = await self._commits.committed([p.place for p in partitions])
            for partition in partitions:
                row = found[partition.place]
                if partition.position is None and partition.reset is None and row:
                    partition.seek(row.offset, row.leader_epoch)
        for partition in partitions:
            if partition.position is None and partition.reset is None:
                self.reset(partition)

    async def _from_times(self, partitions: Sequence[Partition]) -> None:
        asked = {p.place: p.reset for p in partitions if p.reset is not None}
        wanted = {p.place: p for p in partitions}
        metadata = self._cluster.metadata
        leaders = {p.place: metadata.leader_epoch(*p.place) for p in partitions}
        found = await self._list(asked)
        for place, partition in wanted.items():
            row = found.get(place)
            if partition.reset != asked[place]:
                continue  # the application has called seek meanwhile
            if row is None:
                self._back_off(partition)
            elif isinstance(row, KohortError):
                self._failed(partition, row)
                if not row.retriable:
                    self._fail(row)
            elif row.offset < 0:
                # No record is that new: continue at the end.
                partition.seek_to(LATEST)
            else:
                partition.seek(row.offset, row.leader_epoch)
                # The offset comes from the leader itself.
                partition.leader_epoch = leaders[place]

    def reset(self, partition: Partition, offset: int | None = None) -> None:
        """Applies ``auto.offset.reset``.

        Args:
            partition: a partition without a position, or with one outside the log.
            offset: the position outside the log; None without a committed offset.
        """
        policy = self._config.auto_offset_reset
        if policy in RESETS:
            partition.seek_to(RESETS[policy])
            return
        place = partition.place
        self._back_off(partition)
        if offset is None:
            what = "no committed offset, and auto_offset_reset is none"
            group = self._config.group_id
            self._fail(NoOffsetForPartitionError(what, group=group, **place._asdict()))
            return
        leader = self._cluster.leader(*place)
        self._fail(
            OffsetOutOfRangeError(
                f"there is no offset {offset}, and auto_offset_reset is none",
                api="Fetch",
                broker=None if leader is None else self._cluster.name_of(leader),
                code=ErrorCode.OFFSET_OUT_OF_RANGE,
                **place._asdict(),
            )
        )

    def _failed(self, partition: Partition, error: KohortError) -> None:
        self._back_off(partition)
        self._cluster.note(error)

    # -- ListOffsets

    async def offsets_at(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The first offsets at or after some times; see `kohort.client.offsets`.

        Does not retry.

        Raises:
            KohortError: an unknown leader, or a response with an error.
        """
        found = {}
        for place, row in (await self._list(times)).items():
            if isinstance(row, KohortError):
                raise row
            found[place] = row
        return found

    async def _list(self, times: Mapping[TopicPartition, int]) -> Found:
        found: Found = {}
        by_node: dict[int, dict[TopicPartition, int]] = {}
        for place, timestamp in times.items():
            leader = self._cluster.leader(*place)
            if leader is not None:
                by_node.setdefault(leader, {})[place] = timestamp
                continue
            found[place] = NotLeaderError(
                "unknown leader",
                api="ListOffsets",
                **place._asdict(),
                code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            )
        answers = (self._list_at(*each) for each in by_node.items())
        for answer in await asyncio.gather(*answers):
            found |= answer
        return found

    async def _list_at(
        self, node_id: int, times: Mapping[TopicPartition, int]
    ) -> Found:
        isolation = self._config.isolation_level
        try:
            return await list_offsets(
                self._cluster, node_id, times, isolation, _WITHOUT_TIERS
            )
        except KohortError as error:
            return dict.fromkeys(times, error)

    # -- validation of positions (KIP-320)

    def doubts(self, partition: Partition) -> bool:
        """Returns whether the position has to be validated before the next fetch.

        It has to be if the leader has changed since the last validation, and the
        epoch of the record before the position is known.
        """
        if partition.is_in_doubt:
            return True
        epoch = self._cluster.metadata.leader_epoch(*partition.place)
        if epoch <= partition.leader_epoch:
            return False
        partition.replica = None
        if partition.epoch < 0:
            partition.leader_epoch = epoch
            return False
        partition.doubt()
        return True

    def check(self, by_node: Mapping[int, Sequence[Partition]]) -> None:
        """Asks leaders to validate positions, with one request to each at a time."""
        for node_id, partitions in by_node.items():
            if node_id not in self._checking:
                task = asyncio.create_task(self._check(node_id, partitions))
                self._checking[node_id] = task

    async def _check(self, node_id: int, partitions: Sequence[Partition]) -> None:
        newest = self._cluster.metadata.leader_epoch
        asked: dict[TopicPartition, _Asked] = {
            p.place: (p, p.position or 0, p.epoch, newest(*p.place)) for p in partitions
        }
        topics: dict[str, list[OffsetForLeaderPartition]] = {}
        for place, (_, _, epoch, leader_epoch) in asked.items():
            row = OffsetForLeaderPartition(place.partition, leader_epoch, epoch)
            topics.setdefault(place.topic, []).append(row)
        request = OffsetForLeaderEpochRequest(
            _CONSUMER, [OffsetForLeaderTopic(t, rows) for t, rows in topics.items()]
        )
        try:
            response = await self._cluster.call(
                node_id, "OffsetForLeaderEpoch", request, versions=_FOR_CONSUMERS
            )
        except UnsupportedVersionError:
            # The broker is older than KIP-320 and cannot validate.
            for partition, _, _, leader_epoch in asked.values():
                partition.confirm(leader_epoch)
        except KohortError as error:
            for partition in partitions:
                self._failed(partition, error)
            if not error.retriable:
                self._fail(error)
        else:
            self._checked(response, asked, node_id)
        finally:
            del self._checking[node_id]
        self._on_change()

    def _checked(
        self, response: Any, asked: Mapping[TopicPartition, _Asked], node_id: int
    ) -> None:
        rows = {
            TopicPartition(topic.topic, row.partition): row
            for topic in response.topics
            for row in topic.partitions
        }
        for place, (partition, position, _, leader_epoch) in asked.items():
            row = rows.get(place)
            # The application may have called seek meanwhile.
            if not partition.is_in_doubt or position != partition.position:
                continue
            if row is None:
                self._back_off(partition)
            elif row.error_code:
                error = error_of(
                    row.error_code,
                    api="OffsetForLeaderEpoch",
                    broker=self._cluster.name_of(node_id),
                    **place._asdict(),
                )
                self._failed(partition, error)
                self._cluster.request_update()
                if not error.retriable:
                    self._fail(error)
            elif row.end_offset < 0 or row.leader_epoch < 0:
                self._truncated(partition, None, -1, leader_epoch)
            elif row.end_offset < position:
                end = row.end_offset, row.leader_epoch
                self._truncated(partition, *end, leader_epoch)
            else:
                partition.confirm(leader_epoch)

    def _truncated(
        self, partition: Partition, end: int | None, epoch: int, leader_epoch: int
    ) -> None:
        """Handles a log that was truncated below the position: resets it if allowed.

        Args:
            partition: the partition.
            end: offset at which the log and the consumed records diverge; None if
                unknown.
            epoch: leader epoch of the record before that.
            leader_epoch: of the leader that answered.
        """
        policy = self._config.auto_offset_reset
        if policy in RESETS and end is None:
            partition.seek_to(RESETS[policy])
        elif policy in RESETS and end is not None:
            partition.seek(end, epoch)
            partition.leader_epoch = leader_epoch
        else:
            self._back_off(partition)
            self._fail(
                LogTruncationError(
                    f"the log was cut off before offset {partition.position}, "
                    f"at {'an unknown offset' if end is None else end}, and "
                    "auto_offset_reset is none",
                    api="OffsetForLeaderEpoch",
                    **partition.place._asdict(),
                )
            )
