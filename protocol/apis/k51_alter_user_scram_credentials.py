"""AlterUserScramCredentials, API key 51.

Sets and removes the SCRAM credentials of users (KIP-554).

Versions 0 to 0, flexible from v0.
"""

from collections.abc import Sequence

from kohort.protocol.fields import Bytes, Int8, Int16, Int32, String
from kohort.protocol.slotted import slotted


@slotted
class ScramCredentialDeletion:
    name: String = ""
    mechanism: Int8 = 0


@slotted
class ScramCredentialUpsertion:
    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


@slotted
class AlterUserScramCredentialsRequest:
    deletions: Sequence[ScramCredentialDeletion] = ()
    upsertions: Sequence[ScramCredentialUpsertion] = ()


@slotted
class AlterUserScramCredentialsResult:
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


@slotted
class AlterUserScramCredentialsResponse:
    throttle_time_ms: Int32 = 0
    results: Sequence[AlterUserScramCredentialsResult] = ()
