"""JoinGroup to a consumer group: a classic member joins, or takes its next step.

`join` checks in Kafka's order, and answers the first error at once:

1. The bounds of the session timeout, ``group.consumer.max.size``, and the protocols:
   one of them has to be one that all classic members support (`_check`).
2. The member id: MEMBER_ID_REQUIRED gives a new one, which no timer ends (KIP-394).
3. The static member (`_static_member`).

The rest is as in a heartbeat of the consumer protocol, and is answered at once: the
coordinator does not wait for other members. If the sender takes the place of the last
member of the consumer protocol, the group becomes a classic one (`_join_as_last`).
"""

from __future__ import annotations

from collections.abc import Callable

from kohort.broker.coordinator.classic import join as classic
from kohort.broker.coordinator.classic.cause import Cause as ClassicCause
from kohort.broker.coordinator.consumer import (
    heartbeat,
    notices,
    reconcile,
    sessions,
    validation,
)
from kohort.broker.coordinator.consumer.cause import Refusal
from kohort.broker.coordinator.consumer.changes import Change
from kohort.broker.coordinator.consumer.group import ConsumerGroup, find
from kohort.broker.coordinator.consumer.heartbeat import Before
from kohort.broker.coordinator.consumer.member import Member
from kohort.broker.coordinator.effects import ConsumerMember, JoinResult
from kohort.broker.coordinator.events import Join, OwnedPartitions
from kohort.broker.coordinator.migration import assignments, downgrade
from kohort.broker.coordinator.migration.sync import protocol_of
from kohort.broker.coordinator.room import Groups
from kohort.broker.coordinator.turn import Turn
from kohort.protocol.consumer import PROTOCOL_TYPE, Subscription, decode_subscription
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError


def join(
    turn: Turn,
    groups: Groups,
    event: Join,
    new_member_id: Callable[[str], str],
) -> None:
    """Handles a JoinGroup; one to an empty group makes it a classic one."""
    group = find(groups, event.group_id)
    if group is None or not group.members:
        classic.join(turn, groups, event, new_member_id)
        return
    change = Change(turn, groups, group)
    refusal = _check(change, event)
    if refusal is not None:
        _refuse(turn, group, event, refusal)
        return
    member_id = event.member_id or new_member_id(event.client.id)
    is_nameless = not event.member_id and event.group_instance_id is None
    if is_nameless and event.member_id_required:
        turn.reply(event.token, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        return
    refusal = _join(change, event, member_id)
    if refusal is not None:
        change.give_up()
        sessions.resume(turn, group)
        _refuse(turn, group, event, refusal)


def _refuse(turn: Turn, group: ConsumerGroup, event: Join, refusal: Refusal) -> None:
    """Refuses a join. As in Kafka, the answer rarely has a member id."""
    notices.refused(turn, group, event, refusal)
    has_id = refusal.code == ErrorCode.INVALID_SESSION_TIMEOUT
    member_id = event.member_id if has_id else ""
    turn.reply(event.token, JoinResult(refusal.code, member_id))


def _check(change: Change, event: Join) -> Refusal | None:
    group = change.group
    if not change.turn.settings.allows_session_timeout(event.session_timeout_ms):
        message = f"A session timeout of {event.session_timeout_ms} ms is not allowed."
        return Refusal(ErrorCode.INVALID_SESSION_TIMEOUT, message)
    refusal = validation.check_room(change, event.member_id)
    if refusal is not None:
        return refusal
    support = group.classic_protocols
    is_supported = event.protocol_type == PROTOCOL_TYPE and any(
        support.get(name, 0) == group.classic_members for name, _ in event.protocols
    )
    if is_supported:
        return None
    message = f"Member {event.member_id}'s protocols are not supported."
    return Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)


def _join(change: Change, event: Join, member_id: str) -> Refusal | None:
    turn, group = change.turn, change.group
    before_join = _Group(group, event)
    before = _before(change, event, member_id)
    if isinstance(before, Refusal):
        return before
    try:
        subscription = decode_subscription(event.protocols[0][1])
    except WireError as error:
        # Kafka does not expect that.
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    stated = _stated_by(event, subscription, before.stated)
    changed = heartbeat.take_subscription(
        change, member_id, before, stated, event.client
    )
    if isinstance(changed, Refusal):
        return changed
    rows = assignments.by_id(subscription.owned_partitions, group.topics)
    owned = [*rows.items()]
    if before_join.becomes_classic(turn):
        return _join_as_last(change, event, member_id, owned, before_join, changed)
    refusal = heartbeat.advance(
        change, member_id, before, owned, has_other_topics=changed
    )
    if refusal is not None:
        return refusal
    change.end()
    member = group.members[member_id]
    sessions.has_rejoined(turn, group, member)
    sessions.keep_alive(turn, group, member)
    sessions.wait_for_sync(turn, group, member, event.rebalance_timeout_ms)
    turn.reply_after_appends(event.token, _result(member))
    return None


def _result(member: Member) -> JoinResult:
    name, _ = protocol_of(member)
    return JoinResult(
        ErrorCode.NONE, member.member_id, member.epoch, PROTOCOL_TYPE, name, ""
    )


# -- the member


def _before(change: Change, event: Join, member_id: str) -> Before | Refusal:
    """Finds the member; accepts ids that the broker did not create."""
    if event.group_instance_id is not None:
        return _static_member(change, event, member_id)
    return _known(change.group, member_id)


def _known(group: ConsumerGroup, member_id: str) -> Before:
    member = group.members.get(member_id)
    if member is None:
        return Before(is_new=True)
    return Before(member.says, member.assigned)


def _static_member(change: Change, event: Join, member_id: str) -> Before | Refusal:
    """Finds a static member; one without an id takes the place of another."""
    group = change.group
    member = group.static_member(event.group_instance_id)
    if event.member_id:
        return validation.check_static(member, event) or _known(group, member_id)
    if member is None:
        return _known(group, member_id)
    before = Before(member.says, member.assigned, is_new=True, replaced=member)
    change.replace(member, member_id)
    return before


def _stated_by(
    event: Join, subscription: Subscription, before: ConsumerMember
) -> ConsumerMember:
    """Returns a member's subscription and client after a join."""
    timeout_ms = event.rebalance_timeout_ms
    return ConsumerMember(
        event.group_instance_id or before.group_instance_id,
        subscription.rack_id or before.rack_id,
        event.client.id,
        event.client.host,
        (*sorted({*subscription.topics}),),
        "",
        before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        before.server_assignor,
        (event.session_timeout_ms, classic.distinct_protocols(event)),
    )


# -- the last member of the consumer protocol comes back as a classic one


class _Group:
    """A group before a join.

    Attributes:
        replaced: the static member in whose place the sender comes; None for none.
        generation_id: the group epoch.
        targets: the target assignment.
        order: the ids of its members, in Kafka's order.
    """

    def __init__(self, group: ConsumerGroup, event: Join) -> None:
        self.replaced = group.static_member(event.group_instance_id)
        self.generation_id = group.generation_id
        self.targets = dict(group.targets) if self.replaced is not None else {}
        self.order = group.ordered_ids() if self.replaced is not None else []
        self._are_others_classic = (
            self.replaced is not None
            and not self.replaced.is_classic
            and group.classic_members == len(group.members) - 1
        )

    def becomes_classic(self, turn: Turn) -> bool:
        """Returns whether the sender makes it a classic group."""
        return self._are_others_classic and downgrade.is_open(turn, len(self.order))


def _join_as_last(
    change: Change,
    event: Join,
    member_id: str,
    owned: OwnedPartitions,
    before: _Group,
    has_other_topics: bool,
) -> Refusal | None:
    """Makes the group a classic one; it rebalances if its target is not of its epoch.

    The sender does not wait for that: its response has its epoch, and no leader.
    """
    turn, group = change.turn, change.group
    assert before.replaced is not None
    old_id = before.replaced.member_id
    member = group.members[member_id]
    is_stale = group.assignment_epoch < group.generation_id
    if not is_stale:
        refusal = reconcile.reconcile(
            change, member, owned, has_other_topics=has_other_topics
        )
        if refusal is not None:
            return refusal
    others = [group.members[each] for each in before.order if each != old_id]
    targets = before.targets
    targets[member_id] = targets.get(old_id, ())
    order = [member_id if each == old_id else each for each in before.order]
    result = _result(member)
    cause = None
    if is_stale:
        cause = ClassicCause("metadata_changed", member.identity, event.reason)
    members, epoch = [*others, member], before.generation_id
    downgrade.convert(change, members, epoch, targets, order, member.identity, cause)
    turn.reply_after_appends(event.token, result)
    return None
