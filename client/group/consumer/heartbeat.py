"""ConsumerGroupHeartbeat: joins, tells and acknowledges (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.client.group import application
from kohort.client.group.consumer import leave, reconcile
from kohort.client.group.consumer.member import ConsumerMember, Numbers
from kohort.client.group.consumer.state import (
    ACKNOWLEDGING,
    INSIDE,
    JOINING,
    RECONCILING,
    STABLE,
)
from kohort.client.group.turn import COORDINATOR_AWAY, Turn
from kohort.protocol.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.protocol.errors import ErrorCode

_WITH_PATTERN = 1
"""The first version with a pattern."""

_GONE: Mapping[int, str] = {
    ErrorCode.FENCED_MEMBER_EPOCH: "the coordinator has fenced the member's epoch",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group does not know the member",
}
"""Errors after which the member joins again, and the reason."""


def send(turn: Turn, member: ConsumerMember) -> None:
    """Sends a heartbeat; after the response to another one, or a back-off, if any."""
    if member.state not in INSIDE or member.retry_at is not None:
        return
    if member.awaits(leave.API):
        member.is_due = True
        return
    member.is_due = False
    request = _request(member)
    if request.subscribed_topic_regex is not None:
        member.had_pattern = True
    member.told = _subscription(member)
    if member.state is ACKNOWLEDGING:
        member.is_acknowledged = True
        is_done = member.reconciled == member.assigned
        member.transition(STABLE if is_done else RECONCILING)
    member.heartbeat_sent = turn.now
    lowest = 0 if request.subscribed_topic_regex is None else _WITH_PATTERN
    turn.send(member, leave.API, request, member.config.request_timeout_ms, lowest)


def _request(member: ConsumerMember) -> ConsumerGroupHeartbeatRequest:
    """The heartbeat, with what has changed since the last one, or with everything."""
    config = member.config
    names, pattern = _subscription(member)
    epoch = max(member.generation_id, 0)
    owned = _rows(member.reconciled or {})
    if member.told is None:
        return ConsumerGroupHeartbeatRequest(
            member.group_id,
            member.member_id,
            epoch,
            config.group_instance_id,
            rack_id=config.client_rack or None,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            subscribed_topic_names=names,
            subscribed_topic_regex=pattern,
            server_assignor=config.group_remote_assignor,
            topic_partitions=owned,
        )
    told_names, told_pattern = member.told
    return ConsumerGroupHeartbeatRequest(
        member.group_id,
        member.member_id,
        epoch,
        config.group_instance_id,
        subscribed_topic_names=None if names == told_names else names,
        subscribed_topic_regex=None if pattern == told_pattern else pattern,
        topic_partitions=owned if member.state is ACKNOWLEDGING else None,
    )


def _subscription(member: ConsumerMember) -> tuple[tuple[str, ...], str | None]:
    """The names, and the pattern; "" takes back an earlier one, null would keep it."""
    pattern = member.pattern
    if pattern is None and member.had_pattern:
        pattern = ""
    return member.subscription or (), pattern


def _rows(numbers: Numbers) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id, rows) for topic_id, rows in numbers.items()]


def answered(
    turn: Turn, member: ConsumerMember, response: ConsumerGroupHeartbeatResponse
) -> None:
    """Handles the response to a heartbeat."""
    code = response.error_code
    if code in COORDINATOR_AWAY:
        failed(turn, member)
    elif code in _GONE:
        leave.fenced(turn, member, _GONE[code])
    elif code:
        leave.fail(turn, member, code, message=response.error_message)
    else:
        _beat(turn, member, response)


def _beat(
    turn: Turn, member: ConsumerMember, response: ConsumerGroupHeartbeatResponse
) -> None:
    member.attempts = 0
    if response.member_id:
        member.member_id = response.member_id
    is_new = member.generation_id < 0
    member.generation_id = response.member_epoch
    if is_new:
        turn.notice(member, "generation_joined")
    if response.assignment is not None:
        reconcile.assigned(member, response.assignment)
    passed_ms = (turn.now - member.heartbeat_sent) * 1000
    turn.arm_heartbeat(max(response.heartbeat_interval_ms - passed_ms, 0))
    if member.is_due:
        send(turn, member)


def failed(turn: Turn, member: ConsumerMember) -> None:
    """Sends a complete heartbeat later, to the coordinator at that time."""
    member.told = None
    turn.forget_coordinator()
    turn.retry(member)


def is_join_due(member: ConsumerMember) -> bool:
    """Returns whether a member outside of the group has to join, and can."""
    return (
        member.subscription is not None
        and member.retry_at is None
        and not member.awaits_poll
        and not member.awaits(leave.API)
    )


def join(turn: Turn, member: ConsumerMember) -> None:
    """Joins with a complete heartbeat."""
    member.transition(JOINING)
    send(turn, member)


def poll_expired(turn: Turn, member: ConsumerMember) -> None:
    """Leaves the group until the next poll, as the application is stuck (KIP-62)."""
    reason = application.poll_expired(turn, member)
    if reason is not None and member.state in INSIDE:
        leave.stale(turn, member, reason)
