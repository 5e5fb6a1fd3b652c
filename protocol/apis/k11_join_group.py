"""JoinGroup, API key 11.

Joins a group; answered when the rebalance's first half is over.

Versions 0 to 9, flexible from v6. v1 brought the rebalance timeout (KIP-62),
v4 MEMBER_ID_REQUIRED (KIP-394), v5 static members (KIP-345), v6 flexible
versions, v7 the protocol type in the answer (KIP-559), v8 the reason
(KIP-800), v9 skip_assignment (KIP-814).
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Bool, Bytes, Int16, Int32, String, V
from kohort.protocol.slotted import slotted


@slotted
class JoinGroupRequestProtocol:
    name: String = ""
    metadata: Bytes = b""


@slotted
class JoinGroupRequest:
    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, V(1)] = -1
    member_id: String = ""
    group_instance_id: Annotated[String | None, V(5)] = None
    protocol_type: String = ""
    protocols: Sequence[JoinGroupRequestProtocol] = ()
    reason: Annotated[String | None, V(8)] = None


@slotted
class JoinGroupResponseMember:
    member_id: String = ""
    group_instance_id: Annotated[String | None, V(5)] = None
    metadata: Bytes = b""


@slotted
class JoinGroupResponse:
    throttle_time_ms: Annotated[Int32, V(2)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[String | None, V(7)] = None
    protocol_name: Annotated[String | None, V(nullable=7)] = ""
    leader: String = ""
    skip_assignment: Annotated[Bool, V(9)] = False
    member_id: String = ""
    members: Sequence[JoinGroupResponseMember] = ()
