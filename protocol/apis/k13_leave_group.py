"""LeaveGroup, API key 13.

Members leave a group.

Versions 0 to 5, flexible from v4. v3 takes several members, also by
group.instance.id (KIP-345), v4 is flexible, v5 carries the reason (KIP-800).
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Int16, Int32, String, V
from kohort.protocol.slotted import slotted


@slotted
class MemberIdentity:
    member_id: Annotated[String, V(3)] = ""
    group_instance_id: Annotated[String | None, V(3)] = None
    reason: Annotated[String | None, V(5)] = None


@slotted
class LeaveGroupRequest:
    group_id: String = ""
    member_id: Annotated[String, V(0, 2)] = ""
    members: Annotated[Sequence[MemberIdentity], V(3)] = ()


@slotted
class MemberResponse:
    member_id: Annotated[String, V(3)] = ""
    group_instance_id: Annotated[String | None, V(3)] = ""
    error_code: Annotated[Int16, V(3)] = 0


@slotted
class LeaveGroupResponse:
    throttle_time_ms: Annotated[Int32, V(1)] = 0
    error_code: Int16 = 0
    members: Annotated[Sequence[MemberResponse], V(3)] = ()
