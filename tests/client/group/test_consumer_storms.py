"""Members of the consumer protocol in any order of events; see `Scene`.

`Scene` checks the calls of the listener and that one heartbeat is under way at a time.
In the end the coordinator responds, and the member owns what it is assigned.
"""

from __future__ import annotations

from random import Random

import pytest
from tests.client.group.consumer_scene import INTERVAL_MS, Scene, T, U, owned

from kohort.client.group.consumer.state import STABLE
from kohort.client.group.events import (
    Closed,
    CommitRefused,
    PollBegan,
    PollEnded,
    Subscribed,
    Unsubscribed,
)
from kohort.protocol.errors import ErrorCode

STEPS = 300
CODES = [
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
]


class Storm:
    """A member, and a coordinator that does anything it may do."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        instance = self.random.choice([None, "i"])
        self.scene = Scene(instance, max_poll_interval_ms=9_000)
        self.scene.is_slow = True
        self.epoch = 0

    def assignment(self) -> dict[bytes, list[int]]:
        """Some partitions."""
        return {
            topic: sorted(self.random.sample(range(5), self.random.randrange(1, 5)))
            for topic in (T, U)
            if self.random.random() < 0.7
        }

    def step(self) -> None:
        """Something happens."""
        scene, random = self.scene, self.random
        chance = random.random()
        if chance < 0.4:
            self._respond()
        elif chance < 0.6 and scene.is_called:
            scene.listener_returns()
        elif chance < 0.75:
            scene.wait(random.choice([0.05, 1, INTERVAL_MS / 1000]))
        elif chance < 0.85:
            scene.submit(PollBegan() if random.random() < 0.5 else PollEnded())
        elif chance < 0.9:
            topics = random.sample(["t", "u"], random.randrange(1, 3))
            scene.submit(Subscribed(topics, random.choice([None, None, "x.*"])))
        elif chance < 0.92:
            scene.submit(Unsubscribed())
        elif chance < 0.95:
            scene.submit(CommitRefused(self.epoch, ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            scene.topics = dict(
                random.sample([(T, "t"), (U, "u")], random.randrange(3))
            )

    def _respond(self) -> None:
        scene, random = self.scene, self.random
        if not scene.is_waiting:
            return
        chance = random.random()
        if chance < 0.1:
            scene.lose_request()
        elif chance < 0.2:
            scene.answer(code=random.choice(CODES))
        else:
            self._accept(self.assignment() if random.random() < 0.5 else None)

    def _accept(self, assignment: dict[bytes, list[int]] | None) -> None:
        if self.scene.last.member_epoch < 0:
            self.scene.answer(self.scene.last.member_epoch)
            return
        self.epoch += self.random.randrange(2) or not self.epoch
        if self.scene.last.member_epoch == 0 and assignment is None:
            assignment = {}
        self.scene.answer(self.epoch, assignment)

    def calm(self) -> dict[bytes, list[int]]:
        """The member subscribes and polls, and gets one last assignment."""
        scene = self.scene
        scene.topics = {T: "t", U: "u"}
        scene.submit(PollBegan())
        final = {T: [0, 3], U: [1]}
        for _ in range(50):
            scene.submit(Subscribed(["t"]))
            while scene.is_called:
                scene.listener_returns()
            if scene.is_waiting:
                self._accept(final)
            scene.wait(0.3)
        return final


@pytest.mark.parametrize("seed", range(100))
def test_any_order_of_events(seed: int) -> None:
    """Slow listeners, lost requests, fencing, late polls, unknown topics."""
    storm = Storm(seed)
    scene = storm.scene
    for _ in range(STEPS):
        storm.step()
        if scene.member.state is STABLE:
            assert scene.member.reconciled == scene.member.assigned
    final = storm.calm()
    assert scene.member.state is STABLE
    assert scene.member.owned == scene.held == {("t", 0), ("t", 3), ("u", 1)}
    said = [owned(request) for request in scene.sent]
    assert [each for each in said if each is not None][-1] == final
    assert scene.failure is None
    scene.submit(Closed())
    scene.listener_returns()
    scene.answer(-1)
    assert scene.has_ended
