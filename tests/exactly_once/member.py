"""A member of a group, on the wire, without timers but its heartbeats."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from tests.long_runs.cluster_queries import committed
from tests.long_runs.wire import GROUP, LaterError, RefusedError, Wire

from kohort.protocol import consumer
from kohort.protocol.apis.k11_join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.apis.k14_sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from kohort.protocol.errors import ErrorCode

SESSION_MS = REBALANCE_MS = 2_000
"""Less than between two kills. A broker that is killed before the next generation is
written forgets that a member left, and waits for it."""
HEARTBEAT_S = 0.2
AGAIN = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MEMBER_ID_REQUIRED,
}
"""Errors after which a member joins again."""


class Membership:
    """A member in one generation, as far as TxnOffsetCommit needs it."""

    def __init__(self, group: str, member_id: str, generation: int) -> None:
        self.group = group
        self.member_id = member_id
        self.generation = generation


class Member:
    """A member that joins again whenever its group rebalances.

    Args:
        wire: its connections.
        group: the group's id.
        topic: with its partitions.
        partitions: number of them.
    """

    def __init__(self, wire: Wire, group: str, topic: str, partitions: int) -> None:
        self._wire = wire
        self._group = group
        self._topic = topic
        self._partitions = partitions
        self._member_id = ""
        self._generation = -1
        self._heartbeats: asyncio.Task[None] | None = None
        self.is_current = False

    @property
    def membership(self) -> Membership:
        """The membership in the current generation."""
        return Membership(self._group, self._member_id, self._generation)

    async def _ask(self, api_name: str, version: int, message: object) -> Any:
        async def ask() -> Any:
            answer = await self._wire.coordinated(
                GROUP, self._group, api_name, version, message
            )
            if answer.error_code not in AGAIN:
                self._wire.check(api_name, answer.error_code)
            return answer

        return await self._wire.until(f"{api_name} is answered", ask)

    async def join(self) -> list[int]:
        """Joins until the group is Stable; returns the assigned partitions."""
        await self._stop_heartbeats()
        while True:
            joined = await self._join()
            if joined.error_code:
                self._rejected(joined)
                continue
            synced = await self._sync(joined)
            if synced.error_code:
                self._rejected(synced)
                continue
            self.is_current = True
            self._heartbeats = asyncio.create_task(self._heartbeat())
            assigned = consumer.decode_assignment(synced.assignment)
            return [
                partition
                for each in assigned.assigned_partitions
                for partition in each.partitions
            ]

    def _rejected(self, answer: Any) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
        elif answer.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            self._member_id = ""

    async def _join(self) -> Any:
        subscription = consumer.encode(consumer.Subscription([self._topic]), 0)
        request = JoinGroupRequest(
            self._group,
            SESSION_MS,
            REBALANCE_MS,
            self._member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", subscription)],
        )
        return await self._ask("JoinGroup", 5, request)

    async def _sync(self, joined: Any) -> Any:
        self._member_id = joined.member_id
        self._generation = joined.generation_id
        # The leader has the members; partitions go around.
        ids = sorted(each.member_id for each in joined.members)
        assignments = []
        for number, member_id in enumerate(ids):
            mine = list(range(number, self._partitions, len(ids)))
            assigned = consumer.Assignment(
                [consumer.TopicPartitions(self._topic, mine)]
            )
            data = consumer.encode(assigned, 0)
            assignments.append(SyncGroupRequestAssignment(member_id, data))
        request = SyncGroupRequest(
            self._group, self._generation, self._member_id, assignments=assignments
        )
        return await self._ask("SyncGroup", 3, request)

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(self._group, self._generation, self._member_id)
        while True:
            await asyncio.sleep(HEARTBEAT_S)  # a member's own rhythm
            with contextlib.suppress(LaterError):
                answer = await self._wire.coordinated(
                    GROUP, self._group, "Heartbeat", 3, request
                )
                if answer.error_code in AGAIN:
                    self.is_current = False
                    return
                with contextlib.suppress(RefusedError):
                    self._wire.check("Heartbeat", answer.error_code)

    async def _stop_heartbeats(self) -> None:
        self.is_current = False
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await asyncio.wait([self._heartbeats])
            self._heartbeats = None

    async def leave(self) -> None:
        """Leaves the group; `join` makes a new member."""
        await self._stop_heartbeats()
        request = LeaveGroupRequest(
            self._group, members=[MemberIdentity(self._member_id)]
        )
        await self._ask("LeaveGroup", 3, request)
        self._member_id = ""


async def committed_offsets(
    wire: Wire,
    group: str,
    topic: str,
    partitions: list[int],
    *,
    is_stable: bool = True,
) -> dict[int, int]:
    """The committed offsets, -1 for none.

    By default once no open transaction may change them (KIP-447).
    """
    found = await wire.until(
        f"the offsets of {group} are known",
        lambda: committed(wire, group, topic, partitions, is_stable=is_stable),
    )
    return {partition: offset for partition, (offset, _) in found.items()}
