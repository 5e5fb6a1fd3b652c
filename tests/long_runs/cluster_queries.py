"""Queries to a cluster, repeated until it is ready."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from tests.long_runs import hold
from tests.long_runs.broker_process import BrokerError, BrokerProcess
from tests.long_runs.described import Described, of_classic, of_consumer, two_owners
from tests.long_runs.wire import ELSEWHERE, GROUP, LaterError, Wire
from tests.wire.requests import commit_offsets, create_topics, list_offsets, metadata

from kohort.protocol.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.apis.k15_describe_groups import DescribeGroupsRequest
from kohort.protocol.apis.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kohort.protocol.errors import ErrorCode

Answer = TypeVar("Answer")
Offsets = dict[int, tuple[int, str]]
"""By partition: the committed offset, -1 for none, and its metadata."""

LIMIT_S = 60.0
"""No operation takes this long."""
AGAIN_S = 0.01
"""Pause between two queries: nothing announces that a coordinator has loaded."""


async def create(wire: Wire, name: str, partitions: int, replicas: int) -> None:
    """CreateTopics, once."""
    request = create_topics(name, partitions=partitions, replicas=replicas)
    (answer,) = (await wire.anyone("CreateTopics", 5, request)).topics
    # A retry may find the topic of an earlier attempt.
    if answer.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
        wire.check("CreateTopics", answer.error_code)


async def end_of(wire: Wire, topic: str, partition: int, *, is_stable: bool) -> int:
    """ListOffsets, once: the high watermark, or the last stable offset."""
    request = list_offsets(topic, partition, isolation=int(is_stable))
    leader = await wire.leader(topic, partition)
    answer = await wire.call(leader, "ListOffsets", 6, request)
    (about,) = answer.topics[0].partitions
    wire.check("ListOffsets", about.error_code)
    offset: int = about.offset
    return offset


async def committed(
    wire: Wire, group: str, topic: str, partitions: Iterable[int], *, is_stable: bool
) -> Offsets:
    """OffsetFetch, once.

    Args:
        wire: the client's connections.
        group: its id.
        topic: of the partitions.
        partitions: their numbers.
        is_stable: waits for open transactions with offsets of the partitions (KIP-447).
    """
    wanted = [OffsetFetchRequestTopic(topic, [*partitions])]
    request = OffsetFetchRequest(group, wanted, require_stable=is_stable)
    answer = await wire.coordinated(GROUP, group, "OffsetFetch", 7, request)
    wire.check("OffsetFetch", answer.error_code)
    (about,) = answer.topics
    for each in about.partitions:
        wire.check("OffsetFetch", each.error_code)
    return {
        each.partition_index: (each.committed_offset, each.metadata or "")
        for each in about.partitions
    }


class ClusterQueries:
    """Queries to a cluster, each to the node that can answer.

    Args:
        served: the cluster.
    """

    def __init__(self, served: BrokerProcess) -> None:
        self._served = served
        self._runner = asyncio.Runner()
        addresses = [("127.0.0.1", port) for port in served.ports]
        self._wire = Wire("queries", addresses)

    def forget(self) -> None:
        """Closes all connections; new ones are opened as needed."""
        self._runner.run(self._wire.close())

    def close(self) -> None:
        """Closes all connections for good."""
        self.forget()
        self._runner.close()

    def until(self, what: str, ask: Callable[[], Answer | None]) -> Answer:
        """Repeats a query until it is answered.

        Raises:
            BrokerError: the broker ended, or LIMIT_S passed.
        """
        deadline = time.monotonic() + LIMIT_S
        last = "no answer"
        while time.monotonic() < deadline:
            try:
                answer = ask()
            except LaterError as later:
                last = str(later)
            else:
                if answer is not None:
                    return answer
            self._served.runs_for(AGAIN_S)
        raise BrokerError(f"waited {LIMIT_S:.0f} s until {what}: {last}")

    def _until(
        self, what: str, ask: Callable[[], Coroutine[Any, Any, Answer]]
    ) -> Answer:
        return self.until(what, lambda: self._runner.run(ask()))

    # -- topics

    def create_topic(self, name: str, partitions: int, replicas: int) -> None:
        """CreateTopics."""

        async def ask() -> bool:
            await create(self._wire, name, partitions, replicas)
            return True

        self._until(f"{name} is created", ask)

    async def _topics(self, version: int, *names: str) -> Sequence[Any]:
        request = metadata(*names, creates=False)
        answer = await self._wire.anyone("Metadata", version, request)
        for each in answer.topics:
            self._wire.check("Metadata", each.error_code)
        topics: Sequence[Any] = answer.topics
        return topics

    def ids(self, *names: str) -> dict[str, bytes]:
        """The id of each of these topics (KIP-516)."""

        async def ask() -> dict[str, bytes]:
            found = await self._topics(12, *names)
            return {each.name: bytes(each.topic_id) for each in found}

        return self._until(f"the ids of {names} are known", ask)

    def ends(self, topic: str) -> list[int]:
        """The end offset of each partition."""

        async def ask() -> list[int]:
            (about,) = await self._topics(9, topic)
            numbers = range(len(about.partitions))
            ends = (end_of(self._wire, topic, p, is_stable=False) for p in numbers)
            return await asyncio.gather(*ends)

        return self._until(f"the ends of {topic} are known", ask)

    # -- groups

    def coordinator(self, group: str) -> int:
        """The id of the node that coordinates a group."""

        async def ask() -> int:
            self._wire.forget_coordinators()
            found = await self._wire.coordinator(GROUP, group)
            node: int = found.node_id
            return node

        return self._until(f"{group} has a coordinator", ask)

    async def _coordinated(
        self, group: str, api_name: str, version: int, message: object
    ) -> Any:
        return await self._wire.coordinated(GROUP, group, api_name, version, message)

    def describe(self, group: str, *, is_consumer: bool = False) -> Described:
        """DescribeGroups, or ConsumerGroupDescribe, of one.

        Raises:
            RunError: two members of a consumer group own one partition.
        """
        ask = self._describe_consumer if is_consumer else self._describe_classic
        return self._until(f"{group} is described", lambda: ask(group))

    async def _describe_classic(self, group: str) -> Described:
        request = DescribeGroupsRequest([group])
        answer = await self._coordinated(group, "DescribeGroups", 5, request)
        (found,) = answer.groups
        self._wire.check("DescribeGroups", found.error_code)
        return of_classic(found)

    async def _describe_consumer(self, group: str) -> Described:
        request = ConsumerGroupDescribeRequest([group])
        answer = await self._coordinated(group, "ConsumerGroupDescribe", 1, request)
        (found,) = answer.groups
        # Before its first member it is no consumer group.
        if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            raise LaterError(ErrorCode.GROUP_ID_NOT_FOUND.name)
        self._wire.check("ConsumerGroupDescribe", found.error_code)
        hold(two_owners(found))
        return of_consumer(found)

    def committed(self, group: str, topic: str, partitions: Iterable[int]) -> Offsets:
        """OffsetFetch."""

        async def ask() -> Offsets:
            return await committed(
                self._wire, group, topic, partitions, is_stable=False
            )

        return self._until(f"the offsets of {group} are known", ask)

    def begin(self, group: str, topic: str, partitions: int) -> None:
        """OffsetCommit of 0 for each partition, for a group without members.

        Without a committed offset librdkafka looks up one itself. If the partition is
        revoked before the response, it fetches a partition that it does not own, and
        has its consumer commit old offsets later.
        """
        zeros = [(place, 0) for place in range(partitions)]
        request = commit_offsets(topic, *zeros, group=group)

        async def ask() -> bool:
            answer = await self._coordinated(group, "OffsetCommit", 7, request)
            for each in answer.topics[0].partitions:
                self._wire.check("OffsetCommit", each.error_code)
            return True

        self._until(f"{group} begins", ask)

    def heartbeat(
        self, group: str, generation: int, member_id: str, instance: str | None
    ) -> int:
        """Heartbeat of a member; returns the error code: 0 only in that generation."""
        request = HeartbeatRequest(group, generation, member_id, instance)

        async def ask() -> int:
            answer = await self._coordinated(group, "Heartbeat", 4, request)
            code: int = answer.error_code
            if code in ELSEWHERE:
                self._wire.check("Heartbeat", code)
            return code

        return self._until(f"{group} answers a heartbeat", ask)
