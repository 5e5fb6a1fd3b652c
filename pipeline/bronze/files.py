"""Takes files of events into bronze.

An ingest reads files, writes the new events as Parquet, and writes its entry in the
ledger last: without the entry, as after a kill, its files do not count.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from kohort.pipeline.bronze.columns import (
    ARRIVED,
    SOURCE,
    bronze_schema,
    quarantine_schema,
)
from kohort.pipeline.bronze.copies import not_in, of_runs, once, statistics
from kohort.pipeline.bronze.reading import Sources, ledger, quarantined
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.event_schema import RAW, WHY, checked, events_schema, parsed
from kohort.pipeline.lake import FILES, LEDGER, File, Lake, pattern_of
from kohort.pipeline.lineage import code_version

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TEXTS: Final = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
PARQUET: Final = ".parquet"


class BronzeError(PipelineError):
    """An input that cannot be read; the text says which, and why."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """The result of an ingest.

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


def ingest(
    lake: Lake, paths: Iterable[str], progress: Callable[[str], None] = lambda _: None
) -> Ingested:
    """Takes files of events into the lake: JSON lines, plain or .gz, and Parquet.

    A file that was ingested before, and has the same size and time of modification, is
    skipped; of one that has grown, or changed, only new events are added.

    Args:
        lake: takes them.
        paths: files, folders with everything below, or patterns (``runs/*.jsonl``). Of
            folders the files whose names end as `TEXTS`, or with `PARQUET`, are taken.
        progress: called with a line about each step.

    Raises:
        BronzeError: a file is missing, or cannot be read.
        LakeError: another process ingests into this lake.
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
        # The last ingest of a file counts: the file may have been restored since.
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


def _sweep(lake: Lake, entries: Sequence[Mapping[str, Any]]) -> None:
    """Removes the files of killed ingests.

    Without locks (on a remote lake) another ingest may be running, so they stay there.
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
    """Raises Spark's errors, hundreds of lines, as one sentence."""
    from py4j.protocol import (
        Py4JJavaError,
    )
    from pyspark.errors import AnalysisException, PySparkException

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
            self._progress(f"looking for known events among {written}")
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
        """Writes all events, duplicates included; counts events and other records."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as sql

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
        """Called only if there are bad records: it reads all files a second time."""
        self._progress("putting aside records that are no events")
        where = self._lake.uri(f"{self._base}/quarantine")
        bad = quarantined(self._rows().filter(f"{WHY} is not null"))
        bad.write.parquet(where)
        back = self._lake.spark.read.schema(quarantine_schema()).parquet(where)
        counts = back.groupBy("reason").count().collect()
        return {row["reason"]: row["count"] for row in counts}

    def _rows(self) -> DataFrame:
        """All records of the files: columns of bronze, `RAW` and `WHY`."""
        from pyspark.sql import functions as sql

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
        """Writes the events again without those that the lake has, if it has some.

        Returns:
            The folder that counts, how many events it has, and the runs of them.
        """
        from pyspark.sql import functions as sql

        lake = self._lake
        read = lake.spark.read.schema(bronze_schema())
        rows = read.parquet(lake.uri(f"{self._base}/events"))
        counts = [sql.sum(name).alias(name) for name in ("rows", "numbers")]
        found = statistics(rows).groupBy("run").agg(*counts)
        by_run = {row["run"]: row["rows"] > row["numbers"] for row in found.collect()}
        sources = Sources.of(lake)
        known = {run for runs in sources.runs(by_run) for run in runs}
        doubtful = sorted(run for run in by_run if by_run[run] or run in known)
        if not doubtful:
            return "events", written, sorted(by_run)
        some = of_runs(rows, doubtful)
        there = sources.rows(known.intersection(doubtful))
        new = once(some) if there is None else not_in(once(some), there)
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
    from pyspark.sql import functions as sql

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
