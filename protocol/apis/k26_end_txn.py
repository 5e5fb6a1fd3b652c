"""EndTxn, API key 26.

Commits or aborts a transaction (KIP-98).

Versions 0 to 5, flexible from v3. v2 may answer PRODUCER_FENCED (KIP-588), v3 is
flexible, v4 may answer TRANSACTION_ABORTABLE, v5 bumps the epoch at each end and
returns it (KIP-890).
"""

from typing import Annotated

from kohort.protocol.fields import Bool, Int16, Int32, Int64, String, V
from kohort.protocol.slotted import slotted


@slotted
class EndTxnRequest:
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


@slotted
class EndTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, V(5)] = -1
    producer_epoch: Annotated[Int16, V(5)] = -1
