"""ListConfigResources, API key 74.

The resources that have configurations (KIP-1142). v0 is the former
ListClientMetricsResources, and lists only those of client metrics.

Versions 0 to 1, flexible from v0.
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Int8, Int16, Int32, String, V
from kohort.protocol.slotted import slotted


@slotted
class ListConfigResourcesRequest:
    resource_types: Annotated[Sequence[Int8], V(1)] = ()


@slotted
class ConfigResource:
    resource_name: String = ""
    resource_type: Annotated[Int8, V(1)] = 16


@slotted
class ListConfigResourcesResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: Sequence[ConfigResource] = ()
