"""The observations of one cell: a library's group of two under one power or fault."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.workers.process import Line

GROUP = "billing"
TOPIC = "orders"
PARTITIONS = 4
MEMBERS = ("one", "two")  # their client ids


@dataclass(slots=True)
class Evidence:
    """All observations, in the machine's time (ns since the epoch).

    Attributes:
        lines: the workers' events, by client id.
        errors: the error that ended a worker, by client id.
        events: the broker's events, in order.
        requests: (time_ns, client id, API, connection), in order.
        ends: number of records fed to each partition.
        done_ns: when the power or fault began; 0 if it did not.
        undone_ns: when it was over.
        ended_ns: when the members had to leave; everything else came before.
        back_ns: since when the group is well again; None: not within the limit.
        limit_s: that limit, from `undone_ns` on.
        strikes: number of strikes of the faults.
        notes: the notes of the faults.
        last: the group at the end, in words, if it is not well.
    """

    lines: Mapping[str, Sequence[Line]]
    errors: Mapping[str, str | None] = field(default_factory=dict)
    events: Sequence[Mapping[str, Any]] = ()
    requests: Sequence[tuple[int, str, str, int]] = ()
    ends: Mapping[int, int] = field(default_factory=dict)
    done_ns: int = 0
    undone_ns: int = 0
    ended_ns: int = 0
    back_ns: int | None = None
    limit_s: float = 0.0
    strikes: int = 0
    notes: Sequence[str] = ()
    last: str = ""


_UNSAID = {"schema", "run", "labels", "sequence", "time_ns", "wall_ns", "at_ns"}


def write_trace(path: Path, seen: Evidence) -> None:
    """Writes all observations to one file, by time, for a closer look."""
    rows = [(event["wall_ns"], "broker", event) for event in seen.events]
    rows += [
        (line.at_ns, name, line.event)
        for name, lines in seen.lines.items()
        for line in lines
    ]
    rows += [
        (at, f"request of {name}", {"api": api, "connection": connection})
        for at, name, api, connection in seen.requests
    ]
    marks = {"DONE": seen.done_ns, "UNDONE": seen.undone_ns, "BACK": seen.back_ns}
    rows += [(at, f"----- {mark}", {}) for mark, at in marks.items() if at]
    begin = seen.done_ns or min((at for at, _, _ in rows), default=0)
    with path.open("w") as out:
        for at, name, what in sorted(rows, key=lambda each: each[0]):
            said = {k: v for k, v in what.items() if k not in _UNSAID and v is not None}
            shown = json.dumps(said)[:300]
            out.write(f"{(at - begin) / 1e9:9.3f} {name:16} {shown}\n")
        out.write(f"{seen.last}\n")
