"""What the client's tests talk to: kohort in this process, or a Kafka that runs."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Callable

import pytest

from kohort.broker.server import Broker

RUNNING = os.environ.get("KOHORT_INTEROP_BOOTSTRAP")
"""A Kafka that runs; scenes that need nothing of kohort's own are played there."""


@pytest.fixture(params=["kafka"] if RUNNING else ["kohort", "kohort, 3 nodes"])
async def servers(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """Bootstrap servers of a cluster without an initial rebalance delay."""
    if RUNNING:
        yield RUNNING
        return
    nodes = 3 if "3" in request.param else 1
    config = {"group.initial.rebalance.delay.ms": 0}
    async with Broker(config, nodes=nodes) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """Makes names that no other test has used: a Kafka that runs remembers."""
    suffix = uuid.uuid4().hex[:12]
    return lambda name: f"{name}-{suffix}"
