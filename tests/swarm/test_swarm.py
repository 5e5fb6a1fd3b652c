"""The swarm finds bugs that are planted by hand, and reduces the worlds of them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

import pytest
from tests.patience import PATIENCE_S
from tests.swarm.bugs import BUGS, plant
from tests.swarm.worlds import world

from kohort.simulation.checking.run import Finding
from kohort.simulation.checking.shrink import find, report
from kohort.simulation.scenario.runs import quiet

MOST = 300
"""Worlds within which each bug is found."""


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Logs nothing."""
    with quiet():
        yield


def first(worlds: int) -> Finding | None:
    """The first violation in some worlds."""
    found = (find("swarm", world(seed), seed) for seed in range(worlds))
    return next(filter(None, found), None)


def test_random_worlds() -> None:
    """Some of them, without a violation."""
    assert first(8) is None


def test_a_violation_is_reduced() -> None:
    """The printed scenario fails in the same way, and lacks what does not matter."""
    remove = plant("commits_ahead")
    try:
        found = first(MOST)
        assert found is not None
        lines = report("swarm", world(found.seed), found, PATIENCE_S).splitlines()
        assert lines[0].startswith("violated at ")
        assert lines[-1] == f"kohort simulate swarm-{found.seed}.toml --seed 0 --check"
        values = tomllib.loads("\n".join(lines[3 : lines.index("END")]))
        assert "happenings" not in values or not values["happenings"]
        again = find("swarm", values, found.seed)
        assert again is not None
        assert again.words in lines[0]
    finally:
        remove()
    assert find("swarm", values, found.seed) is None


@pytest.mark.long
@pytest.mark.parametrize("name", BUGS)
def test_planted_bug(name: str) -> None:
    """Each of them is found within some hundreds of worlds."""
    remove = plant(name)
    try:
        assert first(MOST) is not None
    finally:
        remove()
