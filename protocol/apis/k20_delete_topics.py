"""DeleteTopics, API key 20.

Deletes topics.

Versions 1 to 6, flexible from v4. v4 is flexible, v5 explains errors, v6 takes
topic ids (KIP-516).
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import ZERO_UUID, Int16, Int32, String, Uuid, V
from kohort.protocol.slotted import slotted


@slotted
class DeleteTopicState:
    name: Annotated[String | None, V(6)] = None
    topic_id: Annotated[Uuid, V(6)] = ZERO_UUID


@slotted
class DeleteTopicsRequest:
    topics: Annotated[Sequence[DeleteTopicState], V(6)] = ()
    topic_names: Annotated[Sequence[String], V(1, 5)] = ()
    timeout_ms: Int32 = 0


@slotted
class DeletableTopicResult:
    name: Annotated[String | None, V(nullable=6)] = ""
    topic_id: Annotated[Uuid, V(6)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[String | None, V(5)] = None


@slotted
class DeleteTopicsResponse:
    throttle_time_ms: Int32 = 0
    responses: Sequence[DeletableTopicResult] = ()
