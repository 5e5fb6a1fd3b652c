"""SaslHandshake, API key 17.

Agrees on a SASL mechanism.

Versions 0 to 1, never flexible. With v1 the tokens follow in SaslAuthenticate
(KIP-152), with v0 they follow bare.
"""

from collections.abc import Sequence

from kohort.protocol.fields import Int16, String
from kohort.protocol.slotted import slotted


@slotted
class SaslHandshakeRequest:
    mechanism: String = ""


@slotted
class SaslHandshakeResponse:
    error_code: Int16 = 0
    mechanisms: Sequence[String] = ()
