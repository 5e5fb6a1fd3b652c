"""DeleteGroups, API key 42.

Deletes groups without members (KIP-229). v2 is flexible.

Versions 0 to 2, flexible from v2.
"""

from collections.abc import Sequence

from kohort.protocol.fields import Int16, Int32, String
from kohort.protocol.slotted import slotted


@slotted
class DeleteGroupsRequest:
    groups_names: Sequence[String] = ()


@slotted
class DeletableGroupResult:
    group_id: String = ""
    error_code: Int16 = 0


@slotted
class DeleteGroupsResponse:
    throttle_time_ms: Int32 = 0
    results: Sequence[DeletableGroupResult] = ()
