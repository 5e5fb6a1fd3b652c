"""Plays scenes of a partition in each kind of store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.log.life import Life
from tests.log.scene import Scene
from tests.log.storage import EVERYWHERE, Keeper, temporary_folder


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder, in memory if possible."""
    with temporary_folder() as folder:
        yield Path(folder)


@pytest.fixture(params=EVERYWHERE)
def keeper(request: pytest.FixtureRequest, root: Path) -> Iterator[Keeper]:
    """Makes the partitions of a scene."""
    made = Keeper(request.param, root)
    yield made
    made.close()


@pytest.fixture
def kept_scenes(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenes get their partitions from the test's keeper."""
    monkeypatch.setattr(Scene, "keeper", keeper, raising=False)


@pytest.fixture
def live(root: Path) -> Iterator[Callable[..., Life]]:
    """Begins lives, which end with the test."""
    lives: list[Life] = []

    def begin(**config: Any) -> Life:
        lives.append(Life(root / f"life{len(lives)}", **config))
        return lives[-1]

    yield begin
    for life in lives:
        life.data.close()
