"""Fuzzing itself: a planted fault is found, kept and replayed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fuzz.atheris_process import run
from tests.fuzz.planted_fault import PLANTED, PlantedError

pytestmark = pytest.mark.fuzz


def test_a_planted_fault_is_found(tmp_path: Path) -> None:
    """The failing input is kept, and fails again without atheris."""
    pytest.importorskip("atheris", reason="atheris comes with kohort[dev]")
    done = run("tests.fuzz.planted_fault:PLANTED", tmp_path, 60, PLANTED, seed=1)
    assert "PlantedError" in done.reason
    (found,) = done.finds
    with pytest.raises(PlantedError):
        PLANTED.run(found.read_bytes())
