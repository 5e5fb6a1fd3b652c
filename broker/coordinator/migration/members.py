"""Senders of classic requests to a consumer group."""

from __future__ import annotations

from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.consumer.member import Member
from kohort.broker.coordinator.events import Heartbeat, Sync
from kohort.protocol.errors import ErrorCode


def classic_member(group: ConsumerGroup, event: Heartbeat | Sync) -> Member | int:
    """Returns the sender; an error code if it is unknown, fenced, or in another epoch.

    A classic member's generation is its epoch. Members of the consumer protocol are
    unknown here.
    """
    if event.group_instance_id is None:
        member = group.members.get(event.member_id)
    else:
        member = group.static_member(event.group_instance_id)
        if member is not None and member.member_id != event.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    if member is None or not member.is_classic:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if event.generation_id != member.epoch:
        return ErrorCode.ILLEGAL_GENERATION
    return member
