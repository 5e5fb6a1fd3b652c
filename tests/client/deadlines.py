"""Deadlines that pass exactly when an attempt has failed, on any machine."""

from __future__ import annotations

import asyncio

import pytest

from kohort.client.network.cluster import Cluster

LIMIT_S = 60
"""Defaults of ``default.api.timeout.ms`` and ``max.block.ms``."""


def pass_deadline_after_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advances the loop's clock past all deadlines when an attempt fails."""
    loop = asyncio.get_running_loop()
    now, back_off = loop.time, Cluster.back_off

    async def later(cluster: Cluster, failures: int) -> None:
        monkeypatch.setattr(loop, "time", lambda: now() + LIMIT_S)
        await back_off(cluster, failures)

    monkeypatch.setattr(Cluster, "back_off", later)
