"""Random scenes of consumer groups; `Invariants` holds after every event."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)
from tests.coordinator.consumer.context import Scene
from tests.coordinator.consumer.member import Consumer

from kohort.protocol.errors import ErrorCode
from kohort.simulation.checking.groups import consumer

FACTOR: Final = 10
"""More sequences than examples of other tests."""
_NAMES: Final = ("A", "B", "C", "D")
_TOPICS: Final = ("t", "u", "v")
_REJOIN: Final = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.FENCED_INSTANCE_ID,
}
"""Errors after which a consumer abandons its partitions and joins again."""

names = st.sampled_from(_NAMES)
topics = st.sampled_from(_TOPICS)
subscriptions = st.lists(topics, unique=True, max_size=3)


class ConsumerMachine(RuleBasedStateMachine):
    """Members, topics, time, and commands.

    Some consumers are static. The first is the least lucky: many of its responses are
    lost.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene(consumer_assignment_interval_ms=1_000)
        self.scene.topic("t", 3)
        self.consumers = {
            name: self.scene.consumer(
                name, "t", instance="i" if name in "CD" else None, rebalance_ms=20_000
            )
            for name in _NAMES
        }
        self.epochs: dict[str, int] = {}

    # -- members

    def _answered(self, each: Consumer, code: int) -> None:
        event(ErrorCode(code).name)
        if code in _REJOIN:
            each.give_up()

    @rule(name=names, topics=subscriptions, regex=st.sampled_from(["", "[tu]", "u|v"]))
    def join(self, name: str, topics: list[str], regex: str) -> None:
        """A consumer joins, or joins again."""
        each = self.consumers[name]
        each.topics, each.regex = topics, regex
        self._answered(each, each.join().error_code)

    @initialize(present=st.sets(names))
    def begin(self, present: set[str]) -> None:
        """Some consumers have joined."""
        for name in sorted(present):
            self.join(name, ["t"], "")
        self.go_on(3)

    @rule(rounds=st.integers(1, 3))
    def go_on(self, rounds: int) -> None:
        """All members send heartbeats, one a second, and do as they are told."""
        for _ in range(rounds):
            self.scene.sleep(1_000)
            for name in _NAMES:
                self.beat(name, False, False)

    @rule(name=names, is_lost=st.booleans(), keeps=st.booleans())
    def beat(self, name: str, is_lost: bool, keeps: bool) -> None:
        """A member sends a heartbeat; it may not give up partitions yet."""
        each = self.consumers[name]
        if each.epoch <= 0:
            return
        if not keeps:
            each.owns = each.may_own
        fields: dict[str, Any] = {} if keeps else {"owned": each.owns}
        is_lost = is_lost and name == "A"
        pending = each.start_beat(is_lost=is_lost, **fields)
        if not is_lost:
            self._answered(each, pending.result.error_code)

    @rule(name=names, topics=subscriptions)
    def subscribe(self, name: str, topics: list[str]) -> None:
        """A member subscribes to other topics."""
        each = self.consumers[name]
        if each.epoch > 0:
            each.topics = topics
            self._answered(each, each.beat(topics=topics).error_code)

    @rule(name=names, is_away=st.booleans())
    def leave(self, name: str, is_away: bool) -> None:
        """A member leaves; a static one may come back."""
        each = self.consumers[name]
        if each.epoch <= 0:
            return
        each.leave(-2 if is_away and each.instance else -1)
        each.give_up()

    @rule(name=names, partition=st.integers(0, 3), back=st.integers(0, 2))
    def commit(self, name: str, partition: int, back: int) -> None:
        """A member commits with its epoch, or an older one."""
        each = self.consumers[name]
        code = each.commit("t", 5, partition=partition, generation_id=each.epoch - back)
        event(f"commit: {ErrorCode(code).name}")

    # -- topics, time, commands, the log

    @rule(topic=topics, more=st.integers(0, 3))
    def change_topic(self, topic: str, more: int) -> None:
        """A topic is created, has more partitions, or is deleted."""
        image = self.scene.topics.named(topic)
        if image is None:
            self.scene.topic(topic, more + 1)
        elif not more:
            self.scene.drop(topic)
        elif len(image.racks) < 8:
            self.scene.grow(topic, len(image.racks) + more)

    @rule(ms=st.sampled_from([0, 500, 1_000, 10_001, 20_000, 44_999]))
    def sleep(self, ms: int) -> None:
        """Time passes: sessions end, and so does the time to give up partitions."""
        self.scene.sleep(ms)

    @rule(name=names, verb=st.sampled_from(["kick", "expire", "mute", "unmute"]))
    def command(self, name: str, verb: str) -> None:
        """A command about a member."""
        getattr(self.scene, verb)(self.consumers[name].member_id)

    @rule(state=st.sampled_from([None, "Assigning", "Reconciling"]))
    def hold(self, state: str | None) -> None:
        """The group is held, or released."""
        if state is None:
            self.scene.release()
        elif "g" in self.scene.coordinator.groups:
            self.scene.hold(state)

    @rule()
    def trigger(self) -> None:
        """A rebalance on command."""
        self.scene.trigger()

    @rule(verb=st.sampled_from(["move", "restart", "delete"]))
    def restart(self, verb: str) -> None:
        """Another coordinator loads the log; or an empty group is deleted."""
        if getattr(self.scene, verb)() == 0:
            self.epochs.clear()

    @rule(name=names, leaves=st.booleans())
    def refuse(self, name: str, leaves: bool) -> None:
        """The log refuses a change: everything is as before."""
        scene, each = self.scene, self.consumers[name]
        before = self._durable()
        scene.is_holding = True
        epoch = -1 if leaves else 0
        fields = {} if leaves else {"owned": (), "rebalance_ms": 1, "topics": ["t"]}
        each.start_beat(is_lost=True, epoch=epoch, **fields)
        while scene.held:
            # A pattern may have been resolved in a second one.
            scene.refuse()
        scene.is_holding = False
        assert self._durable() == before
        scene.sleep(0)

    def _durable(self) -> set[str]:
        groups = consumer(self.scene.coordinator.groups.values())
        return {repr(r) for group in groups.values() for r in group.records()}

    # -- properties

    @invariant()
    def epochs_never_go_down(self) -> None:
        """The group's, and that of its target assignment."""
        groups = consumer(self.scene.coordinator.groups.values())
        if "g" not in groups:
            # The last offset of an empty group may have expired, too.
            self.epochs.clear()
        for group in groups.values():
            found = {"group": group.generation_id, "target": group.assignment_epoch}
            for key, epoch in found.items():
                assert epoch >= self.epochs.get(key, 0)
            self.epochs = found

    @invariant()
    def members_own_only_partitions_that_they_hold(self) -> None:
        """A client that is a member reads nothing that another one may read."""
        groups = consumer(self.scene.coordinator.groups.values())
        for each in self.consumers.values():
            member = groups["g"].members.get(each.member_id) if "g" in groups else None
            if member is None or member.epoch < 0 or not each.epoch:
                continue
            owns = {(topic, p) for topic, partitions in each.owns for p in partitions}
            assert owns <= {*member.holds()}

    def teardown(self) -> None:
        """If members answer, each gets its part of the target."""
        scene = self.scene
        scene.release()
        for each in self.consumers.values():
            scene.unmute(each.member_id)
        for _ in range(8):
            scene.sleep(10_001)
            for each in self.consumers.values():
                if each.epoch > 0:
                    full = {"topics": each.topics, "rebalance_ms": 20_000}
                    self._answered(each, each.settle(**full).error_code)
        groups = consumer(scene.coordinator.groups.values())
        present = [each for each in self.consumers.values() if each.epoch > 0]
        if not present:
            return
        group = groups["g"]
        assert group.state == "Stable"
        self._check_everything_is_read(present)

    def _check_everything_is_read(self, present: list[Consumer]) -> None:
        group = self.scene.group
        wanted = {
            (image.topic_id, partition)
            for image in group.existing(group.subscribed_topics())
            for partition in range(len(image.racks))
        }
        held = {held for each in group.members.values() for held in each.holds()}
        assert held == wanted
        for each in present:
            mine = {
                (topic, p) for topic, partitions in each.may_own for p in partitions
            }
            assert mine == {*group.members[each.member_id].holds()}


ConsumerMachine.TestCase.settings = settings(
    max_examples=settings().max_examples * FACTOR, stateful_step_count=40
)
TestConsumerGroups = ConsumerMachine.TestCase
