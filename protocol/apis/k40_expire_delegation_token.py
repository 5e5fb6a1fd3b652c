"""ExpireDelegationToken, API key 40.

Ends the life of a token (KIP-48). v2 is flexible.

Versions 1 to 2, flexible from v2.
"""

from kohort.protocol.fields import Bytes, Int16, Int32, Int64
from kohort.protocol.slotted import slotted


@slotted
class ExpireDelegationTokenRequest:
    hmac: Bytes = b""
    expiry_time_period_ms: Int64 = 0


@slotted
class ExpireDelegationTokenResponse:
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
