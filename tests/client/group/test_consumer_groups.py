"""Groups of the consumer protocol (KIP-848): the scenes that only they have."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.sent_requests import SentRequests
from tests.client.stage import (
    PATIENCE,
    Recorder,
    Stage,
    consumer_protocol,
    is_shared,
    poll_until,
    shares,
    take,
)

from kohort.client import Consumer, Producer, SubscriptionPattern
from kohort.client.config import CommonConfig
from kohort.client.errors import BrokerError, KohortError
from kohort.client.network.cluster import Cluster
from kohort.protocol.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kohort.protocol.errors import ErrorCode

pytestmark = consumer_protocol


def moved(listener: Recorder) -> list[tuple[str, int]]:
    """Its calls with partitions, and their number."""
    return [(kind, len(places)) for kind, places in listener.calls if places]


async def failure(reader: Consumer) -> KohortError:
    """The error that two polls raise."""
    for _ in range(2):
        with pytest.raises(KohortError) as caught:
            await asyncio.wait_for(reader.getone(), PATIENCE)
    return caught.value


async def remove(stage: Stage, member_id: str) -> None:
    """Has the coordinator remove a member, as if it had left."""
    config = CommonConfig(bootstrap_servers=stage.bootstrap_servers)
    request = ConsumerGroupHeartbeatRequest(stage.group, member_id, -1)
    async with Cluster(config) as cluster:
        node_id = await cluster.coordinator(stage.group)
        answer = await cluster.call(node_id, "ConsumerGroupHeartbeat", request)
        assert answer.error_code == 0


def epochs(sent: SentRequests, stage: Stage, member_id: str) -> list[int]:
    """The epochs of a member's heartbeats, without repetitions."""
    beats = sent.requests("ConsumerGroupHeartbeat", stage.group, member_id)
    found: list[int] = []
    for each in beats:
        if found[-1:] != [each.request.member_epoch]:
            found.append(each.request.member_epoch)
    return found


async def test_only_moving_partitions_are_revoked(stage: Stage) -> None:
    """One step for the old member, two for the new one; all others are read on."""
    await stage.fill([1] * 4)
    mine, theirs = Recorder(), Recorder()
    async with stage.consumer() as a, stage.consumer() as b:
        a.subscribe([stage.topic], listener=mine)
        await poll_until(lambda: shares(a) == [4], a)
        b.subscribe([stage.topic], listener=theirs)
        await poll_until(lambda: is_shared(4, a, b), a, b)
        assert moved(mine) == [("assigned", 4), ("revoked", 2)]
        assert moved(theirs) == [("assigned", 2)]


async def test_a_member_keeps_its_id_and_its_epoch_grows(
    stage: Stage, sent: SentRequests
) -> None:
    """The client makes the id; with it, it subscribes again."""
    await stage.fill([1])
    async with stage.member() as reader:
        assert await take(reader, 1) == ["0:0"]
        said = reader.group_metadata()
        assert len(said.member_id) == 22
        assert said.generation_id > 0
        await reader.unsubscribe()
        assert reader.group_metadata().generation_id == -1
        reader.subscribe([stage.topic])
        await poll_until(lambda: shares(reader) == [1], reader)
        assert reader.group_metadata().member_id == said.member_id
    found = epochs(sent, stage, said.member_id)
    assert (found[0], found[-1]) == (0, -1)
    assert found.count(0) == 2
    assert found.count(-1) == 2


async def test_a_removed_member_loses_its_partitions_and_comes_back(
    stage: Stage, sent: SentRequests
) -> None:
    """UNKNOWN_MEMBER_ID: the same id, from epoch 0."""
    await stage.fill([1, 1])
    listener = Recorder()
    async with stage.consumer() as reader:
        reader.subscribe([stage.topic], listener=listener)
        await poll_until(lambda: shares(reader) == [2], reader)
        member_id = reader.group_metadata().member_id
        await remove(stage, member_id)
        await poll_until(lambda: ("lost", 2) in moved(listener), reader)
        await poll_until(lambda: shares(reader) == [2], reader)
        assert moved(listener) == [("assigned", 2), ("lost", 2), ("assigned", 2)]
        assert reader.group_metadata().member_id == member_id
        await reader.commit({stage.p0: 1})
    assert epochs(sent, stage, member_id).count(0) == 2


# -- static members


async def test_a_static_member_comes_back_to_its_partitions(
    stage: Stage, sent: SentRequests
) -> None:
    """Epoch -2: within its session, the others do not notice (KIP-345)."""
    await stage.fill([1, 1])
    listener = Recorder()
    async with stage.consumer(group_instance_id="b") as b:
        b.subscribe([stage.topic], listener=listener)
        async with stage.member(group_instance_id="a") as a:
            await poll_until(lambda: is_shared(2, a, b), a, b)
            had = a.assignment()
            listener.calls.clear()
        assert sent.leaves(stage.group)[-1].request.member_epoch == -2
        async with stage.member(group_instance_id="a") as a:
            await poll_until(lambda: bool(a.assignment()), a, b)
            assert a.assignment() == had
        assert not moved(listener)


async def test_close_may_remove_a_static_member(
    stage: Stage, sent: SentRequests
) -> None:
    """Epoch -1 at once: the others get its partitions."""
    await stage.fill([1, 1])
    async with stage.member(group_instance_id="b") as b:
        async with stage.member(group_instance_id="a") as a:
            await poll_until(lambda: is_shared(2, a, b), a, b)
            await a.close(leaves=True)
        assert sent.leaves(stage.group)[-1].request.member_epoch == -1
        await poll_until(lambda: shares(b) == [2], b)


async def test_a_second_process_of_an_instance_id_is_refused(stage: Stage) -> None:
    """The first one keeps the place, other than in the classic protocol."""
    await stage.fill([1])
    async with stage.member(group_instance_id="i") as a:
        await poll_until(lambda: shares(a) == [1], a)
        async with stage.member(group_instance_id="i") as b:
            error = await failure(b)
            assert error.code is ErrorCode.UNRELEASED_INSTANCE_ID
            assert error.group == stage.group
            assert not error.retriable
        a.seek_to_beginning()
        assert await take(a, 1) == ["0:0"]


# -- the coordinator's choices


@pytest.mark.parametrize(("assignor", "most"), [("range", 2), ("uniform", 1)])
async def test_the_coordinator_assigns_by_the_wanted_assignor(
    stage: Stage, assignor: str, most: int
) -> None:
    """Of two topics with one partition, range gives both to the same member."""
    topics = [stage.name("a"), stage.name("b")]
    for topic in topics:
        await stage.fill([1], topic)
    wish = {"group_remote_assignor": assignor}
    listener = Recorder()
    async with stage.consumer(*topics, **wish) as a, stage.consumer(**wish) as b:
        await poll_until(lambda: shares(a) == [2], a)
        b.subscribe(topics, listener=listener)
        await poll_until(
            lambda: bool(listener.calls) and sorted(shares(a, b)) == [2 - most, most],
            a,
            b,
        )


async def test_an_unknown_assignor_ends_the_consumer(stage: Stage) -> None:
    """With the broker's message, which lists those that it has."""
    await stage.fill([1])
    async with stage.member(group_remote_assignor="nope") as reader:
        error = await failure(reader)
        assert error.code is ErrorCode.UNSUPPORTED_ASSIGNOR
        assert "uniform" in error.message
        assert not error.retriable


async def test_the_coordinator_resolves_a_pattern(
    stage: Stage, sent: SentRequests
) -> None:
    """Also for topics that are created later; the metadata has their names."""
    await stage.fill([1, 1], stage.name("logs-a"))
    await stage.fill([1], stage.name("other"))
    async with stage.consumer(metadata_max_age_ms=100) as reader:
        reader.subscribe(pattern=SubscriptionPattern(stage.name("logs-.*")))
        await poll_until(lambda: shares(reader) == [2], reader)
        await stage.fill([1], stage.name("logs-b"))
        await poll_until(lambda: shares(reader) == [3], reader)
        reader.subscribe([stage.name("other")])
        await poll_until(lambda: shares(reader) == [1], reader)
        (place,) = reader.assignment()
        assert place.topic == stage.name("other")
    beats = sent.requests("ConsumerGroupHeartbeat", stage.group)
    said = [each.request.subscribed_topic_regex for each in beats]
    assert [p for p in said if p is not None] == [stage.name("logs-.*"), ""]


async def test_an_invalid_pattern_ends_the_consumer(stage: Stage) -> None:
    """RE2 has no look-behind; Python does."""
    async with stage.consumer() as reader:
        reader.subscribe(pattern=SubscriptionPattern("(?<=a)b"))
        error = await failure(reader)
        assert error.code is ErrorCode.INVALID_REGULAR_EXPRESSION
        assert "(?<=a)b" in error.message


async def test_a_topic_that_is_created_later_is_assigned(stage: Stage) -> None:
    """Its id is not in the metadata when it is assigned."""
    settings = {"allow_auto_create_topics": False, "metadata_max_age_ms": 60_000}
    async with stage.member(**settings) as reader:
        async with asyncio.timeout(PATIENCE):
            assert not await reader.getmany(timeout_ms=200)
        await stage.fill([1, 1])
        await poll_until(lambda: shares(reader) == [2], reader)
        reader.seek_to_beginning()
        assert len(await take(reader, 2)) == 2


# -- other clients of the group


async def test_members_of_both_protocols_share_a_group(stage: Stage) -> None:
    """An upgrade, member by member (KIP-848), and back."""
    await stage.fill([5] * 4)
    async with Consumer(
        stage.topic,
        bootstrap_servers=stage.bootstrap_servers,
        group_id=stage.group,
        group_protocol="classic",
        heartbeat_interval_ms=50,
        partition_assignment_strategy=["cooperative-sticky"],
        enable_auto_commit=False,
    ) as a:
        await poll_until(lambda: shares(a) == [4], a)
        async with stage.member(enable_auto_commit=False) as b:
            await poll_until(lambda: is_shared(4, a, b), a, b)
            await a.commit(dict.fromkeys(a.assignment(), 3))
            await b.commit(dict.fromkeys(b.assignment(), 3))
        await poll_until(lambda: shares(a) == [4], a)
        found = await a.committed(*stage.places(0, 1, 2, 3))
        assert {row and row.offset for row in found.values()} == {3}


async def test_offsets_in_a_transaction(stage: Stage) -> None:
    """KIP-447: with the member's id and epoch."""
    await stage.fill([3])
    producing: Producer[bytes, bytes] = Producer(
        bootstrap_servers=stage.bootstrap_servers,
        transactional_id=stage.name("x"),
    )
    async with stage.member(enable_auto_commit=False) as reader, producing as producer:
        await take(reader, 3)
        for wanted in (2, 3):
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction(
                {stage.p0: wanted}, reader.group_metadata()
            )
            await producer.commit_transaction()
            found = await reader.committed(stage.p0)
            row = found[stage.p0]
            assert row is not None
            assert row.offset == wanted
        stale = reader.group_metadata()._replace(member_id="nobody")
        await producer.begin_transaction()
        with pytest.raises(BrokerError):
            await producer.send_offsets_to_transaction({stage.p0: 1}, stale)
        await producer.abort_transaction()


async def test_a_pattern_of_the_client_may_match_nothing_yet(stage: Stage) -> None:
    """The member joins without topics, and sends them when there are some."""
    async with stage.consumer(metadata_max_age_ms=50) as reader:
        reader.subscribe(pattern=stage.name("late-.*"))
        await poll_until(lambda: reader.group_metadata().generation_id > 0, reader)
        await stage.fill([1, 1], stage.name("late-a"))
        await poll_until(lambda: shares(reader) == [2], reader)
