"""The times at which a coordinator's appends are written and reported."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.test_cluster import NO_DELAY, join, offsets
from tests.broker.test_restart import committed
from tests.coordinator.driver import Pending
from tests.coordinator.member import protocols
from tests.group_log import NoLog
from tests.manual_clock import ManualClock
from tests.wire.client import connected
from tests.wire.requests import sync_group

from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import CommitResult, JoinResult, SyncResult
from kohort.broker.coordinator.events import (
    CommitOffsets,
    Join,
    Offsets,
    Sync,
    TopicsDeleted,
)
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.notice import Client, Notice
from kohort.broker.runtime.effects import Reply
from kohort.broker.server import Broker
from kohort.broker.shards.group_driver import GroupDriver
from kohort.control.why import history
from kohort.protocol.errors import ErrorCode


class Scene:
    """A driver whose event loop runs a turn when `turn` is called."""

    def __init__(self, linger_ms: int = -1, largest: int = 1 << 20) -> None:
        self.log = NoLog(largest)
        self.clock = ManualClock()
        self.lost = 0
        self.notices: list[str] = []
        self.driver = GroupDriver(
            Coordinator(GroupSettings(), "{}-1".format),
            self.clock,
            self.log,
            self._lose,
            self._publish,
            linger_ms,
        )

    def _lose(self) -> None:
        self.lost += 1

    def _publish(self, notice: Notice, _: float) -> None:
        self.notices.append(notice.kind)

    def turn(self) -> None:
        """Runs the next turn of the event loop."""
        while self.clock.fire(self.clock.now()):
            pass

    def sync(self) -> Pending[SyncResult]:
        """The SyncGroup of the leader and only member of a new group."""
        joining: Pending[JoinResult] = Pending("join")
        client = ("", None, Client("c", "/h"), 30_000, 30_000)
        offers = protocols("range")
        self.driver.submit(
            Join(joining, "s", *client, "consumer", offers, None, False, False)
        )
        self.clock.skip(3)
        pending: Pending[SyncResult] = Pending("sync")
        member = (1, joining.result.member_id, None, None, None, False)
        self.driver.submit(Sync(pending, "s", *member, []))
        return pending

    def commit(
        self, group: str, partitions: int = 1, text: str = "", offset: int = 1
    ) -> Pending[Any]:
        """A commit of a simple consumer."""
        pending: Pending[CommitResult] = Pending("commit")
        offsets = Offsets.of(
            ("t", p, offset, -1, text, None) for p in range(partitions)
        )
        simple = (-1, "", None, Client("c", "/h"))
        event = CommitOffsets(pending, group, *simple, False, offsets)
        self.driver.submit(event)
        return pending


def test_requests_of_one_turn_share_a_window() -> None:
    """By default an assignment is written in the next turn of the event loop.

    So are commits that arrive meanwhile; other commits are written at once.
    """
    scene = Scene()
    assert scene.commit("g").answered
    assert scene.commit("g").answered
    syncing = scene.sync()
    commits = [scene.commit("h"), scene.commit("g")]
    assert not syncing.answered
    assert not any(commit.answered for commit in commits)
    scene.turn()
    assert syncing.result.error_code == 0
    assert [commit.result.error_code for commit in commits] == [0, 0]
    assert scene.commit("g").answered


def test_without_a_linger_there_is_no_window() -> None:
    """group.coordinator.append.linger.ms=0 writes in the turn of the request."""
    scene = Scene(linger_ms=0)
    assert scene.commit("g").answered
    assert scene.log.written == 1


def test_a_linger_is_as_long_as_it_says() -> None:
    """The linger begins with the first append; the next append has its own."""
    scene = Scene(linger_ms=20)
    first = scene.commit("g")
    scene.clock.skip(0.019)
    second = scene.commit("g")
    scene.turn()
    assert not first.answered
    scene.clock.skip(0.001)
    assert first.answered
    assert second.answered
    third = scene.commit("g")
    scene.clock.skip(0.019)
    assert not third.answered
    scene.clock.skip(0.001)
    assert third.answered


def test_a_full_batch_does_not_linger() -> None:
    """The maximum bytes of a batch are written in the next turn."""
    scene = Scene(linger_ms=1_000, largest=400)
    first, second = scene.commit("g", 5), scene.commit("g", 5)
    scene.turn()
    assert first.answered
    assert second.answered


def test_a_commit_that_is_too_large_is_refused_alone() -> None:
    """Other appends of the window are stored; its new group does not exist."""
    scene = Scene(linger_ms=5, largest=400)
    stored, refused = scene.commit("g"), scene.commit("h", 30)
    assert refused.result.error_code == -1
    assert not stored.answered
    scene.clock.skip(0.005)
    assert stored.result.error_code == 0
    assert [*scene.driver.coordinator.groups] == ["g"]
    assert scene.notices.count("append_failed") == 1


def test_offsets_of_a_deleted_topic_go_in_several_batches() -> None:
    """The offsets of a deleted topic need not fit into one batch."""
    scene = Scene(largest=400)
    for number in range(20):
        scene.commit(f"g{number}")
    written = scene.log.written
    scene.driver.submit(TopicsDeleted(["t"]))
    assert scene.log.written > written + 1
    assert not any(g.offsets for g in scene.driver.coordinator.groups.values())


@pytest.mark.parametrize("linger_ms", [-1, 5])
def test_both_ways_of_a_commit(linger_ms: int) -> None:
    """Written at once or after a linger, it has the same bytes, notices and results."""
    scene = Scene(linger_ms)
    results = []
    for group, partitions, text in [
        ("g", 2, ""),
        ("g", 3, "text"),
        ("g", 1, "other"),
        ("g", 0, ""),
        ("h", 1, ""),
        ("g", 2, ""),
    ]:
        pending = scene.commit(group, partitions, text)
        scene.clock.skip(0.005)
        results.append(pending.result)
    assert [each.error_code for each in results] == [0] * 6
    assert scene.log.written == 5
    assert scene.notices == [
        "group_state",
        *["offsets_committed"] * 3,
        "group_state",
        *["offsets_committed"] * 2,
    ]
    groups = scene.driver.coordinator.groups
    text_of = {key: entry[2] for key, entry in groups["g"].offsets.items()}
    assert text_of == {("t", 0): "", ("t", 1): "", ("t", 2): "text"}
    assert [*groups["h"].offsets] == [("t", 0)]


def test_a_known_group_whose_log_cannot_be_written() -> None:
    """Its coordinator ends, and that answers the commit that waits for the log."""
    scene = Scene(linger_ms=5)
    scene.commit("g")
    scene.driver.flush()
    scene.log.is_full = True
    waiting = scene.commit("g")
    scene.driver.flush()
    assert (scene.lost, waiting.answered) == (1, False)
    (reply,) = scene.driver.coordinator.unload()
    assert reply == Reply(waiting, CommitResult(ErrorCode.NOT_COORDINATOR))
    assert scene.notices == ["group_state", "offsets_committed"]


def test_a_commit_written_at_once_whose_log_cannot_be_written() -> None:
    """It is tried once; the coordinator ends, and nothing has changed."""
    scene = Scene()
    scene.commit("g")
    scene.log.is_full = True
    refused = scene.commit("g", offset=2)
    assert refused.result.error_code == ErrorCode.NOT_COORDINATOR
    assert scene.lost == 1
    assert scene.driver.coordinator.groups["g"].offsets["t", 0][0] == 1
    assert scene.notices == ["group_state", "offsets_committed"]


@pytest.mark.parametrize("linger_ms", [-1, 0, 5])
async def test_a_commit_over_the_wire(linger_ms: int) -> None:
    """The commit is answered with any linger, and then OffsetFetch finds it."""
    settings = NO_DELAY | {"group.coordinator.append.linger.ms": linger_ms}
    async with Broker(settings) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        await client.call("OffsetCommit", 8, offsets(5, "t"))
        assert await committed(client) == {"t": 5}


async def test_an_assignment_beyond_max_message_bytes() -> None:
    """The leader gets UNKNOWN_SERVER_ERROR; the group rebalances for this reason."""
    async with Broker(NO_DELAY) as broker, connected(broker) as client:
        member_id = (await join(client)).member_id
        request = sync_group(member_id, assignments={member_id: bytes(1_100_000)})
        answer = await client.call("SyncGroup", 5, request)
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        (group,) = broker.cluster.shards.groups()
        assert group.state == "PreparingRebalance"
        found = history(broker.events.recent(), "g").findings
        assert [each.code for each in found] == ["records-too-large"]
