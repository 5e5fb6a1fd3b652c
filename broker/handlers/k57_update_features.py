"""UpdateFeatures: changes the finalized levels of features (KIP-584)."""

from __future__ import annotations

from kohort.broker.cluster.features import FeatureError
from kohort.broker.log.store import StorageError
from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.protocol.apis.k57_update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kohort.protocol.errors import ErrorCode

_HAS_RESULTS = 1
"""The last version with a result per feature."""


def handle(request: Request) -> Work:
    """Changes all levels of the request, or none; the last one per feature counts."""
    message: UpdateFeaturesRequest = request.message
    pace = Pace()
    changes = {}
    for update in message.feature_updates:
        changes[update.feature] = update.max_version_level, update.upgrade_type
        if pace.spend(1):
            yield
    error, why = ErrorCode.NONE, None
    try:
        features = request.node.cluster.features
        features.update(changes, validate_only=message.validate_only)
    except FeatureError as refusal:
        error, why = ErrorCode.INVALID_UPDATE_VERSION, f"nothing changed: {refusal}"
    except StorageError as failure:
        error, why = ErrorCode.KAFKA_STORAGE_ERROR, str(failure)
    results = []
    if not error and request.version <= _HAS_RESULTS:
        # Kafka's message for no error is this name.
        results = [UpdatableFeatureResult(name, 0, "NONE") for name in changes]
    response = UpdateFeaturesResponse(0, error, why, results)
    yield from request.finish_in_pieces(response, pace)
