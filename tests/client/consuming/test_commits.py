"""Queued commits, and coordinators that do not behave as expected."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.client.fake_broker import Asked, FakeBroker, alone
from tests.client.stage import PATIENCE

from kohort.client.config import ConsumerConfig, GroupProtocol
from kohort.client.consumer import Consumer
from kohort.client.consuming.commits import Commits
from kohort.client.errors import (
    CommitFailedError,
    KohortError,
    RebalanceInProgressError,
    RequestTimedOutError,
)
from kohort.client.group.classic.driver import classic_driver
from kohort.client.group.classic.member import ClassicMember
from kohort.client.group.classic.state import (
    COMPLETING_REBALANCE,
    PREPARING_REBALANCE,
    STABLE,
    MemberState,
)
from kohort.client.group.effects import Call
from kohort.client.group.events import PollBegan, Subscribed
from kohort.client.network.cluster import Cluster
from kohort.client.offsets import OffsetAndMetadata, TopicPartition
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
    """A scripted coordinator, its requests, and a member that commits.

    Attributes:
        refused: (generation, code) of refused commits, as the member gets them.
    """

    def __init__(self, fake: FakeBroker, config: ConsumerConfig) -> None:
        self.fake = fake
        self.config = config
        self.cluster = Cluster(config)
        self.refused: list[tuple[int, int]] = []
        self.commits = Commits(
            self.cluster, config, lambda *refused: self.refused.append(refused)
        )
        self.member = ClassicMember(config)
        self.member.member_id, self.member.generation_id = "m", 1
        self.member.state = STABLE
        self.member.owned = frozenset({T0})
        self.commits.member = self.member

    def answers(self, *answers: Callable[[Asked], None]) -> None:
        """The answers to the first commit, the second one, and so on."""
        rest = iter(answers)

        def answer(asked: Asked) -> None:
            next(rest)(asked)

        self.fake.answers["OffsetCommit"] = answer

    @property
    def sent(self) -> list[tuple[int, int]]:
        """(generation, offset) of the received commits."""
        return [
            (
                a.message.generation_id_or_member_epoch,
                a.message.topics[0].partitions[0].committed_offset,
            )
            for a in self.fake.of("OffsetCommit")
        ]

    def rebalance(self, *, keeps: bool, state: MemberState = STABLE) -> None:
        """Moves the member to another generation."""
        self.member.generation_id += 1
        self.member.state = state
        if not keeps:
            self.commits.lost([T0])


@contextlib.asynccontextmanager
async def played(**settings: Any) -> AsyncIterator[Scene]:
    """A scene with a connected cluster."""
    async with alone() as fake:
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


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (STABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (STABLE, ErrorCode.ILLEGAL_GENERATION),
        (STABLE, ErrorCode.STALE_MEMBER_EPOCH),
        (COMPLETING_REBALANCE, ErrorCode.REBALANCE_IN_PROGRESS),
        (COMPLETING_REBALANCE, ErrorCode.ILLEGAL_GENERATION),
    ],
)
@pytest.mark.parametrize("keeps", [True, False])
async def test_a_commit_is_tried_again_in_the_new_generation(
    state: MemberState, code: ErrorCode, keeps: bool
) -> None:
    """Unless the partition was lost: the next owner may have committed more."""
    async with played() as scene:
        scene.member.state = state

        def late(asked: Asked) -> None:
            scene.rebalance(keeps=keeps)
            committed(asked, code)

        scene.answers(late, committed)
        if keeps:
            await scene.commits.post(row(7))
            assert scene.sent == [(1, 7), (2, 7)]
            return
        with pytest.raises((CommitFailedError, RebalanceInProgressError)) as caught:
            await scene.commits.post(row(7))
        assert not caught.value.retriable or code is ErrorCode.REBALANCE_IN_PROGRESS
        assert scene.sent == [(1, 7)]
        await scene.commits.post(row(9))
        assert scene.sent == [(1, 7), (2, 9)]


async def test_a_commit_that_meets_the_start_of_a_rebalance_is_tried_again() -> None:
    """The member learns of it before the response, and keeps its partition."""
    async with played() as scene:

        def late(asked: Asked) -> None:
            scene.member.state = PREPARING_REBALANCE
            committed(asked, ErrorCode.REBALANCE_IN_PROGRESS)

        scene.answers(late, committed)
        await scene.commits.post(row(7))
        assert scene.sent == [(1, 7), (1, 7)]


async def test_a_member_outside_of_a_generation_commits_nothing() -> None:
    """Without a generation the coordinator would accept it as a simple consumer's."""
    async with played() as scene:
        scene.member.generation_id = -1
        with pytest.raises(CommitFailedError):
            await scene.commits.post(row(7))
        assert scene.sent == []


async def test_a_commit_by_hand_has_neither_a_generation_nor_a_retention() -> None:
    """An old broker would delete the offset after a retention time in the request."""
    async with played() as scene:
        scene.fake.versions["OffsetCommit"] = (2, 4)
        scene.commits.member = None
        scene.answers(committed)
        await scene.commits.post(row(7))
        (asked,) = scene.fake.of("OffsetCommit")
        assert asked.version == 4
        assert scene.sent == [(-1, 7)]
        assert (asked.message.member_id, asked.message.retention_time_ms) == ("", -1)


async def test_a_rebalance_that_the_member_knows_nothing_of() -> None:
    """As in the Java client, the application gets the error and may retry."""
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
        assert not scene.commits.under_way()


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_one_that_gives_up_in_the_line_takes_nobody_along(
    is_cancelled: bool,
) -> None:
    """One is cancelled or times out; the others keep their order until all ended."""
    async with played() as scene:
        first: list[Asked] = []
        scene.answers(first.append, committed)
        slow = scene.commits.post(row(1))
        second = scene.commits.post(row(2), timeout_ms=None if is_cancelled else 20)
        third = scene.commits.post(row(3))
        await scene.fake.has_got("OffsetCommit")
        if is_cancelled:
            second.cancel()
        with pytest.raises((RequestTimedOutError, asyncio.CancelledError)):
            await second
        drained = asyncio.create_task(scene.commits.drained())
        await asyncio.sleep(0)
        for waiting in (slow, third, drained):
            assert not waiting.done()
        committed(first[0])
        await drained
        assert scene.sent == [(1, 1), (1, 3)]
        await asyncio.gather(slow, third)


# -- coordinators


async def test_a_timer_that_comes_early_is_armed_again() -> None:
    """Loops such as uvloop round to milliseconds; the member still retries."""
    async with alone() as fake:
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
            """Assigns nothing."""

        loop = asyncio.get_running_loop()
        async with (
            asyncio.timeout(PATIENCE),
            Cluster(config, clock=lambda: loop.time() / 3) as cluster,
        ):
            driver = classic_driver(cluster, config, nothing, lambda: None)
            driver.submit(PollBegan())
            driver.submit(Subscribed(["t"]))
            await fake.has_been_asked(6)
            driver.stop()
            await asyncio.wait(driver.under_way())


@pytest.mark.parametrize(
    "silent",
    [
        "everything",
        "FindCoordinator",
        "JoinGroup",
        "ConsumerGroupHeartbeat",
        "OffsetCommit",
    ],
)
async def test_closing_takes_no_longer_than_it_may(silent: str) -> None:
    """No broker responds, in any phase: the consumer closes and leaves nothing."""
    before = asyncio.all_tasks()
    async with alone() as fake:
        fake.answers.pop(silent, None)
        is_new = silent == "ConsumerGroupHeartbeat"
        protocol: GroupProtocol = "consumer" if is_new else "classic"
        reader = Consumer(
            bootstrap_servers=fake.address, group_id="g", group_protocol=protocol
        )
        async with asyncio.timeout(PATIENCE / 4):
            await reader.start()
            if silent == "OffsetCommit":
                reader.assign([T0])
                waiting: asyncio.Future[Any] = reader.commit_async(row(1))
            else:
                reader.subscribe(["t"])
                waiting = asyncio.create_task(reader.getone())
            if silent == "everything":
                fake.gate.clear()
            else:
                await fake.has_got(silent)
            await asyncio.gather(reader.close(timeout_ms=200), reader.close(200))
            with pytest.raises((KohortError, asyncio.CancelledError)):
                await waiting
        assert asyncio.all_tasks() - before <= {
            task for task in asyncio.all_tasks() if "_serve" in repr(task)
        }
