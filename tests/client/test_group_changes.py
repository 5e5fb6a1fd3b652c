"""Groups that have to assign again: topics, protocols, members' ids, wishes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest
from tests.client.consuming import (
    PATIENCE,
    STRATEGIES,
    Recorder,
    Stage,
    is_shared,
    places,
    poll_until,
    shares,
)
from tests.client.sent import Sent

from kohort.client.consumer import Consumer
from kohort.client.offsets import TopicPartition
from kohort.protocol.errors import ErrorCode

# -- the leader's duties


async def test_partitions_that_are_added_are_shared(stage: Stage) -> None:
    """The leader sees them in its metadata."""
    await stage.fill([1, 1])
    settings = {"metadata_max_age_ms": 50}
    async with (
        stage.member(**settings) as a,
        stage.member(**settings) as b,
        stage.admin() as admin,
    ):
        await poll_until(lambda: is_shared(2, a, b), a, b)
        (await admin.create_partitions({stage.topic: 5})).check()
        await poll_until(lambda: is_shared(5, a, b), a, b)


async def test_the_leader_looks_after_topics_of_others(stage: Stage) -> None:
    """It watches what it has not subscribed to itself."""
    await stage.fill([1])
    others = stage.name("u")
    await stage.fill([1], others)
    settings = {"metadata_max_age_ms": 50}
    async with stage.member(**settings) as leader:
        await poll_until(lambda: shares(leader) == [1], leader)
        # The other one hardly ever looks for itself.
        async with stage.consumer(others) as b, stage.admin() as admin:
            await poll_until(lambda: shares(b) == [1], leader, b)
            (await admin.create_partitions({others: 3})).check()
            await poll_until(lambda: is_shared(4, leader, b), leader, b)
            assert b.assignment() == places(0, 1, 2, topic=others)
            assert leader.assignment() == {stage.p0}


async def test_a_new_topic_of_a_pattern_is_shared(stage: Stage) -> None:
    """Members see it in their metadata; two of them subscribe by pattern."""
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

        # What the first one to see it joins with is shared once before that.
        await poll_until(lambda: have_seen_both() and is_shared(4, a, b), a, b)


async def test_a_topic_that_comes_later_is_consumed(stage: Stage) -> None:
    """A subscription does not need its topic to be there."""
    settings = {"metadata_max_age_ms": 50, "allow_auto_create_topics": False}
    async with stage.member(**settings) as a, stage.member(**settings) as b:
        both = asyncio.create_task(stage.until_members(2))
        await poll_until(both.done, a, b)
        assert shares(a, b) == [0, 0]
        await stage.fill([1] * 4)
        await poll_until(lambda: is_shared(4, a, b), a, b)


# -- protocols


class Owner(Recorder):
    """Sees to it that no partition has two owners, by what members are told."""

    def __init__(self, owners: Counter[TopicPartition]) -> None:
        super().__init__()
        self.owners = owners
        self.inside = self._count

    async def _count(self, kind: str) -> None:
        for place in self.calls[-1][1]:
            self.owners[place] += 1 if kind == "assigned" else -1
            assert self.owners[place] in (0, 1)

    def most_revoked(self) -> int:
        """The most partitions that it gave up at once, since it was last asked."""
        gone = [len(moved) for kind, moved in self.calls if kind != "assigned"]
        self.calls.clear()
        return max(gone, default=0)


async def test_from_range_to_cooperative_sticky(stage: Stage) -> None:
    """Two rolling bounces (KIP-429): offer both, then drop the old one.

    After the first one all prefer the new protocol, but nobody relies on it: all is
    given up when somebody joins. After the second one only what moves.
    """
    await stage.fill([1] * 6)
    owners: Counter[TopicPartition] = Counter()
    group: list[tuple[Consumer, Owner]] = []

    async def join(strategies: Sequence[str]) -> None:
        reader, owner = (
            stage.consumer(partition_assignment_strategy=strategies),
            Owner(owners),
        )
        await reader.start()
        reader.subscribe([stage.topic], listener=owner)
        group.append((reader, owner))

    async def settle() -> None:
        readers = [reader for reader, _ in group]
        # A third may have its first partition before the second gives up another.
        even = [6 // len(readers)] * len(readers)
        await poll_until(
            lambda: is_shared(6, *readers) and shares(*readers) == even, *readers
        )

    async def protocol() -> str:
        async with stage.admin() as admin:
            described = await admin.describe_consumer_groups([stage.group])
        return described[stage.group].protocol

    async def given_up_for_a_third(strategies: Sequence[str]) -> list[int]:
        for _, owner in group:
            owner.most_revoked()
        await join(strategies)
        await settle()
        third, _ = group.pop()
        found = [owner.most_revoked() for _, owner in group]
        await third.close()
        await settle()
        return found

    old, both, new = ["range"], ["cooperative-sticky", "range"], ["cooperative-sticky"]
    for _ in range(2):
        await join(old)
    await settle()
    assert (await protocol(), await given_up_for_a_third(old)) == ("range", [3, 3])
    for strategies, given_up in ((both, [3, 3]), (new, [1, 1])):
        for number in range(2):
            await group.pop(0)[0].close()
            await join(strategies)
            await settle()
            # Until the last of the old ones has gone there is but one in common.
            chosen = "range" if strategies is both and number == 0 else new[0]
            assert await protocol() == chosen
        assert await given_up_for_a_third(strategies) == given_up
    for reader, _ in group:
        await reader.close()
    assert set(owners.values()) == {0}


async def test_nothing_in_common(stage: Stage) -> None:
    """A member that offers nothing that the others have is refused, for good."""
    await stage.fill([1])
    async with stage.member(partition_assignment_strategy="range") as a:
        await poll_until(lambda: shares(a) == [1], a)
        async with stage.member(partition_assignment_strategy="sticky") as b:
            with pytest.raises(Exception, match="INCONSISTENT_GROUP_PROTOCOL"):
                await asyncio.wait_for(b.getone(), PATIENCE)
        assert shares(a) == [1]


# -- the id of a member


async def test_a_member_joins_again_with_the_id_it_is_given(
    stage: Stage, sent: Sent
) -> None:
    """MEMBER_ID_REQUIRED (KIP-394): at once, and once."""
    await stage.fill([1])
    async with stage.member() as a:
        await poll_until(lambda: shares(a) == [1], a)
        first, second = sent.answered("JoinGroup", stage.group)
        assert first.request.member_id == ""
        assert first.response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert second.request.member_id == first.response.member_id
        assert second.response.error_code == 0
        assert second.response.member_id == first.response.member_id
        async with stage.admin() as admin:
            described = (await admin.describe_consumer_groups([stage.group])).check()
        (member,) = described[stage.group].members
        assert member.member_id == second.response.member_id


# -- what applications want


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_a_rebalance_that_the_application_wants(
    stage: Stage, sent: Sent, strategy: str
) -> None:
    """The leader's wish makes another generation for all; the broker hears why."""
    await stage.fill([1] * 2)
    settings = {"partition_assignment_strategy": strategy}
    async with stage.member(**settings) as leader:
        await poll_until(lambda: shares(leader) == [2], leader)
        async with stage.member(**settings) as b:
            await poll_until(lambda: is_shared(2, leader, b), leader, b)
            before = generations(sent, stage)[-1]
            leader.enforce_rebalance("the clocks have changed")
            await poll_until(
                lambda: (
                    generations(sent, stage)[-2:] == [before + 1] * 2
                    and is_shared(2, leader, b)
                ),
                leader,
                b,
            )
            reasons = [e.request.reason for e in sent.of("JoinGroup", stage.group)]
            assert reasons.count("the clocks have changed") == 1


def generations(sent: Sent, stage: Stage) -> list[int]:
    """Those in which members were given an assignment, in that order."""
    return [
        each.request.generation_id
        for each in sent.answered("SyncGroup", stage.group)
        if not each.response.error_code
    ]
