"""DescribeConfigs, API key 32.

Configuration of topics and brokers (KIP-133).

Versions 1 to 4, flexible from v4. v1 brought synonyms (KIP-226), v3 types and
documentation (KIP-569), v4 is flexible.
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Bool, Int8, Int16, Int32, String, V
from kohort.protocol.slotted import slotted


@slotted
class DescribeConfigsResource:
    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: Sequence[String] | None = ()


@slotted
class DescribeConfigsRequest:
    resources: Sequence[DescribeConfigsResource] = ()
    include_synonyms: Bool = False
    include_documentation: Annotated[Bool, V(3)] = False


@slotted
class DescribeConfigsSynonym:
    name: String = ""
    value: String | None = ""
    source: Int8 = 0


@slotted
class DescribeConfigsResourceResult:
    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False
    synonyms: Sequence[DescribeConfigsSynonym] = ()
    config_type: Annotated[Int8, V(3)] = 0
    documentation: Annotated[String | None, V(3)] = ""


@slotted
class DescribeConfigsResult:
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Sequence[DescribeConfigsResourceResult] = ()


@slotted
class DescribeConfigsResponse:
    throttle_time_ms: Int32 = 0
    results: Sequence[DescribeConfigsResult] = ()
