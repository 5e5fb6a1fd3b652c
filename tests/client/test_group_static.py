"""Static members (KIP-345): they restart without a rebalance, and fence each other."""

from __future__ import annotations

import pytest
from tests.client.consuming import (
    Recorder,
    Stage,
    is_shared,
    poll_until,
    shares,
)
from tests.client.sent import Sent

from kohort.client.errors import FencedInstanceError
from kohort.protocol.errors import ErrorCode


async def test_a_static_member_restarts_without_a_rebalance(
    stage: Stage, sent: Sent
) -> None:
    """It gets what it had; the others hear nothing of it, the group keeps its place."""
    await stage.fill([1] * 4)
    other = Recorder()
    a = stage.member(group_instance_id="i-a")
    await a.start()
    async with stage.consumer(group_instance_id="i-b") as b, stage.admin() as admin:
        b.subscribe([stage.topic], listener=other)
        await poll_until(lambda: is_shared(4, a, b), a, b)
        had = a.assignment()
        calls = len(other.calls)
        syncs = len(sent.of("SyncGroup", stage.group))
        await a.close()
        group = (await admin.describe_consumer_groups([stage.group]))[stage.group]
        assert group.state == "Stable"
        assert {m.group_instance_id for m in group.members} == {"i-a", "i-b"}
        assert not sent.of("LeaveGroup", stage.group)
        async with stage.member(group_instance_id="i-a") as c:
            await poll_until(lambda: bool(c.assignment()), b, c)
            assert c.assignment() == had
            assert len(other.calls) == calls
            assert len(sent.of("SyncGroup", stage.group)) == syncs + 1


async def test_a_static_member_leaves_if_it_is_told_to(
    stage: Stage, sent: Sent
) -> None:
    """Its place is free at once; the others share what it had."""
    await stage.fill([1] * 2)
    a = stage.member(group_instance_id="i-a")
    await a.start()
    async with stage.member(group_instance_id="i-b") as b:
        await poll_until(lambda: is_shared(2, a, b), a, b)
        await a.close(leaves=True)
        (leave,) = sent.answered("LeaveGroup", stage.group)
        assert [m.group_instance_id for m in leave.request.members] == ["i-a"]
        await poll_until(lambda: shares(b) == [2], b)


async def test_a_static_member_needs_no_id_first(stage: Stage, sent: Sent) -> None:
    """MEMBER_ID_REQUIRED is for the others: it joins once."""
    await stage.fill([1])
    async with stage.member(group_instance_id="i") as a:
        await poll_until(lambda: shares(a) == [1], a)
        (join,) = sent.answered("JoinGroup", stage.group)
        assert (join.request.member_id, join.response.error_code) == ("", 0)


async def test_a_second_process_of_an_instance_id_fences_the_first(
    stage: Stage, sent: Sent
) -> None:
    """FencedInstanceError comes out of each poll; its partitions are lost."""
    await stage.fill([1])
    listener = Recorder()
    async with stage.consumer(group_instance_id="i") as a:
        a.subscribe([stage.topic], listener=listener)
        await poll_until(lambda: shares(a) == [1], a)
        async with stage.member(group_instance_id="i") as b:
            await poll_until(lambda: shares(b) == [1], b)
            for _ in range(2):
                with pytest.raises(FencedInstanceError) as caught:
                    await poll_until(lambda: False, a)
                assert not caught.value.retriable
                assert caught.value.code is ErrorCode.FENCED_INSTANCE_ID
                assert caught.value.group == stage.group
            assert listener.kinds() == ["assigned", "lost"]
            assert shares(a, b) == [0, 1]
        await a.close()
        assert not sent.of("LeaveGroup", stage.group), "it is not a's place any more"


async def test_a_fenced_member_does_not_commit(stage: Stage) -> None:
    """Whoever has its place now goes on where it has committed itself."""
    await stage.fill([5])
    settings = {"group_instance_id": "i", "enable_auto_commit": False}
    # It does not hear of it by a heartbeat.
    async with stage.member(**settings, heartbeat_interval_ms=20_000) as a:
        await poll_until(lambda: shares(a) == [1], a)
        async with stage.member(**settings) as b:
            await poll_until(lambda: shares(b) == [1], b)
            await b.commit({stage.p0: 3})
            with pytest.raises(FencedInstanceError):
                await a.commit({stage.p0: 1})
            found = (await b.committed(stage.p0))[stage.p0]
            assert found is not None
            assert found.offset == 3
