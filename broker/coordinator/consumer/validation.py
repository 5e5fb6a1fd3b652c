"""The fields that a heartbeat needs; errors in Kafka's words."""

from __future__ import annotations

from typing import Final

from kohort.broker.coordinator.consumer.cause import Refusal
from kohort.broker.coordinator.consumer.changes import Change
from kohort.broker.coordinator.consumer.member import AWAY, Member
from kohort.broker.coordinator.events import ConsumerHeartbeat, Join
from kohort.broker.coordinator.settings import GroupSettings
from kohort.protocol.errors import ErrorCode

MOST_TOPICS: Final = 10_000
"""Names of topics in a heartbeat. So many take 20 ms, and 100,000 would be more than a
batch of the log can hold."""


def check(settings: GroupSettings, event: ConsumerHeartbeat) -> Refusal | None:
    """Checks a heartbeat without its group."""
    message = _invalid(event)
    if message is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, message)
    assignor, supported = event.server_assignor, settings.consumer_assignors
    if assignor is not None and assignor not in supported:
        message = (
            f"ServerAssignor {assignor} is not supported. Supported assignors:"
            f" {', '.join(supported)}."
        )
        return Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, message)
    return None


def check_room(change: Change, member_id: str) -> Refusal | None:
    """Checks that a group has room for a member, unless it is one already."""
    turn, group = change.turn, change.group
    limits = turn.lasting.max_sizes
    limit = limits.get(group.group_id, turn.settings.consumer_max_size)
    if len(group.members) < limit or member_id in group.members:
        return None
    message = f"The consumer group has reached its maximum capacity of {limit} members."
    return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def _invalid(event: ConsumerHeartbeat) -> str | None:
    epoch = event.member_epoch
    needs_id = event.member_id_required or epoch > 0 or epoch == -1
    names = (
        ("MemberId", event.member_id if needs_id else None),
        ("GroupId", event.group_id),
        ("InstanceId", event.group_instance_id),
        ("RackId", event.rack_id),
    )
    for name, value in names:
        if value is not None and not value.strip():
            return f"{name} can't be empty."
    if len(event.subscribed_topics or ()) > MOST_TOPICS:
        return f"SubscribedTopicNames has more than {MOST_TOPICS} topics."
    if epoch == 0:
        return _invalid_join(event)
    if epoch == AWAY and event.group_instance_id is None:
        return "InstanceId can't be null."
    return "MemberEpoch is invalid." if epoch < AWAY else None


def _invalid_join(event: ConsumerHeartbeat) -> str | None:
    if event.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if event.owned is None or event.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if event.subscribed_topics is None and event.subscribed_regex is None:
        return (
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when"
            " (re-)joining."
        )
    return None


def check_static(
    member: Member | None, event: ConsumerHeartbeat | Join
) -> Refusal | None:
    """Checks that the sender is the present member with its instance id."""
    instance_id = event.group_instance_id
    if member is None:
        message = f"Instance id {instance_id} is unknown."
        return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, message)
    if member.member_id != event.member_id:
        message = (
            f"Static member {event.member_id} with instance id {instance_id} was fenced"
            f" by member {member.member_id}."
        )
        return Refusal(ErrorCode.FENCED_INSTANCE_ID, message)
    return None
