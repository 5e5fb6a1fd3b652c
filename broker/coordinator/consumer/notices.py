"""Notices of the consumer protocol; see `kohort.broker.coordinator.notices`.

A rebalance is the way from one group epoch to the next, in the kinds of the classic
protocol:

1. ``rebalance_started``: the group epoch is bumped, or a member comes to an Empty group
   whose epoch has no target assignment. As there, its generation is the one that ends.
2. ``join_completed`` and ``assignment_made``: the coordinator has computed the target
   assignment. No member has to join for that.
3. ``member_reconciled``: a member takes a step to the target; ``partitions_changed``
   comes before it if the member holds other partitions now.
4. ``member_synced``: the member has all its partitions of the target.

Some state is kept only for notices: a group's `started`, `computed` and `listed`.
"""

from __future__ import annotations

from collections.abc import Collection

from kohort.broker.coordinator.consumer import configs, sessions
from kohort.broker.coordinator.consumer.cause import Cause, Refusal
from kohort.broker.coordinator.consumer.group import (
    ConsumerGroup,
    by_topic,
    pairs_of,
)
from kohort.broker.coordinator.consumer.member import Member
from kohort.broker.coordinator.events import ConsumerHeartbeat, Heartbeat, Join
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.notices import add
from kohort.broker.coordinator.state import GroupState
from kohort.broker.coordinator.turn import Turn
from kohort.broker.notice import Notice, Who
from kohort.protocol.consumer import PROTOCOL_TYPE, Subscription, encode
from kohort.protocol.errors import ErrorCode

Held = Collection[tuple[bytes, int]]
"""Partitions by topic id: those that no other member may read."""

# -- members


def member_joined(
    turn: Turn,
    group: ConsumerGroup,
    member: Member,
    is_new: bool,
    replaced: Member | None,
) -> None:
    """A member has joined with epoch 0; a static one may replace another."""
    if not turn.listening:
        return
    offer = _offer(turn, group, member)
    if replaced is None:
        cause = "new" if is_new else "rejoin"
        add(turn, "member_joined", group, member.identity, 1, cause=cause, **offer)
        return
    heard = sessions.last_heard(turn, replaced)
    fields = offer | {"replaced_member_id": replaced.member_id, "heard": heard}
    add(turn, "member_replaced", group, member.identity, 1, **fields)
    held = frozenset(replaced.holds())
    if held and replaced.member_id != member.member_id:
        _changed(turn, group, replaced, held, (), "replaced")
        _changed(turn, group, member, (), held, "replaced")


def subscription_changed(turn: Turn, group: ConsumerGroup, member: Member) -> None:
    """A member subscribes to other topics."""
    if turn.listening:
        offer = _offer(turn, group, member)
        cause = "metadata_changed"
        add(turn, "member_joined", group, member.identity, 1, cause=cause, **offer)


def _offer(turn: Turn, group: ConsumerGroup, member: Member) -> dict[str, object]:
    assignor = member.says.server_assignor or turn.settings.consumer_assignors[0]
    session_ms = configs.session_timeout_ms(turn.settings, group.group_id)
    topics = sorted(group.subscription(member))
    return {
        "reason": None,
        "timeouts_ms": (session_ms, member.says.rebalance_timeout_ms),
        "protocol_type": PROTOCOL_TYPE,
        "protocols": ((assignor, encode(Subscription(topics))),),
        "group_type": group.type,
    }


_CAUSES = {
    ErrorCode.GROUP_MAX_SIZE_REACHED: "full",
    ErrorCode.UNRELEASED_INSTANCE_ID: "fenced",
    ErrorCode.UNKNOWN_MEMBER_ID: "unknown",
}
_FENCED = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_MEMBER_EPOCH)


def refused(
    turn: Turn, group: Group | None, event: ConsumerHeartbeat | Join, refusal: Refusal
) -> None:
    """A heartbeat was refused; its group need not exist."""
    if not turn.listening:
        return
    error = ErrorCode(refusal.code)
    generation = None if group is None else group.generation_id
    who = Who(event.member_id or None, event.group_instance_id, event.client)
    fields: dict[str, object] = {"error": error.name}
    kind = "member_fenced"
    if error not in _FENCED:
        kind = "member_refused"
        cause = refusal.cause or _CAUSES.get(error, "invalid")
        fields |= {"cause": cause, "reason": refusal.message}
    turn.notices.append(Notice(kind, event.group_id, generation, who, fields))


def member_left(turn: Turn, group: ConsumerGroup, member: Member) -> None:
    """A member left for good."""
    fields = {"cause": "left", "reason": None, "was_pending": False}
    add(turn, "member_left", group, member.identity, **fields)


def member_expired(
    turn: Turn, group: ConsumerGroup, member: Member, cause: str
) -> None:
    """A member's session ended."""
    heard = sessions.last_heard(turn, member)
    add(turn, "member_expired", group, member.identity, cause=cause, heard=heard)


def member_kicked(turn: Turn, group: ConsumerGroup, member: Member, cause: str) -> None:
    """The coordinator removed a member."""
    heard = sessions.last_heard(turn, member)
    fields = {"cause": cause, "was_pending": False, "heard": heard}
    add(turn, "member_kicked", group, member.identity, **fields)


def heartbeat(
    turn: Turn, group: Group | None, event: ConsumerHeartbeat | Heartbeat, code: int
) -> None:
    """A heartbeat was answered with an error code."""
    if turn.listening:
        who = Who(event.member_id or None, event.group_instance_id, event.client)
        generation = None if group is None else group.generation_id
        fields = {"error": ErrorCode(code).name}
        notice = Notice("heartbeat", event.group_id, generation, who, fields)
        turn.notices.append(notice)


# -- rebalances


def rebalance_started(
    turn: Turn, group: ConsumerGroup, cause: Cause, state: GroupState, ended: int
) -> None:
    """A rebalance ends an epoch; before this turn the group had a state."""
    if not turn.listening:
        return
    culprits = cause.culprits
    if not culprits and cause.who is not None:
        culprits = (cause.who.member_id,)
    fields = {
        "cause": cause.kind,
        "reason": cause.reason,
        "culprits": culprits,
        "previous_state": state.value,
        "group_type": group.type,
        "members": [],
    }
    rows = 1 + len(culprits)
    kind, group_id = "rebalance_started", group.group_id
    turn.notices.append(Notice(kind, group_id, ended, cause.who, fields, rows))


def target_computed(turn: Turn, group: ConsumerGroup) -> None:
    """The coordinator has computed the target assignment."""
    if not turn.listening:
        return
    group.computed = turn.now
    _generation(turn, group, "target_due")
    add(
        turn,
        "assignment_made",
        group,
        None,
        0,
        protocol=group.protocol_name,
        leader=None,
        bytes=None,
        members=(),
        since=turn.now,
    )


def emptied(turn: Turn, group: ConsumerGroup) -> None:
    """The last member is gone."""
    if turn.listening:
        _generation(turn, group, "nobody_left")


def _generation(turn: Turn, group: ConsumerGroup, cause: str) -> None:
    """The members of a group epoch are known; in the classic protocol, they join."""
    before, group.listed = group.listed, tuple(group.members)
    add(
        turn,
        "join_completed",
        group,
        None,
        len(before) + len(group.listed),
        cause=cause,
        before=[(each,) for each in before],
        after=[(each,) for each in group.listed],
        started=group.started,
        waits={},
        told={},
        protocol=group.protocol_name if group.listed else None,
        leader=None,
    )


def member_synced(turn: Turn, group: ConsumerGroup, member: Member) -> None:
    """A member has all its partitions of the target assignment."""
    add(turn, "member_synced", group, member.identity, since=group.computed)


def reconciled(turn: Turn, group: ConsumerGroup, member: Member, before: Held) -> None:
    """A member has taken a step; it held these partitions before it."""
    if not turn.listening:
        return
    after = frozenset(member.holds())
    target = by_topic(group.targets.get(member.member_id, ()))
    awaited = {
        (topic_id, partition)
        for topic_id, partitions in target.items()
        for partition in partitions
        if partition not in member.assigned.get(topic_id, ())
    }
    holders = {
        group.owners.get(topic_id, {}).get(partition) for topic_id, partition in awaited
    }
    holders -= {None, member.member_id}
    revoking = [*pairs_of(member.revoking)]
    if before != after:
        _changed(turn, group, member, before, after, "assigned")
    add(
        turn,
        "member_reconciled",
        group,
        member.identity,
        len(revoking) + len(awaited),
        cause=member.state.name.lower(),
        member_epoch=member.epoch,
        target_epoch=group.assignment_epoch,
        revoking=group.named(revoking),
        awaited=group.named(awaited),
        holders=sorted(each for each in holders if each is not None),
    )


def partitions_gone(
    turn: Turn, group: ConsumerGroup, member: Member, held: Held
) -> None:
    """A removed member holds no partitions any more."""
    if held:
        _changed(turn, group, member, held, (), "gone")


def _changed(
    turn: Turn,
    group: ConsumerGroup,
    member: Member,
    before: Held,
    after: Held,
    cause: str,
) -> None:
    if turn.listening:
        add(
            turn,
            "partitions_changed",
            group,
            member.identity,
            len(before) + len(after),
            cause=cause,
            before=group.named(before),
            after=group.named(after),
        )


def group_loaded(turn: Turn, group: ConsumerGroup) -> None:
    """A group was read from the log."""
    if not turn.listening:
        return
    members = [*group.members]
    add(
        turn,
        "group_loaded",
        group,
        None,
        len(members),
        state=group.state.value,
        members=members,
        protocol=group.protocol_name,
        leader=None,
    )
    for member in group.members.values():
        held = frozenset(member.holds())
        if held:
            _changed(turn, group, member, held, held, "loaded")
