"""Queries to a cluster, repeated until it is ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tests.crash.broker_process import BrokerError, BrokerProcess
from tests.wire.blocking import BlockingClient
from tests.wire.requests import commit_offsets, create_topics, list_offsets, metadata

from kohort.protocol.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.apis.k15_describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
)
from kohort.protocol.errors import ErrorCode

Answer = TypeVar("Answer")

LIMIT_S = 60.0
"""No operation takes this long."""
AGAIN_S = 0.01
"""Pause between two queries: nothing announces that a coordinator has loaded."""
ON_ITS_WAY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
}


class _LaterError(Exception):
    """A temporary error, after which the query is repeated."""


def _now(error_code: int) -> None:
    if error_code in ON_ITS_WAY:
        raise _LaterError(f"error {error_code}")
    assert error_code == 0, f"error {error_code}"


class ClusterQueries:
    """Queries to a cluster, each to the node that can answer.

    Args:
        served: the cluster.
    """

    def __init__(self, served: BrokerProcess) -> None:
        self._served = served
        self._wires: dict[int, BlockingClient] = {}

    def forget(self) -> None:
        """Closes all connections; new ones are opened as needed."""
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()

    def _call(self, port: int, api_name: str, version: int, message: object) -> Any:
        wire = self._wires.get(port)
        try:
            if wire is None:
                wire = self._wires[port] = BlockingClient(port)
            return wire.call(api_name, version, message)
        except OSError as error:
            gone = self._wires.pop(port, None)
            if gone is not None:
                gone.close()
            raise _LaterError(str(error)) from error

    def _anybody(self, api_name: str, version: int, message: object) -> Any:
        """The response of the first node that answers."""
        for port in self._served.ports[:-1]:
            try:
                return self._call(port, api_name, version, message)
            except _LaterError:
                continue
        return self._call(self._served.ports[-1], api_name, version, message)

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
            except _LaterError as later:
                last = str(later)
            else:
                if answer is not None:
                    return answer
            self._served.runs_for(AGAIN_S)
        raise BrokerError(f"waited {LIMIT_S:.0f} s until {what}: {last}")

    # -- topics

    def create_topic(self, name: str, partitions: int, replicas: int) -> None:
        """CreateTopics."""
        request = create_topics(name, partitions=partitions, replicas=replicas)
        # A retry may find the topic of an earlier attempt.
        done = {0, ErrorCode.TOPIC_ALREADY_EXISTS}

        def create() -> bool:
            (answer,) = self._anybody("CreateTopics", 5, request).topics
            assert answer.error_code in done, answer
            return True

        self.until(f"{name} is created", create)

    def _leaders(self, topic: str) -> dict[int, int]:
        answer = self._anybody("Metadata", 9, metadata(topic, creates=False))
        ports = {node.node_id: node.port for node in answer.brokers}
        (about,) = answer.topics
        _now(about.error_code)
        for each in about.partitions:
            _now(each.error_code)
        return {
            each.partition_index: ports[each.leader_id] for each in about.partitions
        }

    def ids(self, *topics: str) -> dict[str, bytes]:
        """The id of each of these topics (KIP-516)."""
        request = metadata(*topics, creates=False)

        def ask() -> dict[str, bytes]:
            answer = self._anybody("Metadata", 12, request)
            for each in answer.topics:
                _now(each.error_code)
            return {each.name: bytes(each.topic_id) for each in answer.topics}

        return self.until(f"the ids of {topics} are known", ask)

    def ends(self, topic: str) -> list[int]:
        """The end offset of each partition."""

        def ask() -> list[int]:
            leaders = self._leaders(topic)
            found = [0] * len(leaders)
            for port in set(leaders.values()):
                mine = [p for p, leader in leaders.items() if leader == port]
                request = list_offsets(topic, *mine)
                (answer,) = self._call(port, "ListOffsets", 6, request).topics
                for each in answer.partitions:
                    _now(each.error_code)
                    found[each.partition_index] = each.offset
            return found

        return self.until(f"the ends of {topic} are known", ask)

    # -- groups

    def _found(self, group: str) -> Any:
        request = FindCoordinatorRequest(key=group)
        answer = self._anybody("FindCoordinator", 3, request)
        _now(answer.error_code)
        return answer

    def _coordinator(self, group: str) -> int:
        port: int = self._found(group).port
        return port

    def coordinator(self, group: str) -> int:
        """The id of the node that coordinates a group."""

        def ask() -> int:
            node: int = self._found(group).node_id
            return node

        return self.until(f"{group} has a coordinator", ask)

    def describe(self, group: str) -> DescribedGroup:
        """DescribeGroups, of one."""

        def ask() -> DescribedGroup:
            port = self._coordinator(group)
            request = DescribeGroupsRequest([group])
            (answer,) = self._call(port, "DescribeGroups", 5, request).groups
            _now(answer.error_code)
            described: DescribedGroup = answer
            return described

        return self.until(f"{group} is described", ask)

    def committed(
        self, group: str, topic: str, partitions: Iterable[int]
    ) -> dict[int, tuple[int, str]]:
        """OffsetFetch: offset (-1 for none) and metadata by partition."""
        request = OffsetFetchRequest(
            group, [OffsetFetchRequestTopic(topic, list(partitions))]
        )

        def ask() -> dict[int, tuple[int, str]]:
            answer = self._call(self._coordinator(group), "OffsetFetch", 7, request)
            _now(answer.error_code)
            (about,) = answer.topics
            for each in about.partitions:
                _now(each.error_code)
            return {
                each.partition_index: (each.committed_offset, each.metadata or "")
                for each in about.partitions
            }

        return self.until(f"the offsets of {group} are known", ask)

    def begin(self, group: str, topic: str, partitions: int) -> None:
        """OffsetCommit of 0 for each partition, for a group without members.

        Without a committed offset librdkafka looks up one itself. If the partition is
        revoked before the response, it fetches a partition that it does not own, and
        has its consumer commit old offsets later.
        """
        zeros = [(place, 0) for place in range(partitions)]
        request = commit_offsets(topic, *zeros, group=group)

        def ask() -> bool:
            answer = self._call(self._coordinator(group), "OffsetCommit", 7, request)
            for each in answer.topics[0].partitions:
                _now(each.error_code)
            return True

        self.until(f"{group} begins", ask)

    def heartbeat(
        self, group: str, generation: int, member_id: str, instance: str | None
    ) -> int:
        """Heartbeat of a member; returns the error code: 0 only in that generation."""
        request = HeartbeatRequest(group, generation, member_id, instance)

        def ask() -> int:
            answer = self._call(self._coordinator(group), "Heartbeat", 4, request)
            if answer.error_code in ON_ITS_WAY:
                raise _LaterError(f"error {answer.error_code}")
            code: int = answer.error_code
            return code

        return self.until(f"{group} answers a heartbeat", ask)
