"""Commits in a line, and coordinators that do not do what is expected of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.client.consuming import PATIENCE
from tests.client.fake_broker import Asked, FakeBroker

from kohort.client.cluster import Cluster
from kohort.client.commit import Commits
from kohort.client.config import ConsumerConfig
from kohort.client.consumer import Consumer
from kohort.client.coordination import Coordination, settings_of
from kohort.client.errors import (
    CommitFailedError,
    KohortError,
    RebalanceInProgressError,
    RequestTimedOutError,
)
from kohort.client.membership import (
    COMPLETING_REBALANCE,
    STABLE,
    Call,
    MemberState,
    PollBegan,
    Subscribed,
)
from kohort.client.offsets import OffsetAndMetadata, TopicPartition
from kohort.client.session import Session
from kohort.protocol.apis.k03_metadata import MetadataResponse, MetadataResponseBroker
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.protocol.apis.k10_find_coordinator import (
    Coordinator,
    FindCoordinatorResponse,
)
from kohort.protocol.errors import ErrorCode

T0 = TopicPartition("t", 0)


def row(offset: int) -> dict[TopicPartition, OffsetAndMetadata]:
    """An offset of the partition."""
    return {T0: OffsetAndMetadata(offset)}


def committed(asked: Asked, code: int = 0) -> None:
    """Answers a commit."""
    rows = [OffsetCommitResponsePartition(0, code)]
    asked.reply(
        OffsetCommitResponse(0, [OffsetCommitResponseTopic("t", partitions=rows)])
    )


class Scene:
    """A coordinator by script, what is sent to it, and a member that commits.

    Attributes:
        refused: what the member is told: (generation, code).
    """

    def __init__(self, fake: FakeBroker, config: ConsumerConfig) -> None:
        self.fake = fake
        self.config = config
        self.cluster = Cluster(config)
        self.refused: list[tuple[int, int]] = []
        self.commits = Commits(
            self.cluster, config, lambda *refused: self.refused.append(refused)
        )
        self.session = Session(settings_of(config))
        self.session.member_id, self.session.generation_id = "m", 1
        self.session.state = STABLE
        self.session.owned = frozenset({T0})
        self.commits.session = self.session

    def answers(self, *answers: Callable[[Asked], None]) -> None:
        """What is done about the first commit, the second one, and so on."""
        rest = iter(answers)

        def answer(asked: Asked) -> None:
            next(rest)(asked)

        self.fake.answers["OffsetCommit"] = answer

    async def arrived(self, kept: list[Asked]) -> None:
        """Returns when there is a commit among those that are not answered."""
        while not kept:
            await self.fake.has_been_asked(len(self.fake.asked) + 1)

    @property
    def sent(self) -> list[tuple[int, int]]:
        """(generation, offset) of the commits that have arrived."""
        return [
            (
                a.message.generation_id_or_member_epoch,
                a.message.topics[0].partitions[0].committed_offset,
            )
            for a in self.fake.asked
            if a.api.name == "OffsetCommit"
        ]

    def rebalance(self, *, keeps: bool, state: MemberState = STABLE) -> None:
        """The member is in another generation."""
        self.session.generation_id += 1
        self.session.state = state
        if not keeps:
            self.commits.lost([T0])


def told_of(fake: FakeBroker) -> None:
    """Makes a fake a cluster of its own, and the coordinator of all groups."""

    def metadata(asked: Asked) -> None:
        rows = [MetadataResponseBroker(1, "127.0.0.1", fake.port)]
        asked.reply(MetadataResponse(0, rows, "fake", 1))

    def coordinator(asked: Asked) -> None:
        groups = asked.message.coordinator_keys
        rows = [Coordinator(g, 1, "127.0.0.1", fake.port) for g in groups]
        asked.reply(FindCoordinatorResponse(coordinators=rows))

    fake.answers |= {"Metadata": metadata, "FindCoordinator": coordinator}


@contextlib.asynccontextmanager
async def played(**settings: Any) -> AsyncIterator[Scene]:
    """A scene in which the cluster is connected to."""
    async with FakeBroker() as fake:
        told_of(fake)
        config = ConsumerConfig(
            bootstrap_servers=fake.address,
            group_id="g",
            retry_backoff_ms=1,
            **settings,
        )
        scene = Scene(fake, config)
        async with asyncio.timeout(PATIENCE), scene.cluster:
            yield scene
            scene.commits.stop()


async def test_one_that_is_tried_again_goes_out_in_the_new_generation() -> None:
    """A cooperative member has kept the partition: nobody else has committed."""
    async with played() as scene:

        def loads(asked: Asked) -> None:
            scene.rebalance(keeps=True)
            committed(asked, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

        scene.answers(loads, committed)
        await scene.commits.post(row(7))
        assert scene.sent == [(1, 7), (2, 7)]


async def test_one_whose_partition_was_away_is_not_tried_again() -> None:
    """The next owner may have committed more; that it is back does not help."""
    async with played() as scene:

        def loads(asked: Asked) -> None:
            scene.rebalance(keeps=False)
            committed(asked, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

        scene.answers(loads, committed)
        with pytest.raises(CommitFailedError) as caught:
            await scene.commits.post(row(7))
        assert not caught.value.retriable
        assert scene.sent == [(1, 7)]
        await scene.commits.post(row(9))
        assert scene.sent == [(1, 7), (2, 9)]


@pytest.mark.parametrize(
    "code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION]
)
async def test_a_rebalance_that_ends_before_its_answer_is_read(code: ErrorCode) -> None:
    """The answer is about a generation that is over: tried again, in the new one."""
    async with played() as scene:
        scene.session.state = COMPLETING_REBALANCE

        def late(asked: Asked) -> None:
            scene.rebalance(keeps=True)
            committed(asked, code)

        scene.answers(late, committed)
        await scene.commits.post(row(7))
        assert scene.sent == [(1, 7), (2, 7)]


async def test_a_rebalance_that_the_member_knows_nothing_of() -> None:
    """As in the Java client the error is the application's; it may try again."""
    async with played() as scene:
        scene.answers(lambda a: committed(a, ErrorCode.REBALANCE_IN_PROGRESS))
        with pytest.raises(RebalanceInProgressError):
            await scene.commits.post(row(7))
        scene.answers(lambda a: committed(a, ErrorCode.ILLEGAL_GENERATION))
        with pytest.raises(CommitFailedError) as caught:
            await scene.commits.post(row(7))
        assert (caught.value.topic, caught.value.partition) == ("t", 0)
        assert caught.value.broker is not None
        assert "ILLEGAL_GENERATION" in str(caught.value)
        assert scene.refused == [(1, 27), (1, 22)]


async def test_time_in_the_line_counts() -> None:
    """Who has no time gives up; the others keep their places."""
    async with played() as scene:
        first: list[Asked] = []
        scene.answers(first.append, committed)
        slow = scene.commits.post(row(1))
        hurried = scene.commits.post(row(2), timeout_ms=20)
        third = scene.commits.post(row(3))
        with pytest.raises(RequestTimedOutError):
            await hurried
        await scene.arrived(first)
        assert not slow.done()
        assert not third.done()
        committed(first[0])
        await third
        assert slow.done()
        assert scene.sent == [(1, 1), (1, 3)]


async def test_one_that_is_cancelled_takes_nobody_along() -> None:
    """Neither those before it nor those behind it."""
    async with played() as scene:
        first: list[Asked] = []
        scene.answers(first.append, committed)
        slow = scene.commits.post(row(1))
        second = scene.commits.post(row(2))
        third = scene.commits.post(row(3))
        await scene.arrived(first)
        second.cancel()
        await asyncio.wait([second])
        committed(first[0])
        await asyncio.gather(slow, third)
        assert scene.sent == [(1, 1), (1, 3)]


# -- coordinators


async def test_a_timer_that_comes_early_is_armed_again() -> None:
    """Loops round: uvloop to milliseconds. The member tries again all the same."""
    async with FakeBroker() as fake:
        told_of(fake)
        fake.answers["FindCoordinator"] = lambda asked: asked.reply(
            FindCoordinatorResponse(
                coordinators=[
                    Coordinator("g", error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
                ]
            )
        )
        config = ConsumerConfig(
            bootstrap_servers=fake.address, group_id="g", retry_backoff_ms=10
        )

        async def nothing(_: Call) -> None:
            """Nothing is assigned."""

        loop = asyncio.get_running_loop()
        async with (
            asyncio.timeout(PATIENCE),
            Cluster(config, clock=lambda: loop.time() / 3) as cluster,
        ):
            member = Coordination(cluster, config, nothing, lambda: None)
            member.tell(PollBegan())
            member.tell(Subscribed(["t"]))
            await fake.has_been_asked(6)
            member.stop()
            await asyncio.wait(member.under_way())


@pytest.mark.parametrize("silent", ["everything", "FindCoordinator", "JoinGroup"])
async def test_closing_takes_no_longer_than_it_may(silent: str) -> None:
    """Nobody answers, in any phase: the consumer ends, and nothing is left."""
    before = asyncio.all_tasks()
    async with FakeBroker() as fake:
        told_of(fake)
        fake.answers.pop(silent, None)
        reader = Consumer("t", bootstrap_servers=fake.address, group_id="g")
        async with asyncio.timeout(PATIENCE / 4):
            await reader.start()
            asked = len(fake.asked)
            if silent == "everything":
                fake.gate.clear()
            poll = asyncio.create_task(reader.getone())
            if silent != "everything":
                while all(a.api.name != silent for a in fake.asked):
                    await fake.has_been_asked(asked := asked + 1)
            await asyncio.gather(reader.close(timeout_ms=200), reader.close(200))
            with pytest.raises(KohortError):
                await poll
        assert asyncio.all_tasks() - before <= {
            task for task in asyncio.all_tasks() if "_serve" in repr(task)
        }


async def test_closing_while_it_starts() -> None:
    """The start ends with an error; nothing is left of it."""
    async with FakeBroker() as fake:
        reader = Consumer("t", bootstrap_servers=fake.address, group_id="g")
        start = asyncio.create_task(reader.start())
        async with asyncio.timeout(PATIENCE):
            await fake.has_been_asked(1)
            await reader.close(timeout_ms=200)
            with pytest.raises(KohortError):
                await start
            await fake.is_left_alone()
