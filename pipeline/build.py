"""Builds: all tables of silver and gold, made of the events, and published at once.

Each build has its own folder, and readers do not see it before ``current.json`` is
moved to it, the last act of a build whose checks have not failed. Killed before, it
has changed nothing, and the next build removes its folder.
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
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kohort.pipeline import lineage, quality
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.lake import java
from kohort.pipeline.lineage import Inputs, Made
from kohort.pipeline.table_functions import Options, TableFunction
from kohort.pipeline.tables import BY_PATH, TABLES, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kohort.pipeline.lake import Lake

BUILDS: Final = "builds"
CURRENT: Final = "current.json"
LOCK: Final = "build"
KEEP: Final = 3
"""Published builds that are kept: a reader has the time of two more to finish."""
AT_ONCE: Final = 3
"""Tables that are made at the same time: most are small, and wait for Spark rather
than for a core."""

FEW_BYTES: Final = 4 << 20
"""Bytes of Parquet for which compiled Java costs more time than it saves, at the most:
some 200,000 events."""
UNCOMPILED: Final = MappingProxyType(
    {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
)
"""Spark's settings for few events: it makes no Java for them."""
_RUNS: Final = BY_PATH["silver/runs"]
_QUALITY: Final = BY_PATH["gold/quality"]
_SETTINGS: Final = "gold/settings"
"""Its rows may come from a comparison with another run: no build carries them over."""
TASKS_END_S: Final = 5.0
"""The longest wait for tasks of cancelled jobs: they end within a second, the tasks of
a stream beside the build go on."""
LOOK_S: Final = 0.05
"""Pause between two looks at the running tasks."""

Progress = Callable[[str, str], None]
"""Called for each table: its path, and ``begins``, ``ends`` or ``fails``."""


class NoEventsError(PipelineError):
    """There is nothing to build of."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The tables of a build, and the functions that make them; tests make fewer.

    Attributes:
        tables: the tables, those before that others are made from.
        functions: how each is made, by its path.
    """

    tables: Sequence[Table]
    functions: Mapping[str, TableFunction]


@dataclass(frozen=True, slots=True)
class Build:
    """A build that has ended.

    Attributes:
        id: its folder's name.
        outcome: of its checks: passed, marked, or failed: it is not published then.
        tables: its tables.
        checks: results of the checks, worst first.
        seconds: how long it took.
        runs: which were computed; None: all.
    """

    id: str
    outcome: str
    tables: Sequence[Made]
    checks: Sequence[quality.Check]
    seconds: float
    runs: Sequence[str] | None

    @property
    def is_published(self) -> bool:
        """Whether readers see it."""
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
    """A table of a build. Columns that it did not have yet are null."""
    uri = lake.uri(f"{BUILDS}/{build_id}/{table.path}")
    return lake.spark.read.schema(table.schema()).parquet(uri)


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
) -> Build:
    """Makes all tables anew, and publishes them if the checks allow that.

    Args:
        lake: where events are, and where tables go.
        options: the user's options of the tables.
        rules: the user's rules of the checks.
        runs: computes only these; rows of the others are taken from the current
            build, if that was made by the same code with the same options. Else all
            are computed. Runs of later ingests than its are computed as well.
        keep: how many published builds are left.
        progress: called for each table.
        recipe: the tables to make; None: `whole_recipe`.
        events: the events; None: those of the lake.

    Raises:
        NoEventsError: the lake has no events.
        LakeError: another build is at work.
    """
    with lake.lock(LOCK, "a build"):
        base = current(lake)
        _sweep(lake, _kept(lake, 0))
        making = _Making(lake, options, rules, recipe or whole_recipe(), progress)
        if runs is not None and base is not None:
            making.carry(base, runs)
        try:
            made = making.make(events)
            if made.is_published:
                _publish(lake, made.id, keep)
        except BaseException:
            # So that only a killed build leaves its folder.
            with suppress(Exception):
                wait_for_tasks(lake)
                lake.remove(making.folder)
            raise
        return made


def wait_for_tasks(lake: Lake) -> None:
    """Waits until no task of Spark runs, as of a stream, or for `TASKS_END_S`.

    A cancelled job has failed before its tasks have ended. One that is about to create
    its file then makes the folders above it anew, even if they were just removed.
    """
    tracker = lake.spark.sparkContext._jsc.sc().statusTracker()
    until = time.monotonic() + TASKS_END_S
    while time.monotonic() < until and any(
        executor.numRunningTasks() for executor in tracker.getExecutorInfos()
    ):
        time.sleep(LOOK_S)


# -- which builds there are


def _kept(lake: Lake, keep: int) -> list[str]:
    """The builds that were published, the latest first; of 0 all."""
    text = lake.read_text(CURRENT)
    kept = [] if text is None else [str(each) for each in json.loads(text)["kept"]]
    return kept[:keep] if keep else kept


def _publish(lake: Lake, build_id: str, keep: int) -> None:
    kept = [build_id, *_kept(lake, 0)][: max(keep, 1)]
    said = {"build": build_id, "kept": kept}
    lake.write_text(CURRENT, f"{json.dumps(said, indent=2)}\n")
    _sweep(lake, kept)


def _sweep(lake: Lake, kept: Sequence[str]) -> None:
    """Removes unpublished builds, except the latest failed one since the last."""
    others = [name for name in lake.names(BUILDS) if name not in kept]
    latest = max(kept, default="")
    failed = [
        name
        for name in others
        if name > latest and (about(lake, name) or {}).get("outcome") == quality.FAILED
    ]
    for name in others:
        if name != max(failed, default=""):
            lake.remove(f"{BUILDS}/{name}")


def _new_id() -> str:
    """Sorts by time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{uuid.uuid4().hex[:6]}"


# -- making one


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
    """A build that is under way."""

    lake: Lake
    options: Options
    rules: quality.Rules
    recipe: Recipe
    progress: Progress
    id: str = field(default_factory=_new_id)
    base: str | None = None
    runs: Sequence[str] | None = None
    inputs: Inputs = field(init=False)
    started: float = field(default_factory=time.monotonic)
    made: dict[str, Future[Made]] = field(default_factory=dict)
    is_over: bool = False

    def __post_init__(self) -> None:
        self.inputs = lineage.inputs(self.lake)

    @property
    def folder(self) -> str:
        """Its path in the lake."""
        return f"{BUILDS}/{self.id}"

    def carry(self, base: str, runs: Sequence[str]) -> None:
        """Computes these runs only, and those of ingests that the base has not.

        Only if the base has the same code and options.
        """
        said = about(self.lake, base) or {}
        known = said["inputs"]["ledger"] if said else {}
        if (
            said.get("code") == lineage.code_version()
            and said.get("options") == asdict(self.options)
            and known.keys() <= self.inputs.ledger.keys()
        ):
            new = (e for name, e in self.inputs.ledger.items() if name not in known)
            ingested = {run for entry in new for run in entry["runs"]}
            self.base, self.runs = base, sorted({*runs, *ingested})

    def make(self, events: DataFrame | None) -> Build:
        """Makes all tables; returns the build."""
        if events is None:
            from kohort.pipeline import bronze

            events = bronze.events(self.lake, self.runs)
        sources = quality.sources(self.lake, events, self.runs)
        with _compiled(self.lake, events):
            made = self._make_all(sources)
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
                self.lake.spark.sparkContext.cancelJobGroup(self.id)
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
        spark = self.lake.spark
        spark.sparkContext.setJobGroup(self.id, table.path, interruptOnCancel=True)
        frames = self._frames(table, sources)
        rows = self._maker(table)(frames, self.options)
        base = self._base_of(table)
        if base is not None:
            rows = rows.unionByName(base)
        assert _types(rows) == _types_of(table), (
            f"{table.path}: {_types(rows)} are not the columns that it has to have"
        )
        path = f"{self.folder}/{table.path}"
        if self.is_over:
            raise CancelledError
        rows.write.parquet(self.lake.uri(path))
        if table.path == _RUNS.path and _is_empty(self.lake, path):
            raise NoEventsError(
                f"{self.lake.path} has no events yet:"
                " `kohort pipeline ingest` and `kohort pipeline stream` bring some in"
            )
        count, files, size = _footers(self.lake, path)
        return Made(
            table.path,
            count,
            files,
            size,
            time.monotonic() - started,
            frames.asked,
            None if base is None else self.base,
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
        for other in self.recipe.tables:
            if other.path == table.path:
                break
            found[other.path] = partial(self._back, other, only=_has_run(table))
        if _RUNS in self.recipe.tables:
            found[quality.ALL_RUNS] = partial(self._back, _RUNS, only=False)
        return _Asked(found)

    def _back(self, other: Table, *, only: bool) -> DataFrame:
        """A table as it was written; once it is."""
        self.made[other.path].result()
        rows = read(self.lake, self.id, other)
        if only and self.runs is not None and _has_run(other):
            return rows.where(rows["run"].isin([*self.runs]))
        return rows

    def _base_of(self, table: Table) -> DataFrame | None:
        """The rows of other runs, in the build before."""
        if table.path == _QUALITY.path or not _has_run(table):
            return None
        return self._before(table)

    def _before(self, table: Table) -> DataFrame | None:
        if self.base is None or self.runs is None:
            return None
        rows = read(self.lake, self.base, table)
        return rows.where(~rows["run"].isin([*self.runs]))

    def _checks(self) -> Sequence[quality.Check]:
        if _QUALITY.path not in self.made:
            return ()
        return quality.checks(read(self.lake, self.id, _QUALITY))

    def _write_lineage(self, ended: Build) -> None:
        said = {
            "build": self.id,
            "outcome": ended.outcome,
            "made": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "seconds": round(ended.seconds, 3),
            "code": lineage.code_version(),
            "kohort": metadata.version("kohort"),
            "spark": self.lake.spark.version,
            "options": asdict(self.options),
            "runs": self.runs,
            "inputs": self.inputs.as_json(),
        }
        for table in ended.tables:
            text = json.dumps({**said, **table.as_json()}, indent=2)
            path = f"{self.folder}/{table.path}/{lineage.OF_TABLE}"
            self.lake.write_text(path, f"{text}\n")
        # Last: a build without it did not end.
        said["tables"] = [table.as_json() for table in ended.tables]
        text = json.dumps(said, indent=2)
        self.lake.write_text(f"{self.folder}/{lineage.OF_BUILD}", f"{text}\n")


@contextmanager
def _compiled(lake: Lake, events: DataFrame) -> Iterator[None]:
    """Turns compilation off while the events are few: see `FEW_BYTES`."""
    plan: Any = events._jdf.queryExecution().optimizedPlan()
    conf = lake.spark.conf
    before = {name: conf.get(name, None) for name in UNCOMPILED}
    if int(str(plan.stats().sizeInBytes())) <= FEW_BYTES:
        for name, value in UNCOMPILED.items():
            conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                conf.unset(name)
            else:
                conf.set(name, old)


def _has_run(table: Table) -> bool:
    """Whether its rows are each of a run, and depend on that alone."""
    return table.path != _SETTINGS and any(
        column.name == "run" for column in table.columns
    )


def _types(rows: DataFrame) -> list[tuple[str, str]]:
    return [*lineage.columns(rows.schema).items()]


def _types_of(table: Table) -> list[tuple[str, str]]:
    return [*lineage.columns(table.schema()).items()]


def _is_empty(lake: Lake, path: str) -> bool:
    return _footers(lake, path)[0] == 0


def _footers(lake: Lake, path: str) -> tuple[int, int, int]:
    """Rows, files and bytes of a table: of Parquet's footers, without a job."""
    paths = java(lake.spark, "org.apache.hadoop.fs.Path")
    inputs = java(lake.spark, "org.apache.parquet.hadoop.util.HadoopInputFile")
    readers = java(lake.spark, "org.apache.parquet.hadoop.ParquetFileReader")
    conf = lake.spark.sparkContext._jsc.hadoopConfiguration()
    rows = files = size = 0
    for name in lake.names(path):
        if not name.endswith(".parquet"):
            continue
        file = inputs.fromPath(paths(lake.uri(f"{path}/{name}")), conf)
        reader = readers.open(file)
        try:
            rows += int(reader.getRecordCount())
        finally:
            reader.close()
        files += 1
        size += int(file.getLength())
    return rows, files, size
