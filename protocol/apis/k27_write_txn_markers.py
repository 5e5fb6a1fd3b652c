"""WriteTxnMarkers, API key 27.

Ends transactions in partitions: writes commit or abort markers (KIP-98).

Versions 1 to 2, flexible from v1. v2 has the version of the transaction (KIP-1228).
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Bool, Int8, Int16, Int32, Int64, String, V
from kohort.protocol.slotted import slotted


@slotted
class WritableTxnMarkerTopic:
    name: String = ""
    partition_indexes: Sequence[Int32] = ()


@slotted
class WritableTxnMarker:
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Bool = False
    topics: Sequence[WritableTxnMarkerTopic] = ()
    coordinator_epoch: Int32 = 0
    transaction_version: Annotated[Int8, V(2)] = 0


@slotted
class WriteTxnMarkersRequest:
    markers: Sequence[WritableTxnMarker] = ()


@slotted
class WritableTxnMarkerPartitionResult:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@slotted
class WritableTxnMarkerTopicResult:
    name: String = ""
    partitions: Sequence[WritableTxnMarkerPartitionResult] = ()


@slotted
class WritableTxnMarkerResult:
    producer_id: Int64 = 0
    topics: Sequence[WritableTxnMarkerTopicResult] = ()


@slotted
class WriteTxnMarkersResponse:
    markers: Sequence[WritableTxnMarkerResult] = ()
