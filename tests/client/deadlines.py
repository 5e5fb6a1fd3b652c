"""Time that is up when an attempt has failed, on however slow a machine."""

from __future__ import annotations

import asyncio

import pytest

from kohort.client.network.cluster import Cluster

LIMIT_S = 60
"""What ``default.api.timeout.ms`` and ``max.block.ms`` are by default."""


def pass_deadline_after_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's clock goes on by all the time there is when an attempt has failed."""
    loop = asyncio.get_running_loop()
    now, back_off = loop.time, Cluster.back_off

    async def later(cluster: Cluster, failures: int) -> None:
        monkeypatch.setattr(loop, "time", lambda: now() + LIMIT_S)
        await back_off(cluster, failures)

    monkeypatch.setattr(Cluster, "back_off", later)
