"""SaslHandshake: has no function on a listener without SASL."""

from __future__ import annotations

from kohort.broker import telemetry
from kohort.broker.request import Request
from kohort.protocol.apis.k17_sasl_handshake import SaslHandshakeResponse
from kohort.protocol.errors import ErrorCode

log = telemetry.Logger("connection")


def handle(request: Request) -> None:
    """Answers that the connection needs no authentication; it stays open."""
    if request.node.cluster.first_times.add("SASL", request.client.host):
        log.warning(
            "sasl_unsupported",
            client=request.client.id,
            reason="SASL on a plaintext port; set security.protocol=PLAINTEXT",
        )
    request.finish(SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE))
