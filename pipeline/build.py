"""Builds: computes all tables of silver and gold from the events and publishes them.

Each build has its own folder, and readers do not see it before ``current.json`` names
it, the last act of a build whose checks have not failed. Killed before, it has changed
nothing, and the next build removes its folder.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from kohort.pipeline import failures, quality, session
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.lake import BUILDS, Lake
from kohort.pipeline.quality import QUARANTINE
from kohort.pipeline.table_functions import EVENTS, Frames, Options, TableFunction
from kohort.pipeline.tables import BY_PATH, TABLES, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOCK: Final = "build"
KEEP: Final = 3
"""Published builds that are kept: a reader has the time of two more to finish."""
_QUALITY: Final = BY_PATH["gold/quality"]

Progress = Callable[[str, str], None]
"""Called for each table: its path, and ``begins`` or ``ends``."""


class NoEventsError(PipelineError):
    """The lake has no events to build from."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The tables of a build, and the functions that make them; tests make fewer.

    Attributes:
        tables: the tables, each after those that it reads.
        functions: table functions by path.
    """

    tables: Sequence[Table]
    functions: Mapping[str, TableFunction]


@dataclass(frozen=True, slots=True)
class Made:
    """A table of a build.

    Attributes:
        path: which: ``silver/rebalances``.
        rows: how many it has.
        seconds: how long it took.
    """

    path: str
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Build:
    """A build that has ended.

    Attributes:
        id: name of the build's folder.
        outcome: passed, marked or failed; a failed build is not published.
        tables: the build's tables.
        checks: results of the checks, worst first.
        seconds: duration of the build.
    """

    id: str
    outcome: str
    tables: Sequence[Made]
    checks: Sequence[quality.Check]
    seconds: float

    @property
    def is_published(self) -> bool:
        """True if readers see this build."""
        return self.outcome != quality.FAILED


def whole_recipe() -> Recipe:
    """All tables."""
    from kohort.pipeline import gold, silver

    return Recipe(TABLES, {**silver.TABLE_FUNCTIONS, **gold.TABLE_FUNCTIONS})


# -- existing builds


def current(lake: Lake) -> str | None:
    """The id of the build that readers see; None before the first."""
    published = (each["build"] for each in lake.builds() if _is_published(each))
    return next(published, None)


def about(lake: Lake, build_id: str) -> dict[str, Any] | None:
    """The description of a build; None: the build is unknown, or did not end."""
    found = (each for each in lake.builds() if each["build"] == build_id)
    return next(found, None)


def read(lake: Lake, build_id: str, table: Table) -> DataFrame:
    """A table of a build. Columns that it did not have yet are null.

    Raises:
        PipelineError: its folder is missing.
    """
    path = f"{BUILDS}/{build_id}/{table.path}"
    if lake.is_local and not lake.names(path):
        # Sail takes a missing folder for one without rows.
        text = f"Path does not exist: {lake.uri(path)}. "
        raise PipelineError(failures.sentence(text, lake.path))
    return lake.read(table.schema(), path)


def _is_published(said: Mapping[str, Any]) -> bool:
    return bool(said["outcome"] != quality.FAILED)


# -- a build


def _silent(path: str, what: str) -> None:
    """Reports nothing."""


def build(
    lake: Lake,
    options: Options = Options(),
    rules: quality.Rules = quality.Rules(),
    *,
    keep: int = KEEP,
    progress: Progress = _silent,
    recipe: Recipe | None = None,
) -> Build:
    """Builds all tables, and publishes them if the checks allow it.

    Args:
        lake: holds the events, and receives the tables.
        options: the user's table options.
        rules: the user's rules for the checks.
        keep: number of published builds to keep.
        progress: called for each table.
        recipe: the tables to make; None: `whole_recipe`.

    Raises:
        NoEventsError: the lake has no events.
        LakeError: another build is in progress.
    """
    with lake.lock(LOCK, "a build"):
        builds = lake.builds()
        _sweep(lake, builds)
        making = _Making(lake, options, rules, recipe or whole_recipe(), progress)
        try:
            made = making.make()
            kept = _kept(making.said(made), builds, max(keep, 1))
            published = (each["build"] for each in kept if _is_published(each))
            lake.set_builds(next(published, None), kept)
        except BaseException:
            # So that only a killed build leaves its folder.
            with suppress(Exception):
                lake.remove(making.folder)
            raise
        _sweep(lake, kept, gone=builds)
        return made


def _kept(
    last: Mapping[str, Any], before: Sequence[Mapping[str, Any]], keep: int
) -> list[Mapping[str, Any]]:
    """The builds that stay: published ones, and a failed one until the next build."""
    published = [each for each in before if _is_published(each)]
    if _is_published(last):
        return [last, *published][:keep]
    return [last, *published]


def _sweep(
    lake: Lake,
    kept: Sequence[Mapping[str, Any]],
    gone: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Removes builds that are not kept, and on this machine those that were killed."""
    stay = {each["build"] for each in kept}
    for name in {*lake.names(BUILDS), *(each["build"] for each in gone)} - stay:
        lake.remove(f"{BUILDS}/{name}")


def _new_id() -> str:
    """A new build id; ids sort by time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{uuid.uuid4().hex[:6]}"


@dataclass(slots=True)
class _Making:
    """A build in progress."""

    lake: Lake
    options: Options
    rules: quality.Rules
    recipe: Recipe
    progress: Progress
    id: str = field(default_factory=_new_id)
    started: float = field(default_factory=time.monotonic)
    sources: set[str] = field(default_factory=set)

    @property
    def folder(self) -> str:
        """Its path in the lake."""
        return f"{BUILDS}/{self.id}"

    def make(self) -> Build:
        """Makes all tables, one after the other; returns the build."""
        from kohort.pipeline import bronze

        frames = Frames(self.lake.spark)
        # Views: the tables read the files that are there now, and no later ones.
        frames[EVENTS] = bronze.events(self.lake)
        frames[QUARANTINE] = bronze.quarantine(self.lake)
        sources = frames[EVENTS].select(bronze.SOURCE).distinct().collect()
        self.sources = {row[bronze.SOURCE] for row in sources}
        made = [self._make(table, frames) for table in self.recipe.tables]
        checks: Sequence[quality.Check] = ()
        if _QUALITY in self.recipe.tables:
            checks = quality.checks(frames[_QUALITY.path])
        outcome = quality.worst(checks)
        seconds = time.monotonic() - self.started
        return Build(self.id, outcome, made, checks, seconds)

    def _make(self, table: Table, frames: Frames) -> Made:
        """Writes a table, and makes it a view for those after it."""
        self.progress(table.path, "begins")
        started = time.monotonic()
        if table == _QUALITY:
            rows = quality.judged(frames, self.rules)
        else:
            rows = self.recipe.functions[table.path](frames, self.options)
        path = f"{self.folder}/{table.path}"
        self.lake.write(rows, table.schema(), path)
        frames[table.path] = written = self.lake.read(table.schema(), path)
        count = written.count()
        if table.path == "silver/runs" and not count:
            raise NoEventsError(
                f"{self.lake.path} has no events yet:"
                " `kohort pipeline ingest` and `kohort pipeline stream` bring some in"
            )
        self.progress(table.path, "ends")
        return Made(table.path, count, time.monotonic() - started)

    def said(self, made: Build) -> dict[str, Any]:
        """The build's description in ``current.json``."""
        return {
            "build": self.id,
            "outcome": made.outcome,
            "made": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "seconds": round(made.seconds, 3),
            "kohort": metadata.version("kohort"),
            "engine": session.engine(self.lake.spark),
            "options": asdict(self.options),
            "sources": sorted(self.sources),
            "rows": {each.path: each.rows for each in made.tables},
        }
