"""Partitions that requests create and delete, and their quota (KIP-599)."""

from __future__ import annotations

from typing import Final

from kohort.broker.handlers.refusal import RefusedError
from kohort.broker.request import Request
from kohort.protocol.errors import ErrorCode

_STRICT_FROM: Final = {19: 6, 20: 5, 37: 3}
"""First version, by API key, whose clients know THROTTLING_QUOTA_EXCEEDED. Older
requests are granted, and the client has to wait afterwards."""


def count_mutation(request: Request, partitions: int) -> None:
    """Counts partitions for ``controller_mutation_rate`` before they are changed.

    Raises:
        RefusedError: THROTTLING_QUOTA_EXCEEDED; do not change anything.
    """
    quotas = request.node.cluster.quotas
    if not quotas.is_used:
        return
    strict = request.version >= _STRICT_FROM[request.api.key]
    wait_ms = quotas.mutate(request.client.id, partitions, strict=strict)
    if wait_ms:
        request.throttle_ms = wait_ms
        if strict:
            raise RefusedError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)
