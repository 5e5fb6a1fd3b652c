"""AddOffsetsToTxn, API key 25.

Adds the offsets of a group to a transaction (KIP-98).

Versions 0 to 4, flexible from v3. v2 may answer PRODUCER_FENCED (KIP-588), v3 is
flexible, v4 may answer TRANSACTION_ABORTABLE (KIP-890).
"""

from kohort.protocol.fields import Int16, Int32, Int64, String
from kohort.protocol.slotted import slotted


@slotted
class AddOffsetsToTxnRequest:
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@slotted
class AddOffsetsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
