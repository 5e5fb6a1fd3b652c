"""SyncGroup, API key 14.

The leader hands in the assignment, every member gets its own.

Versions 0 to 5, flexible from v4. v3 brought static members (KIP-345), v4
flexible versions, v5 protocol type and name, to be checked (KIP-559).
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Bytes, Int16, Int32, String, V
from kohort.protocol.slotted import slotted


@slotted
class SyncGroupRequestAssignment:
    member_id: String = ""
    assignment: Bytes = b""


@slotted
class SyncGroupRequest:
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, V(3)] = None
    protocol_type: Annotated[String | None, V(5)] = None
    protocol_name: Annotated[String | None, V(5)] = None
    assignments: Sequence[SyncGroupRequestAssignment] = ()


@slotted
class SyncGroupResponse:
    throttle_time_ms: Annotated[Int32, V(1)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[String | None, V(5)] = None
    protocol_name: Annotated[String | None, V(5)] = None
    assignment: Bytes = b""
