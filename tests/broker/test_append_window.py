"""When a coordinator's appends are written, and how it learns of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.broker.test_cluster import NO_DELAY, join, offsets
from tests.broker.test_restart import committed
from tests.coordinator.context import Pending, protocols
from tests.group_log import NoLog
from tests.manual_clock import ManualClock
from tests.wire.client import connected
from tests.wire.requests import sync_group

from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import (
    CommitResult,
    JoinResult,
    Notice,
    SyncResult,
)
from kohort.broker.coordinator.events import (
    Client,
    CommitOffsets,
    Join,
    Sync,
    TopicsDeleted,
)
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.server import Broker
from kohort.broker.shards.driver import GroupDriver
from kohort.control.why import history
from kohort.protocol.errors import ErrorCode


class Scene:
    """A driver whose event loop takes its turns when `turn` is called."""

    def __init__(self, linger_ms: int = -1, largest: int = 1 << 20) -> None:
        self.log = NoLog(largest)
        self.clock = ManualClock()
        self.lost = 0
        self.notices: list[str] = []
        self._soon: list[Callable[[], None]] = []
        self.driver = GroupDriver(
            Coordinator(GroupSettings(), "{}-1".format),
            self.clock,
            self.log,
            self._lose,
            self._publish,
            linger_ms,
            self._soon.append,
        )

    def _lose(self) -> None:
        self.lost += 1

    def _publish(self, notice: Notice, _: float) -> None:
        self.notices.append(notice.kind)

    def turn(self) -> None:
        """The next turn of the event loop."""
        soon, self._soon[:] = [*self._soon], []
        for callback in soon:
            callback()

    def sync(self) -> Pending[SyncResult]:
        """The SyncGroup of the leader, and only member, of a new group."""
        joining: Pending[JoinResult] = Pending("join")
        client = ("", None, Client("c", "/h"), 30_000, 30_000)
        offers = protocols("range")
        self.driver.submit(
            Join(joining, "s", *client, "consumer", offers, None, False, False)
        )
        self.clock.advance(3)
        pending: Pending[SyncResult] = Pending("sync")
        member = (1, joining.result.member_id, None, None, None, False)
        self.driver.submit(Sync(pending, "s", *member, []))
        return pending

    def commit(self, group: str, partitions: int = 1, text: str = "") -> Pending[Any]:
        """A commit of a simple consumer."""
        pending: Pending[CommitResult] = Pending("commit")
        offsets = [("t", p, 1, -1, text, None) for p in range(partitions)]
        simple = (-1, "", None, Client("c", "/h"))
        event = CommitOffsets(pending, group, *simple, False, offsets)
        self.driver.submit(event)
        return pending


def test_requests_of_one_turn_share_a_window() -> None:
    """By default an assignment is written in the next turn of the event loop.

    So are commits that come meanwhile; other commits are written at once.
    """
    scene = Scene()
    assert scene.commit("g").answered
    syncing = scene.sync()
    commit = scene.commit("h")
    assert not syncing.answered
    assert not commit.answered
    scene.turn()
    assert (syncing.result.error_code, commit.result.error_code) == (0, 0)
    assert scene.commit("g").answered


def test_without_a_linger_there_is_no_window() -> None:
    """group.coordinator.append.linger.ms=0 writes in the turn of the request."""
    scene = Scene(linger_ms=0)
    assert scene.commit("g").answered
    assert scene.log.written == 1


def test_a_linger_is_as_long_as_it_says() -> None:
    """It begins with the first append; the next one has its own."""
    scene = Scene(linger_ms=20)
    first = scene.commit("g")
    scene.clock.advance(0.019)
    second = scene.commit("g")
    scene.turn()
    assert not first.answered
    scene.clock.advance(0.001)
    assert first.answered
    assert second.answered
    third = scene.commit("g")
    scene.clock.advance(0.019)
    assert not third.answered
    scene.clock.advance(0.001)
    assert third.answered


def test_a_full_batch_does_not_linger() -> None:
    """As many bytes as one batch may have are written in the next turn."""
    scene = Scene(linger_ms=1_000, largest=400)
    first, second = scene.commit("g", 5), scene.commit("g", 5)
    scene.turn()
    assert first.answered
    assert second.answered


def test_a_commit_that_is_too_large_is_refused_alone() -> None:
    """Others of the same window are stored; of the group there is nothing left."""
    scene = Scene(linger_ms=5, largest=400)
    stored, refused = scene.commit("g"), scene.commit("h", 30)
    assert refused.result.error_code == -1
    assert not stored.answered
    scene.clock.advance(0.005)
    assert stored.result.error_code == 0
    assert [*scene.driver.coordinator.groups] == ["g"]
    assert scene.notices.count("append_failed") == 1


def test_offsets_of_a_deleted_topic_go_in_several_batches() -> None:
    """They need not fit into one."""
    scene = Scene(largest=400)
    for number in range(20):
        scene.commit(f"g{number}")
    written = scene.log.written
    scene.driver.submit(TopicsDeleted(["t"]))
    assert scene.log.written > written + 1
    assert not any(g.offsets for g in scene.driver.coordinator.groups.values())


def test_a_log_that_cannot_be_written_loses_the_rest() -> None:
    """The batches before it are written, and answered."""
    scene = Scene()
    answered = scene.commit("g")
    scene.log.is_full = True
    waiting = scene.commit("h")
    assert scene.lost == 1
    assert (answered.answered, waiting.answered) == (True, False)


@pytest.mark.parametrize("linger_ms", [-1, 0, 5])
async def test_a_commit_over_the_wire(linger_ms: int) -> None:
    """It is answered whatever the linger, and then OffsetFetch finds it."""
    settings = NO_DELAY | {"group.coordinator.append.linger.ms": linger_ms}
    async with Broker(settings) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        await client.call("OffsetCommit", 8, offsets(5, "t"))
        assert await committed(client) == {"t": 5}


async def test_an_assignment_beyond_max_message_bytes() -> None:
    """The leader gets UNKNOWN_SERVER_ERROR; the group rebalances, and says why."""
    async with Broker(NO_DELAY) as broker, connected(broker) as client:
        member_id = (await join(client)).member_id
        request = sync_group(member_id, assignments={member_id: bytes(1_100_000)})
        answer = await client.call("SyncGroup", 5, request)
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        (group,) = broker.cluster.shards.groups()
        assert group.state == "PreparingRebalance"
        found = history(broker.events.recent(), "g").findings
        assert [each.code for each in found] == ["records-too-large"]
