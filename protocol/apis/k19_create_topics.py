"""CreateTopics, API key 19.

Creates topics.

Versions 2 to 7, flexible from v5. v4 allows the broker's defaults (KIP-464),
v5 is flexible and answers with the configuration (KIP-525), v7 with the
topic's id (KIP-516).
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import ZERO_UUID, Bool, Int8, Int16, Int32, String, Uuid, V
from kohort.protocol.slotted import slotted


@slotted
class CreatableReplicaAssignment:
    partition_index: Int32 = 0
    broker_ids: Sequence[Int32] = ()


@slotted
class CreatableTopicConfig:
    name: String = ""
    value: String | None = ""


@slotted
class CreatableTopic:
    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: Sequence[CreatableReplicaAssignment] = ()
    configs: Sequence[CreatableTopicConfig] = ()


@slotted
class CreateTopicsRequest:
    topics: Sequence[CreatableTopic] = ()
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


@slotted
class CreatableTopicConfigs:
    name: Annotated[String, V(5)] = ""
    value: Annotated[String | None, V(5)] = ""
    read_only: Annotated[Bool, V(5)] = False
    config_source: Annotated[Int8, V(5)] = -1
    is_sensitive: Annotated[Bool, V(5)] = False


@slotted
class CreatableTopicResult:
    name: String = ""
    topic_id: Annotated[Uuid, V(7)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: String | None = ""
    topic_config_error_code: Annotated[Int16, V(5, tag=0)] = 0
    num_partitions: Annotated[Int32, V(5)] = -1
    replication_factor: Annotated[Int16, V(5)] = -1
    configs: Annotated[Sequence[CreatableTopicConfigs] | None, V(5)] = ()


@slotted
class CreateTopicsResponse:
    throttle_time_ms: Int32 = 0
    topics: Sequence[CreatableTopicResult] = ()
