"""Builds: computes all tables of silver and gold from the events and publishes them.

Each build has its own folder, and readers do not see it before ``current.json`` is
moved to it, the last act of a build whose checks have not failed. Killed before, it
has changed nothing, and the next build removes its folder.

A build computes the runs that are new or changed since the build that readers see, and
refers to the parts of that one for the others: see `kohort.pipeline.parts`.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_EXCEPTION,
    CancelledError,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from kohort.pipeline import lineage, parts, quality
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.folders import Folders
from kohort.pipeline.iceberg import IcebergTables
from kohort.pipeline.lake import BUILDS, CURRENT, ICEBERG, Lake
from kohort.pipeline.lineage import Inputs, Made
from kohort.pipeline.stores import Draft, Store
from kohort.pipeline.table_functions import Options, TableFunction
from kohort.pipeline.tables import BY_PATH, TABLES, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOCK: Final = "build"
KEEP: Final = 3
"""Published builds that are kept: a reader has the time of two more to finish."""
AT_ONCE: Final = 3
"""Tables that are made at the same time: most are small, and wait for Spark rather
than for a core."""

_RUNS: Final = BY_PATH["silver/runs"]
_QUALITY: Final = BY_PATH["gold/quality"]

Progress = Callable[[str, str], None]
"""Called for each table: its path, and ``begins``, ``ends`` or ``fails``."""


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
class Build:
    """A build that has ended.

    Attributes:
        id: name of the build's folder.
        outcome: passed, marked or failed; a failed build is not published.
        tables: the build's tables.
        checks: results of the checks, worst first.
        seconds: duration of the build.
        runs: the computed runs; None: all.
    """

    id: str
    outcome: str
    tables: Sequence[Made]
    checks: Sequence[quality.Check]
    seconds: float
    runs: Sequence[str] | None

    @property
    def is_published(self) -> bool:
        """True if readers see this build."""
        return self.outcome != quality.FAILED


def whole_recipe() -> Recipe:
    """All tables."""
    from kohort.pipeline import gold, silver

    return Recipe(TABLES, {**silver.TABLE_FUNCTIONS, **gold.TABLE_FUNCTIONS})


def current(lake: Lake) -> str | None:
    """The id of the build that readers see; None before the first."""
    text = lake.read_text(CURRENT)
    return None if text is None else str(json.loads(text)["build"])


def about(lake: Lake, build_id: str) -> dict[str, Any] | None:
    """The lineage of a build; None: the build is unknown, or did not end."""
    text = lake.read_text(f"{BUILDS}/{build_id}/{lineage.OF_BUILD}")
    found: dict[str, Any] | None = None if text is None else json.loads(text)
    return found


def read(lake: Lake, build_id: str, table: Table) -> DataFrame:
    """A table of a build. Columns that it did not have yet are null.

    Raises:
        PipelineError: a folder of it is missing.
    """
    said = (about(lake, build_id) or {}).get("tables", ())
    found = [each for each in said if each["table"] == table.path]
    return _store(lake).read(build_id, table, found[0] if found else {})


def _silent(path: str, what: str) -> None:
    """Reports nothing."""


def build(
    lake: Lake,
    options: Options = Options(),
    rules: quality.Rules = quality.Rules(),
    runs: Sequence[str] | None = None,
    *,
    keep: int = KEEP,
    progress: Progress = _silent,
    recipe: Recipe | None = None,
    events: DataFrame | None = None,
    is_whole: bool = False,
) -> Build:
    """Builds all tables, and publishes them if the checks allow it.

    It computes the runs with events that the current build has not read. Rows of other
    runs come from there, unless that has another code, engine or options.

    Args:
        lake: holds the events, and receives the tables.
        options: the user's table options.
        rules: the user's rules for the checks.
        runs: computes these as well; None: computes all, if events are given.
        keep: number of published builds to keep.
        progress: called for each table.
        recipe: the tables to make; None: `whole_recipe`.
        events: the events; None: those of the lake.
        is_whole: computes all runs.

    Raises:
        NoEventsError: the lake has no events.
        LakeError: another build is in progress, or has taken over from this one.
    """
    with lake.lock(LOCK, "a build") as must_hold:
        is_whole = is_whole or (events is not None and runs is None)
        base = current(lake)
        _sweep(lake, _kept(lake, 0))
        making = _Making(lake, options, rules, recipe or whole_recipe(), progress)
        if base is not None and not is_whole:
            making.base_on(base, runs or ())
        try:
            made = making.make(events)
            must_hold()
            if made.is_published:
                _publish(lake, made.id, keep)
        except BaseException:
            # So that only a killed build leaves its folder.
            with suppress(Exception):
                lake.engine.wait_for_tasks(making.id)
            with suppress(Exception):
                if current(lake) != making.id:
                    making.draft.discard()
            raise
        return made


# -- existing builds


def _store(lake: Lake) -> Store:
    return IcebergTables(lake) if lake.format == ICEBERG else Folders(lake)


def _kept(lake: Lake, keep: int) -> list[str]:
    """Ids of published builds, latest first; all if ``keep`` is 0."""
    text = lake.read_text(CURRENT)
    kept = [] if text is None else [str(each) for each in json.loads(text)["kept"]]
    return kept[:keep] if keep else kept


def _publish(lake: Lake, build_id: str, keep: int) -> None:
    kept = [build_id, *_kept(lake, 0)][: max(keep, 1)]
    said = {"build": build_id, "kept": kept}
    lake.write_text(CURRENT, f"{json.dumps(said, indent=2)}\n")
    _store(lake).published(about(lake, build_id) or {})
    _sweep(lake, kept)


def _sweep(lake: Lake, kept: Sequence[str]) -> None:
    """Removes unpublished builds, except the latest failed one since the last.

    Parts that other builds refer to stay; without its lineage their build is unknown.
    """
    there = lake.names(BUILDS)
    known = {name: said for name in there if (said := about(lake, name))}
    latest = max(kept, default="")
    failed = [
        name
        for name, said in known.items()
        if name > latest and said.get("outcome") == quality.FAILED
    ]
    stay = {*kept, max(failed, default="")}
    gone = [name for name in there if name not in stay]
    _store(lake).sweep(gone, [known[name] for name in stay.intersection(known)])


def _new_id() -> str:
    """A new build id; ids sort by time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{uuid.uuid4().hex[:6]}"


# -- making a build


class _Asked(Mapping[str, "DataFrame"]):
    """Tables for a table function, which waits for one that is being written."""

    def __init__(self, tables: Mapping[str, Callable[[], DataFrame]]) -> None:
        self._tables = tables
        self.asked: list[str] = []

    def __getitem__(self, path: str) -> DataFrame:
        made = self._tables[path]()
        if path not in self.asked:
            self.asked.append(path)
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


@dataclass(slots=True)
class _Making:
    """A build in progress."""

    lake: Lake
    options: Options
    rules: quality.Rules
    recipe: Recipe
    progress: Progress
    id: str = field(default_factory=_new_id)
    base: str | None = None
    runs: Sequence[str] | None = None
    draft: Draft = field(init=False)
    inputs: Inputs = field(init=False)
    started: float = field(default_factory=time.monotonic)
    made: dict[str, Future[Made]] = field(default_factory=dict)
    is_over: bool = False

    def __post_init__(self) -> None:
        self.inputs = lineage.inputs(self.lake)
        self.draft = _store(self.lake).draft(self.id, current(self.lake))

    @property
    def folder(self) -> str:
        """Its path in the lake."""
        return f"{BUILDS}/{self.id}"

    def base_on(self, base: str, more: Sequence[str]) -> None:
        """Computes only runs that have changed since a build, and some more.

        Only if the base has the same code, engine and options.
        """
        said = about(self.lake, base) or {}
        if (
            said.get("code") != lineage.code_version()
            or said.get("engine") != self.lake.engine.version
            or said.get("options") != asdict(self.options)
            or {each["table"] for each in said["tables"]}
            != {table.path for table in self.recipe.tables}
        ):
            return
        from kohort.pipeline import bronze

        changed = bronze.changed_runs(self.lake, said["inputs"], self.inputs)
        if changed is not None:
            self.base, self.runs = base, sorted({*more, *changed})
            self.draft.base_on(said, self.runs)

    def make(self, events: DataFrame | None) -> Build:
        """Makes all tables; returns the build."""
        if events is None:
            from kohort.pipeline import bronze

            events = bronze.events(self.lake, self.runs)
        engine = self.lake.engine
        with engine.tuned(events), engine.named(events) as rows:
            made = self._make_all(quality.sources(self.lake, rows, self.runs))
        checks = self._checks()
        outcome = quality.worst(checks)
        seconds = time.monotonic() - self.started
        ended = Build(self.id, outcome, made, checks, seconds, self.runs)
        self._write_lineage(ended)
        return ended

    def _make_all(self, sources: quality.Sources) -> list[Made]:
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="build") as pool:
            try:
                # In this order each waits only for those that have begun before.
                for table in self.recipe.tables:
                    self.made[table.path] = pool.submit(self._make, table, sources)
                wait(self.made.values(), return_when=FIRST_EXCEPTION)
                return [each.result() for each in self._to_look_at()]
            except BaseException:
                self.is_over = True
                pool.shutdown(wait=False, cancel_futures=True)
                self.lake.engine.cancel(self.id)
                raise

    def _to_look_at(self) -> list[Future[Made]]:
        """The tables that failed, else all: a failure ends the build at once."""
        every = [*self.made.values()]
        failed = [each for each in every if each.done() and each.exception()]
        return failed or every

    def _make(self, table: Table, sources: quality.Sources) -> Made:
        """Makes a table; runs in a thread per table."""
        self.progress(table.path, "begins")
        try:
            made = self._made(table, sources)
        except BaseException:
            self.progress(table.path, "fails")
            raise
        self.progress(table.path, "ends")
        return made

    def _made(self, table: Table, sources: quality.Sources) -> Made:
        started = time.monotonic()
        self.lake.engine.begin(self.id, table.path)
        frames = self._frames(table, sources)
        rows: DataFrame | None = None
        # Without a new event all rows stay as they are, but the rules may be others.
        if self.runs != [] or table.path == _QUALITY.path:
            rows = self._maker(table)(frames, self.options)
        if self.is_over:
            raise CancelledError
        stored = self.draft.write(table, rows)
        if table.path == _RUNS.path and not stored.rows:
            raise NoEventsError(
                f"{self.lake.path} has no events yet:"
                " `kohort pipeline ingest` and `kohort pipeline stream` bring some in"
            )
        return Made(
            table.path,
            stored.rows,
            stored.files,
            stored.size,
            time.monotonic() - started,
            frames.asked,
            stored.parts,
            lineage.columns(table.schema()),
        )

    def _maker(self, table: Table) -> TableFunction:
        if table.path != _QUALITY.path:
            return self.recipe.functions[table.path]
        before = self._before(table)
        return lambda frames, _: quality.judged(frames, self.rules, before)

    def _frames(self, table: Table, sources: quality.Sources) -> _Asked:
        """The tables that a table may read: rows of the computed runs."""
        found = dict(sources)
        only = parts.is_by_run(table) or table.path == _QUALITY.path
        for other in self.recipe.tables:
            if other.path == table.path:
                break
            found[other.path] = partial(self._back, other, only=only)
        if _RUNS in self.recipe.tables:
            found[quality.ALL_RUNS] = partial(self._back, _RUNS, only=False)
        return _Asked(found)

    def _back(self, other: Table, *, only: bool) -> DataFrame:
        """Waits until a table is written, then reads it."""
        self.made[other.path].result()
        return self.draft.rows(other, only=only and parts.is_by_run(other))

    def _before(self, table: Table) -> DataFrame | None:
        """The rows of other runs, in the build before."""
        if self.base is None or self.runs is None:
            return None
        rows = read(self.lake, self.base, table)
        return rows.where(~rows["run"].isin([*self.runs])) if self.runs else rows

    def _checks(self) -> Sequence[quality.Check]:
        if _QUALITY.path not in self.made:
            return ()
        self.made[_QUALITY.path].result()
        return quality.checks(self.draft.rows(_QUALITY, only=False))

    def _computed(self) -> Sequence[str]:
        """The runs that were computed."""
        if self.runs is not None:
            return self.runs
        rows = self.draft.rows(_RUNS, only=False)
        return sorted(row["run"] for row in rows.select("run").collect())

    def _write_lineage(self, ended: Build) -> None:
        said = {
            "build": self.id,
            "outcome": ended.outcome,
            "made": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "seconds": round(ended.seconds, 3),
            "code": lineage.code_version(),
            "kohort": metadata.version("kohort"),
            "engine": self.lake.engine.version,
            "options": asdict(self.options),
            "runs": self.runs,
            "inputs": self.inputs.as_json(),
        }
        shared = self.draft.as_json(self._computed)
        for table in ended.tables:
            text = json.dumps({**said, **table.as_json()}, indent=2)
            path = f"{self.folder}/{table.path}/{lineage.OF_TABLE}"
            self.lake.write_text(path, f"{text}\n")
        # Last: a build without it did not end.
        said |= shared
        said["tables"] = [table.as_json() for table in ended.tables]
        text = json.dumps(said, indent=2)
        self.lake.write_text(f"{self.folder}/{lineage.OF_BUILD}", f"{text}\n")
