"""Parts: folders with all rows of some runs, which builds share.

A build writes the rows of the runs that it computes, as one part, and refers to the
parts of builds before it for the others. A part with a run that is computed anew no
longer counts; the rows of its other runs are copied, once, to another part. So the
files of a table's parts together are the table: no row in them has to be left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kohort.pipeline.files import Footers
from kohort.pipeline.tables import Table

MOST: Final = 16
"""Parts of a build: readers open each. With more, all but the largest become one."""
COPIED: Final = "copied"
"""The folder in a build of the part with copied rows."""
_OF_ALL_RUNS: Final = frozenset({"gold/quality"})
"""Their rows come from a build's rules: no build takes them over."""


def is_by_run(table: Table) -> bool:
    """True if each row belongs to a run and depends on the events of that run alone."""
    return table.path not in _OF_ALL_RUNS and any(
        column.name == "run" for column in table.columns
    )


@dataclass(frozen=True, slots=True)
class Part:
    """A part.

    Attributes:
        folder: its path in the lake; ``<folder>/gold/hours`` has its rows of a table.
        runs: the runs whose rows it has.
        tables: rows, files and bytes by the path of the table.
    """

    folder: str
    runs: Sequence[str]
    tables: Mapping[str, Footers] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The same as JSON."""
        tables = {
            path: {"rows": each.rows, "files": each.files, "bytes": each.size}
            for path, each in self.tables.items()
        }
        return {"folder": self.folder, "runs": [*self.runs], "tables": tables}

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> Part:
        """A part that `as_json` has described."""
        tables = {
            path: Footers(each["rows"], each["files"], each["bytes"])
            for path, each in said["tables"].items()
        }
        return cls(said["folder"], said["runs"], tables)

    @property
    def size(self) -> int:
        """The bytes of all its tables."""
        return sum(each.size for each in self.tables.values())


@dataclass(frozen=True, slots=True)
class Copy:
    """The rows of some runs of a part, to be copied.

    Attributes:
        part: the part.
        runs: those of its runs that count.
    """

    part: Part
    runs: Sequence[str]

    @property
    def is_whole(self) -> bool:
        """True if all its rows count."""
        return len(self.runs) == len(self.part.runs)


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows that a build takes from the build before.

    Attributes:
        kept: parts that it refers to.
        copies: rows that it copies to one new part.
    """

    kept: Sequence[Part] = ()
    copies: Sequence[Copy] = ()

    @property
    def copied_runs(self) -> list[str]:
        """The runs whose rows are copied."""
        return sorted(run for copy in self.copies for run in copy.runs)


def plan(parts: Iterable[Part], computed: Collection[str]) -> Plan:
    """Sorts the parts of the build before by whether a run of theirs is computed."""
    kept: list[Part] = []
    copies: list[Copy] = []
    for part in parts:
        runs = [run for run in part.runs if run not in computed]
        if len(runs) == len(part.runs):
            kept.append(part)
        elif runs:
            copies.append(Copy(part, runs))
    # The computed runs and the copied ones make one each.
    if len(kept) + 2 > MOST:
        largest = max(kept, key=lambda part: part.size)
        copies += [Copy(part, part.runs) for part in kept if part is not largest]
        kept = [largest]
    return Plan(kept, copies)
