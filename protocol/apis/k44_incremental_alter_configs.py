"""IncrementalAlterConfigs, API key 44.

Changes single keys of a configuration (KIP-339). v1 is flexible.

Versions 0 to 1, flexible from v1.
"""

from collections.abc import Sequence

from kohort.protocol.apis.k33_alter_configs import AlterConfigsResourceResponse
from kohort.protocol.fields import Bool, Int8, Int32, String
from kohort.protocol.slotted import slotted


@slotted
class AlterableConfig:
    name: String = ""
    config_operation: Int8 = 0
    value: String | None = ""


@slotted
class AlterConfigsResource:
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Sequence[AlterableConfig] = ()


@slotted
class IncrementalAlterConfigsRequest:
    resources: Sequence[AlterConfigsResource] = ()
    validate_only: Bool = False


@slotted
class IncrementalAlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: Sequence[AlterConfigsResourceResponse] = ()
