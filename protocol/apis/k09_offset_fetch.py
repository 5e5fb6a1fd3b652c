"""OffsetFetch, API key 9.

The committed offsets of one group, since v8 of several.

Versions 1 to 10, flexible from v6. v2 brought all topics by null and an error
for the group, v5 leader epochs (KIP-320), v6 flexible versions, v7 stable
offsets only (KIP-447), v8 batches of groups (KIP-709), v9 member id and epoch
(KIP-848), v10 topic ids.
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import ZERO_UUID, Bool, Int16, Int32, Int64, String, Uuid, V
from kohort.protocol.slotted import slotted


@slotted
class OffsetFetchRequestTopic:
    name: Annotated[String, V(1, 7)] = ""
    partition_indexes: Annotated[Sequence[Int32], V(1, 7)] = ()


@slotted
class OffsetFetchRequestTopics:
    name: Annotated[String, V(8, 9)] = ""
    topic_id: Annotated[Uuid, V(10)] = ZERO_UUID
    partition_indexes: Annotated[Sequence[Int32], V(8)] = ()


@slotted
class OffsetFetchRequestGroup:
    group_id: Annotated[String, V(8)] = ""
    member_id: Annotated[String | None, V(9)] = None
    member_epoch: Annotated[Int32, V(9)] = -1
    topics: Annotated[Sequence[OffsetFetchRequestTopics] | None, V(8)] = ()


@slotted
class OffsetFetchRequest:
    group_id: Annotated[String, V(1, 7)] = ""
    topics: Annotated[
        Sequence[OffsetFetchRequestTopic] | None, V(1, 7, nullable=2)
    ] = ()
    groups: Annotated[Sequence[OffsetFetchRequestGroup], V(8)] = ()
    require_stable: Annotated[Bool, V(7)] = False


@slotted
class OffsetFetchResponsePartition:
    partition_index: Annotated[Int32, V(1, 7)] = 0
    committed_offset: Annotated[Int64, V(1, 7)] = 0
    committed_leader_epoch: Annotated[Int32, V(5, 7)] = -1
    metadata: Annotated[String | None, V(1, 7)] = ""
    error_code: Annotated[Int16, V(1, 7)] = 0


@slotted
class OffsetFetchResponseTopic:
    name: Annotated[String, V(1, 7)] = ""
    partitions: Annotated[Sequence[OffsetFetchResponsePartition], V(1, 7)] = ()


@slotted
class OffsetFetchResponsePartitions:
    partition_index: Annotated[Int32, V(8)] = 0
    committed_offset: Annotated[Int64, V(8)] = 0
    committed_leader_epoch: Annotated[Int32, V(8)] = -1
    metadata: Annotated[String | None, V(8)] = ""
    error_code: Annotated[Int16, V(8)] = 0


@slotted
class OffsetFetchResponseTopics:
    name: Annotated[String, V(8, 9)] = ""
    topic_id: Annotated[Uuid, V(10)] = ZERO_UUID
    partitions: Annotated[Sequence[OffsetFetchResponsePartitions], V(8)] = ()


@slotted
class OffsetFetchResponseGroup:
    group_id: Annotated[String, V(8)] = ""
    topics: Annotated[Sequence[OffsetFetchResponseTopics], V(8)] = ()
    error_code: Annotated[Int16, V(8)] = 0


@slotted
class OffsetFetchResponse:
    throttle_time_ms: Annotated[Int32, V(3)] = 0
    topics: Annotated[Sequence[OffsetFetchResponseTopic], V(1, 7)] = ()
    error_code: Annotated[Int16, V(2, 7)] = 0
    groups: Annotated[Sequence[OffsetFetchResponseGroup], V(8)] = ()
