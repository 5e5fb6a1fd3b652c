"""InitProducerId, API key 22.

Gives a producer its id and epoch (KIP-98).

Versions 0 to 5, flexible from v2. v2 is flexible, v3 lets a producer bump its
epoch (KIP-360), v4 may answer PRODUCER_FENCED (KIP-588), v5
TRANSACTION_ABORTABLE (KIP-890). Kafka 4.3 knows a v6 that it does not enable
(KIP-939).
"""

from typing import Annotated

from kohort.protocol.fields import Int16, Int32, Int64, String, V
from kohort.protocol.slotted import slotted


@slotted
class InitProducerIdRequest:
    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, V(3)] = -1
    producer_epoch: Annotated[Int16, V(3)] = -1


@slotted
class InitProducerIdResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
