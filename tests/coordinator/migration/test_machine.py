"""Random scenes of groups that migrate; `Invariants` holds after every event."""

from __future__ import annotations

from typing import Final

from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.coordinator.consumer.member import Consumer
from tests.coordinator.member import Member, dealt, subscribed
from tests.coordinator.migration.context import Mixed, partitions

from kohort.protocol.consumer import decode_subscription
from kohort.protocol.errors import ErrorCode
from kohort.simulation.checking.groups import consumer

FACTOR: Final = 10
"""More sequences than examples of other tests."""
PARTITIONS: Final = 4
INSTANCES: Final = {"A": None, "B": None, "C": "i-0", "D": "i-1"}
"""Four clients of each protocol; those of one name share an instance id."""
_ABANDON: Final = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.FENCED_INSTANCE_ID,
}
"""Errors after which a member gives up its id, or its epoch."""

names = st.sampled_from(sorted(INSTANCES))
POLICIES: Final = ["bidirectional", "bidirectional", "upgrade", "downgrade", "disabled"]


class MigrationMachine(RuleBasedStateMachine):
    """Clients of both protocols, time, commands, and a coordinator that restarts."""

    @initialize(policy=st.sampled_from(POLICIES), first=st.sets(names))
    def begin(self, policy: str, first: set[str]) -> None:
        """Some classic members have joined."""
        self.scene = scene = Mixed(
            PARTITIONS,
            consumer_migration_policy=policy,
            min_session_timeout_ms=100,
            consumer_session_timeout_ms=20_000,
        )
        scene.topic("u", 1)
        self.consumers = {
            name: scene.consumer(name, "t", instance=instance, rebalance_ms=20_000)
            for name, instance in INSTANCES.items()
        }
        self.members = {
            name: scene.classic(
                name, instance=instance, session_ms=20_000, rebalance_ms=10_000
            )
            for name, instance in INSTANCES.items()
        }
        for name in sorted(first):
            self.enter(name, False)
        self.go_on(2)

    # -- consumers

    def _answered(self, each: Consumer, code: int) -> None:
        event(f"consumer: {ErrorCode(code).name}")
        if code in _ABANDON:
            each.give_up()

    @rule(name=names, with_other=st.booleans())
    def join(self, name: str, with_other: bool) -> None:
        """A consumer joins."""
        each = self.consumers[name]
        each.topics = ["t", "u"] if with_other else ["t"]
        self._answered(each, each.join().error_code)

    @rule(name=names)
    def settle(self, name: str) -> None:
        """A consumer takes over its assignment."""
        each = self.consumers[name]
        if each.epoch > 0:
            self._answered(each, each.settle().error_code)

    @rule(name=names, is_away=st.booleans())
    def leave(self, name: str, is_away: bool) -> None:
        """A consumer leaves; a static one may come back."""
        each = self.consumers[name]
        if each.epoch > 0:
            each.leave(-2 if is_away and each.instance else -1)
            each.give_up()

    # -- classic members

    @rule(name=names, is_cooperative=st.booleans())
    def enter(self, name: str, is_cooperative: bool) -> None:
        """A classic member joins, or joins again; a cooperative one owns partitions."""
        each = self.members[name]
        mine = self._shares.get(name, []) if is_cooperative else []
        each.protocols = subscribed("t", owned=mine)
        pending = each.enter()
        if pending.answered:
            self._told(each, pending.result.error_code)

    @rule(name=names)
    def sync(self, name: str) -> None:
        """A classic member syncs; a leader divides the partitions."""
        each = self.members[name]
        rows = []
        if each.told:
            ids = [row[0] for row in each.told if decode_subscription(row[2])]
            rows = [
                (member_id, dealt(*range(i, PARTITIONS, len(ids))))
                for i, member_id in enumerate(ids)
            ]
        pending = each.sync(rows)
        if pending.answered:
            self._told(each, pending.result.error_code)
            if not pending.result.error_code and pending.result.assignment:
                self._shares[name] = partitions(pending.result.assignment)

    @rule(name=names)
    def beat(self, name: str) -> None:
        """A classic member sends a heartbeat, and joins again if it has to."""
        each = self.members[name]
        if each.member_id:
            code = each.heartbeat()
            self._told(each, code)
            if code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
                self.enter(name, True)

    @rule(name=names, by_instance=st.booleans())
    def depart(self, name: str, by_instance: bool) -> None:
        """LeaveGroup of a classic member; or of whoever has its instance id."""
        each = self.members[name]
        each.leave(**({"member_id": ""} if by_instance and each.instance else {}))
        each.member_id, each.told = "", ()

    @rule(name=names)
    def commit(self, name: str) -> None:
        """A classic member commits with its generation."""
        self.members[name].commit("t", 5)

    def _told(self, each: Member, code: int) -> None:
        event(f"classic: {ErrorCode(code).name}")
        if code in _ABANDON:
            each.member_id, each.told = "", ()

    # -- time, commands, the log

    @rule(rounds=st.integers(1, 3))
    def go_on(self, rounds: int) -> None:
        """All clients do as they are told, once a second."""
        for _ in range(rounds):
            self.scene.sleep(1_000)
            for name in self.consumers:
                self.settle(name)
            for name in INSTANCES:
                self.beat(name)
                if self.members[name].member_id:
                    self.sync(name)

    @rule(ms=st.sampled_from([0, 500, 5_000, 10_001, 19_999]))
    def sleep(self, ms: int) -> None:
        """Time passes: sessions end, and times to join and sync."""
        self.scene.sleep(ms)

    @rule(
        name=names,
        verb=st.sampled_from(["kick", "expire", "mute", "unmute"]),
        is_classic=st.booleans(),
    )
    def command(self, name: str, verb: str, is_classic: bool) -> None:
        """A command about a member."""
        each = self.members[name] if is_classic else self.consumers[name]
        getattr(self.scene, verb)(each.member_id)

    @rule()
    def trigger(self) -> None:
        """A rebalance on command."""
        self.scene.trigger()

    @rule(verb=st.sampled_from(["move", "restart", "delete"]))
    def restart(self, verb: str) -> None:
        """Another coordinator loads the log; or an empty group is deleted."""
        getattr(self.scene, verb)()

    @rule(name=names, what=st.sampled_from(["join", "leave", "enter"]))
    def refuse(self, name: str, what: str) -> None:
        """The log refuses a change of a consumer group: it is as before."""
        scene, each = self.scene, self.consumers[name]
        groups = consumer(scene.coordinator.groups.values())
        if what == "enter" and "g" not in groups:
            return
        before = self._durable()
        scene.is_holding = True
        if what == "enter":
            self.members[name].join()
        elif what == "leave":
            each.start_beat(is_lost=True, epoch=-1)
        else:
            fields = {"owned": (), "rebalance_ms": 1, "topics": ["t"]}
            each.start_beat(is_lost=True, epoch=0, **fields)
        while scene.held:
            scene.refuse()
        scene.is_holding = False
        assert self._durable() == before
        scene.sleep(0)

    def _durable(self) -> set[str]:
        groups = consumer(self.scene.coordinator.groups.values())
        return {repr(r) for group in groups.values() for r in group.records()}

    # -- properties

    def __init__(self) -> None:
        super().__init__()
        self._shares: dict[str, list[int]] = {}

    def teardown(self) -> None:
        """If all answer, a consumer group gets Stable, and every partition is read."""
        if not hasattr(self, "scene"):
            return
        scene = self.scene
        for name in INSTANCES:
            scene.unmute(self.consumers[name].member_id)
            scene.unmute(self.members[name].member_id)
        # A static member that comes back starts no epoch, as in Kafka: if it upgrades a
        # group in its sync phase, partitions that nobody had stay free.
        self.consumers["E"] = scene.consumer("E", "t", rebalance_ms=20_000)
        self.join("E", False)
        # Longer than the sessions of members that are away.
        self.go_on(25)
        groups = consumer(scene.coordinator.groups.values())
        if "g" not in groups or not groups["g"].members:
            return
        group = groups["g"]
        assert group.state == "Stable"
        held = {held for each in group.members.values() for held in each.holds()}
        assert held == {
            (image.topic_id, partition)
            for image in group.existing(group.subscribed_topics())
            for partition in range(len(image.racks))
        }


MigrationMachine.TestCase.settings = settings(
    max_examples=settings().max_examples * FACTOR, stateful_step_count=40
)
TestMigration = MigrationMachine.TestCase
