"""An authentication as requests and responses, without input and output."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from kohort.client.errors import SaslAuthenticationError, error_of
from kohort.client.network.sasl.mechanisms import Mechanism
from kohort.protocol.apis.k17_sasl_handshake import SaslHandshakeRequest
from kohort.protocol.apis.k36_sasl_authenticate import SaslAuthenticateRequest
from kohort.protocol.errors import ErrorCode

Exchange = Generator[SaslHandshakeRequest | SaslAuthenticateRequest, Any, int]


def exchange(name: str, mechanism: Mechanism) -> Exchange:
    """Yields requests, is sent their responses (KIP-152).

    Args:
        name: of the mechanism, as in "SCRAM-SHA-256".
        mechanism: not begun.

    Returns:
        The session's lifetime in milliseconds (KIP-368); 0 if it has no end.

    Raises:
        KohortError: the broker refused, or the mechanism failed; the message names
            the mechanism.
    """
    response = yield SaslHandshakeRequest(name)
    if response.error_code:
        raise _handshake_error(name, response)
    try:
        message = next(mechanism)
        while True:
            response = yield SaslAuthenticateRequest(message)
            if response.error_code:
                text = response.error_message or "the broker gives no reason"
                raise error_of(response.error_code, f"{name}: {text}")
            message = mechanism.send(response.auth_bytes)
    except StopIteration:
        lifetime_ms: int = response.session_lifetime_ms
        return lifetime_ms
    except SaslAuthenticationError as error:
        if error.code is None:
            error.message = f"{name}: {error.message}"
        raise


def _handshake_error(name: str, response: Any) -> Exception:
    code = response.error_code
    text = f"{name} was refused"
    if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        enabled = ", ".join(response.mechanisms) or "no other"
        text = f"the broker does not offer {name}, it offers {enabled}"
    elif code == ErrorCode.ILLEGAL_SASL_STATE:
        text = f"{name}: this listener has no SASL, only PLAINTEXT or SSL"
    return error_of(code, text)
