"""FindCoordinator: one key before v4, several from then on (KIP-699)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kohort.broker.handlers.repeated_rows import RepeatedRows
from kohort.broker.log.store import StorageError
from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.broker.topics.topic import NO_NODE
from kohort.protocol.apis.k10_find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kohort.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.runtime.shard import Shard

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2


_KEY_COST = 5
"""Cost of finding one key, as `Pace` counts; long ones are hashed."""
_HASHED = 20
"""Characters of a key that can be hashed at a cost of 1."""


def handle(request: Request) -> Work:
    """Names the node that coordinates each key."""
    message: FindCoordinatorRequest = request.message
    keys = message.coordinator_keys if request.version >= 4 else [message.key]
    can_find = True
    if keys:
        cluster = request.node.cluster
        if message.key_type == _GROUP:
            can_find = cluster.shards.can_find()
        elif message.key_type == _TRANSACTION:
            can_find = cluster.transactions.can_find()
    if request.version >= 4:
        pace, found_all = Pace(), []
        known: RepeatedRows[str, Coordinator] = RepeatedRows()
        for key in keys:
            row = known.again(key)
            if row is None:
                row = _coordinator(request, key, can_find=can_find)
                known.keep(key, row, 1)
            found_all.append(row)
            if pace.spend(_KEY_COST + len(key) // _HASHED):
                yield
        answer = FindCoordinatorResponse(coordinators=found_all)
        yield from request.finish_in_pieces(answer)
        return
    found = _coordinator(request, message.key, can_find=can_find)
    request.finish(
        FindCoordinatorResponse(
            0,
            found.error_code,
            # Kafka puts the error's name here, also if there is no error.
            found.error_message or ErrorCode(found.error_code).name,
            found.node_id,
            found.host,
            found.port,
        )
    )


def _coordinator(request: Request, key: str, *, can_find: bool) -> Coordinator:
    cluster, key_type = request.node.cluster, request.message.key_type
    if key_type == _GROUP:
        return _leader(request, key, cluster.shards.for_id, can_find=can_find)
    if key_type == _TRANSACTION:
        return _leader(request, key, cluster.transactions.for_id, can_find=can_find)
    error, why = ErrorCode.INVALID_REQUEST, f"key type {key_type} is not supported"
    if key_type == _SHARE and request.version >= 4:
        # Keys of share groups are group:topic-id:partition; kohort has none.
        why = ""
    return Coordinator(key, -1, "", -1, error, why)


def _leader(
    request: Request,
    key: str,
    shard_of: Callable[[str], Shard[Any, Any]],
    *,
    can_find: bool,
) -> Coordinator:
    leader = NO_NODE
    if can_find:
        with contextlib.suppress(StorageError):
            leader = shard_of(key).node_id
    if leader == NO_NODE:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key, -1, "", -1, error, "")
    node = request.node.cluster.nodes[leader]
    host, port = node.addresses[request.peer.listener]
    return Coordinator(key, node.id, host, port, 0, "")
