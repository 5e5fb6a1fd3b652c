"""CreateAcls, API key 30.

Creates ACLs. v2 is flexible; v3 adds a type of resource (KIP-373).

Versions 1 to 3, flexible from v2.
"""

from collections.abc import Sequence

from kohort.protocol.fields import Int8, Int16, Int32, String
from kohort.protocol.slotted import slotted


@slotted
class AclCreation:
    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@slotted
class CreateAclsRequest:
    creations: Sequence[AclCreation] = ()


@slotted
class AclCreationResult:
    error_code: Int16 = 0
    error_message: String | None = None


@slotted
class CreateAclsResponse:
    throttle_time_ms: Int32 = 0
    results: Sequence[AclCreationResult] = ()
