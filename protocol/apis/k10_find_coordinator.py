"""FindCoordinator, API key 10.

The node that coordinates a group or a transaction.

Versions 0 to 6, flexible from v3. v1 brought the key's type (KIP-98), v3
flexible versions, v4 several keys at once (KIP-699), v5 an error of
transactions (KIP-890), v6 share groups (KIP-932).
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Int8, Int16, Int32, String, V
from kohort.protocol.slotted import slotted


@slotted
class FindCoordinatorRequest:
    key: Annotated[String, V(0, 3)] = ""
    key_type: Annotated[Int8, V(1)] = 0
    coordinator_keys: Annotated[Sequence[String], V(4)] = ()


@slotted
class Coordinator:
    key: Annotated[String, V(4)] = ""
    node_id: Annotated[Int32, V(4)] = 0
    host: Annotated[String, V(4)] = ""
    port: Annotated[Int32, V(4)] = 0
    error_code: Annotated[Int16, V(4)] = 0
    error_message: Annotated[String | None, V(4)] = ""


@slotted
class FindCoordinatorResponse:
    throttle_time_ms: Annotated[Int32, V(1)] = 0
    error_code: Annotated[Int16, V(0, 3)] = 0
    error_message: Annotated[String | None, V(1, 3)] = ""
    node_id: Annotated[Int32, V(0, 3)] = 0
    host: Annotated[String, V(0, 3)] = ""
    port: Annotated[Int32, V(0, 3)] = 0
    coordinators: Annotated[Sequence[Coordinator], V(4)] = ()
