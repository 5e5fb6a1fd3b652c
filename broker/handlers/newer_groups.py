"""The heartbeats of consumer, share and streams groups, which kohort does not have.

They are listed by ApiVersions and refused, as by a Kafka whose
``group.coordinator.rebalance.protocols`` is ``classic``. If they were not listed,
librdkafka would look for the coordinator again and again, and report no error.
"""

from __future__ import annotations

from typing import Final

from kohort.broker import telemetry
from kohort.broker.notice import Notice, Who
from kohort.broker.request import Request
from kohort.protocol.errors import ErrorCode

_CLASSIC: Final = "set group.protocol=classic"
_REFUSED: Final = {
    "ConsumerGroupHeartbeat": ("consumer groups of KIP-848", _CLASSIC),
    "ShareGroupHeartbeat": ("share groups (KIP-932)", "use a KafkaConsumer"),
    "StreamsGroupHeartbeat": ("streams groups (KIP-1071)", _CLASSIC),
}
"""The kind of group, and advice."""

log = telemetry.Logger("groups")


def handle(request: Request) -> None:
    """Answers UNSUPPORTED_VERSION; logs and publishes the first one of a group."""
    kind, advice = _REFUSED[request.api.name]
    group_id = request.message.group_id
    if request.node.cluster.first_times.add(request.api.name, group_id):
        log.warning(
            "group_protocol_unsupported",
            group=group_id,
            client=request.client.id,
            reason=f"kohort has no {kind}; {advice}",
        )
        _publish(request, group_id)
    request.finish(
        request.api.response_class(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            error_message=f"kohort has no {kind}; {advice}",
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
