"""SaslAuthenticate, API key 36.

Carries SASL tokens (KIP-152).

Versions 0 to 2, flexible from v2. v1 brought the session's lifetime (KIP-368),
v2 is flexible.
"""

from typing import Annotated

from kohort.protocol.fields import Bytes, Int16, Int64, String, V
from kohort.protocol.slotted import slotted


@slotted
class SaslAuthenticateRequest:
    auth_bytes: Bytes = b""

    def __repr__(self) -> str:
        """Without the credentials."""
        return f"{type(self).__name__}({len(self.auth_bytes)} bytes)"


@slotted
class SaslAuthenticateResponse:
    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Annotated[Int64, V(1)] = 0
