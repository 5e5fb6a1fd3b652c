"""Goldens: the transcripts of real Kafka, a file of JSON lines for each profile.

A line for the scenario, then a line for each event of its transcript, scenarios sorted
by name. So a diff shows the requests with different responses. A scenario that is
played several times has a line before each of its transcripts, with its number of runs.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

Events = list[dict[str, Any]]


class Outcome(NamedTuple):
    """A transcript.

    Attributes:
        runs: number of runs that gave it.
        events: as `Transcript.render` returns them.
    """

    runs: int
    events: Events


class Golden(NamedTuple):
    """A scenario's transcripts.

    Attributes:
        summary: of the scenario, in one sentence.
        outcomes: all its transcripts; one, if it was played once.
    """

    summary: str
    outcomes: list[Outcome]


def collected(summary: str, runs: Iterable[Events]) -> Golden:
    """The golden of a scenario, from the events of each of its runs."""
    by_text: dict[str, Outcome] = {}
    for events in runs:
        text = "".join(_line(event) for event in events)
        seen, _ = by_text.get(text, (0, events))
        by_text[text] = Outcome(seen + 1, events)
    return Golden(summary, [by_text[text] for text in sorted(by_text)])


def path_of(folder: Path, profile: str) -> Path:
    """The file of a profile."""
    return folder / f"{profile}.jsonl"


def read(folder: Path, profile: str) -> dict[str, Golden]:
    """Goldens by the name of their scenario; none if the file does not exist."""
    found: dict[str, Golden] = {}
    path = path_of(folder, profile)
    if not path.exists():
        return found
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if "scenario" in row:
            golden = found[row["scenario"]] = Golden(row["summary"], [])
        elif "runs" in row:
            golden.outcomes.append(Outcome(row["runs"], []))
        else:
            if not golden.outcomes:
                golden.outcomes.append(Outcome(1, []))
            golden.outcomes[-1].events.append(row)
    return found


def write(folder: Path, profile: str, goldens: dict[str, Golden]) -> None:
    """Rewrites the file of a profile."""
    lines: list[str] = []
    for name, golden in sorted(goldens.items()):
        lines.append(_line({"scenario": name, "summary": golden.summary}))
        for runs, events in golden.outcomes:
            lines += [_line({"runs": runs})] if runs > 1 or golden.outcomes[1:] else []
            lines += [_line(event) for event in events]
    folder.mkdir(parents=True, exist_ok=True)
    path_of(folder, profile).write_text("".join(lines))


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def differences(golden: Golden, runs: Iterable[Events]) -> list[str]:
    """Unified diff of the first run with another transcript; empty without one."""
    for events in runs:
        # Through JSON and back, like a golden: tuples become lists.
        found = [json.loads(_line(event)) for event in events]
        if not any(found == outcome.events for outcome in golden.outcomes):
            return _shortest_diff(golden, found)
    return []


def _shortest_diff(golden: Golden, found: Events) -> list[str]:
    received = _lines(found)
    diffs = (
        list(
            difflib.unified_diff(
                _lines(outcome.events), received, "golden", "broker", n=12, lineterm=""
            )
        )
        for outcome in golden.outcomes
    )
    return min(diffs, key=lambda diff: sum(line[0] in "+-" for line in diff))


def _lines(events: Events) -> list[str]:
    return json.dumps(events, indent=1, ensure_ascii=False).splitlines()
