"""Bronze: events as they came, each once.

An ingest reads files, writes what is new of them as Parquet, and counts by its entry
in the ledger, which it writes last: killed before, it has not been. A stream (see
`kohort.pipeline.stream`) counts by what Structured Streaming has committed.

Where an event is in several sources, `events` has it once. To look for those costs
little: numbers have no gaps, so a bit per number tells whether one was there before.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from kohort.pipeline.errors import PipelineError
from kohort.pipeline.lake import FILES, LEDGER, STREAMS, File, Lake, pattern_of
from kohort.pipeline.lineage import code_version
from kohort.pipeline.schema import IDENTITY, RAW, WHY, checked, events_schema, parsed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

TEXTS: Final = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
PARQUET: Final = ".parquet"
LOST: Final = "events_lost"
"""The kind whose number is that of an event which is missing."""
SOURCE: Final = "source"
ARRIVED: Final = "arrived"
METADATA: Final = "_spark_metadata"
"""Where a stream's file sink says which of its files count."""
MANIFEST: Final = f"{STREAMS}/{{name}}/{METADATA}"


class BronzeError(PipelineError):
    """An input that cannot be read; the text says which, and why."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """What an ingest did.

    Attributes:
        id: its name in the ledger; None: there was nothing to do.
        files: how many were read.
        skipped: how many were left alone, as they were read before.
        events: how many are new.
        known: how many were there already, or twice in these files.
        quarantined: records that are no events, by reason.
    """

    id: str | None = None
    files: int = 0
    skipped: int = 0
    events: int = 0
    known: int = 0
    quarantined: Mapping[str, int] = field(default_factory=dict)


def bronze_schema() -> StructType:
    """The wide table of events, and where each came from, and when."""
    return events_schema().add(SOURCE, "string").add(ARRIVED, "timestamp")


def quarantine_schema() -> StructType:
    """What is known of a record that is no event."""
    from pyspark.sql.types import StructType  # noqa: PLC0415 - takes long

    columns = f"{RAW} string, reason string, {SOURCE} string, {ARRIVED} timestamp"
    schema: StructType = StructType.fromDDL(columns)  # type: ignore[assignment]
    return schema


# -- ingest


def ingest(
    lake: Lake, paths: Iterable[str], progress: Callable[[str], None] = lambda _: None
) -> Ingested:
    """Takes files of events into the lake: JSON lines, plain or .gz, and Parquet.

    A file that was taken before, and has the same size and time of modification, is
    skipped; of one that has grown, or changed, what is not there yet is taken.

    Args:
        lake: takes them.
        paths: files, folders with everything below, or patterns (``runs/*.jsonl``). Of
            folders the files whose names end as `TEXTS`, or with `PARQUET`, are taken.
        progress: is told what goes on.

    Raises:
        BronzeError: there is no such file, or it cannot be read.
        LakeError: another process is at it.
    """
    with lake.lock("ingest", "ingest"):
        entries = ledger(lake)
        _sweep(lake, entries)
        found = _listed(lake, paths)
        before = {
            (each["path"], each["size"], each["modified_ms"])
            for entry in entries
            for each in entry["files"]
        }
        # What was taken last counts: a file may go back to what it was.
        last = {
            each["path"]: (each["path"], each["size"], each["modified_ms"])
            for entry in entries
            for each in entry["files"]
        }
        fresh = [
            file
            for file in found
            if (key := (file.path, file.size, file.modified_ms)) not in before
            or last[file.path] != key
        ]
        if not fresh:
            return Ingested(skipped=len(found))
        with _words():
            return _Ingest(lake, fresh, len(found) - len(fresh), progress).run()


def ledger(lake: Lake) -> list[dict[str, Any]]:
    """The entries of all ingests that count, in order."""
    names = [name for name in lake.names(LEDGER) if name.endswith(".json")]
    entries = [lake.read_json(f"{LEDGER}/{name}") for name in names]
    return [entry for entry in entries if entry is not None]


def _sweep(lake: Lake, entries: Sequence[Mapping[str, Any]]) -> None:
    """Takes away what ingests that were killed have left.

    Where there are no locks another one may be at it, so there it stays.
    """
    if lake.is_local:
        count = {entry["id"] for entry in entries}
        for name in lake.names(FILES):
            if name not in count:
                lake.remove(f"{FILES}/{name}")


def _listed(lake: Lake, paths: Iterable[str]) -> list[File]:
    found: dict[str, File] = {}
    for path in paths:
        files = lake.inputs(path)
        named = len(files) == 1 and files[0].path.endswith(PurePosixPath(path).name)
        files = [
            each for each in files if named or each.path.endswith((*TEXTS, PARQUET))
        ]
        if not files:
            raise BronzeError(
                f"{path}: there is no such file, or none that ends with"
                f" {', '.join((*TEXTS, PARQUET))}"
            )
        found.update((each.path, each) for each in files)
    return [found[path] for path in sorted(found)]


@contextlib.contextmanager
def _words() -> Iterator[None]:
    """Says in a line what Spark says in hundreds."""
    from py4j.protocol import (  # type: ignore[import-untyped]  # noqa: PLC0415
        Py4JJavaError,
    )
    from pyspark.errors import AnalysisException, PySparkException  # noqa: PLC0415

    try:
        yield
    except AnalysisException:  # no input's fault
        raise
    except (PySparkException, Py4JJavaError) as error:
        raise BronzeError(_why_unreadable(error)) from error


def _why_unreadable(error: Exception) -> str:
    """The cause at the bottom, in a line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    said = [line for line in lines if "Encountered error while reading file" in line]
    text = (said or lines or [type(error).__name__])[0]
    return f"{text[:400]} {causes[-1][:400] if causes else ''}".strip()


class _Ingest:
    """One ingest, from the files to the entry in the ledger."""

    def __init__(
        self,
        lake: Lake,
        files: Sequence[File],
        skipped: int,
        progress: Callable[[str], None],
    ) -> None:
        self._lake = lake
        self._files = files
        self._skipped = skipped
        self._progress = progress
        now = datetime.now(UTC)
        self._at = now
        self._id = f"{now:%Y%m%dT%H%M%S%f}Z-{uuid.uuid4().hex[:8]}"
        self._base = f"{FILES}/{self._id}"

    def run(self) -> Ingested:
        size = sum(file.size for file in self._files)
        self._progress(f"reading {len(self._files)} files, {size / 1e6:.1f} MB")
        written, bad = self._write()
        quarantined = self._write_quarantine() if bad else {}
        folder, events, runs = "events", written, list[str]()
        if written:
            self._progress(f"looking for what is there already, of {written} events")
            folder, events, runs = self._only_new(written)
        done = Ingested(
            self._id,
            len(self._files),
            self._skipped,
            events,
            written - events,
            quarantined,
        )
        self._commit(done, f"{self._base}/{folder}" if events else None, runs)
        return done

    def _write(self) -> tuple[int, int]:
        """Writes all events, perhaps twice, and counts them, and what is none."""
        from pyspark.sql import Observation  # noqa: PLC0415 - takes long
        from pyspark.sql import functions as sql  # noqa: PLC0415

        is_event = sql.col(WHY).isNull()
        seen = Observation()
        rows = self._rows().observe(
            seen,
            sql.count_if(is_event).alias("events"),
            sql.count_if(~is_event).alias("bad"),
        )
        kept = rows.filter(is_event).drop(RAW, WHY)
        kept.write.parquet(self._lake.uri(f"{self._base}/events"))
        counted = seen.get
        return int(counted["events"]), int(counted["bad"])

    def _write_quarantine(self) -> dict[str, int]:
        """Only where there is something: it reads everything a second time."""
        self._progress("putting aside what is no event")
        where = self._lake.uri(f"{self._base}/quarantine")
        bad = _quarantined(self._rows().filter(f"{WHY} is not null"))
        bad.write.parquet(where)
        back = self._lake.spark.read.schema(quarantine_schema()).parquet(where)
        counts = back.groupBy("reason").count().collect()
        return {row["reason"]: row["count"] for row in counts}

    def _rows(self) -> DataFrame:
        """Everything in the files: columns of bronze, `RAW` and `WHY`."""
        from pyspark.sql import functions as sql  # noqa: PLC0415 - takes long

        read = self._lake.spark.read
        paths = [pattern_of(each.path) for each in self._files]
        parquet = [each for each in paths if each.endswith(PARQUET)]
        texts = [each for each in paths if not each.endswith(PARQUET)]
        parts: list[DataFrame] = []
        if texts:
            lines = read.text(texts).filter(sql.length(sql.trim("value")) > 0)
            parts.append(
                parsed(lines.select("value", _source().alias(SOURCE)), "value")
            )
        if parquet:
            rows = read.schema(events_schema()).parquet(*parquet)
            parts.append(checked(rows.select("*", _source().alias(SOURCE))))
        everything = reduce(lambda a, b: a.unionByName(b), parts)
        arrived = sql.lit(self._at).cast("timestamp").alias(ARRIVED)
        names = [
            field.name for field in bronze_schema().fields if field.name != ARRIVED
        ]
        return everything.select(*names, arrived, RAW, WHY)

    def _only_new(self, written: int) -> tuple[str, int, list[str]]:
        """Writes anew without what is there already, if something is.

        Returns:
            The folder that counts, how many events it has, and the runs of them.
        """
        from pyspark.sql import functions as sql  # noqa: PLC0415 - takes long

        lake = self._lake
        read = lake.spark.read.schema(bronze_schema())
        rows = read.parquet(lake.uri(f"{self._base}/events"))
        counts = [sql.sum(name).alias(name) for name in ("rows", "numbers")]
        found = _statistics(rows).groupBy("run").agg(*counts)
        by_run = {row["run"]: row["rows"] > row["numbers"] for row in found.collect()}
        sources = _sources(lake)
        known = {run for runs in sources.runs(by_run) for run in runs}
        doubtful = sorted(run for run in by_run if by_run[run] or run in known)
        if not doubtful:
            return "events", written, sorted(by_run)
        some = _of(rows, doubtful)
        there = sources.rows(known.intersection(doubtful))
        new = _once(some) if there is None else _not_in(_once(some), there)
        others = rows.filter(~sql.col("run").isin(doubtful))
        new.unionByName(others).write.parquet(lake.uri(f"{self._base}/new"))
        rows = read.parquet(lake.uri(f"{self._base}/new"))
        by_run_now = rows.groupBy("run").count().collect()
        lake.remove(f"{self._base}/events")
        left = {row["run"]: int(row["count"]) for row in by_run_now}
        return "new", sum(left.values()), sorted(left)

    def _commit(self, done: Ingested, folder: str | None, runs: Sequence[str]) -> None:
        entry = {
            "id": self._id,
            "at": self._at.isoformat(),
            "code": code_version(),
            "files": [
                {"path": file.path, "size": file.size, "modified_ms": file.modified_ms}
                for file in self._files
            ],
            "events": done.events,
            "known": done.known,
            "quarantined": dict(done.quarantined),
            "folder": folder,
            "runs": [*runs],
        }
        self._lake.write_text(f"{LEDGER}/{self._id}.json", json.dumps(entry, indent=1))


def _source() -> Column:
    """The path of a row's file, as the ledger has it."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - takes long

    uri, most = sql.col("_metadata.file_path"), 2**31 - 1
    # Of a local file it has one slash, or three.
    path = (
        sql.when(uri.startswith("file:///"), uri.substr(len("file:///"), most))
        .when(uri.startswith("file:/"), uri.substr(len("file:/"), most))
        .otherwise(uri)
    )
    decoded = sql.try_url_decode(sql.replace(path, sql.lit("+"), sql.lit("%2B")))
    # It is done for each row again, and most paths can do without.
    return sql.when(path.contains("%"), decoded).otherwise(path)


# -- reading


def events(lake: Lake, runs: Collection[str] | None = None) -> DataFrame:
    """Each event once, over all sources: the columns of `bronze_schema`.

    It looks for runs that are in several sources, which costs a job or two, and
    shuffles only those that have an event twice.

    Args:
        lake: has them.
        runs: only these; None: all.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - takes long

    sources = _sources(lake)
    everything = sources.rows(runs)
    if everything is None:
        return lake.spark.createDataFrame([], bronze_schema())
    twice = _with_copies(sources, runs)
    if not twice:
        return everything
    others = everything.filter(~sql.col("run").isin(twice))
    return others.unionByName(_once(_of(everything, twice)))


def identities(lake: Lake, runs: Collection[str] | None = None) -> DataFrame:
    """What numbers of each run's node there are.

    Returns:
        ``run``, ``node``; ``rows``: all copies in all sources; ``events``: different
        ones; ``first``, ``last``: the least and the greatest number; ``missing``: how
        many of the numbers from 1 to the last one are in no source; ``announced``: how
        many of all numbers an ``events_lost`` of some source says are missing there.
    """
    everything = _sources(lake).rows(runs)
    if everything is None:
        everything = lake.spark.createDataFrame([], bronze_schema())
    return _statistics(everything).selectExpr(
        "run",
        "node",
        "events",
        "rows",
        "first",
        "last",
        "last - events as missing",
        "announced",
    )


def quarantine(lake: Lake) -> DataFrame:
    """Records that are no events: the columns of `quarantine_schema`.

    Of a file that was taken again only what it had the last time: a line that was cut
    off may be whole by now.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - takes long

    schema = quarantine_schema()
    read = lake.spark.read.schema(schema)
    entries = ledger(lake)
    last = {file["path"]: entry["id"] for entry in entries for file in entry["files"]}
    parts: list[DataFrame] = []
    for entry in entries:
        if entry["quarantined"]:
            bad = read.parquet(lake.uri(f"{FILES}/{entry['id']}/quarantine"))
            later = [
                file["path"]
                for file in entry["files"]
                if last[file["path"]] != entry["id"]
            ]
            parts.append(bad.filter(~sql.col(SOURCE).isin(later)) if later else bad)
    for uri in _streams(lake):
        rows = lake.spark.read.schema(sink_schema()).parquet(uri)
        parts.append(_quarantined(rows.filter("quarantined")))
    if not parts:
        return lake.spark.createDataFrame([], schema)
    return reduce(lambda a, b: a.unionByName(b), parts)


def _quarantined(rows: DataFrame) -> DataFrame:
    return rows.selectExpr(RAW, f"{WHY} as reason", SOURCE, ARRIVED)


def sink_schema() -> StructType:
    """What a stream writes: events, and what is none, side by side."""
    return (
        bronze_schema()
        .add(RAW, "string")
        .add(WHY, "string")
        .add("quarantined", "boolean")
    )


@dataclass(frozen=True, slots=True)
class _Sources:
    """What bronze is read from: the ingests' entries, and the streams' folders."""

    lake: Lake
    entries: Sequence[Mapping[str, Any]]
    streams: Sequence[str]

    def rows(self, runs: Collection[str] | None) -> DataFrame | None:
        """All copies of the events; None where there are none."""
        parts: list[DataFrame] = []
        wanted = None if runs is None else set(runs)
        folders = [
            self.lake.uri(entry["folder"])
            for entry in self.entries
            if entry["folder"]
            and (wanted is None or wanted.intersection(entry["runs"]))
        ]
        read = self.lake.spark.read
        if folders:
            parts.append(read.schema(bronze_schema()).parquet(*folders))
        if wanted is None or wanted:
            parts += self._streamed()
        if not parts:
            return None
        together = reduce(lambda a, b: a.unionByName(b), parts)
        return together if runs is None else _of(together, sorted(runs))

    def runs(self, among: Collection[str] | None) -> list[set[str]]:
        """The runs of each source, of these only."""
        found = [
            {run for run in entry["runs"] if among is None or run in among}
            for entry in self.entries
        ]
        for rows in self._streamed():
            some = rows if among is None else _of(rows, sorted(among))
            found.append(
                {row["run"] for row in some.select("run").distinct().collect()}
            )
        return found

    def _streamed(self) -> list[DataFrame]:
        read = self.lake.spark.read.schema(sink_schema())
        names = bronze_schema().names
        return [
            read.parquet(uri).filter("not quarantined").select(*names)
            for uri in self.streams
        ]


def _sources(lake: Lake) -> _Sources:
    return _Sources(lake, ledger(lake), _streams(lake))


def _streams(lake: Lake) -> list[str]:
    return [
        lake.uri(f"{STREAMS}/{name}")
        for name in lake.names(STREAMS)
        if lake.exists(MANIFEST.format(name=name))
    ]


def _with_copies(sources: _Sources, runs: Collection[str] | None) -> list[str]:
    """The runs that have an event twice.

    An ingest has none twice, so only runs in several, or in streams, are looked at.
    """
    by_source = sources.runs(runs)
    times = Counter(run for found in by_source for run in found)
    streamed = by_source[len(sources.entries) :]
    asked = {run for run in times if times[run] > 1}.union(*streamed)
    rows = sources.rows(asked)
    if not asked or rows is None:
        return []
    twice = _statistics(rows).filter("rows > numbers").select("run").distinct()
    return sorted(row["run"] for row in twice.collect())


def _of(rows: DataFrame, runs: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as sql  # noqa: PLC0415 - takes long

    return rows.filter(sql.col("run").isin([*runs]))


def _statistics(rows: DataFrame) -> DataFrame:
    """Counts of each run's node; a bit per number tells which are different.

    ``numbers`` are different ones, also of events that are missing; ``events`` are
    those that are there. See `identities` for the others.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - takes long

    number = sql.col("sequence")
    bits = sql.bitmap_construct_agg(sql.bitmap_bit_position(number))
    lost = sql.col("kind") == LOST
    losses = sql.when(lost, sql.struct("first", "last"))
    buckets = rows.groupBy("run", "node", sql.bitmap_bucket_number(number).alias("b"))
    return (
        buckets.agg(
            sql.count("*").alias("rows"),
            sql.bitmap_count(bits).alias("numbers"),
            sql.bitmap_count(
                sql.bitmap_construct_agg(
                    sql.when(~lost, sql.bitmap_bit_position(number))
                )
            ).alias("events"),
            sql.min(number).alias("first"),
            sql.max(number).alias("last"),
            sql.collect_set(losses).alias("losses"),
        )
        .withColumn(
            "announced",
            sql.aggregate(
                "losses",
                sql.lit(0).cast("long"),
                lambda sum_, each: sum_ + each["last"] - each["first"] + 1,
            ),
        )
        .groupBy("run", "node")
        .agg(
            *(
                sql.sum(name).alias(name)
                for name in ("rows", "numbers", "events", "announced")
            ),
            sql.min("first").alias("first"),
            sql.max("last").alias("last"),
        )
    )


def _once(rows: DataFrame) -> DataFrame:
    """Of all rows with the same identity one: the event rather than its loss."""
    from pyspark.sql import Window  # noqa: PLC0415 - takes long
    from pyspark.sql import functions as sql  # noqa: PLC0415

    order = (
        sql.col("kind") == LOST,
        sql.col("first"),
        sql.col(ARRIVED),
        sql.col(SOURCE),
    )
    window = Window.partitionBy(*IDENTITY).orderBy(*order)
    numbered = rows.withColumn("_copy", sql.row_number().over(window))
    return numbered.filter("_copy = 1").drop("_copy")


def _not_in(rows: DataFrame, there: DataFrame) -> DataFrame:
    """Rows whose event is not there; a loss that is there is no event."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - takes long

    known = there.select(
        *(sql.col(name).alias(f"_{name}") for name in IDENTITY),
        (sql.col("kind") == LOST).alias("_lost"),
    )
    same = reduce(
        lambda a, b: a & b,
        (sql.col(name).eqNullSafe(sql.col(f"_{name}")) for name in IDENTITY),
    )
    as_good = (sql.col("kind") == LOST) | ~sql.col("_lost")
    return rows.join(known, same & as_good, "left_anti")
