"""DescribeClientQuotas, API key 48.

The quotas of users, client ids and addresses (KIP-546).

Versions 0 to 1, flexible from v1.
"""

from collections.abc import Sequence

from kohort.protocol.fields import Bool, Float64, Int8, Int16, Int32, String
from kohort.protocol.slotted import slotted


@slotted
class ComponentData:
    entity_type: String = ""
    match_type: Int8 = 0
    match: String | None = ""


@slotted
class DescribeClientQuotasRequest:
    components: Sequence[ComponentData] = ()
    strict: Bool = False


@slotted
class EntityData:
    entity_type: String = ""
    entity_name: String | None = ""


@slotted
class ValueData:
    key: String = ""
    value: Float64 = 0.0


@slotted
class EntryData:
    entity: Sequence[EntityData] = ()
    values: Sequence[ValueData] = ()


@slotted
class DescribeClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    entries: Sequence[EntryData] | None = ()
