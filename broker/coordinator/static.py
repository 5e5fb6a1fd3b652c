"""Static members (KIP-345): another process takes the place of a member."""

from __future__ import annotations

from kohort.broker.coordinator import rebalance
from kohort.broker.coordinator.effects import JoinResult, SyncResult
from kohort.broker.coordinator.events import Join
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.member import Member, Protocols
from kohort.broker.coordinator.state import COMPLETING_REBALANCE, STABLE
from kohort.broker.coordinator.turn import Cause, Turn
from kohort.protocol.errors import ErrorCode


def replace(
    turn: Turn,
    group: Group,
    event: Join,
    protocols: Protocols,
    member_ids: tuple[str, str],
) -> None:
    """Gives the place of a static member to whoever brings its instance id.

    Args:
        turn: what it brings about.
        group: a group that has the member.
        event: the join, without a member id.
        protocols: the event's protocols.
        member_ids: the old one and the new one.
    """
    old_leader = group.leader or ""
    old = group.members[member_ids[0]]
    fenced = ErrorCode.FENCED_INSTANCE_ID
    turn.answer_join(group, old, JoinResult(fenced, old.member_id))
    turn.answer_sync(old, SyncResult(fenced))
    turn.end_session(old)
    member = group.replace(old, member_ids[1])
    # The session starts with the timeout that the old process asked for.
    turn.keep_alive(member, member.session_timeout)
    group.update(
        member, protocols, (event.session_timeout_ms, event.rebalance_timeout_ms)
    )
    if turn.listening:
        _notice_replaced(turn, group, event, (old, member), old_leader)
    if group.state is STABLE and group.select_protocol() == group.protocol_name:
        _take_over(turn, group, event, member, old_leader)
        return
    member.join_token = event.token
    group.awaiting_join += 1
    group.wait_is_over(member.member_id, turn.now, came=True)
    cause = Cause("static_member_replaced", member.identity, event.reason)
    if group.state in (STABLE, COMPLETING_REBALANCE):
        # Stable: the group's protocol changes. CompletingRebalance: the leader
        # may already have assigned something to the old id.
        rebalance.prepare(turn, group, cause)
    else:
        rebalance.try_complete_join(turn, group)


def _notice_replaced(
    turn: Turn,
    group: Group,
    event: Join,
    members: tuple[Member, Member],
    old_leader: str,
) -> None:
    old, member = members
    turn.notice(
        "member_replaced",
        group,
        # Client id and host stay those of the old process, as in Kafka.
        member.identity,
        1 + len(event.protocols),
        reason=event.reason,
        replaced_member_id=old.member_id,
        timeouts_ms=(event.session_timeout_ms, event.rebalance_timeout_ms),
        protocol_type=event.protocol_type,
        protocols=event.protocols,
    )
    if old.owned:
        turn.notice_owned(group, old, old.owned, b"", "replaced")
        turn.notice_owned(group, member, b"", old.owned, "replaced")
    turn.notice_leader(group, "replaced", old_leader)


def _take_over(
    turn: Turn, group: Group, event: Join, member: Member, old_leader: str
) -> None:
    """Carries on in the same generation, whatever else the metadata says.

    A leader that comes back need not assign again: it is told so if it
    understands skip_assignment (KIP-814). Else it is told that its old id leads,
    so that it does not take itself for the leader.
    """
    turn.append(group.record())
    member.told_at = turn.now
    is_leader = event.can_skip_assignment and group.leader == member.member_id
    result = JoinResult(
        ErrorCode.NONE,
        member.member_id,
        group.generation_id,
        group.protocol_type,
        group.protocol_name,
        (group.leader or "") if event.can_skip_assignment else old_leader,
        is_leader,
        group.current_members() if is_leader else (),
    )
    turn.reply(event.token, result)
