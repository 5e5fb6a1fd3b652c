"""DeleteAcls, API key 31.

Deletes the ACLs that match filters. v2 is flexible; v3 adds a type of resource
(KIP-373).

Versions 1 to 3, flexible from v2.
"""

from collections.abc import Sequence

from kohort.protocol.fields import Int8, Int16, Int32, String
from kohort.protocol.slotted import slotted


@slotted
class DeleteAclsFilter:
    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = None
    pattern_type_filter: Int8 = 3
    principal_filter: String | None = None
    host_filter: String | None = None
    operation: Int8 = 0
    permission_type: Int8 = 0


@slotted
class DeleteAclsRequest:
    filters: Sequence[DeleteAclsFilter] = ()


@slotted
class DeleteAclsMatchingAcl:
    error_code: Int16 = 0
    error_message: String | None = None
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@slotted
class DeleteAclsFilterResult:
    error_code: Int16 = 0
    error_message: String | None = None
    matching_acls: Sequence[DeleteAclsMatchingAcl] = ()


@slotted
class DeleteAclsResponse:
    throttle_time_ms: Int32 = 0
    filter_results: Sequence[DeleteAclsFilterResult] = ()
