"""The move test, in its short form."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.moves.play import Play, Settings


@pytest.mark.long
def test_groups_settle_and_no_commit_is_lost(tmp_path: Path) -> None:
    """Three groups of five real members survive fifteen moves and stops."""
    report = Play(Settings(15, 848, tmp_path), print).play()
    assert report.violations == []
    assert report.done["coordinator moved"]
    assert report.done["node stopped"]
    assert all(report.ways.values()), report.ways
