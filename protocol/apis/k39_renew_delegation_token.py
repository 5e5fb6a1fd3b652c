"""RenewDelegationToken, API key 39.

Extends the life of a token (KIP-48). v2 is flexible.

Versions 1 to 2, flexible from v2.
"""

from kohort.protocol.fields import Bytes, Int16, Int32, Int64
from kohort.protocol.slotted import slotted


@slotted
class RenewDelegationTokenRequest:
    hmac: Bytes = b""
    renew_period_ms: Int64 = 0


@slotted
class RenewDelegationTokenResponse:
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
