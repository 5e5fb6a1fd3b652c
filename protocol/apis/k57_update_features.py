"""UpdateFeatures, API key 57.

Changes the finalized levels of features (KIP-584). v1 has the type of the change, and
may only validate; v2 has one error for all, none for each feature (KIP-1022).

Versions 0 to 2, flexible from v0.
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Bool, Int8, Int16, Int32, String, V
from kohort.protocol.slotted import slotted


@slotted
class FeatureUpdateKey:
    feature: String = ""
    max_version_level: Int16 = 0
    allow_downgrade: Annotated[Bool, V(0, 0)] = False
    upgrade_type: Annotated[Int8, V(1)] = 1


@slotted
class UpdateFeaturesRequest:
    timeout_ms: Int32 = 60000
    feature_updates: Sequence[FeatureUpdateKey] = ()
    validate_only: Annotated[Bool, V(1)] = False


@slotted
class UpdatableFeatureResult:
    feature: Annotated[String, V(0, 1)] = ""
    error_code: Annotated[Int16, V(0, 1)] = 0
    error_message: Annotated[String | None, V(0, 1)] = ""


@slotted
class UpdateFeaturesResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: Annotated[Sequence[UpdatableFeatureResult], V(0, 1)] = ()
