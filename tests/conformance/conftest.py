"""Fixtures of scenes."""

from __future__ import annotations

import asyncio

import pytest

from kohort.broker import clock


@pytest.fixture
def loop_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers in this process have the time of the event loop."""
    monkeypatch.setattr(clock, "monotonic", lambda: asyncio.get_running_loop().time())
