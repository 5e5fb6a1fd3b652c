"""From a classic group to a consumer group, by the first heartbeat of a consumer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kohort.broker.coordinator.classic import rebalance, waiting
from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.classic.member import NEVER
from kohort.broker.coordinator.classic.member import Member as ClassicMember
from kohort.broker.coordinator.consumer import sessions
from kohort.broker.coordinator.consumer.cause import TOO_LARGE, Refusal
from kohort.broker.coordinator.consumer.changes import Change
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.consumer.member import MemberState
from kohort.broker.coordinator.effects import (
    ConsumerGroupRecord,
    ConsumerMember,
    CurrentAssignment,
    JoinResult,
    SyncResult,
    TargetAssignmentRecord,
    TargetMemberRecord,
    TopicPartitions,
)
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.migration import assignments
from kohort.broker.coordinator.room import Groups
from kohort.broker.coordinator.turn import Turn
from kohort.broker.runtime.java_hash import in_timeline
from kohort.protocol.consumer import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import CutError, WireError

Message = TypeVar("Message")

_POLICIES = ("upgrade", "bidirectional")
_AGAIN = ErrorCode.REBALANCE_IN_PROGRESS
_WORK = ("upgrade",)

_UNEXPECTED = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)


class _MalformedError(Exception):
    """A member's subscription or assignment cannot be read.

    Kafka expects bytes that end too early; other errors are unexpected, and have no
    message.
    """

    def __init__(self, *, is_expected: bool) -> None:
        super().__init__()
        self.is_expected = is_expected


class _CustomAssignorError(Exception):
    """A member's assignment has user data, which would be lost."""


class _OwnedTwiceError(Exception):
    """Two members have the same partition. Kafka does not expect that."""


def upgrade(
    turn: Turn, groups: Groups, old: Group, new: ConsumerGroup
) -> Change | Refusal:
    """Begins the change of a classic group with members to a consumer group.

    Waiting requests are answered even if the group stays, as in Kafka.

    Args:
        turn: the turn of the heartbeat.
        groups: the coordinator's groups.
        old: the classic group.
        new: the consumer group, without members.

    Returns:
        The change, which goes on with the heartbeat; or an error.
    """
    assert isinstance(old, ClassicGroup)
    why = _forbidden(turn, old)
    if why is not None:
        return _refusal(old, f"because {why}.")
    _answer_waiting(turn, old)
    if old.is_refused(_WORK, old.generation_id, turn.now):
        return TOO_LARGE
    if old.protocol_name is None:
        # As in Kafka, which does not expect it: there has not been a generation.
        return _UNEXPECTED
    try:
        upgraded = _upgraded(old, new)
    except _OwnedTwiceError:
        return _UNEXPECTED
    except _MalformedError as error:
        if not error.is_expected:
            return _UNEXPECTED
        return _refusal(old, "because the embedded consumer protocol is malformed.")
    except _CustomAssignorError:
        return _refusal(
            old,
            "because an unsupported custom assignor is in use. Please refer to the"
            " documentation or switch to a default assignor before re-attempting the"
            " upgrade.",
        )
    order = in_timeline(upgraded, len(upgraded) - 1)
    members = {each: upgraded[each] for each in order}
    change = Change(turn, groups, new, old, partial(_take_over, turn, old, new))
    change.work = _WORK
    _put(change, members, old.generation_id)
    new.previous_state, new.listed = old.state, (*order,)
    change.go_on()
    return change


def _forbidden(turn: Turn, old: ClassicGroup) -> str | None:
    if turn.settings.consumer_migration_policy not in _POLICIES:
        return "online upgrade is disabled"
    if old.protocol_type != PROTOCOL_TYPE:
        return "the group does not use the consumer embedded protocol"
    if len(old.members) > turn.settings.consumer_max_size:
        return "the group size exceeds the consumer group maximum size"
    return None


def _refusal(old: ClassicGroup, why: str) -> Refusal:
    message = f"Cannot upgrade classic group {old.group_id} to consumer group {why}"
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _answer_waiting(turn: Turn, old: ClassicGroup) -> None:
    for member in old.ordered():
        again = JoinResult(_AGAIN, member.member_id)
        waiting.answer_join(turn, old, member, again)
        waiting.answer_sync(turn, member, SyncResult(_AGAIN))


class _Upgraded:
    """A classic member as a member of a consumer group.

    Raises:
        _MalformedError: its subscription or its assignment cannot be read.
        _CustomAssignorError: its assignment has user data.
    """

    __slots__ = ("current", "stated", "target")

    def __init__(
        self, old: ClassicGroup, member: ClassicMember, new: ConsumerGroup
    ) -> None:
        partitions = {}
        if member.assignment:
            assignment = _read(decode_assignment, member.assignment)
            if assignment.user_data:
                raise _CustomAssignorError
            partitions = assignments.by_id(assignment.assigned_partitions, new.topics)
        metadata = member.metadata(old.protocol_name)
        subscription = _read(decode_subscription, metadata)
        self.target: TopicPartitions = [*partitions.items()]
        self.stated = ConsumerMember(
            member.group_instance_id,
            subscription.rack_id or None,
            member.client.id,
            member.client.host,
            (*sorted({*subscription.topics}),),
            "",
            member.rebalance_timeout_ms,
            None,
            (member.session_timeout_ms, member.protocols),
        )
        epoch = old.generation_id
        rows = [(each, found, [epoch] * len(found)) for each, found in self.target]
        self.current = CurrentAssignment(epoch, epoch, MemberState.STABLE, rows, ())


def _upgraded(old: ClassicGroup, new: ConsumerGroup) -> dict[str, _Upgraded]:
    """Returns the members of a consumer group, in Kafka's order of the old members."""
    members = {}
    owned = set()
    for member in old.ordered():
        members[member.member_id] = each = _Upgraded(old, member, new)
        for topic_id, numbers in each.target:
            for partition in numbers:
                if (topic_id, partition) in owned:
                    raise _OwnedTwiceError
                owned.add((topic_id, partition))
    return members


def _read(decode: Callable[[bytes], Message], data: bytes) -> Message:
    try:
        return decode(data)
    except WireError as error:
        is_expected = isinstance(error, CutError)
        raise _MalformedError(is_expected=is_expected) from None


def _put(change: Change, members: dict[str, _Upgraded], epoch: int) -> None:
    """Writes the group with its members, in Kafka's order."""
    group_id = change.group.group_id
    for member_id, member in members.items():
        change.state(member_id, member.stated)
    change.put(ConsumerGroupRecord(group_id, (epoch, change.topics_hash())))
    for member_id, member in members.items():
        change.put(TargetMemberRecord(group_id, member_id, member.target))
    change.put(TargetAssignmentRecord(group_id, (epoch, 0)))
    for member_id, member in members.items():
        change.move(member_id, member.current)


def _take_over(turn: Turn, old: ClassicGroup, new: ConsumerGroup) -> None:
    """Gives the sessions of the old group's members to the new one."""
    rebalance.stop_timer(turn, old)
    for member_id, member in old.members.items():
        # The timer of a static member that the heartbeat has replaced fires in vain.
        member.armed = NEVER
        if member_id in new.members and new.members[member_id].is_classic:
            new.members[member_id].heard_on(member.client.connection)
    sessions.resume(turn, new)
    for member_id in [*turn.lasting.muted.get(new.group_id, ())]:
        if member_id in new.members:
            new.members[member_id].is_muted = True
        else:
            old.members[member_id].is_muted = False
            turn.lasting.unmute(new.group_id, member_id)
