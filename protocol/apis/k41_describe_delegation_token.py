"""DescribeDelegationToken, API key 41.

Returns the tokens of owners, or all (KIP-48). v2 is flexible; v3 adds the requester
(KIP-373).

Versions 1 to 3, flexible from v2.
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Bytes, Int16, Int32, Int64, String, V
from kohort.protocol.slotted import slotted


@slotted
class DescribeDelegationTokenOwner:
    principal_type: String = ""
    principal_name: String = ""


@slotted
class DescribeDelegationTokenRequest:
    owners: Sequence[DescribeDelegationTokenOwner] | None = ()


@slotted
class DescribedDelegationTokenRenewer:
    principal_type: String = ""
    principal_name: String = ""


@slotted
class DescribedDelegationToken:
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: Annotated[String, V(3)] = ""
    token_requester_principal_name: Annotated[String, V(3)] = ""
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    renewers: Sequence[DescribedDelegationTokenRenewer] = ()


@slotted
class DescribeDelegationTokenResponse:
    error_code: Int16 = 0
    tokens: Sequence[DescribedDelegationToken] = ()
    throttle_time_ms: Int32 = 0
