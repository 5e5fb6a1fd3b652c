"""TxnOffsetCommit, API key 28.

Commits offsets of a group as part of a transaction (KIP-98).

Versions 0 to 5, flexible from v3. v2 has leader epochs (KIP-320), v3 the member
(KIP-447), v4 may answer TRANSACTION_ABORTABLE, v5 adds the group to the transaction
by itself (KIP-890).
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Int16, Int32, Int64, String, V
from kohort.protocol.slotted import slotted


@slotted
class TxnOffsetCommitRequestPartition:
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, V(2)] = -1
    committed_metadata: String | None = ""


@slotted
class TxnOffsetCommitRequestTopic:
    name: String = ""
    partitions: Sequence[TxnOffsetCommitRequestPartition] = ()


@slotted
class TxnOffsetCommitRequest:
    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Annotated[Int32, V(3)] = -1
    member_id: Annotated[String, V(3)] = ""
    group_instance_id: Annotated[String | None, V(3)] = None
    topics: Sequence[TxnOffsetCommitRequestTopic] = ()


@slotted
class TxnOffsetCommitResponsePartition:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@slotted
class TxnOffsetCommitResponseTopic:
    name: String = ""
    partitions: Sequence[TxnOffsetCommitResponsePartition] = ()


@slotted
class TxnOffsetCommitResponse:
    throttle_time_ms: Int32 = 0
    topics: Sequence[TxnOffsetCommitResponseTopic] = ()
