"""Produce, API key 0.

Appends record batches to partitions.

Versions 3 to 13, flexible from v9. v3 is the first with record format 2 and
transactions (KIP-98), v5 the log start offset, v7 zstd (KIP-110), v8 errors
per record (KIP-467), v9 flexible versions, v10 hints of the new leader
(KIP-951), v12 transactions without AddPartitionsToTxn (KIP-890), v13 topic ids
(KIP-516).
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.apis.leader_hints import LeaderIdAndEpoch, NodeEndpoint
from kohort.protocol.fields import (
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uuid,
    V,
)
from kohort.protocol.slotted import slotted


@slotted
class PartitionProduceData:
    index: Int32 = 0
    records: Records | None = b""


@slotted
class TopicProduceData:
    name: Annotated[String, V(3, 12)] = ""
    topic_id: Annotated[Uuid, V(13)] = ZERO_UUID
    partition_data: Sequence[PartitionProduceData] = ()


@slotted
class ProduceRequest:
    transactional_id: String | None = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: Sequence[TopicProduceData] = ()


@slotted
class BatchIndexAndErrorMessage:
    batch_index: Annotated[Int32, V(8)] = 0
    batch_index_error_message: Annotated[String | None, V(8)] = None


@slotted
class PartitionProduceResponse:
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, V(5)] = -1
    record_errors: Annotated[Sequence[BatchIndexAndErrorMessage], V(8)] = ()
    error_message: Annotated[String | None, V(8)] = None
    current_leader: Annotated[LeaderIdAndEpoch, V(10, tag=0)] = LeaderIdAndEpoch()


@slotted
class TopicProduceResponse:
    name: Annotated[String, V(3, 12)] = ""
    topic_id: Annotated[Uuid, V(13)] = ZERO_UUID
    partition_responses: Sequence[PartitionProduceResponse] = ()


@slotted
class ProduceResponse:
    responses: Sequence[TopicProduceResponse] = ()
    throttle_time_ms: Int32 = 0
    node_endpoints: Annotated[Sequence[NodeEndpoint], V(10, tag=0)] = ()
