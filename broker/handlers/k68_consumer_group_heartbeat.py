"""ConsumerGroupHeartbeat: from the wire to `ConsumerHeartbeat`, and back (KIP-848)."""

from __future__ import annotations

from typing import Final

from kohort.broker.coordinator.effects import ConsumerHeartbeatResult
from kohort.broker.coordinator.events import ConsumerHeartbeat
from kohort.broker.handlers.newer_groups import refuse
from kohort.broker.long_work import Work
from kohort.broker.request import Request
from kohort.protocol.apis.k68_consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_DISABLED: Final = (
    "consumer groups (KIP-848) are disabled by group.coordinator.rebalance.protocols "
    "or the feature group.version; set group.protocol=classic"
)


def event(request: Request) -> ConsumerHeartbeat | None:
    """The event of a heartbeat that a member repeats, see `Connection`.

    None if consumer groups are disabled, or with a pattern.
    """
    message: ConsumerGroupHeartbeatRequest = request.message
    is_enabled = request.node.cluster.has_consumer_groups
    return None if message.subscribed_topic_regex or not is_enabled else _event(request)


def _event(request: Request) -> ConsumerHeartbeat:
    message: ConsumerGroupHeartbeatRequest = request.message
    owned = message.topic_partitions
    return ConsumerHeartbeat(
        request,
        message.group_id,
        message.member_id,
        message.member_epoch,
        message.instance_id,
        request.client,
        message.rack_id,
        message.rebalance_timeout_ms,
        message.subscribed_topic_names,
        message.subscribed_topic_regex,
        message.server_assignor,
        None if owned is None else [(each.topic_id, each.partitions) for each in owned],
        request.version >= 1,
    )


def handle(request: Request) -> Work | None:
    """Passes the heartbeat to the group's coordinator."""
    message: ConsumerGroupHeartbeatRequest = request.message
    if not request.node.cluster.has_consumer_groups:
        refuse(request, _DISABLED)
    elif message.subscribed_topic_regex:
        return _in_own_turn(request)
    else:
        _submit(request)
    return None


def _in_own_turn(request: Request) -> Work:
    """Handles a heartbeat with a pattern: compiling that may take 2 ms."""
    yield
    _submit(request)


def _submit(request: Request) -> None:
    wanted = _event(request)
    connection = request.client.connection or 0
    request.node.note_member(connection, wanted.group_id, wanted.member_id)
    request.node.submit_group_event(wanted)


def respond(request: Request, result: ConsumerHeartbeatResult) -> None:
    """Answers the request."""
    rows = result.assignment
    request.finish(
        ConsumerGroupHeartbeatResponse(
            0,
            result.error_code,
            result.error_message,
            result.member_id,
            result.member_epoch,
            result.heartbeat_interval_ms,
            None if rows is None else Assignment([TopicPartitions(*r) for r in rows]),
        )
    )
