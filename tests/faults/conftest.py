"""The scene of a test."""

from __future__ import annotations

import pytest
from tests.faults.scene import Scene


@pytest.fixture
async def scene() -> Scene:
    """One node, without an initial delay."""
    return Scene()
