"""Heartbeat, API key 12.

A member's sign of life, and how it learns of a rebalance.

Versions 0 to 4, flexible from v4. v3 brought static members (KIP-345), v4
flexible versions.
"""

from typing import Annotated

from kohort.protocol.fields import Int16, Int32, String, V
from kohort.protocol.slotted import slotted


@slotted
class HeartbeatRequest:
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, V(3)] = None


@slotted
class HeartbeatResponse:
    throttle_time_ms: Annotated[Int32, V(1)] = 0
    error_code: Int16 = 0
