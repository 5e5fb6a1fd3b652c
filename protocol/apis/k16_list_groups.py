"""ListGroups, API key 16.

The groups that a broker coordinates.

Versions 0 to 5, flexible from v3. v3 is flexible, v4 filters by state
(KIP-518), v5 by type (KIP-848).
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Int16, Int32, String, V
from kohort.protocol.slotted import slotted


@slotted
class ListGroupsRequest:
    states_filter: Annotated[Sequence[String], V(4)] = ()
    types_filter: Annotated[Sequence[String], V(5)] = ()


@slotted
class ListedGroup:
    group_id: String = ""
    protocol_type: String = ""
    group_state: Annotated[String, V(4)] = ""
    group_type: Annotated[String, V(5)] = ""


@slotted
class ListGroupsResponse:
    throttle_time_ms: Annotated[Int32, V(1)] = 0
    error_code: Int16 = 0
    groups: Sequence[ListedGroup] = ()
