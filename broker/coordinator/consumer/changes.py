"""A turn's change of one consumer group, by records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kohort.broker.coordinator.appends import Changed, GroupChange
from kohort.broker.coordinator.consumer import notices
from kohort.broker.coordinator.consumer.cause import TOO_LARGE, Cause, Refusal
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.consumer.member import Member
from kohort.broker.coordinator.conversion import replace
from kohort.broker.coordinator.effects import (
    ConsumerGroupRecord,
    ConsumerMember,
    ConsumerMemberRecord,
    ConsumerRecord,
    CurrentAssignment,
    CurrentAssignmentRecord,
    RegularExpressionRecord,
    TargetMemberRecord,
    Written,
)
from kohort.broker.coordinator.group import Group, Work
from kohort.broker.coordinator.notices import group_state
from kohort.broker.coordinator.room import Groups
from kohort.broker.coordinator.state import ASSIGNING, EMPTY
from kohort.broker.coordinator.turn import Turn
from kohort.protocol.slotted import replace as slotted_replace


class Change:
    """A change of a group: each record takes effect at once.

    `end` writes the records; `give_up` takes them back instead.

    Attributes:
        turn: the turn that makes the change.
        group: the group.
        old: the group of another protocol that it replaces, or None.
        has_new_epoch: whether this change has bumped the group epoch.
        bumped_by: the id of the member that did; "" for none.
        most_members: the largest number of members that the group had before.
        work: the step that makes most of its records; empty if they are few.
    """

    __slots__ = (
        "_begins",
        "_groups",
        "_noticed",
        "_records",
        "_state",
        "_then",
        "_undo",
        "bumped_by",
        "group",
        "has_new_epoch",
        "most_members",
        "old",
        "turn",
        "work",
    )

    def __init__(
        self,
        turn: Turn,
        groups: Groups,
        group: ConsumerGroup,
        old: Group | None = None,
        then: Callable[[], None] | None = None,
    ) -> None:
        """Begins a change.

        Args:
            turn: the turn.
            groups: the coordinator's groups; a new one is added at the end.
            group: the group.
            old: the group of another protocol that this one replaces.
            then: called at the end, unless the change is given up.
        """
        self.turn = turn
        self.group = group
        self.has_new_epoch = False
        self.bumped_by = ""
        self.most_members = group.most_members
        self.work: Work = ()
        self._then = then
        # Whether it begins a rebalance.
        self._begins = False
        self._groups = groups
        self.old = old
        self._state = group.state
        self._records: list[ConsumerRecord] = []
        self._undo: list[ConsumerRecord] = []
        self._noticed = len(turn.notices)

    def put(self, record: ConsumerRecord) -> None:
        """Changes the group by a record."""
        self._undo.append(self.group.replay(record))
        self._records.append(record)

    def begin(self, work: Work) -> Refusal | None:
        """Begins a step with many records.

        Returns:
            The error of its append, if the log has refused these records before.
        """
        group = self.group
        before = group.generation_id - self.has_new_epoch
        if group.is_refused(work, before, self.turn.now):
            return TOO_LARGE
        self.work = self.work or work
        return None

    def go_on(self) -> None:
        """Takes the group as it is now for the one that changes: it was upgraded."""
        self._state = self.group.state
        # Kafka's hash table of members has not seen their second records yet.
        self.most_members = self.group.most_members - 1

    def give_up(self) -> None:
        """Takes all records back, and the notices of this change."""
        for record in reversed(self._undo):
            self.group.replay(record)
        self.group.is_stale |= self.has_new_epoch
        del self.turn.notices[self._noticed :]

    def withdraw_epoch(self) -> None:
        """Withdraws the notice of a new epoch: the classic group rebalances instead."""
        told, since = self.turn.notices, self._noticed
        told[since:] = [each for each in told[since:] if each[0] != "rebalance_started"]

    def end(self) -> None:
        """Writes the records. All notices of the turn wait for them."""
        if not self._records:
            return
        turn, group = self.turn, self.group
        is_new = self._groups.get(group.group_id) is not group
        records: list[Written] = [*self._records]
        changes = [
            GroupChange(
                group,
                undo=self._undo,
                was_made=is_new,
                is_rebalance=self._begins,
                work=self.work,
            )
        ]
        if self.old is not None:
            first, replaced = replace(turn, self.old, group)
            records = [*first, *records]
            changes.insert(0, slotted_replace(replaced, work=self.work))
        self._groups[group.group_id] = group
        if self._begins:
            turn.lasting.count_rebalance(group.group_id)
        if group.state is not self._state or is_new:
            before = group.previous_state if is_new else self._state
            group.previous_state = before
            group_state(turn, group)
        turn.append_changes(records, Changed(changes), is_atomic=True)
        if self._then is not None:
            self._then()

    def end_as(
        self, new: Group, record: Written, order: Sequence[str], *, is_rebalance: bool
    ) -> None:
        """Writes the records, and those that replace the group by another one.

        Args:
            new: the group of another protocol.
            record: its record.
            order: the members of this one, in the order of their tombstones.
            is_rebalance: whether the new group has begun a rebalance.
        """
        turn, group = self.turn, self.group
        _, replaced = replace(turn, group, new)
        tombstones = group.tombstones(order)
        records = [*self._records, *tombstones, record]
        self._groups[group.group_id] = new
        changes = [
            slotted_replace(replaced, undo=self._undo),
            GroupChange(new, was_made=True, is_rebalance=is_rebalance),
        ]
        turn.append_changes(records, Changed(changes), is_atomic=True)

    # -- the records of a member

    def state(self, member_id: str, stated: ConsumerMember) -> None:
        """Writes a member's subscription and client."""
        self.put(ConsumerMemberRecord(self.group.group_id, member_id, stated))

    def move(self, member_id: str, current: CurrentAssignment) -> None:
        """Writes a member's epochs and partitions."""
        self.put(CurrentAssignmentRecord(self.group.group_id, member_id, current))

    def remove(self, member_id: str) -> None:
        """Removes a member, in Kafka's order."""
        group_id = self.group.group_id
        self.put(CurrentAssignmentRecord(group_id, member_id, None))
        self.put(TargetMemberRecord(group_id, member_id, None))
        self.put(ConsumerMemberRecord(group_id, member_id, None))

    def replace(self, old: Member, member_id: str) -> None:
        """Gives a static member's place to a new id, which starts at epoch 0."""
        group, stated, current = self.group, old.says, old.at
        target = group.targets.get(old.member_id, ())
        self.remove(old.member_id)
        self.state(member_id, stated)
        self.put(TargetMemberRecord(group.group_id, member_id, target))
        self.move(member_id, current._replace(member_epoch=0, previous_member_epoch=0))

    # -- the group epoch

    def forget_patterns(self, patterns: Sequence[str]) -> None:
        """Removes the topics of patterns that no member has any more."""
        for regex in dict.fromkeys(patterns):
            if regex not in self.group.subscribers:
                record = RegularExpressionRecord(self.group.group_id, regex, None)
                self.put(record)

    def topics_hash(self) -> int:
        """Computes the hash of the topics that the group subscribes to."""
        group = self.group
        return group.hashes.of_group(group.existing(group.subscribed_topics()))

    def bump(self, cause: Cause, new_hash: int | None = None) -> None:
        """Starts a new group epoch: a rebalance."""
        group = self.group
        if new_hash is None:
            new_hash = self.topics_hash()
        self._announce(cause, group.generation_id)
        epoch = group.generation_id + 1
        self.put(ConsumerGroupRecord(group.group_id, (epoch, new_hash)))
        group.is_stale = False
        self.has_new_epoch = True
        self.bumped_by = (cause.who and cause.who.member_id) or ""

    def join_epoch(self, cause: Cause) -> None:
        """Begins a rebalance without a new epoch, if a member comes to an Empty group.

        Its epoch may have no target assignment yet, as nobody was left to need one.
        """
        if self._state is EMPTY and self.group.state is ASSIGNING:
            self._announce(cause, self.group.generation_id - 1)

    def _announce(self, cause: Cause, ended: int) -> None:
        """Notes the start of a rebalance; a group that is Assigning has begun one."""
        notices.rebalance_started(self.turn, self.group, cause, self._state, ended)
        self.group.started = self.turn.now
        self._begins |= self._state is not ASSIGNING
