"""Scenes of a partition are played wherever its batches may be kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.log.kept import EVERYWHERE, Keeper, temporary_folder
from tests.log.scene import Scene


@pytest.fixture(params=EVERYWHERE)
def keeper(request: pytest.FixtureRequest) -> Iterator[Keeper]:
    """What makes the partitions of a scene."""
    with temporary_folder() as folder:
        made = Keeper(request.param, Path(folder))
        yield made
        made.close()


@pytest.fixture
def kept_scenes(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenes get their partitions from the keeper of the test."""
    monkeypatch.setattr(Scene, "keeper", keeper, raising=False)
