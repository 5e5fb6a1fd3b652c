"""Reconciliation: members move to the target assignment, one step per heartbeat.

A member in an older epoch first gives up the partitions that it has no longer in the
target (UNREVOKED_PARTITIONS); it keeps its epoch until its heartbeat shows that it does
not own them any more. Then it goes to the epoch of the target, with those of its new
partitions that no other member holds. While others hold some, it is in
UNRELEASED_PARTITIONS, and each heartbeat tries again. Else it is STABLE.
"""

from __future__ import annotations

from collections.abc import Container

from kohort.broker.coordinator.consumer import notices
from kohort.broker.coordinator.consumer.cause import Refusal
from kohort.broker.coordinator.consumer.changes import Change
from kohort.broker.coordinator.consumer.group import (
    ConsumerGroup,
    Partitions,
    by_topic,
)
from kohort.broker.coordinator.consumer.member import (
    Epochs,
    Member,
    MemberState,
    epochs_of,
    rows_of,
)
from kohort.broker.coordinator.effects import CurrentAssignment, TopicPartitions
from kohort.broker.coordinator.events import OwnedPartitions
from kohort.broker.coordinator.state import RECONCILING
from kohort.broker.coordinator.turn import Turn
from kohort.protocol.errors import ErrorCode

_FENCED = (
    "The consumer group member is in a unknown state. The member must abandon all its"
    " partitions and rejoin."
)


def reconcile(
    change: Change,
    member: Member,
    owned: OwnedPartitions | None,
    *,
    has_other_topics: bool,
    has_target: bool = True,
) -> Refusal | None:
    """Takes a member's next step to its target assignment.

    Args:
        change: the change of its heartbeat.
        member: the member.
        owned: the partitions that it owns; None: as in its last heartbeat.
        has_other_topics: whether its subscription has changed.
        has_target: false if it has to take an empty target assignment.

    Returns:
        An error if it has to join again.
    """
    turn, group = change.turn, change.group
    if not has_other_topics and member.is_reconciled(group.assignment_epoch):
        return None
    refusal = change.begin(("step", member.member_id))
    if refusal is not None:
        return refusal
    target = group.targets.get(member.member_id, ()) if has_target else ()
    step = _Step(group, member, owned, target)
    is_held = group.state is RECONCILING and turn.is_held(group)
    if is_held or turn.lasting.is_member_held(group.group_id, member.member_id):
        # A member that joins needs an epoch; it gets no partitions.
        if not member.epoch:
            change.move(member.member_id, step.wait())
            notices.reconciled(turn, group, member, ())
        return None
    next_step = step.take(has_other_topics=has_other_topics)
    if isinstance(next_step, Refusal):
        return next_step
    if not _is_same(member, next_step):
        held = frozenset(member.holds())
        was_reconciled = member.is_reconciled(group.assignment_epoch)
        change.move(member.member_id, next_step)
        notices.reconciled(turn, group, member, held)
        if not was_reconciled and member.is_reconciled(group.assignment_epoch):
            notices.member_synced(turn, group, member)
        time_revocation(turn, group, member)
    return None


def time_revocation(turn: Turn, group: ConsumerGroup, member: Member) -> None:
    """Gives a member its rebalance timeout to give up partitions, if it has to."""
    key = ("revoke", group.group_id, member.member_id)
    if member.has_to_revoke:
        timeout_ms = member.says.rebalance_timeout_ms
        member.revoke_by = turn.now + timeout_ms / 1000
        turn.arm(key, member.revoke_by)
    elif member.revoke_by is not None:
        member.revoke_by = None
        turn.disarm(key)


def _is_same(member: Member, step: CurrentAssignment) -> bool:
    return (
        member.at[:3] == step[:3]
        and member.assigned == epochs_of(step.assigned)
        and member.revoking == epochs_of(step.pending_revocation)
    )


class _Step:
    """The next step of a member: what it keeps, gives up, and may take."""

    def __init__(
        self,
        group: ConsumerGroup,
        member: Member,
        owned: OwnedPartitions | None,
        target: TopicPartitions,
    ) -> None:
        self._group = group
        self._member = member
        self._owned = owned
        self._target = by_topic(target)
        self._epoch = group.assignment_epoch
        self._topics = group.topic_ids(member)

    def take(self, *, has_other_topics: bool) -> CurrentAssignment | Refusal:
        """Returns the member's state after this step; it may be the same."""
        member = self._member
        state = member.state
        if state is MemberState.UNKNOWN:
            if self._owned is None or self._owned:
                return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, _FENCED)
            return self._go_on(self._epoch)
        if state is MemberState.STABLE:
            stays = member.epoch == self._epoch
        else:
            stays = state is MemberState.UNREVOKED_PARTITIONS and self._owns(
                member.revoking
            )
        if not stays:
            return self._go_on(member.epoch)
        return self._give_up_topics() if has_other_topics else member.at

    def wait(self) -> CurrentAssignment:
        """Returns the state of a member that waits for its first partitions."""
        state = MemberState.UNRELEASED_PARTITIONS
        return CurrentAssignment(self._epoch, self._member.epoch, state, (), ())

    def _owns(self, partitions: Epochs) -> bool:
        """Returns whether the member owns some of these partitions, as far as known."""
        if self._owned is None:
            return True
        return any(
            partition in partitions.get(topic_id, ())
            for topic_id, owned in self._owned
            for partition in owned
        )

    def _give_up_topics(self) -> CurrentAssignment:
        """Revokes topics that the member does not subscribe to any more, at once."""
        member = self._member
        gone = [topic for topic in member.assigned if topic not in self._topics]
        if not gone:
            return member.at
        kept = {t: p for t, p in member.assigned.items() if t not in gone}
        revoking = {topic: dict(each) for topic, each in member.revoking.items()}
        for topic in gone:
            revoking.setdefault(topic, {}).update(member.assigned[topic])
        if self._owns(revoking):
            state = MemberState.UNREVOKED_PARTITIONS
            return self._moved(member.epoch, state, kept, revoking)
        return self._moved(member.epoch, member.state, kept, member.revoking)

    def _go_on(self, epoch: int) -> CurrentAssignment:
        """Compares the member's partitions with the target."""
        member, target = self._member, self._target
        kept: dict[bytes, dict[int, int]] = {}
        revoking: dict[bytes, dict[int, int]] = {}
        for topic, partitions in member.assigned.items():
            wanted = target.get(topic, _NONE) if topic in self._topics else _NONE
            for partition, since in partitions.items():
                rows = kept if partition in wanted else revoking
                rows.setdefault(topic, {})[partition] = since
        if revoking and self._owns(revoking):
            state = MemberState.UNREVOKED_PARTITIONS
            return self._moved(epoch, state, kept, revoking)
        is_waiting = self._take_free(target, kept)
        state = MemberState.STABLE
        if is_waiting:
            state = MemberState.UNRELEASED_PARTITIONS
        return self._moved(self._epoch, state, kept, {})

    def _take_free(self, target: Partitions, kept: dict[bytes, dict[int, int]]) -> bool:
        """Adds the partitions of the target that no other member holds.

        Returns:
            Whether some are held by others.
        """
        is_waiting = False
        for topic, wanted in target.items():
            if topic not in self._topics:
                continue
            owners = self._group.owners.get(topic, {})
            mine = self._member.revoking.get(topic, {})
            for partition in sorted(wanted.difference(kept.get(topic, ()))):
                if partition in owners and partition not in mine:
                    is_waiting = True
                else:
                    kept.setdefault(topic, {})[partition] = self._epoch
        return is_waiting

    def _moved(
        self, epoch: int, state: MemberState, assigned: Epochs, revoking: Epochs
    ) -> CurrentAssignment:
        return CurrentAssignment(
            epoch,
            self._member.epoch,
            int(state),
            rows_of(assigned),
            rows_of(revoking),
        )


_NONE: Container[int] = ()
