"""ConsumerGroupHeartbeat: the one request by which a member joins, stays and leaves.

`heartbeat` checks in Kafka's order, and answers the first error at once:

1. The fields that a request of its epoch needs (`validation`).
2. The group. A join, of epoch 0, creates one, also in place of an empty classic group.
3. ``group.consumer.max.size``.
4. The member and its epoch (`_dynamic_member`, `_static_member`).

Then the heartbeat takes these steps, whose records are written together:

1. The member's subscription and client, if they have changed (`subscription`). They may
   start a new group epoch; so may other topics in the cluster.
2. The target assignment, if it is older than the group (`target`).
3. The member's step towards the target (`reconcile`).

Nearly all heartbeats change nothing and only keep their member alive (`hear`). Those
with epoch -1 or -2 leave (`leave`).
"""

from __future__ import annotations

from kohort.broker.coordinator.consumer import (
    configs,
    leave,
    notices,
    reconcile,
    sessions,
    target,
    validation,
)
from kohort.broker.coordinator.consumer.cause import Cause, Refusal
from kohort.broker.coordinator.consumer.changes import Change
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.consumer.member import AWAY, NEW, Epochs, Member
from kohort.broker.coordinator.consumer.subscription import stated_by, subscribe
from kohort.broker.coordinator.consumer.surroundings import Surroundings
from kohort.broker.coordinator.effects import (
    ConsumerHeartbeatResult,
    ConsumerMember,
    TopicPartitions,
)
from kohort.broker.coordinator.events import ConsumerHeartbeat, OwnedPartitions
from kohort.broker.coordinator.notices import group_converted
from kohort.broker.coordinator.room import Coordinating, Groups
from kohort.broker.coordinator.state import EMPTY, STABLE
from kohort.broker.coordinator.turn import Turn
from kohort.broker.notice import Client
from kohort.protocol.errors import ErrorCode

_FENCED = "A test fenced the member. It must abandon all its partitions and rejoin."
LEAVING = (-1, AWAY)
"""Epochs of members that leave."""


def heartbeat(
    turn: Turn,
    groups: Groups,
    event: ConsumerHeartbeat,
    *,
    around: Surroundings,
    is_noticed: bool,
) -> None:
    """Handles any heartbeat, and makes a notice of it for listeners that ask for it."""
    answer: ConsumerHeartbeatResult | Refusal | None
    answer = validation.check(turn.settings, event)
    if answer is None and event.member_epoch in LEAVING:
        answer = leave.leave(turn, groups, event)
    elif answer is None:
        answer = _stay(turn, groups, event, around)
    assert answer is not None
    group = groups.get(event.group_id)
    if isinstance(answer, Refusal):
        notices.refused(turn, group, event, answer)
        turn.reply(event.token, ConsumerHeartbeatResult(answer.code, answer.message))
    else:
        turn.reply_after_appends(event.token, answer)
    if is_noticed:
        code = answer.code if isinstance(answer, Refusal) else ErrorCode.NONE
        notices.heartbeat(turn, group, event, code)


def _stay(
    turn: Turn,
    groups: Groups,
    event: ConsumerHeartbeat,
    around: Surroundings,
) -> ConsumerHeartbeatResult | Refusal:
    """Handles a heartbeat of a member that joins or stays."""
    change = _begin(turn, groups, event, around)
    if isinstance(change, Refusal):
        return change
    refusal = validation.check_room(change, event.member_id)
    if refusal is not None:
        return refusal
    member_id = event.member_id or around.new_member_id(event.client.id)
    before = _before(change, event, member_id)
    if isinstance(before, Refusal):
        return before
    refusal = _advance(change, event, member_id, before)
    group = change.group
    if refusal is not None:
        change.give_up()
        sessions.resume(turn, group)
        return refusal
    change.end()
    member = group.members[member_id]
    sessions.keep_alive(turn, group, member)
    shows = (
        not event.member_epoch or _is_full(event) or member.assigned != before.assigned
    )
    return ConsumerHeartbeatResult(
        ErrorCode.NONE,
        None,
        member_id,
        member.epoch,
        configs.heartbeat_interval_ms(turn.settings, group.group_id),
        _assignment(member) if shows else None,
    )


# -- the group and the member


def _begin(
    turn: Turn, groups: Groups, event: ConsumerHeartbeat, around: Surroundings
) -> Change | Refusal:
    """Finds or makes the group."""
    group_id, joins = event.group_id, not event.member_epoch
    found = groups.get(group_id)
    if type(found) is ConsumerGroup:
        return Change(turn, groups, found)
    if found is None:
        if joins:
            return Change(turn, groups, around.new_group(turn, group_id))
        message = f"Consumer group {group_id} not found."
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)
    if joins and found.state is EMPTY:
        return Change(turn, groups, around.new_group(turn, group_id), found)
    if joins:
        new = around.new_group(turn, group_id)
        return around.upgrade(turn, groups, found, new)
    message = f"Group {group_id} is not a consumer group."
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)


class Before:
    """A member as it was before its heartbeat.

    Attributes:
        stated: its subscription and client.
        assigned: its partitions.
        is_new: whether it has come with this heartbeat.
        is_renamed: whether it has had another instance id, or none.
        replaced: the static member whose place it takes; None if there is none.
    """

    __slots__ = ("assigned", "is_new", "is_renamed", "replaced", "stated")

    def __init__(
        self,
        stated: ConsumerMember = NEW,
        assigned: Epochs | None = None,
        *,
        is_new: bool = False,
        is_renamed: bool = False,
        replaced: Member | None = None,
    ) -> None:
        self.stated = stated
        self.assigned: Epochs = assigned or {}
        self.is_new = is_new
        self.is_renamed = is_renamed
        self.replaced = replaced


def _before(
    change: Change, event: ConsumerHeartbeat, member_id: str
) -> Before | Refusal:
    """Finds the member; a static one may take the place of another."""
    if event.group_instance_id is None:
        return _dynamic_member(change.group, event, member_id)
    return _static_member(change, event, member_id)


def _dynamic_member(
    group: ConsumerGroup, event: ConsumerHeartbeat, member_id: str
) -> Before | Refusal:
    member = group.members.get(member_id)
    if member is not None:
        return _check_epoch(member, event) or Before(member.says, member.assigned)
    if event.member_epoch:
        message = f"Member {member_id} is not a member of group {group.group_id}."
        return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return Before(is_new=True)


def _static_member(
    change: Change, event: ConsumerHeartbeat, member_id: str
) -> Before | Refusal:
    group, instance_id = change.group, event.group_instance_id
    member = group.static_member(instance_id)
    if event.member_epoch:
        refusal = validation.check_static(member, event)
        if refusal is not None:
            return refusal
        assert member is not None
        return _check_epoch(member, event) or Before(member.says, member.assigned)
    if member is None:
        # As in Kafka, a dynamic member may become a static one.
        known = group.members.get(member_id)
        if known is None:
            return Before(is_new=True)
        return Before(known.says, known.assigned, is_renamed=True)
    if member.epoch != AWAY and not member.is_classic:
        message = (
            f"Static member {member_id} with instance id {instance_id} cannot join the"
            f" group because the instance id is owned by {member.member_id} member."
        )
        return Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, message)
    before = Before(member.says, member.assigned, is_new=True, replaced=member)
    change.replace(member, member_id)
    return before


def _check_epoch(member: Member, event: ConsumerHeartbeat) -> Refusal | None:
    """Compares the epoch of a heartbeat with the member's.

    The previous epoch is valid if the member owns nothing that it may not own: it may
    not have got the response with its new epoch.
    """
    received, known = event.member_epoch, member.epoch
    if member.is_fenced and received:
        return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, _FENCED)
    if not received or received == known:
        return None
    is_lost_response = (
        received < known
        and received == member.at.previous_member_epoch
        and _is_subset(event.owned, member.assigned)
    )
    if is_lost_response:
        return None
    compared = "greater" if received > known else "smaller"
    message = (
        f"The consumer group member has a {compared} member epoch ({received}) than the"
        f" one known by the group coordinator ({known}). The member must abandon all"
        " its partitions and rejoin."
    )
    return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, message)


def _is_subset(owned: OwnedPartitions | None, assigned: Epochs) -> bool:
    if owned is None:
        return False
    return all(
        topic_id in assigned and all(each in assigned[topic_id] for each in partitions)
        for topic_id, partitions in owned
    )


# -- the steps


def _advance(
    change: Change, event: ConsumerHeartbeat, member_id: str, before: Before
) -> Refusal | None:
    """Takes the steps of a heartbeat; returns an error instead if one fails."""
    joined = None if event.member_epoch else event.client
    stated = stated_by(event, before.stated)
    changed = take_subscription(change, member_id, before, stated, joined)
    if isinstance(changed, Refusal):
        return changed
    return advance(change, member_id, before, event.owned, has_other_topics=changed)


def take_subscription(
    change: Change,
    member_id: str,
    before: Before,
    stated: ConsumerMember,
    joined: Client | None,
) -> bool | Refusal:
    """Takes a member's subscription and client.

    Args:
        change: the change.
        member_id: the member.
        before: the member as it was.
        stated: the subscription and client.
        joined: the sender, if the member joins.

    Returns:
        Whether the subscription has changed; or an error.
    """
    turn, group = change.turn, change.group
    if stated != before.stated or member_id not in group.members:
        change.state(member_id, stated)
    member = group.members[member_id]
    if before.replaced is not None:
        sessions.end(turn, group, before.replaced)
    if joined is not None:
        member.heard_on(joined.connection)
        member.is_fenced = False
        if change.old is not None:
            why = "upgraded" if change.old.members else "replaced"
            group_converted(turn, group, member.identity, why)
        notices.member_joined(turn, group, member, before.is_new, before.replaced)
    elif member.topics != frozenset(before.stated.subscribed_topics):
        notices.subscription_changed(turn, group, member)
    cause = "metadata_changed"
    if before.replaced is not None:
        cause = "static_member_replaced"
    elif before.is_new:
        cause = "member_joined"
    return subscribe(change, member, before.stated, Cause(cause, member.identity))


def advance(
    change: Change,
    member_id: str,
    before: Before,
    owned: OwnedPartitions | None,
    *,
    has_other_topics: bool,
) -> Refusal | None:
    """Computes the target assignment if it is due, and takes the member's step to it.

    Args:
        change: the change.
        member_id: the member.
        before: the member as it was.
        owned: the partitions that it owns; None: as in its last heartbeat.
        has_other_topics: whether its subscription has changed.
    """
    turn, group = change.turn, change.group
    is_due = target.is_due(turn, group)
    if is_due:
        refusal = change.begin(("target", change.bumped_by))
        if refusal is not None:
            return refusal
        old = None if before.replaced is None else before.replaced.member_id
        target.compute(change, member_id, is_new=before.is_new, replaced=old)
    return reconcile.reconcile(
        change,
        group.members[member_id],
        owned,
        has_other_topics=has_other_topics,
        # As in Kafka, which looks for the target of the member with the instance id.
        has_target=is_due or not before.is_renamed,
    )


def _is_full(event: ConsumerHeartbeat) -> bool:
    """Returns whether a heartbeat has all fields: the member asks for everything."""
    return (
        event.rebalance_timeout_ms != -1
        and event.owned is not None
        and (event.subscribed_topics is not None or event.subscribed_regex is not None)
    )


def _assignment(member: Member) -> TopicPartitions:
    return [(topic, sorted(epochs)) for topic, epochs in member.assigned.items()]


# -- the hot path


def hear(
    coordinator: Coordinating, event: ConsumerHeartbeat, now: float
) -> ConsumerHeartbeatResult | None:
    """Handles a heartbeat that only keeps its member alive, in a Stable group."""
    group = coordinator.groups.get(event.group_id)
    if (
        type(group) is not ConsumerGroup
        or group.state is not STABLE
        or group.is_stale
        or group.subscribers
        or coordinator.appends.waiting
    ):
        return None
    member = group.members.get(event.member_id)
    if (
        member is None
        or event.member_epoch != group.generation_id
        or event.subscribed_topics is not None
        or event.rebalance_timeout_ms != -1
        or event.subscribed_regex is not None
        or event.server_assignor is not None
        or event.rack_id is not None
        or event.group_instance_id not in (None, member.group_instance_id)
        or member.is_muted
        or member.is_fenced
    ):
        return None
    settings, known = coordinator.settings, member.alive
    if known is None or known[0] is not event.client or known[1] is not settings:
        if not _is_same_client(event.client, member.says):
            return None
        group_id = group.group_id
        interval_ms = configs.heartbeat_interval_ms(settings, group_id)
        member.session_timeout = configs.session_timeout_ms(settings, group_id) / 1000
        known = event.client, settings, interval_ms
        member.alive = known
    deadline = now + member.session_timeout
    if deadline < member.armed:
        return None
    member.deadline = deadline
    return ConsumerHeartbeatResult(
        0, None, event.member_id, event.member_epoch, known[2], None
    )


def _is_same_client(client: Client, says: ConsumerMember) -> bool:
    return (
        client.id == says.client_id
        and client.host == says.client_host
        and says.classic is None
    )
