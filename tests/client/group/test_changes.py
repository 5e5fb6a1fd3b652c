"""Groups that assign again, and the group metadata of a consumer."""

from __future__ import annotations

import pytest
from tests.client.sent_requests import SentRequests
from tests.client.stage import (
    Stage,
    either_protocol,
    is_shared,
    places,
    poll_until,
    shares,
)

from kohort.client.errors import ClosedError


@either_protocol
async def test_the_leader_looks_after_topics_of_others(stage: Stage) -> None:
    """It watches topics that it does not subscribe to."""
    await stage.fill([1])
    others = stage.name("u")
    await stage.fill([1], others)
    settings = {"metadata_max_age_ms": 50}
    async with stage.member(**settings) as leader:
        await poll_until(lambda: shares(leader) == [1], leader)
        # The other one rarely refreshes its own metadata.
        async with stage.consumer(others) as b, stage.admin() as admin:
            await poll_until(lambda: shares(b) == [1], leader, b)
            (await admin.create_partitions({others: 3})).check()
            await poll_until(lambda: is_shared(4, leader, b), leader, b)
            assert b.assignment() == places(0, 1, 2, topic=others)
            assert leader.assignment() == {stage.p0}


@either_protocol
async def test_a_new_topic_of_a_pattern_is_shared(stage: Stage) -> None:
    """Members see it in their metadata; two subscribe by pattern."""
    await stage.fill([1, 1], stage.name("logs-a"))
    async with (
        stage.consumer(metadata_max_age_ms=50) as a,
        stage.consumer(metadata_max_age_ms=50) as b,
    ):
        for reader in (a, b):
            reader.subscribe(pattern=stage.name("logs-.*"))
        await poll_until(lambda: is_shared(2, a, b), a, b)
        await stage.fill([1, 1], stage.name("logs-b"))
        both = {stage.name("logs-a"), stage.name("logs-b")}

        def have_seen_both() -> bool:
            return a.subscription() == both == b.subscription()

        # The first member to see it rejoins, and the group assigns once before that.
        await poll_until(lambda: have_seen_both() and is_shared(4, a, b), a, b)


async def test_a_rebalance_that_the_application_wants(
    stage: Stage, sent: SentRequests
) -> None:
    """It starts another generation; the broker gets the reason, cut off (KIP-800)."""
    await stage.fill([1])
    async with stage.member() as reader:
        await poll_until(lambda: shares(reader) == [1], reader)
        generation_id = reader.group_metadata().generation_id
        reader.enforce_rebalance("the clocks have changed" + "!" * 300)
        await poll_until(
            lambda: reader.group_metadata().generation_id == generation_id + 1, reader
        )
        await poll_until(lambda: shares(reader) == [1], reader)
    reasons = [e.request.reason for e in sent.requests("JoinGroup", stage.group)]
    given = [reason for reason in reasons if reason.startswith("the clocks")]
    assert [len(reason) for reason in given] == [255]


async def test_a_consumer_tells_its_membership(stage: Stage) -> None:
    """Group, generation and ids as in the broker; none before."""
    await stage.fill([1, 1])
    reader = stage.member(group_instance_id="one")
    with pytest.raises(ClosedError):
        reader.group_metadata()
    async with reader:
        assert reader.group_metadata() == (stage.group, -1, "", "one")
        await poll_until(lambda: bool(reader.assignment()), reader)
        await stage.until_members(1)
        said = reader.group_metadata()
        assert said.generation_id == 1
        async with stage.admin() as admin:
            described = (await admin.describe_consumer_groups([stage.group])).check()
        members = described[stage.group].members
        assert [m.member_id for m in members] == [said.member_id]
    with pytest.raises(ClosedError):
        reader.group_metadata()
