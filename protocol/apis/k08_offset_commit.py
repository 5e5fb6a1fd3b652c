"""OffsetCommit, API key 8.

Commits offsets of a group, by a member or from outside.

Versions 2 to 10, flexible from v8. v2 to v4 have a retention time, v6 leader
epochs (KIP-320), v7 static members (KIP-345), v8 flexible versions, v9 the
errors of KIP-848, v10 topic ids instead of names.
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import (
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    String,
    Uuid,
    V,
)
from kohort.protocol.slotted import slotted


@slotted
class OffsetCommitRequestPartition:
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, V(6)] = -1
    committed_metadata: String | None = ""


@slotted
class OffsetCommitRequestTopic:
    name: Annotated[String, V(2, 9)] = ""
    topic_id: Annotated[Uuid, V(10)] = ZERO_UUID
    partitions: Sequence[OffsetCommitRequestPartition] = ()


@slotted
class OffsetCommitRequest:
    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    group_instance_id: Annotated[String | None, V(7)] = None
    retention_time_ms: Annotated[Int64, V(2, 4)] = -1
    topics: Sequence[OffsetCommitRequestTopic] = ()


@slotted
class OffsetCommitResponsePartition:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@slotted
class OffsetCommitResponseTopic:
    name: Annotated[String, V(2, 9)] = ""
    topic_id: Annotated[Uuid, V(10)] = ZERO_UUID
    partitions: Sequence[OffsetCommitResponsePartition] = ()


@slotted
class OffsetCommitResponse:
    throttle_time_ms: Annotated[Int32, V(3)] = 0
    topics: Sequence[OffsetCommitResponseTopic] = ()
