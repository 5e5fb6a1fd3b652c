"""AddPartitionsToTxn, API key 24.

Adds partitions to a transaction, or checks that they are part of it (KIP-98).

Versions 0 to 5, flexible from v3. v2 may answer PRODUCER_FENCED (KIP-588), v3 is
flexible, v4 has several transactions and can only verify, v5 may answer
TRANSACTION_ABORTABLE (KIP-890). Clients send v0 to v3, brokers the others.
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Bool, Int16, Int32, Int64, String, V
from kohort.protocol.slotted import slotted


@slotted
class AddPartitionsToTxnTopic:
    name: String = ""
    partitions: Sequence[Int32] = ()


@slotted
class AddPartitionsToTxnTransaction:
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: Bool = False
    topics: Sequence[AddPartitionsToTxnTopic] = ()


@slotted
class AddPartitionsToTxnRequest:
    transactions: Annotated[Sequence[AddPartitionsToTxnTransaction], V(4)] = ()
    v3_and_below_transactional_id: Annotated[String, V(0, 3)] = ""
    v3_and_below_producer_id: Annotated[Int64, V(0, 3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, V(0, 3)] = 0
    v3_and_below_topics: Annotated[Sequence[AddPartitionsToTxnTopic], V(0, 3)] = ()


@slotted
class AddPartitionsToTxnPartitionResult:
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


@slotted
class AddPartitionsToTxnTopicResult:
    name: String = ""
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = ()


@slotted
class AddPartitionsToTxnResult:
    transactional_id: String = ""
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = ()


@slotted
class AddPartitionsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, V(4)] = 0
    results_by_transaction: Annotated[Sequence[AddPartitionsToTxnResult], V(4)] = ()
    results_by_topic_v3_and_below: Annotated[
        Sequence[AddPartitionsToTxnTopicResult], V(0, 3)
    ] = ()
