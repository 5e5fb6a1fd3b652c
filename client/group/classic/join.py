"""JoinGroup: joining the next generation."""

from __future__ import annotations

from kohort.client.assignors.contract import Assignor, MemberSubscription
from kohort.client.assignors.serialization import encode_subscription
from kohort.client.group.classic import heartbeat, leave, sync
from kohort.client.group.classic.member import ClassicMember
from kohort.client.group.classic.state import (
    COMPLETING_REBALANCE,
    PREPARING_REBALANCE,
    STABLE,
    UNJOINED,
)
from kohort.client.group.effects import CallKind
from kohort.client.group.turn import COORDINATOR_AWAY, Turn
from kohort.protocol.apis.k11_join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kohort.protocol.consumer import PROTOCOL_TYPE
from kohort.protocol.errors import ErrorCode

_PASSING = COORDINATOR_AWAY | {
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNKNOWN_MEMBER_ID,
}
"""Errors of JoinGroup after which the member joins again; others end it."""


def is_due(member: ClassicMember) -> bool:
    """Returns whether the member has to join, and can."""
    if member.state is STABLE:
        if member.rejoin_reason is None and member.assigned_by is not None:
            member.rejoin_reason = sync.changed_partitions(member)
    elif member.state is not UNJOINED:
        return False
    return (
        member.rejoin_reason is not None
        and member.subscription is not None
        and member.retry_at is None
        and not member.awaits_poll
    )


def prepare(turn: Turn, member: ClassicMember) -> None:
    """Revokes the partitions that it cannot keep, then sends JoinGroup.

    Eager members revoke all of them, cooperative ones those of topics that they do
    not subscribe to any more (KIP-429).
    """
    revoked = member.owned
    if member.is_cooperative:
        revoked = member.unwanted(revoked)
    if revoked:
        turn.call_listener(member, CallKind.REVOKED, revoked)
    else:
        _send(turn, member)


def _send(turn: Turn, member: ClassicMember) -> None:
    config = member.config
    assert member.subscription is not None
    member.join_reason, member.rejoin_reason = member.rejoin_reason or "", None
    protocols = [
        JoinGroupRequestProtocol(assignor.name, _metadata(member, assignor))
        for assignor in member.assignors
    ]
    request = JoinGroupRequest(
        member.group_id,
        config.session_timeout_ms,
        config.max_poll_interval_ms,
        member.member_id,
        config.group_instance_id,
        PROTOCOL_TYPE,
        protocols,
        member.join_reason[: leave.LONGEST_REASON],
    )
    member.transition(PREPARING_REBALANCE)
    turn.cancel(member)
    turn.send(member, "JoinGroup", request, member.rebalance_wait_ms)


def _metadata(member: ClassicMember, assignor: Assignor) -> bytes:
    """The subscription in the metadata of a JoinGroup protocol."""
    subscription = MemberSubscription(
        member.subscription or (),
        assignor.metadata_user_data(*member.last_assignment),
        tuple(member.owned),
        member.generation_id,
        rack=member.config.client_rack,
    )
    return encode_subscription(subscription)


def answered(turn: Turn, member: ClassicMember, response: JoinGroupResponse) -> None:
    """Handles the response to JoinGroup."""
    code = response.error_code
    if code == ErrorCode.NONE:
        _joined(turn, member, response)
        return
    if code not in _PASSING:
        leave.fail(turn, member, "JoinGroup", code)
        return
    member.transition(UNJOINED)
    member.rejoin_for(member.join_reason)
    if code == ErrorCode.MEMBER_ID_REQUIRED:
        if member.member_id:  # KIP-394 asks once; a broker that goes on can wait
            turn.retry(member)
        member.member_id = response.member_id
    elif code == ErrorCode.UNKNOWN_MEMBER_ID:
        reason = "the group does not know the member"
        leave.lose(turn, member, reason, keeps_id=False)
    else:
        heartbeat.keep_alive(turn, member, turn.now)
        if code in COORDINATOR_AWAY:
            turn.forget_coordinator()
        turn.retry(member)


def failed(turn: Turn, member: ClassicMember, *, was_waiting: bool) -> None:
    """Joins again after a JoinGroup without a response.

    `was_waiting`: whether the connection broke after the request was sent.
    """
    member.transition(UNJOINED)
    member.rejoin_for(member.join_reason)
    if was_waiting:
        # While the coordinator holds the join, the session cannot expire.
        heartbeat.keep_alive(turn, member, turn.now)
    else:
        # The join may never have arrived: the last heartbeat counts.
        heartbeat.watch_session(turn, member)
    turn.forget_coordinator()
    turn.retry(member)


def _joined(turn: Turn, member: ClassicMember, response: JoinGroupResponse) -> None:
    offered = {assignor.name for assignor in member.assignors}
    is_consumer = response.protocol_type in (None, PROTOCOL_TYPE)
    if not is_consumer or response.protocol_name not in offered:
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        leave.fail(turn, member, "JoinGroup", code)
        return
    member.member_id = response.member_id
    member.generation_id = response.generation_id
    member.protocol_name = response.protocol_name
    member.attempts = 0
    member.transition(COMPLETING_REBALANCE)
    heartbeat.keep_alive(turn, member, turn.now)
    turn.arm_heartbeat(member.config.heartbeat_interval_ms)
    turn.notice(member, "generation_joined", leader=response.leader)
    member.follow()
    if response.leader == member.member_id:
        sync.lead(turn, member, response)
    else:
        sync.send(turn, member)
