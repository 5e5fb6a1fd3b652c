"""The tables of a build by names that SQL knows: ``gold_hours``, ``silver_commits``."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from kohort.pipeline import bronze
from kohort.pipeline import build as builds
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.quality import QUARANTINE
from kohort.pipeline.table_functions import EVENTS, Frames
from kohort.pipeline.tables import BY_PATH, TABLES, view

if TYPE_CHECKING:
    from kohort.pipeline.lake import Lake

_RUNS: Final = BY_PATH["silver/runs"]
_MOST: Final = 5
"""Runs that are named."""
_LIKELY: Final = 0.5
"""Similarity from which a name is suggested in place of an unknown one."""


def register(lake: Lake, build_id: str | None = None) -> str:
    """Makes the tables of a build known to SQL; its id.

    Args:
        lake: where it is.
        build_id: which; None: the one that readers see.

    Raises:
        PipelineError: there is none.
    """
    found = build_id or builds.current(lake)
    if found is None:
        raise PipelineError(
            f"{lake.path} has no tables yet: `kohort pipeline build` makes them"
        )
    said = builds.about(lake, found)
    if said is None:
        there = ", ".join(each["build"] for each in lake.builds()) or "none"
        raise PipelineError(f"there is no build {found}; there are: {there}")
    frames = Frames(lake.spark)
    for path in said["rows"]:
        if (table := BY_PATH.get(path)) is not None:
            frames[path] = builds.read(lake, found, table)
    return found


def register_bronze(lake: Lake) -> None:
    """Makes the events and the quarantine known to SQL, as they are now."""
    frames = Frames(lake.spark)
    frames[EVENTS] = bronze.events(lake)
    frames[QUARANTINE] = bronze.quarantine(lake)


def must_have(lake: Lake, runs: Collection[str]) -> None:
    """Sees to it that the tables that are registered have these runs.

    Raises:
        PipelineError: they have not.
    """
    if not runs:
        return
    there = {row["run"] for row in lake.spark.table(view(_RUNS)).collect()}
    missing = [run for run in runs if run not in there]
    if missing:
        some = ", ".join(sorted(there)[:_MOST])
        more = ", ..." if len(there) > _MOST else ""
        raise PipelineError(f"there is no run {missing[0]}; there are: {some}{more}", 2)


def meant(name: str) -> str:
    """A sentence with similar names of tables."""
    bare = name.replace("`", "").replace(".", "_").lower()
    names = [view(table) for table in TABLES]
    likely = [each for each in names if each.partition("_")[2] == bare]
    likely += difflib.get_close_matches(bare, names, cutoff=_LIKELY)
    shown = [*dict.fromkeys(likely)]
    if shown:
        return f"did you mean {' or '.join(shown)}?"
    return "`kohort pipeline query --tables` lists them"
