"""Heartbeats of groups that the broker does not have: refused, with advice.

kohort has no share and streams groups; consumer groups (KIP-848) can be disabled. These
APIs are listed by ApiVersions, and their heartbeats refused, as by a Kafka whose
``group.coordinator.rebalance.protocols`` is ``classic``. If they were not listed,
librdkafka would look for the coordinator again and again, and report no error.
"""

from __future__ import annotations

from typing import Final

from kohort.broker import telemetry
from kohort.broker.notice import Notice, Who
from kohort.broker.request import Request
from kohort.protocol.errors import ErrorCode

_REASONS: Final = {
    "ShareGroupHeartbeat": (
        "kohort has no share groups (KIP-932); use a KafkaConsumer"
    ),
    "StreamsGroupHeartbeat": (
        "kohort has no streams groups (KIP-1071); set group.protocol=classic"
    ),
}

log = telemetry.Logger("groups")


def handle(request: Request) -> None:
    """Refuses a heartbeat of a share or streams group."""
    refuse(request, _REASONS[request.api.name])


def refuse(request: Request, reason: str) -> None:
    """Answers UNSUPPORTED_VERSION; logs and publishes the first one of a group."""
    group_id = request.message.group_id
    if request.node.cluster.first_times.add(request.api.name, group_id):
        log.warning(
            "group_protocol_unsupported",
            group=group_id,
            client=request.client.id,
            reason=reason,
        )
        _publish(request, group_id)
    request.finish(
        request.api.response_class(
            error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=reason
        )
    )


def _publish(request: Request, group_id: str) -> None:
    cluster = request.node.cluster
    if cluster.events.listening:
        who = Who(None, None, request.client)
        fields = {
            "cause": "unsupported",
            "error": ErrorCode.UNSUPPORTED_VERSION.name,
        }
        notice = Notice("member_refused", group_id, None, who, fields)
        cluster.events.of(request.node.id).publish(notice, cluster.clock.now())
