"""Bronze: events as they came, each once, and the records that are no events.

An ingest

1. reads files, and writes their records to ``bronze/new``, where they do not count;
2. looks for events that are there twice, or that the lake has: sequence numbers have no
   gaps, so a bit per number tells that cheaply;
3. moves the folder to ``bronze/events``, or writes only the new events there.

Killed before the last step it has changed nothing. A batch of a stream goes the same
way, so an event counts once whether it came from a file, a topic, or both.

``bronze/files.json`` has size, time of modification and time of arrival of each file:
unchanged files are not read again.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from kohort.pipeline import failures
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.event_schema import (
    IDENTITY,
    RAW,
    WHY,
    checked,
    events_schema,
    parsed,
)
from kohort.pipeline.files import PARQUET, File, absolute, inputs, is_local
from kohort.pipeline.lake import Lake, local_rows
from kohort.pipeline.table_functions import by, together

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

EVENTS: Final = "bronze/events"
NEW: Final = "bronze/new"
FILES: Final = "bronze/files.json"
LOCK: Final = "bronze"
TEXTS: Final = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
AT_ONCE: Final = 64
"""Files that one query reads."""
LOST: Final = "events_lost"
"""The kind whose number is that of an event which is missing."""
SOURCE: Final = "source"
ARRIVED: Final = "arrived"
LABELS: Final = "labels"


class BronzeError(PipelineError):
    """An input that cannot be read; the message names it and says why."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """The result of an ingest.

    Attributes:
        files: number of files read.
        skipped: number of files skipped, as they were ingested before.
        events: number of new events.
        known: number of events that were stored already, or repeated in these files.
        quarantined: number of records that are not events, by reason.
        unread: files that could not be read, and why not; the next ingest tries again.
    """

    files: int = 0
    skipped: int = 0
    events: int = 0
    known: int = 0
    quarantined: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)


def bronze_schema() -> StructType:
    """Events, where each came from, and when; and records that are none.

    Of an event, `RAW` and `WHY` are null; of another record they are its text, and why
    it is no event, and the fields of events are null. Labels are stored as entries:
    Spark and Sail name the parts of maps apart in Parquet, and Sail then reads no
    folder with files of both.
    """
    from pyspark.sql.types import ArrayType, StructType

    schema = StructType()
    entries = ArrayType(StructType().add("key", "string").add("value", "string"))
    for each in events_schema().fields:
        schema.add(each.name, entries if each.name == LABELS else each.dataType)
    for name, type_ in ((SOURCE, "string"), (ARRIVED, "timestamp")):
        schema.add(name, type_)
    return schema.add(RAW, "string").add(WHY, "string")


def events(lake: Lake) -> DataFrame:
    """All events, each once: those of `events_schema`, `SOURCE` and `ARRIVED`."""
    from pyspark.sql import functions as sql

    rows = lake.read(bronze_schema(), EVENTS).where(f"{WHY} is null").drop(RAW, WHY)
    return rows.withColumn(LABELS, sql.map_from_entries(LABELS))


def quarantine(lake: Lake) -> DataFrame:
    """Records that are not events: ``raw``, ``reason``, ``source``, ``arrived``.

    Of a file that was read again only those of the last time: a line that was cut off
    may be whole by now.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructType

    rows = lake.read(bronze_schema(), EVENTS).where(f"{WHY} is not null")
    bad = rows.select(RAW, sql.col(WHY).alias("reason"), SOURCE, ARRIVED)
    files = lake.read_json(FILES) if lake.is_local else {}
    last = [{SOURCE: path, "read": said["arrived"]} for path, said in files.items()]
    if not last:
        return bad
    columns = StructType().add(SOURCE, "string").add("read", "string")
    read = local_rows(lake.spark, last, columns)
    return (
        bad.join(read, SOURCE, "left")
        .where(f"read is null or {ARRIVED} >= cast(read as timestamp)")
        .select(*bad.columns)
    )


def statistics(rows: DataFrame) -> DataFrame:
    """Counts the sequence numbers of each run's nodes.

    Returns:
        ``run``, ``node``; ``rows``; ``numbers``: different events; ``last``: the
        greatest number; ``missing``: how many of the numbers from 1 to the last one
        have no event; ``announced``: how many are missing by an ``events_lost``.
    """
    from pyspark.sql import functions as sql

    number = sql.col("sequence")
    lost = sql.col("kind") == LOST
    bits = sql.bitmap_count(
        sql.bitmap_construct_agg(sql.bitmap_bit_position(number))
    ).alias("numbers")
    bucket = sql.bitmap_bucket_number(number).alias("bucket")
    is_lost = sql.coalesce(lost, sql.lit(False)).alias("is_lost")
    gap = sql.when(lost, sql.struct("first", "last"))
    return (
        rows.groupBy(*by("run", "node", is_lost, bucket))
        .agg(
            sql.count("*").alias("rows"),
            bits,
            sql.max(number).alias("last"),
            sql.collect_set(gap).alias("gaps"),
        )
        .groupBy(*by("run", "node"))
        .agg(
            *(sql.sum(name).alias(name) for name in ("rows", "numbers")),
            sql.max("last").alias("last"),
            (
                sql.max("last")
                - sql.sum(
                    sql.when(~sql.col("is_lost"), sql.col("numbers")).otherwise(0)
                )
            ).alias("missing"),
            sql.sum(
                sql.aggregate(
                    "gaps",
                    sql.lit(0).cast("long"),
                    lambda sum_, each: sum_ + each["last"] - each["first"] + 1,
                )
            ).alias("announced"),
        )
    )


# -- an ingest


def ingest(
    lake: Lake,
    paths: Iterable[str],
    progress: Callable[[str], None] = lambda _: None,
    *,
    is_strict: bool = False,
) -> Ingested:
    """Takes files of events into the lake: JSON lines, plain or .gz, and Parquet.

    A file that was ingested before, and has the same size and time of modification, is
    skipped; of one that has grown, or changed, only new events are added.

    Args:
        lake: receives the events.
        paths: files, folders with everything below, or patterns (``runs/*.jsonl``).
            In folders, only names that end as in `TEXTS` or with `PARQUET` count.
        progress: called with a line about each step.
        is_strict: a file that cannot be read ends the ingest; else the others are
            ingested.

    Raises:
        BronzeError: a file is missing, or none can be read.
        LakeError: another process is ingesting into this lake.
    """
    with lake.lock(LOCK, "ingest"):
        if lake.is_local:
            lake.remove(NEW)  # of a killed ingest
        found = _listed(paths)
        known = lake.read_json(FILES) if lake.is_local else {}
        fresh = [file for file in found if not _is_known(file, known)]
        if not fresh:
            return Ingested(skipped=len(found))
        taking = Taking(lake, progress)
        taking.read(fresh)
        if taking.unread and (is_strict or len(taking.unread) == len(fresh)):
            lake.remove(taking.stage)
            told = "; ".join(f"{path}: {why}" for path, why in taking.unread.items())
            raise BronzeError(f"nothing was ingested: {told}")
        counts = taking.settle()
        read = [file for file in fresh if file.path not in taking.unread]
        if lake.is_local:
            lake.write_json(FILES, {**known, **_entries(read, taking.at)})
        return Ingested(
            len(read), len(found) - len(fresh), **counts, unread=taking.unread
        )


def _listed(paths: Iterable[str]) -> list[File]:
    found: dict[str, File] = {}
    for path in paths:
        where = absolute(path)
        if not is_local(where):
            found[where] = File(where)
            continue
        files = inputs(where)
        named = len(files) == 1 and files[0].path.endswith(PurePosixPath(path).name)
        files = [
            each for each in files if named or each.path.endswith((*TEXTS, PARQUET))
        ]
        if not files:
            raise BronzeError(
                f"{path}: no such file, or no file that ends with"
                f" {', '.join((*TEXTS, PARQUET))}"
            )
        found.update((each.path, each) for each in files)
    return [found[path] for path in sorted(found)]


def _is_known(file: File, known: Mapping[str, Any]) -> bool:
    said = known.get(file.path)
    return said is not None and (said["size"], said["modified_ms"]) == (
        file.size,
        file.modified_ms,
    )


def _entries(files: Sequence[File], at: datetime) -> dict[str, Any]:
    return {
        file.path: {
            "size": file.size,
            "modified_ms": file.modified_ms,
            "arrived": at.isoformat(),
        }
        for file in files
        if is_local(file.path)
    }


class Taking:
    """One ingest, or one batch of a stream, from the records to events that count.

    Attributes:
        stage: the folder of its records, until `settle`.
        at: its time of arrival.
        unread: files that could not be read, and why not.
    """

    def __init__(
        self, lake: Lake, progress: Callable[[str], None] = lambda _: None
    ) -> None:
        self._lake = lake
        self._progress = progress
        self.at = datetime.now(UTC)
        self._id = f"{self.at:%Y%m%dT%H%M%S%f}Z-{uuid.uuid4().hex[:8]}"
        self.stage = f"{NEW}/{self._id}"
        self._parts = 0
        self.unread: dict[str, str] = {}

    def read(self, files: Sequence[File]) -> None:
        """Stages the records of files."""
        size = sum(file.size for file in files)
        self._progress(f"reading {len(files)} files, {size / 1e6:.1f} MB")
        for some in _chunks(files):
            self._read(some)

    def _read(self, files: Sequence[File]) -> None:
        """Stages files; halves them again and again to find one that is damaged."""
        try:
            for file in files:
                _open(file)
            self.add(_records(self._lake.spark, files))
        except Exception as error:
            why = failures.why_unread(failures.text_of(error))
            if why is None:
                raise
            self._lake.remove(f"{self.stage}/{self._parts}")
            if len(files) == 1:
                self.unread[files[0].path] = why
                return
            half = len(files) // 2
            self._read(files[:half])
            self._read(files[half:])

    def add(self, records: DataFrame) -> None:
        """Stages records: events or not, of `parsed` or `checked`, with `SOURCE`."""
        from pyspark.sql import functions as sql

        rows = records.withColumns(
            {
                ARRIVED: sql.lit(self.at).cast("timestamp"),
                LABELS: sql.map_entries(LABELS),
            }
        )
        rows = rows.select(*bronze_schema().names)
        self._lake.append(rows, f"{self.stage}/{self._parts}")
        self._parts += 1

    def settle(self) -> dict[str, Any]:
        """Moves the new events to those that count.

        Returns:
            ``events``, ``known`` and ``quarantined`` of `Ingested`.
        """
        from pyspark.sql import functions as sql

        lake, schema = self._lake, bronze_schema()
        staged = lake.read(schema, self.stage)
        bad = staged.where(sql.col(WHY).isNotNull()).groupBy(*by(WHY)).count()
        quarantined = {row[WHY]: int(row["count"]) for row in bad.collect()}
        came = staged.where(sql.col(WHY).isNull())
        runs = statistics(came).groupBy(*by("run"))
        sums = [sql.sum(name).alias(name) for name in ("rows", "numbers")]
        counts = {row["run"]: row for row in runs.agg(*sums).collect()}
        total = sum(int(row["rows"]) for row in counts.values())
        known = self._known(counts)
        to = f"{EVENTS}/{self._id}"
        if not known and all(row["rows"] == row["numbers"] for row in counts.values()):
            lake.move(schema, self.stage, to)
            return {"events": total, "known": 0, "quarantined": quarantined}
        self._progress(f"looking for known events among {total}")
        new = self._only_new(came, known)
        rows = new.unionByName(staged.where(sql.col(WHY).isNotNull()))
        lake.append(rows, f"{to}/0")
        left = lake.read(schema, to).where(sql.col(WHY).isNull()).count()
        lake.remove(self.stage)
        return {"events": left, "known": total - left, "quarantined": quarantined}

    def _known(self, runs: Mapping[str, Any]) -> list[str]:
        """Those of some runs that have events in the lake."""
        stored = self._lake.read(bronze_schema(), EVENTS).select("run").distinct()
        return sorted(row["run"] for row in stored.collect() if row["run"] in runs)

    def _only_new(self, came: DataFrame, known: Sequence[str]) -> DataFrame:
        """Each event once, without those that the lake has.

        The notice of a loss is not the event whose number it has.
        """
        from pyspark.sql import functions as sql

        lost = (sql.col("kind") == LOST).alias("is_lost")
        key = [*IDENTITY, "is_lost"]
        new = came.select("*", lost).dropDuplicates(key)
        if known:
            stored = self._lake.read(bronze_schema(), EVENTS)
            stored = stored.where(sql.col("run").isin(known)).select(*IDENTITY, lost)
            new = new.join(stored, key, "left_anti")
        return new.select(*came.columns)


def _chunks(files: Sequence[File]) -> Iterator[Sequence[File]]:
    for first in range(0, len(files), AT_ONCE):
        yield files[first : first + AT_ONCE]


def _open(file: File) -> None:
    """Fails if a file of this machine may not be read, or is gone."""
    if is_local(file.path):
        with Path(file.path).open("rb"):
            pass


def _records(spark: SparkSession, files: Sequence[File]) -> DataFrame:
    """The records of files, with their sources."""
    from pyspark.sql import functions as sql

    elsewhere = [file for file in files if not is_local(file.path)]
    here = [file for file in files if is_local(file.path)]
    texts: list[DataFrame] = []
    tables: list[DataFrame] = []
    for file in here:
        source = sql.lit(file.path).alias(SOURCE)
        path = _pattern(file.path)
        if file.path.endswith(PARQUET):
            rows = spark.read.schema(events_schema()).parquet(path)
            tables.append(rows.select("*", source))
        else:
            texts.append(spark.read.text(path).select("value", source))
    for file in elsewhere:
        # Spark alone reads them, and what is below them by its own options.
        source = sql.lit(file.path).alias(SOURCE)
        read = spark.read.option("recursiveFileLookup", "true")
        ends = ",".join(end.removeprefix(".") for end in TEXTS)
        lines = read.option("pathGlobFilter", f"*.{{{ends}}}").text(file.path)
        texts.append(lines.select("value", source))
        found = read.option("pathGlobFilter", f"*{PARQUET}").schema(events_schema())
        tables.append(found.parquet(file.path).select("*", source))
    parts: list[DataFrame] = []
    if texts:
        lines = reduce(lambda one, other: one.unionByName(other), texts)
        parts.append(parsed(lines.where(_is_not_blank()), "value"))
    if tables:
        parts.append(checked(reduce(lambda a, b: a.unionByName(b), tables)))
    return together(*parts) if len(parts) > 1 else parts[0]


def _is_not_blank() -> Column:
    from pyspark.sql import functions as sql

    return sql.length(sql.trim("value")) > 0


def _pattern(path: str) -> str:
    """A pattern for a path with characters of patterns: engines read all as such.

    Sail looks for files by escaped names then, so all but plain characters are open.
    """
    if not any(each in "*?{}[]\\" for each in path):
        return path
    return re.sub(r"[^\w./-]", "?", path, flags=re.ASCII)
