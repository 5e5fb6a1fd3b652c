"""Requests about transactions that real Kafka never answers."""

from __future__ import annotations

from tests.conformance.env import Env
from tests.conformance.transactional import UNCOMMITTED, Producer, fetch

QUIRK = True


async def txn_markers_partition_twice(env: Env) -> None:
    """WriteTxnMarkers names a partition twice: one marker, and no response."""
    topic = await env.topic()
    a = await Producer.ready(env, "A")
    await a.produce(topic, version=12)
    marker = {
        "producer_id": a.producer_id,
        "producer_epoch": a.epoch + 1,
        "topics": [{"name": topic, "partition_indexes": [0, 0]}],
        "transaction_version": 2,
    }
    b = await env.peer("B")
    pending = await b.send("WriteTxnMarkers", 2, markers=[marker])
    await pending.unanswered()
    await fetch(env, a.peer, topic, isolation=UNCOMMITTED)
