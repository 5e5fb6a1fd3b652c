"""Goldens: the transcripts of real Kafka, a file of JSON lines for each profile.

A line for the scenario, then a line for each event of its transcript, scenarios in the
order of their names. So a diff shows the requests that are answered differently.
"""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any, NamedTuple


class Golden(NamedTuple):
    """A scenario's transcript.

    Attributes:
        summary: of the scenario, in one sentence.
        events: of its transcript, as `Transcript.render` returns them.
    """

    summary: str
    events: list[dict[str, Any]]


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
        else:
            golden.events.append(row)
    return found


def write(folder: Path, profile: str, goldens: dict[str, Golden]) -> None:
    """Writes the file of a profile anew."""
    lines: list[str] = []
    for name, golden in sorted(goldens.items()):
        lines.append(_line({"scenario": name, "summary": golden.summary}))
        lines += [_line(event) for event in golden.events]
    folder.mkdir(parents=True, exist_ok=True)
    path_of(folder, profile).write_text("".join(lines))


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def differences(golden: Golden, found: list[dict[str, Any]]) -> list[str]:
    """Unified diff of the transcripts, indented; empty if they are the same."""
    # Through JSON and back, as a golden went: tuples are lists there.
    found = [json.loads(_line(event)) for event in found]
    if golden.events == found:
        return []
    expected, received = (
        json.dumps(each, indent=1, ensure_ascii=False).splitlines()
        for each in (golden.events, found)
    )
    return list(
        difflib.unified_diff(expected, received, "golden", "broker", n=12, lineterm="")
    )
