"""DescribeUserScramCredentials, API key 50.

The SCRAM mechanisms of users, with the iterations of each (KIP-554).

Versions 0 to 0, flexible from v0.
"""

from collections.abc import Sequence

from kohort.protocol.fields import Int8, Int16, Int32, String
from kohort.protocol.slotted import slotted


@slotted
class UserName:
    name: String = ""


@slotted
class DescribeUserScramCredentialsRequest:
    users: Sequence[UserName] | None = ()


@slotted
class CredentialInfo:
    mechanism: Int8 = 0
    iterations: Int32 = 0


@slotted
class DescribeUserScramCredentialsResult:
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""
    credential_infos: Sequence[CredentialInfo] = ()


@slotted
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: Sequence[DescribeUserScramCredentialsResult] = ()
