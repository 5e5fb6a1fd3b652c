"""Scenes of a partition are played wherever its batches may be kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.log.life import Life
from tests.log.scene import Scene
from tests.log.storage import EVERYWHERE, Keeper, temporary_folder


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


@pytest.fixture
def live() -> Iterator[Callable[..., Life]]:
    """Begins lives, which end with the test."""
    lives: list[Life] = []
    with temporary_folder() as root:

        def begin(**config: Any) -> Life:
            lives.append(Life(Path(root) / f"life{len(lives)}", **config))
            return lives[-1]

        yield begin
        for life in lives:
            life.data.close()
