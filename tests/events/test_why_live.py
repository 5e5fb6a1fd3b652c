"""Real members at a real broker: what it says of them, and ``kohort why`` of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from click.testing import CliRunner
from tests.client.consuming import PATIENCE, consumer, crash, fill, poll_until

from kohort.broker.server import Broker
from kohort.client.consumer import Consumer
from kohort.client.errors import GroupMaxSizeReachedError
from kohort.control.group import Group
from kohort.control.http import Control
from kohort.control.why import Finding, History, Rebalance, history
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

    async def until(self, condition: Callable[[History], bool]) -> None:
        """All poll until something can be told of the group."""
        await poll_until(lambda: condition(self.history()), *self.members.values())

    def finding(self, code: str) -> Finding:
        """The one of that code."""
        (found,) = (f for f in self.history().findings if f.code == code)
        return found


@asynccontextmanager
async def playing(**config: object) -> AsyncIterator[Scene]:
    """See `Scene`; keys are Kafka's, with underscores."""
    more = {key.replace("_", "."): value for key, value in config.items()}
    async with Broker({**CONFIG, **more}) as broker:
        await fill(broker, counts=[0] * 12)
        scene = Scene(broker)
        yield scene
        for member in scene.members.values():
            await member.close()


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """See `Scene`."""
    async with playing() as scene:
        yield scene


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
async def test_members_come_and_go(scene: Scene, assignor: str) -> None:
    """One leaves, one crashes; each is named, and what it had has moved."""
    options: dict[str, object] = {"partition_assignment_strategy": assignor}
    for name in ("ana", "ben", "cleo", "dora"):
        # On a busy machine nobody's session is to end but that of who crashes.
        mortal = {"session_timeout_ms": 1_000} if name == "cleo" else {}
        await scene.start(name, **options, **mortal)
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


async def test_a_rolling_restart(scene: Scene) -> None:
    """Two members that are restarted are four rebalances, and advised to be static."""
    for name in ("ana", "ben", "cleo"):
        await scene.start(name)
    for name in ("ana", "ben"):
        await scene.members.pop(name).close()
        await scene.settle()
        await scene.start(name)
    found = scene.finding("rolling-restart")
    assert found.is_sure
    assert "2 members went and came again" in found.title
    assert "that was 4 rebalances" in found.title
    assert "group.instance.id" in found.advice


def has_returned(count: int) -> Callable[[History], bool]:
    """Whether so many static members have come back."""
    return lambda found: len(found.facts.replacements) == count


async def test_a_rolling_restart_of_static_members(scene: Scene) -> None:
    """It is no rebalance, and nothing is to be advised."""
    names = ("ana", "ben")
    for name in names:
        await scene.start(name, group_instance_id=f"i-{name}")
    before = len(scene.history().rebalances)
    for count, name in enumerate(names, 1):
        await scene.members.pop(name).close()
        again = consumer(
            scene.broker,
            "t",
            group_id="g",
            client_id=name,
            group_instance_id=f"i-{name}",
        )
        await again.start()
        scene.members[name] = again
        await scene.until(has_returned(count))
    found = scene.history()
    assert len(found.rebalances) == before
    assert found.findings == ()
    assert "static members came back without one 2 times" in found.summary()


async def test_a_full_group_refuses_its_own_static_member() -> None:
    """KIP-389 takes who was restarted for one more, while KIP-345 keeps its place."""
    async with playing(group_max_size=2) as scene:
        for name in ("ana", "ben"):
            await scene.start(name, group_instance_id=f"i-{name}")
        await crash(scene.members.pop("ben"))
        again = consumer(
            scene.broker, "t", group_id="g", client_id="ben", group_instance_id="i-ben"
        )
        await again.start()
        with pytest.raises(GroupMaxSizeReachedError):
            await poll_until(lambda: False, again, *scene.members.values())
        (evidence,) = scene.finding("static-member-refused").evidence
        assert evidence.text == "i-ben was refused while it was still a member itself"
        assert [f.code for f in scene.history().findings] == ["static-member-refused"]
        await again.close()


async def test_members_that_trickle_in(scene: Scene) -> None:
    """Each is a rebalance, without an initial delay."""
    for name in ("ana", "ben", "cleo"):
        await scene.start(name)
    found = scene.finding("many-initial-rebalances")
    assert "A start of 3 members" in found.title
    assert "3 rebalances" in found.title
    assert "group.initial.rebalance.delay.ms" in found.advice


async def test_a_rebalance_that_hangs(scene: Scene) -> None:
    """It is told of up to now, and whom it waits for, over HTTP as well."""
    await scene.start("ana")
    await scene.start("ben")
    await crash(scene.members.pop("ben"))
    cleo = consumer(scene.broker, "t", group_id="g", client_id="cleo")
    await cleo.start()
    scene.members["cleo"] = cleo
    await scene.until(lambda h: "and waits for ben" in h.explain(h.rebalances[-1]))
    last_event = scene.history().rebalances[-1].ended_ns
    so_far = Group(scene.broker, "g").history().rebalances[-1].ended_ns
    async with Control(scene.broker) as control, asyncio.timeout(PATIENCE):
        arguments = ["g", "--http", control.url, "--json"]
        result = await asyncio.to_thread(CliRunner().invoke, why, arguments)
    told = json.loads(result.output)
    last = told["rebalances"][-1]
    assert last["ended_ns"] > so_far > last_event
    assert "and waits for ben" in last["words"]


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
