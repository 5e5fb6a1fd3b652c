"""AlterConfigs, API key 33.

Replaces the whole configuration of topics or brokers (KIP-133). v2 is
flexible.

Versions 0 to 2, flexible from v2.
"""

from collections.abc import Sequence

from kohort.protocol.fields import Bool, Int8, Int16, Int32, String
from kohort.protocol.slotted import slotted


@slotted
class AlterableConfig:
    name: String = ""
    value: String | None = ""


@slotted
class AlterConfigsResource:
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Sequence[AlterableConfig] = ()


@slotted
class AlterConfigsRequest:
    resources: Sequence[AlterConfigsResource] = ()
    validate_only: Bool = False


@slotted
class AlterConfigsResourceResponse:
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


@slotted
class AlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: Sequence[AlterConfigsResourceResponse] = ()
