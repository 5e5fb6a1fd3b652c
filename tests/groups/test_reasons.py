"""KIP-800: clients' reasons to join and leave are logged, and in no response."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.wire.client import WireClient, connected, served
from tests.wire.requests import join_group, sync_group

from kohort.broker import telemetry
from kohort.broker.server import Broker
from kohort.protocol.apis.k11_join_group import JoinGroupResponse
from kohort.protocol.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.apis.k15_describe_groups import DescribeGroupsRequest
from kohort.protocol.slotted import replace


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str]) -> Iterator[Log]:
    """The broker's log at level debug."""
    telemetry.configure("json", "debug")
    yield Log(capsys)
    telemetry.configure("auto", "warning")


class Log:
    """The lines on stderr.

    Args:
        capsys: captures them.
    """

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def reasons(self) -> list[tuple[str, str]]:
        """(event, reason) of each new line that has a reason."""
        lines = [
            json.loads(line) for line in self._capsys.readouterr().err.splitlines()
        ]
        return [(line["event"], line["reason"]) for line in lines if line.get("reason")]


async def join(
    client: WireClient,
    reason: str | None,
    *,
    member_id: str = "",
    metadata: bytes = b"",
    version: int = 9,
) -> JoinGroupResponse:
    """A JoinGroup with a reason; a second one if it is answered with an id."""
    while True:
        asked = join_group(member_id=member_id, protocols=[("range", metadata)])
        answer: JoinGroupResponse = await client.call(
            "JoinGroup", version, replace(asked, reason=reason)
        )
        if answer.error_code != 79:
            return answer
        member_id = answer.member_id


async def sync(client: WireClient, joined: JoinGroupResponse) -> Any:
    """The leader's SyncGroup; every assignment is "mine"."""
    shares = {member.member_id: b"mine" for member in joined.members}
    request = sync_group(joined.member_id, joined.generation_id, assignments=shares)
    return await client.call("SyncGroup", 5, request)


async def test_a_reason_to_join_is_logged_and_told_nobody(log: Log) -> None:
    """The reason is not shown to the member, the leader or an admin."""
    async with served(group_initial_rebalance_delay_ms=0) as client:
        joined = await join(client, "need more hands")
        assert joined.error_code == 0
        synced = await sync(client, joined)
        described = await client.call(
            "DescribeGroups", 6, DescribeGroupsRequest(["g"], False)
        )
    assert log.reasons() == [
        ("member_joined", "need more hands"),
        ("rebalance_started", "need more hands"),
    ]
    for response in (joined, synced, described):
        assert "hands" not in repr(response)


async def test_a_reason_to_rejoin_is_the_rebalances(log: Log) -> None:
    """The reason of a rejoin is also that of the rebalance that it causes."""
    async with served(group_initial_rebalance_delay_ms=0) as client:
        joined = await join(client, None)
        await sync(client, joined)
        assert log.reasons() == []
        again = await join(
            client, "topics changed", member_id=joined.member_id, metadata=b"new"
        )
    assert again.generation_id == 2
    assert log.reasons() == [
        ("member_joined", "topics changed"),
        ("rebalance_started", "topics changed"),
    ]


async def test_a_reason_of_who_is_refused(log: Log) -> None:
    """The reason is logged although the group is full."""
    config = {"group.initial.rebalance.delay.ms": 0, "group.max.size": 1}
    async with Broker(config) as broker, connected(broker) as client:
        joined = await join(client, None)
        await sync(client, joined)
        refused = await join(client, "scaled by mistake")
    assert refused.error_code == 81
    assert log.reasons() == [("member_refused", "scaled by mistake")]
    assert "mistake" not in repr(refused)


async def test_a_reason_to_leave(log: Log) -> None:
    """LeaveGroup v5 has a reason per member; its response has none."""
    async with served(group_initial_rebalance_delay_ms=0) as client:
        joined = await join(client, None)
        await sync(client, joined)
        request = LeaveGroupRequest(
            "g", "", [MemberIdentity(joined.member_id, None, "scaling down")]
        )
        left = await client.call("LeaveGroup", 5, request)
    assert left.members[0].error_code == 0
    assert "scaling" not in repr(left)
    # The last member's LeaveGroup starts a rebalance, too, without members.
    assert ("member_left", "scaling down") in log.reasons()


async def test_versions_without_a_reason(log: Log) -> None:
    """Before JoinGroup v8 there is no field for it: nothing is logged."""
    async with served(group_initial_rebalance_delay_ms=0) as client:
        assert (await join(client, "lost on the way", version=7)).error_code == 0
    assert log.reasons() == []
