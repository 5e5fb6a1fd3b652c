"""CreateDelegationToken, API key 38.

Creates a token (KIP-48). v2 is flexible; v3 adds the owner and the requester
(KIP-373).

Versions 1 to 3, flexible from v2.
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Bytes, Int16, Int32, Int64, String, V
from kohort.protocol.slotted import slotted


@slotted
class CreatableRenewers:
    principal_type: String = ""
    principal_name: String = ""


@slotted
class CreateDelegationTokenRequest:
    owner_principal_type: Annotated[String | None, V(3)] = None
    owner_principal_name: Annotated[String | None, V(3)] = None
    renewers: Sequence[CreatableRenewers] = ()
    max_lifetime_ms: Int64 = 0


@slotted
class CreateDelegationTokenResponse:
    error_code: Int16 = 0
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: Annotated[String, V(3)] = ""
    token_requester_principal_name: Annotated[String, V(3)] = ""
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0
