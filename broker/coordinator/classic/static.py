"""Static members (KIP-345): a new process takes the place of a member."""

from __future__ import annotations

from kohort.broker.coordinator.classic import notices, rebalance, sessions, waiting
from kohort.broker.coordinator.classic.cause import Cause
from kohort.broker.coordinator.classic.group import ClassicGroup, find
from kohort.broker.coordinator.classic.member import NEVER, Member, Protocols
from kohort.broker.coordinator.effects import JoinResult, SyncResult
from kohort.broker.coordinator.events import Join
from kohort.broker.coordinator.room import Groups
from kohort.broker.coordinator.state import (
    COMPLETING_REBALANCE,
    PREPARING_REBALANCE,
    STABLE,
)
from kohort.broker.coordinator.turn import Turn
from kohort.protocol.errors import ErrorCode
from kohort.protocol.slotted import slotted


@slotted
class Replaced:
    """The JoinGroup that replaces a static member of a Stable group."""

    group_id: str
    group_instance_id: str
    token: object
    can_skip_assignment: bool
    old_leader: str
    old_member_id: str
    new_member_id: str
    old_protocols: Protocols
    old_session_timeout_ms: int
    old_rebalance_timeout_ms: int


def replace(
    turn: Turn,
    group: ClassicGroup,
    event: Join,
    protocols: Protocols,
    old_member_id: str,
    new_member_id: str,
) -> None:
    """Gives a static member's place to the process with its instance id.

    Args:
        turn: collects the effects.
        group: the member's group.
        event: the JoinGroup of the new process, without a member id.
        protocols: the event's protocols.
        old_member_id: the member's id until now.
        new_member_id: its id from now on.
    """
    old_leader = group.leader or ""
    old = group.members[old_member_id]
    heard = sessions.last_heard(turn, old)
    fenced = ErrorCode.FENCED_INSTANCE_ID
    waiting.answer_join(turn, group, old, JoinResult(fenced, old_member_id))
    waiting.answer_sync(turn, old, SyncResult(fenced))
    sessions.end_session(turn, old)
    member = group.replace(old, new_member_id, event.client.connection)
    # The session starts with the timeout that the old process asked for.
    sessions.keep_alive(turn, member, member.session_timeout)
    group.update(
        member, protocols, event.session_timeout_ms, event.rebalance_timeout_ms
    )
    notices.member_replaced(turn, group, event, old, member, heard)
    notices.leader_chosen(turn, group, "replaced", old_leader)
    group.park_join(member, event.token)
    if group.state is STABLE and group.select_protocol() == group.protocol_name:
        completion = Replaced(
            group.group_id,
            event.group_instance_id or "",
            event.token,
            event.can_skip_assignment,
            old_leader,
            old_member_id,
            new_member_id,
            old.protocols,
            old.session_timeout_ms,
            old.rebalance_timeout_ms,
        )
        turn.append(group.record(), completion, opens_window=True)
        return
    notices.wait_ended(turn, group, member.member_id, came=True)
    cause = Cause("static_member_replaced", member.identity, event.reason)
    if group.state in (STABLE, COMPLETING_REBALANCE):
        # Stable: the group's protocol changes. CompletingRebalance: the leader may
        # already have assigned partitions to the old id.
        rebalance.prepare(turn, group, cause)
    else:
        rebalance.try_complete_join(turn, group)


def replaced(turn: Turn, groups: Groups, done: Replaced) -> None:
    """Answers with the current generation, now that the record is written.

    A leader that comes back need not assign again: the answer says so, if the client
    understands skip_assignment (KIP-814). Otherwise the answer names the old id as the
    leader, so that the client does not assign.
    """
    group, member = _waiting(groups, done)
    if group is None or member is None:
        return
    is_leader = group.leader == member.member_id
    if is_leader and done.can_skip_assignment and group.state is PREPARING_REBALANCE:
        # A rebalance has begun meanwhile, so there are no members to list: the join
        # keeps waiting for the next generation. Followers get this one.
        return
    member.told_at = turn.now
    if not done.can_skip_assignment:
        result = group.join_result(member)._replace(leader=done.old_leader)
    elif is_leader:
        members = group.current_members()
        result = group.join_result(member, members, skip_assignment=True)
    else:
        result = group.join_result(member)
    waiting.answer_join(turn, group, member, result)
    if member.armed == NEVER:
        # While its join waited, the end of its session was ignored. Otherwise the
        # session that began with its join continues, with the timeout of the old
        # process.
        sessions.keep_alive(turn, member, member.session_timeout)


def not_replaced(turn: Turn, groups: Groups, failed: Replaced, error: int) -> None:
    """Gives the member its old id again: the record was refused."""
    group, member = _waiting(groups, failed)
    if group is None or member is None:
        return
    waiting.answer_join(
        turn,
        group,
        member,
        group.join_result(member)._replace(
            error_code=error, member_id="", leader=failed.old_leader
        ),
    )
    group.update(
        member,
        failed.old_protocols,
        failed.old_session_timeout_ms,
        failed.old_rebalance_timeout_ms,
    )
    sessions.end_session(turn, member)
    connection = member.client.connection
    old = group.replace(member, failed.old_member_id, connection)
    sessions.keep_alive(turn, old, old.session_timeout)


def _waiting(
    groups: Groups, completion: Replaced
) -> tuple[ClassicGroup | None, Member | None]:
    """Returns the group and the member, if its join still waits for this append."""
    group = find(groups, completion.group_id)
    if group is None:
        return None, None
    member = group.members.get(completion.new_member_id)
    if member is None or member.join_token is not completion.token:
        return None, None
    return group, member
