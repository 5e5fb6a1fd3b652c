"""Real members at a real broker: what it says of them, and ``kohort why`` of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from click.testing import CliRunner
from tests.client.consuming import PATIENCE, consumer, crash, fill, poll_until

from kohort.broker.server import Broker
from kohort.client.consumer import Consumer
from kohort.control.http import Control
from kohort.control.why import History, Rebalance, history
from kohort.control.why.command import why

CONFIG = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}
MILLISECOND = 1_000_000


@dataclass
class Scene:
    """A broker with a topic of twelve partitions, and members of one group."""

    broker: Broker
    members: dict[str, Consumer] = field(default_factory=dict)

    async def start(self, name: str, **settings: object) -> Consumer:
        """A member comes, and all go on until the group is Stable with it."""
        reader = consumer(self.broker, "t", group_id="g", client_id=name, **settings)
        await reader.start()
        self.members[name] = reader
        await self.settle()
        return reader

    async def settle(self) -> None:
        """All poll until their partitions are the twelve."""

        def is_settled() -> bool:
            owned = [len(m.assignment()) for m in self.members.values()]
            last = self.history().rebalances[-1:]
            return (
                all(owned)
                and sum(owned) == 12
                and len(last) == 1
                and len(last[0].members) == len(owned)
                and last[0].outcome == "completed"
            )

        await poll_until(is_settled, *self.members.values())

    def history(self) -> History:
        """What the broker remembers of it."""
        return history(self.broker.events.recent("g"), "g")

    def last(self) -> tuple[Rebalance, str]:
        """The last rebalance, and what is said of it."""
        found = self.history()
        for each in found.rebalances:
            assert sum(w.duration_ns for w in each.waits) == each.duration_ns
        return found.rebalances[-1], found.explain(found.rebalances[-1])


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """See `Scene`."""
    async with Broker(CONFIG) as broker:
        await fill(broker, counts=[0] * 12)
        scene = Scene(broker)
        yield scene
        for member in scene.members.values():
            await member.close()


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
async def test_members_come_and_go(scene: Scene, assignor: str) -> None:
    """One leaves, one crashes; each is named, and what it had has moved."""
    options = {"partition_assignment_strategy": assignor}
    for name in ("ana", "ben", "cleo", "dora"):
        await scene.start(name, session_timeout_ms=1_000, **options)
    await scene.members.pop("ben").close()
    await scene.settle()
    left, words = scene.last()
    if assignor == "range":
        assert left.cause == "member_left"
        assert 'ben left (it said: "the consumer is being closed")' in words
        assert left.is_eager
        assert {scene.history().names.of(s.member_id) for s in left.stand_stills} == {
            "ana",
            "cleo",
            "dora",
        }
    else:
        assert left.is_eager is False
        assert left.stand_stills == ()
    await crash(scene.members.pop("cleo"))
    await scene.settle()
    causes = [r.cause for r in scene.history().rebalances]
    assert "session_expired" in causes
    expired = [r for r in scene.history().rebalances if r.cause == "session_expired"]
    assert "cleo's session expired" in scene.history().explain(expired[-1])
    assert expired[-1].silent_ns is not None
    assert expired[-1].silent_ns >= 1_000 * MILLISECOND


async def test_a_member_that_does_not_poll(scene: Scene) -> None:
    """It leaves, says why, and that is a finding."""
    await scene.start("ana")
    slow = await scene.start("ben", max_poll_interval_ms=1_000)
    del scene.members["ben"]
    await scene.settle()
    (finding,) = (f for f in scene.history().findings if f.code == "max-poll-interval")
    assert finding.is_sure
    assert "no poll within max.poll.interval.ms (1000 ms)" in finding.evidence[0].text
    await slow.close()


async def test_the_command_asks_a_broker(scene: Scene) -> None:
    """Over HTTP it says the same as the broker itself."""
    await scene.start("ana")
    await scene.start("ben")
    async with Control(scene.broker) as control, asyncio.timeout(PATIENCE):
        arguments = ["g", "--http", control.url]
        result = await asyncio.to_thread(CliRunner().invoke, why, arguments)
    assert result.exit_code == 0
    for each in scene.history().rebalances:
        assert scene.history().explain(each) in " ".join(result.output.split())
