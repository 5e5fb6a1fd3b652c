"""Goldens of races: several transcripts, of which a run has to give one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conformance import goldens
from tests.conformance.goldens import Events, collected, differences


def _ended(code: int) -> Events:
    event: dict[str, Any] = {"recv": "A SyncGroup/5 #1", "response": {"code": code}}
    return [event]


def test_runs_of_a_race_are_counted_by_transcript(tmp_path: Path) -> None:
    """A golden that is written and read again has each transcript once."""
    golden = collected("A race.", [_ended(27), _ended(0), _ended(27)])
    goldens.write(tmp_path, "default", {"race": golden})
    assert goldens.read(tmp_path, "default") == {"race": golden}
    assert sorted(runs for runs, _ in golden.outcomes) == [1, 2]


def test_each_run_gives_a_transcript_of_the_golden() -> None:
    """Any of them is accepted; another one is shown beside the most similar one."""
    golden = collected("A race.", [_ended(27), [*_ended(0), *_ended(0)]])
    assert not differences(golden, [_ended(27), _ended(27)])
    diff = differences(golden, [_ended(27), _ended(25)])
    changed = [line.strip() for line in diff[2:] if line[0] in "+-"]
    assert changed == ['-   "code": 27', '+   "code": 25']
