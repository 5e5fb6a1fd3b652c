"""Consumers and a scripted coordinator of the consumer protocol (KIP-848).

For responses that a real one does not send, or not when a scene needs them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from tests.client.fake_broker import TOPIC_ID, Asked, FakeBroker, alone
from tests.client.stage import PATIENCE, Recorder, poll_until, shares

from kohort.client import Consumer, SubscriptionPattern
from kohort.client.errors import (
    CommitFailedError,
    GroupMaxSizeReachedError,
    KohortError,
    UnsupportedVersionError,
)
from kohort.client.offsets import TopicPartition
from kohort.protocol.apis.k03_metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.protocol.apis.k09_offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from kohort.protocol.apis.k68_consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.protocol.errors import KIP_389_GROUP_MAX_SIZE_REACHED, ErrorCode

API = "ConsumerGroupHeartbeat"
T0 = TopicPartition("t", 0)
INTERVAL_MS = 20


def beat(
    epoch: int = 1, *numbers: int, code: int = 0, topic_id: bytes = TOPIC_ID
) -> ConsumerGroupHeartbeatResponse:
    """A response; with partitions, it has an assignment."""
    rows = Assignment([TopicPartitions(topic_id, numbers)]) if numbers else None
    return ConsumerGroupHeartbeatResponse(0, code, None, "m", epoch, INTERVAL_MS, rows)


def script(*answers: ConsumerGroupHeartbeatResponse) -> Callable[[Asked], None]:
    """Answers heartbeats one after the other; the last one again and again."""
    rest: Iterator[ConsumerGroupHeartbeatResponse] = iter(answers[:-1])
    return lambda asked: asked.reply(next(rest, answers[-1]))


def committed(asked: Asked, code: int = 0) -> None:
    """Answers a commit."""
    rows = [OffsetCommitResponsePartition(0, code)]
    asked.reply(
        OffsetCommitResponse(0, [OffsetCommitResponseTopic("t", partitions=rows)])
    )


def fetched(asked: Asked, code: int = 0) -> None:
    """Answers OffsetFetch without offsets."""
    row = OffsetFetchResponseGroup("g", error_code=code)
    asked.reply(OffsetFetchResponse(groups=[row]))


def metadata(fake: FakeBroker, asked: Asked, code: int = 0) -> None:
    """Answers with topics without leaders: nothing is fetched."""
    node = MetadataResponseBroker(1, "127.0.0.1", fake.port)
    partitions = [
        MetadataResponsePartition(ErrorCode.LEADER_NOT_AVAILABLE, number, -1, -1)
        for number in range(3)
    ]
    rows = [
        MetadataResponseTopic(code, topic.name, TOPIC_ID, False, partitions)
        for topic in asked.message.topics or ()
    ]
    asked.reply(MetadataResponse(0, [node], "fake", 1, rows))


@contextlib.asynccontextmanager
async def played(
    *answers: ConsumerGroupHeartbeatResponse, **settings: Any
) -> AsyncIterator[tuple[FakeBroker, Consumer]]:
    """A coordinator with a topic, and a consumer that is not subscribed yet."""
    async with asyncio.timeout(PATIENCE), alone() as fake:
        fake.answers["Metadata"] = lambda asked: metadata(fake, asked)
        fake.answers["OffsetFetch"] = fetched
        fake.answers["OffsetCommit"] = committed
        fake.answers[API] = script(*answers)
        async with Consumer(
            bootstrap_servers=fake.address,
            group_id="g",
            group_protocol="consumer",
            retry_backoff_ms=1,
            enable_auto_commit=False,
            **settings,
        ) as reader:
            yield fake, reader


async def joined(reader: Consumer, listener: Recorder | None = None) -> None:
    """The consumer subscribes, and polls until it has its partition."""
    reader.subscribe(["t"], listener=listener)
    await poll_until(lambda: shares(reader) == [1], reader)


# -- offsets


async def test_a_commit_is_tried_again_with_the_new_epoch() -> None:
    """STALE_MEMBER_EPOCH: the coordinator had raised it before the response came."""
    async with played(beat(1, 0)) as (fake, reader):
        await joined(reader)

        def late(asked: Asked) -> None:
            fake.answers[API] = script(beat(2))
            is_new = asked.message.generation_id_or_member_epoch == 2
            committed(asked, 0 if is_new else ErrorCode.STALE_MEMBER_EPOCH)

        fake.answers["OffsetCommit"] = late
        await reader.commit({T0: 7})
        sent = [a.message for a in fake.of("OffsetCommit")]
        said = [(m.member_id, m.generation_id_or_member_epoch) for m in sent]
        assert (said[0], said[-1]) == (("m", 1), ("m", 2))


async def test_a_commit_with_an_epoch_that_stays_stale_times_out() -> None:
    """The coordinator never tells the member the epoch that it wants."""
    async with played(beat(1, 0)) as (fake, reader):
        await joined(reader)
        fake.answers["OffsetCommit"] = lambda asked: committed(
            asked, ErrorCode.STALE_MEMBER_EPOCH
        )
        with pytest.raises(KohortError) as caught:
            await reader.commit({T0: 7}, timeout_ms=50)
        assert caught.value.code is ErrorCode.STALE_MEMBER_EPOCH
        assert len(fake.of("OffsetCommit")) > 1


async def test_a_commit_that_says_unknown_is_checked_by_a_heartbeat() -> None:
    """At once; its response decides about the membership."""
    async with played(beat(1, 0)) as (fake, reader):
        listener = Recorder()
        await joined(reader, listener)
        assert fake.of(API)[0].message.member_epoch == 0

        def unknown(asked: Asked) -> None:
            fake.answers[API] = script(
                beat(code=ErrorCode.UNKNOWN_MEMBER_ID), beat(5, 0)
            )
            committed(asked, ErrorCode.UNKNOWN_MEMBER_ID)

        fake.answers["OffsetCommit"] = unknown
        with pytest.raises(CommitFailedError):
            await reader.commit({T0: 7})
        await poll_until(lambda: len(listener.calls) == 3, reader)
        assert listener.kinds() == ["assigned", "lost", "assigned"]
        assert reader.group_metadata().generation_id == 5


async def test_committed_offsets_are_fetched_as_a_member() -> None:
    """With id and epoch; again, if they were out of date (KIP-848)."""
    answers = [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, 0]
    async with played(beat(1, 0)) as (fake, reader):
        await joined(reader)
        fake.answers["OffsetFetch"] = lambda asked: fetched(asked, answers.pop(0))
        assert await reader.committed(T0) == {T0: None}
        assert not answers
        (group,) = fake.of("OffsetFetch")[-1].message.groups
        assert (group.member_id, group.member_epoch) == ("m", 1)


# -- the coordinator


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE]
)
async def test_a_coordinator_that_moves_is_looked_up(code: ErrorCode) -> None:
    """The partitions stay, and the next heartbeat is complete."""
    async with played(beat(1, 0), beat(1), beat(code=code), beat(2)) as (fake, reader):
        listener = Recorder()
        await joined(reader, listener)
        await poll_until(lambda: reader.group_metadata().generation_id == 2, reader)
        assert listener.kinds() == ["assigned"]
        assert len(fake.of("FindCoordinator")) >= 2
        message = fake.of(API)[3].message
        assert message.member_epoch == 1
        assert [*message.subscribed_topic_names] == ["t"]
        assert [(r.topic_id, [*r.partitions]) for r in message.topic_partitions] == [
            (TOPIC_ID, [0])
        ]


async def test_a_connection_that_breaks_keeps_the_membership() -> None:
    """Without a response, the next heartbeat is complete."""
    async with played(beat(1, 0)) as (fake, reader):
        listener = Recorder()
        await joined(reader, listener)

        def break_off(asked: Asked) -> None:
            fake.answers[API] = script(beat(2))
            asked.close()

        fake.answers[API] = break_off
        await poll_until(lambda: reader.group_metadata().generation_id == 2, reader)
        assert listener.kinds() == ["assigned"]


async def test_the_number_of_kip_389_is_understood() -> None:
    """77 in place of 81, as in JoinGroup."""
    full = beat(code=KIP_389_GROUP_MAX_SIZE_REACHED)
    async with played(full) as (_, reader):
        reader.subscribe(["t"])
        with pytest.raises(GroupMaxSizeReachedError) as caught:
            await reader.getone()
        assert caught.value.wire_code == KIP_389_GROUP_MAX_SIZE_REACHED
        assert caught.value.api == API


async def test_the_coordinators_message_is_raised() -> None:
    """Each poll raises it, with the code."""
    refused = ConsumerGroupHeartbeatResponse(
        0, ErrorCode.UNSUPPORTED_ASSIGNOR, "ServerAssignor x is not supported."
    )
    async with played(refused, group_remote_assignor="x") as (fake, reader):
        reader.subscribe(["t"])
        for _ in range(2):
            with pytest.raises(KohortError, match="x is not supported") as caught:
                await reader.getone()
            assert caught.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR
        assert len(fake.of(API)) == 1


@pytest.mark.parametrize("has_api", [True, False])
async def test_a_cluster_without_the_protocol(*, has_api: bool) -> None:
    """The error names the setting; kohort before it had the protocol, for example."""
    async with played(beat(code=ErrorCode.UNSUPPORTED_VERSION)) as (fake, reader):
        if not has_api:
            del fake.versions[API]
        reader.subscribe(["t"])
        with pytest.raises(UnsupportedVersionError, match="group_protocol=classic"):
            await reader.getone()


async def test_a_cluster_without_patterns() -> None:
    """Version 0 of the API would silently drop the pattern."""
    async with played(beat()) as (fake, reader):
        fake.versions[API] = (0, 0)
        reader.subscribe(pattern=SubscriptionPattern("t.*"))
        with pytest.raises(UnsupportedVersionError, match="SubscriptionPattern"):
            await reader.getone()
        assert not fake.of(API)


async def test_an_older_coordinator() -> None:
    """Version 0 of the API."""
    async with played(beat(1, 0)) as (fake, reader):
        fake.versions[API] = (0, 0)
        await joined(reader)
        assert reader.group_metadata().member_id == "m"


async def test_a_rebalance_that_cannot_be_enforced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A warning, as in the Java client: the application waits for nothing."""
    async with played(beat(1, 0)) as (_, reader):
        await joined(reader)
        with caplog.at_level(logging.WARNING, "kohort.client"):
            reader.enforce_rebalance("the clocks have changed")
        (warning,) = caplog.records
        assert "rebalance_not_enforced" in warning.getMessage()
        assert "the clocks have changed" in warning.getMessage()


# -- topics


async def test_an_unknown_topic_id_waits_for_metadata() -> None:
    """The metadata of another broker may lag behind the coordinator's."""
    async with played(beat(1, 0)) as (fake, reader):
        listener = Recorder()

        def behind(asked: Asked) -> None:
            if listener.calls:
                metadata(fake, asked)
                return
            row = MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t")
            node = MetadataResponseBroker(1, "127.0.0.1", fake.port)
            asked.reply(MetadataResponse(0, [node], "fake", 1, [row]))

        fake.answers["Metadata"] = behind
        await joined(reader, listener)
        assert listener.calls == [
            ("assigned", frozenset()),
            ("assigned", frozenset({T0})),
        ]
