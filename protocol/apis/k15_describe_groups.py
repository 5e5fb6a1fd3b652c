"""DescribeGroups, API key 15.

State, protocol and members of classic groups.

Versions 0 to 6, flexible from v5. v3 brought authorized operations (KIP-430),
v4 group.instance.id (KIP-345), v5 flexible versions, v6 an error for unknown
groups (KIP-1043).
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Bool, Bytes, Int16, Int32, String, V
from kohort.protocol.slotted import slotted


@slotted
class DescribeGroupsRequest:
    groups: Sequence[String] = ()
    include_authorized_operations: Annotated[Bool, V(3)] = False


@slotted
class DescribedGroupMember:
    member_id: String = ""
    group_instance_id: Annotated[String | None, V(4)] = None
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


@slotted
class DescribedGroup:
    error_code: Int16 = 0
    error_message: Annotated[String | None, V(6)] = None
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: Sequence[DescribedGroupMember] = ()
    authorized_operations: Annotated[Int32, V(3)] = -2147483648


@slotted
class DescribeGroupsResponse:
    throttle_time_ms: Annotated[Int32, V(1)] = 0
    groups: Sequence[DescribedGroup] = ()
