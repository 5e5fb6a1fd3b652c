"""JoinGroup: admits members, makes them join again, or refuses them.

`join` checks in Kafka's order, and answers the first error at once:

1. The group id, and the bounds of the session timeout.
2. The group. A request without a member id creates one that does not exist.
3. ``group.max.size`` (`_has_room`); a full group also removes the sender, if it is
   late or pending.
4. Protocols that all members support (`ClassicGroup.supports`).

Then the member id decides:

- None, and no instance id: `_hand_out_id` answers MEMBER_ID_REQUIRED, if the client
  knows that (KIP-394); else `_add_member`.
- None, and an instance id: `static.replace` if the group has it, else `_add_member`.
- That of a pending member: `_add_member`.
- That of a member with unchanged protocols, in CompletingRebalance or, for a follower,
  in Stable: `_answer_again`.
- That of a member in any other case: `_rejoin`.

`_add_member` and `_rejoin` leave the join waiting, and start or complete a rebalance
(`rebalance.prepare_or_complete`), which answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Literal

from kohort.broker.coordinator.appends import Changed, GroupChange
from kohort.broker.coordinator.classic import (
    notices,
    rebalance,
    sessions,
    static,
    waiting,
)
from kohort.broker.coordinator.classic.cause import Cause
from kohort.broker.coordinator.classic.group import ClassicGroup, find
from kohort.broker.coordinator.classic.member import Member, PendingMember, Protocols
from kohort.broker.coordinator.classic.removal import remove, remove_pending
from kohort.broker.coordinator.conversion import replace
from kohort.broker.coordinator.effects import JoinResult, Written
from kohort.broker.coordinator.events import Join
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.notices import group_converted, group_state
from kohort.broker.coordinator.room import Coordinating, Groups
from kohort.broker.coordinator.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from kohort.broker.coordinator.turn import Turn
from kohort.broker.notice import Notice, Who
from kohort.protocol.consumer import PROTOCOL_TYPE, decode_subscription
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError

_NAME = itemgetter(0)


def join(
    turn: Turn,
    groups: Groups,
    event: Join,
    new_member_id: Callable[[str], str],
) -> None:
    """Handles a JoinGroup; for newcomers, creates a group that does not exist."""
    settings = turn.settings
    if not event.group_id:
        _refuse(turn, None, event, ErrorCode.INVALID_GROUP_ID)
        return
    if not settings.allows_session_timeout(event.session_timeout_ms):
        group = find(groups, event.group_id)
        _refuse(turn, group, event, ErrorCode.INVALID_SESSION_TIMEOUT)
        return
    group = find(groups, event.group_id)
    if group is None:
        other = groups.get(event.group_id)
        if other is not None and other.state is not EMPTY:
            _refuse(turn, None, event, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return
        if event.member_id:
            _refuse(turn, None, event, ErrorCode.UNKNOWN_MEMBER_ID)
            return
        group = _make(turn, groups, event, other)
    if not _has_room(turn, group, event.member_id):
        _turn_away(turn, group, event)
        return
    protocols = group.shared_offer(distinct_protocols(event))
    if not group.supports(event.protocol_type, protocols):
        _refuse(turn, group, event, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif event.member_id:
        _join_known(turn, group, event, protocols)
    else:
        prefix = event.group_instance_id
        if prefix is None:
            prefix = event.client.id
        _join_unknown(turn, group, event, protocols, new_member_id(prefix))


def _make(turn: Turn, groups: Groups, event: Join, other: Group | None) -> ClassicGroup:
    """Creates a group, in place of an empty one of another protocol if there is one.

    As in Kafka, the group stays, Empty, even if its first member is refused.
    """
    group = ClassicGroup(event.group_id, turn.now)
    records: list[Written] = [group.record()]
    changes = [GroupChange(group, (), was_made=True)]
    if other is not None:
        tombstones, replaced = replace(turn, other, group)
        records = [*tombstones, *records]
        changes.insert(0, replaced)
        who = Who(None, event.group_instance_id, event.client)
        group_converted(turn, group, who, "replaced")
    groups[group.group_id] = group
    turn.append_batch(records, Changed(changes), [])
    group_state(turn, group)
    return group


# -- the hot path: all members but the first and the last of a rebalance


def only_wait(
    coordinator: Coordinating, event: Join, now: float
) -> Notice | Literal[True] | None:
    """Lets a join wait if that is all it does: its member joins again as before.

    Returns:
        The notice, or True if there is no listener; None if `join` has to handle it. It
        would do the same with a join that only waits, at twice the cost.
    """
    group, client = coordinator.groups.get(event.group_id), event.client
    settings = coordinator.settings
    if not (
        type(group) is ClassicGroup
        and group.state is PREPARING_REBALANCE
        and (member := group.members.get(event.member_id)) is not None
        and member.join_token is None
        and not member.is_muted
        and event.group_instance_id is None
        and (client is member.client or client.connection == member.client.connection)
        and event.session_timeout_ms == member.session_timeout_ms
        and event.rebalance_timeout_ms == member.rebalance_timeout_ms
        and event.protocol_type == group.protocol_type
        # Their names are those that the group knows, so all members support one.
        and _have_same_names(event.protocols, member.protocols)
        and group.awaiting_join + 1 < len(group.members) + len(group.pending_members)
        and group.awaiting_join
        < coordinator.lasting.max_sizes.get(group.group_id, settings.max_size)
        and settings.allows_session_timeout(event.session_timeout_ms)
    ):
        return None
    member.protocols = group.shared_offer(tuple(event.protocols))
    member.join_token = event.token
    group.awaiting_join += 1
    if not coordinator.listening:
        return True
    notices.note_arrival(group, event.member_id, now)
    return notices.joined(group, member, event, "rejoin")


def _have_same_names(some: Sequence[tuple[str, bytes]], others: Protocols) -> bool:
    if len(some) == len(others) == 1:
        # Most members have one protocol, and lists of names take longer.
        return some[0][0] == others[0][0]
    return [*map(_NAME, some)] == [*map(_NAME, others)]


# -- any join


def distinct_protocols(event: Join) -> Protocols:
    """The protocols, each name once: a repeated name makes Kafka hang."""
    protocols = tuple(event.protocols)
    if len(protocols) > 1 and len({name for name, _ in protocols}) < len(protocols):
        first: dict[str, bytes] = {}
        for name, metadata in protocols:
            first.setdefault(name, metadata)
        protocols = tuple(first.items())
    return protocols


def _refuse(
    turn: Turn,
    group: ClassicGroup | None,
    event: Join,
    code: int,
    member_id: str | None = None,
) -> None:
    """Refuses a join; by default the answer has the request's member id."""
    answered = event.member_id if member_id is None else member_id
    turn.reply(event.token, JoinResult(code, answered))
    notices.member_refused(turn, group, event, code)


# -- group.max.size (KIP-389)


def _has_room(turn: Turn, group: ClassicGroup, member_id: str) -> bool:
    """Returns whether a join may go on.

    During a rebalance, the members that have joined it count. So if a group is too
    large, the members that rejoin last are refused.
    """
    if group.state is EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is PREPARING_REBALANCE:
        if member is not None and member.join_token is not None:
            return True
        return group.awaiting_join < turn.max_size(group)
    return member is not None or len(group.members) < turn.max_size(group)


def _turn_away(turn: Turn, group: ClassicGroup, event: Join) -> None:
    """Refuses a join to a full group; a late member is removed.

    That does not end the rebalance, even if all remaining members have joined.
    """
    member = group.members.get(event.member_id)
    if member is not None:
        notices.member_kicked(turn, group, member.identity, "full", turn.now)
        remove(turn, group, member)
    elif event.member_id in group.pending_members:
        member_id = event.member_id
        who = group.pending_members[member_id].identity
        turn.disarm(("session", group.group_id, member_id))
        notices.member_kicked(turn, group, who, "full", turn.now, was_pending=True)
        remove_pending(turn, group, member_id)
    _refuse(turn, group, event, ErrorCode.GROUP_MAX_SIZE_REACHED, "")


# -- without a member id


def _join_unknown(
    turn: Turn, group: ClassicGroup, event: Join, protocols: Protocols, member_id: str
) -> None:
    """Handles a JoinGroup without a member id: from a newcomer or a static member."""
    instance = event.group_instance_id
    if instance is not None:
        known = group.static_members.get(instance)
        if known is not None:
            static.replace(turn, group, event, protocols, known, member_id)
            return
    elif event.member_id_required:
        _hand_out_id(turn, group, event, member_id)
        return
    _add_member(turn, group, event, protocols, member_id)


def _hand_out_id(turn: Turn, group: ClassicGroup, event: Join, member_id: str) -> None:
    """Makes the sender a pending member, which has to join again (KIP-394)."""
    timeout = event.session_timeout_ms / 1000
    deadline = turn.now + timeout
    who = Who(member_id, None, event.client)
    group.pending_members[member_id] = PendingMember(who, deadline, timeout)
    turn.arm(("session", group.group_id, member_id), deadline)
    turn.reply(event.token, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    notices.member_id_given(turn, group, member_id)


def _add_member(
    turn: Turn, group: ClassicGroup, event: Join, protocols: Protocols, member_id: str
) -> None:
    if group.state is PREPARING_REBALANCE and group.previous_state is EMPTY:
        group.new_member_added = True
    member = Member(
        group.group_id,
        member_id,
        event.group_instance_id,
        event.client,
        event.session_timeout_ms,
        event.rebalance_timeout_ms,
        protocols,
    )
    member.is_new = True
    member.join_token = event.token
    previous = group.leader
    group.add(member, event.protocol_type)
    # This replaces the timer of a pending member, under the same key.
    sessions.keep_alive(turn, member, turn.settings.new_member_join_timeout_ms / 1000)
    notices.wait_ended(turn, group, member_id, came=True)
    notices.member_joined(turn, group, member, event, "new")
    notices.leader_chosen(turn, group, "first", previous)
    cause = Cause("member_joined", member.identity, event.reason)
    rebalance.prepare_or_complete(turn, group, cause)


# -- with a member id


def _join_known(
    turn: Turn, group: ClassicGroup, event: Join, protocols: Protocols
) -> None:
    """Handles a JoinGroup with a member id, known or not."""
    member_id = event.member_id
    if member_id in group.pending_members:
        if event.group_instance_id is None:
            _add_member(turn, group, event, protocols, member_id)
        else:
            # Static members are never pending, so Kafka has no error code for this.
            _refuse(turn, group, event, ErrorCode.UNKNOWN_SERVER_ERROR, "")
        return
    error = group.validate_member(member_id, event.group_instance_id)
    if error:
        _refuse(turn, group, event, error)
        return
    member = group.members[member_id]
    if event.client is not member.client:
        member.set_connection(event.client.connection)
    if group.state is PREPARING_REBALANCE:
        _rejoin(turn, group, member, event, protocols)
        return
    is_leader = group.leader == member_id
    is_changed = member.protocols != protocols
    if group.state is COMPLETING_REBALANCE and not is_changed:
        # Perhaps the response to its first join was lost: it gets the same one again.
        _answer_again(turn, group, member, event, is_leader=is_leader)
    elif group.state is STABLE and not is_changed and not is_leader:
        _answer_again(turn, group, member, event, is_leader=False)
    else:
        _rejoin(turn, group, member, event, protocols)


def _answer_again(
    turn: Turn, group: ClassicGroup, member: Member, event: Join, *, is_leader: bool
) -> None:
    """Answers a member with its current generation, without a rebalance."""
    member.told_at = turn.now
    notices.member_joined(turn, group, member, event, "repeated")
    members = group.current_members() if is_leader else ()
    turn.reply(event.token, group.join_result(member, members))


def _rejoin(
    turn: Turn,
    group: ClassicGroup,
    member: Member,
    event: Join,
    protocols: Protocols,
) -> None:
    """Takes a member's join into the next generation.

    Its earlier join, if one waits, was sent on a connection that the client has given
    up. Kafka never answers it. The helpful answer is REBALANCE_IN_PROGRESS, which
    clients take as "keep your member id, join again"; after UNKNOWN_MEMBER_ID, a client
    that still listens would throw away the id that it is joining with.
    """
    before = member.protocols
    is_changed = before != protocols
    if not is_changed:
        protocols = before  # equal bytes, but one object: listeners need not keep both
    group.update(
        member, protocols, event.session_timeout_ms, event.rebalance_timeout_ms
    )
    if member.join_token is not None:
        again = JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        waiting.give_up_join(turn, group, member, again)
    group.park_join(member, event.token)
    notices.wait_ended(turn, group, member.member_id, came=True)
    if group.state is PREPARING_REBALANCE:
        notices.member_joined(turn, group, member, event, "rejoin")
        rebalance.try_complete_join(turn, group)
        return
    if is_changed and group.leader == member.member_id:
        # Owned partitions in a leader's metadata are not a change of subscription.
        is_changed = not _is_same_offer(event.protocol_type, before, protocols)
    why = "metadata_changed" if is_changed else "leader"
    notices.member_joined(turn, group, member, event, why)
    # A leader requests a rebalance by joining: the topics that it assigns may have
    # changed while no member's metadata did.
    kind = "metadata_changed" if is_changed else "leader_rejoined"
    cause = Cause(kind, member.identity, event.reason)
    rebalance.prepare(turn, group, cause)


def _is_same_offer(protocol_type: str | None, old: Protocols, new: Protocols) -> bool:
    """Returns whether a consumer names the same assignors and topics as before.

    The bytes may still differ: since KIP-429 and KIP-792 a subscription has the owned
    partitions and their generation, and sticky assignors repeat them in their user
    data. Both follow from the last rebalance and are no reason for another one.
    """
    if protocol_type != PROTOCOL_TYPE or len(old) != len(new):
        return False
    try:
        return all(
            before[0] == after[0] and _topics(before[1]) == _topics(after[1])
            for before, after in zip(old, new, strict=True)
        )
    except WireError:
        return False


def _topics(metadata: bytes) -> list[str]:
    return sorted(decode_subscription(metadata).topics)
