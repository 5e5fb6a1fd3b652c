"""DescribeCluster, API key 60.

The cluster's id, its nodes and its controller (KIP-700).

Versions 0 to 2, flexible from v0. v1 can ask for controllers (KIP-919),
v2 shows fenced brokers (KIP-1073).
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Bool, Int8, Int16, Int32, String, V
from kohort.protocol.slotted import slotted


@slotted
class DescribeClusterRequest:
    include_cluster_authorized_operations: Bool = False
    endpoint_type: Annotated[Int8, V(1)] = 1
    include_fenced_brokers: Annotated[Bool, V(2)] = False


@slotted
class DescribeClusterBroker:
    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
    is_fenced: Annotated[Bool, V(2)] = False


@slotted
class DescribeClusterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Annotated[Int8, V(1)] = 1
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: Sequence[DescribeClusterBroker] = ()
    cluster_authorized_operations: Int32 = -2147483648
