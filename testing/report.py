"""The report of a failed test: each group's story, its records, faults, processes."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kohort.broker.clock import ns

if TYPE_CHECKING:
    from kohort.testing.kohort import Kohort
    from kohort.testing.processes import Process

STORY_LINES: Final = 40
"""Lines of a group's story, the latest, and of its account of delivery, the first; the
page has all."""
OUTPUT_LINES: Final = 50
"""Lines of a process's output: a traceback of a deep framework is as long."""
NAME_LENGTH: Final = 150
"""Characters of a page's file name: file systems take 255 bytes."""

Section = tuple[str, str]
"""A title and a text, as pytest prints them below the traceback."""


def sections(kohort: Kohort, test: str, artifacts: Path | None) -> list[Section]:
    """The sections of a failed test's report.

    Args:
        kohort: the broker of the test; it may have stopped.
        test: the test's node id.
        artifacts: the folder for its timeline page; None for no page.
    """
    events = kohort.events()
    found = [*_stories(events, _now_ns(kohort)), *_deliveries(kohort)]
    found += _faults(kohort, events)
    for process in kohort.processes:
        found += _output(process)
    if artifacts is not None:
        found.append(_timeline(events, test, artifacts))
    return found


def _now_ns(kohort: Kohort) -> int | None:
    """The broker's time; None if it has stopped, at its last event."""
    broker = kohort.broker
    return ns(broker.clock.now()) if broker.is_running else None


def _stories(
    events: Sequence[Mapping[str, Any]], now_ns: int | None
) -> Iterator[Section]:
    from kohort.control.why.history import histories

    for group, history in sorted(histories(events, now_ns).items()):
        yield f"kohort why {group}", _end_of(history.text().splitlines(), STORY_LINES)


def _deliveries(kohort: Kohort) -> Iterator[Section]:
    for found in kohort.deliveries():
        if found.again or found.skipped or found.went_back or found.uncommitted:
            lines = str(found).splitlines()
            yield f"kohort delivery {found.group}", _start_of(lines, STORY_LINES)


def _faults(kohort: Kohort, events: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
    struck = Counter(
        f"{event['fault']}: {event['cause']}"
        + (f" {event['error']}" if event["error"] else "")
        + (f" in {event['api']}" if event["api"] else "")
        + (f" of {event['client_id']}" if event["client_id"] else "")
        for event in events
        if event["kind"] == "fault_struck"
    )
    lines = [
        f"{what}, {'once' if count == 1 else f'{count} times'}"
        for what, count in struck.items()
    ]
    lines += kohort.misses()
    if lines:
        yield "kohort faults", _end_of(lines, STORY_LINES)


def _output(process: Process) -> Iterator[Section]:
    code = process.returncode
    end = "still runs" if code is None else f"ended with {code}"
    for name, lines in (("stdout", process.stdout), ("stderr", process.stderr)):
        if lines:
            title = f"{name} of {process.name}, which {end}"
            yield title, _end_of(lines, OUTPUT_LINES)


def _timeline(events: Sequence[Mapping[str, Any]], test: str, folder: Path) -> Section:
    import orjson

    from kohort.control.timeline.packing import Packing

    path = folder.absolute() / file_name(test)
    lines = ((orjson.dumps(event), dict(event)) for event in events)
    page = Packing(lines).page(test)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page.html, encoding="utf-8")
    return "kohort timeline", str(path)


def file_name(test: str) -> str:
    """The name of a test's timeline page."""
    name = re.sub(r"[^\w.-]+", "-", test).strip("-")
    if len(name) > NAME_LENGTH:
        digest = hashlib.sha256(test.encode()).hexdigest()[:8]
        name = f"{name[:NAME_LENGTH]}-{digest}"
    return f"{name}.html"


def _start_of(lines: Sequence[str], most: int) -> str:
    left = len(lines) - most
    shown = lines if left <= 0 else [*lines[:most], f"({left} more lines)"]
    return "\n".join(shown)


def _end_of(lines: Sequence[str], most: int) -> str:
    left = len(lines) - most
    shown = lines if left <= 0 else [f"({left} earlier lines)", *lines[-most:]]
    return "\n".join(shown)
