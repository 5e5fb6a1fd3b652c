"""AlterClientQuotas, API key 49.

Sets and removes quotas of users, client ids and addresses (KIP-546).

Versions 0 to 1, flexible from v1.
"""

from collections.abc import Sequence

from kohort.protocol.apis.k48_describe_client_quotas import EntityData
from kohort.protocol.fields import Bool, Float64, Int16, Int32, String
from kohort.protocol.slotted import slotted


@slotted
class OpData:
    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


@slotted
class EntryData:
    entity: Sequence[EntityData] = ()
    ops: Sequence[OpData] = ()


@slotted
class AlterClientQuotasRequest:
    entries: Sequence[EntryData] = ()
    validate_only: Bool = False


@slotted
class AlterClientQuotasEntryResponse:
    error_code: Int16 = 0
    error_message: String | None = ""
    entity: Sequence[EntityData] = ()


@slotted
class AlterClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    entries: Sequence[AlterClientQuotasEntryResponse] = ()
