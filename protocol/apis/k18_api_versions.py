"""ApiVersions, API key 18.

The APIs of a broker, with their versions.

Versions 0 to 4, flexible from v3. v3 brought flexible requests and the client's
software (KIP-511), and features (KIP-584); v4 allows features whose lowest version is
0. The response header is always v0, as a client may send a version that the broker does
not know; the response to that is a v0 body with UNSUPPORTED_VERSION.
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Bool, Int16, Int32, Int64, String, V
from kohort.protocol.slotted import slotted


@slotted
class ApiVersionsRequest:
    client_software_name: Annotated[String, V(3)] = ""
    client_software_version: Annotated[String, V(3)] = ""


@slotted
class ApiVersion:
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@slotted
class SupportedFeatureKey:
    name: Annotated[String, V(3)] = ""
    min_version: Annotated[Int16, V(3)] = 0
    max_version: Annotated[Int16, V(3)] = 0


@slotted
class FinalizedFeatureKey:
    name: Annotated[String, V(3)] = ""
    max_version_level: Annotated[Int16, V(3)] = 0
    min_version_level: Annotated[Int16, V(3)] = 0


@slotted
class ApiVersionsResponse:
    error_code: Int16 = 0
    api_keys: Sequence[ApiVersion] = ()
    throttle_time_ms: Annotated[Int32, V(1)] = 0
    supported_features: Annotated[Sequence[SupportedFeatureKey], V(3, tag=0)] = ()
    finalized_features_epoch: Annotated[Int64, V(3, tag=1)] = -1
    finalized_features: Annotated[Sequence[FinalizedFeatureKey], V(3, tag=2)] = ()
    zk_migration_ready: Annotated[Bool, V(3, tag=3)] = False
