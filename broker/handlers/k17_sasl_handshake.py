"""SaslHandshake: a listener without SASL has no use for it."""

from __future__ import annotations

from kohort.broker.request import Request
from kohort.protocol.apis.k17_sasl_handshake import SaslHandshakeResponse
from kohort.protocol.errors import ErrorCode


def handle(request: Request) -> None:
    """Answers that the connection needs no authentication; it stays open."""
    request.reply(SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE))
