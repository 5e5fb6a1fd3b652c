"""SaslAuthenticate: has no function on a listener without SASL."""

from __future__ import annotations

from kohort.broker.request import Request
from kohort.protocol.apis.k36_sasl_authenticate import SaslAuthenticateResponse
from kohort.protocol.errors import ErrorCode


def handle(request: Request) -> None:
    """Answers that the connection needs no authentication; it stays open."""
    request.finish(
        SaslAuthenticateResponse(
            ErrorCode.ILLEGAL_SASL_STATE, "this listener has no authentication"
        )
    )
