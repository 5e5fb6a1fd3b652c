"""The crash test, in its short form, and a proof that it can fail."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.crash.run import Run, Settings
from tests.crash.schedule import Moment, moments


@pytest.mark.long
def test_nothing_is_lost_by_kills(tmp_path: Path) -> None:
    """SIGKILL under load, at each moment and at the end, loses nothing acknowledged."""
    report = Run(Settings(7, 389, 1, tmp_path), print).play()
    assert report.violations == []
    assert set(report.kills) == set(Moment)
    assert report.records
    assert report.commits
    assert report.resumed
    assert report.steps


@pytest.mark.long
def test_nothing_is_lost_by_kills_of_three_nodes(tmp_path: Path) -> None:
    """A cluster loses nothing either; its nodes are one process and die together."""
    report = Run(Settings(3, 134, 3, tmp_path), print).play()
    assert report.violations == []
    assert report.resumed


def tear_records(data: Path) -> None:
    """Cuts off the end of the first partition's log."""
    log = max((data / "load-0").glob("*.log"))
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size * 3 // 4)


def tear_commits(data: Path) -> None:
    """Cuts off the ends of all groups' logs."""
    for folder in data.glob("__consumer_offsets-*"):
        log = max(folder.glob("*.log"))
        with log.open("r+b") as file:
            file.truncate(log.stat().st_size // 2)


@pytest.mark.long
@pytest.mark.parametrize(
    ("tamper", "finds"), [(tear_records, "lost: "), (tear_commits, "commit lost: ")]
)
def test_what_is_lost_is_found(
    tmp_path: Path, tamper: Callable[[Path], None], finds: str
) -> None:
    """Damage behind the broker's back is detected at once."""
    report = Run(Settings(1, 345, 1, tmp_path, tamper=tamper), print).play()
    assert any(each.startswith(finds) for each in report.violations), report


def test_schedules_hit_every_moment() -> None:
    """A quarter of the kills hits Stable groups, and the first one no start-up."""
    for seed in range(20):
        found = moments(20, random.Random(seed))
        assert found.count(Moment.STABLE) == 5
        assert set(found) == set(Moment)
        assert found[0] not in {Moment.START_UP, Moment.QUICK}
        assert found == moments(20, random.Random(seed))
