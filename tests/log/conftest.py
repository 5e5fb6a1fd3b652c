"""Scenes of a partition are played wherever its batches may be kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.log.kept import EVERYWHERE, Keeper


@pytest.fixture(params=EVERYWHERE)
def keeper(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Keeper]:
    """What makes the partitions of a scene."""
    made = Keeper(request.param, tmp_path)
    yield made
    made.close()
