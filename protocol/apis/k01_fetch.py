"""Fetch, API key 1.

Reads record batches; waits for them if there are too few.

Versions 4 to 18, flexible from v12. v4 brought the isolation level (KIP-98),
v7 fetch sessions (KIP-227), v9 leader epochs (KIP-320), v10 zstd (KIP-110),
v11 racks (KIP-392), v12 flexible versions, v13 topic ids (KIP-516), v15 the
replica's state (KIP-903), v16 hints of the new leader (KIP-951), v17 directory
ids (KIP-853), v18 the high watermark as the follower knows it (KIP-1166).
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.apis.leader_hints import LeaderIdAndEpoch, NodeEndpoint
from kohort.protocol.fields import (
    ZERO_UUID,
    Int8,
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
class ReplicaState:
    replica_id: Annotated[Int32, V(15)] = -1
    replica_epoch: Annotated[Int64, V(15)] = -1


@slotted
class FetchPartition:
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, V(9)] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, V(12)] = -1
    log_start_offset: Annotated[Int64, V(5)] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, V(17, tag=0)] = ZERO_UUID
    high_watermark: Annotated[Int64, V(18, tag=1)] = 2**63 - 1


@slotted
class FetchTopic:
    topic: Annotated[String, V(4, 12)] = ""
    topic_id: Annotated[Uuid, V(13)] = ZERO_UUID
    partitions: Sequence[FetchPartition] = ()


@slotted
class ForgottenTopic:
    topic: Annotated[String, V(7, 12)] = ""
    topic_id: Annotated[Uuid, V(13)] = ZERO_UUID
    partitions: Annotated[Sequence[Int32], V(7)] = ()


@slotted
class FetchRequest:
    cluster_id: Annotated[String | None, V(12, tag=0)] = None
    replica_id: Annotated[Int32, V(4, 14)] = -1
    replica_state: Annotated[ReplicaState, V(15, tag=1)] = ReplicaState()
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2**31 - 1
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, V(7)] = 0
    session_epoch: Annotated[Int32, V(7)] = -1
    topics: Sequence[FetchTopic] = ()
    forgotten_topics_data: Annotated[Sequence[ForgottenTopic], V(7)] = ()
    rack_id: Annotated[String, V(11)] = ""


@slotted
class EpochEndOffset:
    epoch: Annotated[Int32, V(12)] = -1
    end_offset: Annotated[Int64, V(12)] = -1


@slotted
class SnapshotId:
    end_offset: Int64 = -1
    epoch: Int32 = -1


@slotted
class AbortedTransaction:
    producer_id: Int64 = 0
    first_offset: Int64 = 0


@slotted
class PartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, V(5)] = -1
    diverging_epoch: Annotated[EpochEndOffset, V(12, tag=0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, V(12, tag=1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, V(12, tag=2)] = SnapshotId()
    aborted_transactions: Sequence[AbortedTransaction] | None = ()
    preferred_read_replica: Annotated[Int32, V(11)] = -1
    records: Records | None = b""


@slotted
class FetchableTopicResponse:
    topic: Annotated[String, V(4, 12)] = ""
    topic_id: Annotated[Uuid, V(13)] = ZERO_UUID
    partitions: Sequence[PartitionData] = ()


@slotted
class FetchResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, V(7)] = 0
    session_id: Annotated[Int32, V(7)] = 0
    responses: Sequence[FetchableTopicResponse] = ()
    node_endpoints: Annotated[Sequence[NodeEndpoint], V(16, tag=0)] = ()
