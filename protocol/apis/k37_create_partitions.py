"""CreatePartitions, API key 37.

Adds partitions to topics (KIP-195).

Versions 0 to 3, flexible from v2. v2 is flexible, v3 knows the error
THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from collections.abc import Sequence

from kohort.protocol.fields import Bool, Int16, Int32, String
from kohort.protocol.slotted import slotted


@slotted
class CreatePartitionsAssignment:
    broker_ids: Sequence[Int32] = ()


@slotted
class CreatePartitionsTopic:
    name: String = ""
    count: Int32 = 0
    assignments: Sequence[CreatePartitionsAssignment] | None = ()


@slotted
class CreatePartitionsRequest:
    topics: Sequence[CreatePartitionsTopic] = ()
    timeout_ms: Int32 = 0
    validate_only: Bool = False


@slotted
class CreatePartitionsTopicResult:
    name: String = ""
    error_code: Int16 = 0
    error_message: String | None = None


@slotted
class CreatePartitionsResponse:
    throttle_time_ms: Int32 = 0
    results: Sequence[CreatePartitionsTopicResult] = ()
