"""Takes files of events into bronze.

An ingest reads files, writes the new events as Parquet, and writes its entry in the
ledger last: without the entry, as after a kill, its files do not count.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from kohort.pipeline.bronze.columns import bronze_schema
from kohort.pipeline.bronze.copies import not_in, of_runs, once, statistics
from kohort.pipeline.bronze.inputs import TEXTS, BronzeError, Take, UnreadError
from kohort.pipeline.bronze.reading import Sources, ledger
from kohort.pipeline.engines import LOCAL
from kohort.pipeline.files import PARQUET, File
from kohort.pipeline.lake import FILES, LEDGER, Lake
from kohort.pipeline.lineage import code_version
from kohort.pipeline.table_functions import by


@dataclass(frozen=True, slots=True)
class Ingested:
    """The result of an ingest.

    Attributes:
        id: the ingest's name in the ledger; None: there was nothing to do.
        files: number of files read.
        skipped: number of files skipped, as they were ingested before.
        events: number of new events.
        known: number of events that were stored already, or repeated in these files.
        quarantined: number of records that are not events, by reason.
        unread: files that could not be read, and why not; the next ingest tries again.
    """

    id: str | None = None
    files: int = 0
    skipped: int = 0
    events: int = 0
    known: int = 0
    quarantined: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)


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
        LakeError: another process is ingesting into this lake, or has taken over.
    """
    with lake.lock("ingest", "ingest") as must_hold:
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
        skipped = len(found) - len(fresh)
        return _readable(lake, fresh, skipped, progress, is_strict, must_hold)


def _sweep(lake: Lake, entries: Sequence[Mapping[str, Any]]) -> None:
    """Removes the files of killed ingests."""
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
                f"{path}: no such file, or no file that ends with"
                f" {', '.join((*TEXTS, PARQUET))}"
            )
        found.update((each.path, each) for each in files)
    return [found[path] for path in sorted(found)]


def _readable(
    lake: Lake,
    files: Sequence[File],
    skipped: int,
    progress: Callable[[str], None],
    is_strict: bool,
    must_hold: Callable[[], None],
) -> Ingested:
    """Ingests files; if one cannot be read, begins again without it.

    Engines stop at the first file that they cannot read, and other rows are written.
    """
    unread: dict[str, str] = {}
    while True:
        ingesting = _Ingest(lake, files, skipped, progress, must_hold)
        try:
            return replace(ingesting.run(), unread=unread)
        except UnreadError as error:
            left = [file for file in files if file.path != error.path]
            unread[error.path] = error.why
            if is_strict or not left:
                told = "; ".join(f"{path}: {unread[path]}" for path in sorted(unread))
                raise BronzeError(f"nothing was ingested: {told}") from error
            progress(f"beginning again without {error.path}")
        lake.remove(ingesting.base)
        files = left


class _Ingest:
    """One ingest, from the files to the entry in the ledger."""

    def __init__(
        self,
        lake: Lake,
        files: Sequence[File],
        skipped: int,
        progress: Callable[[str], None],
        must_hold: Callable[[], None],
    ) -> None:
        self._lake = lake
        self._must_hold = must_hold
        self._files = files
        self._skipped = skipped
        self._progress = progress
        now = datetime.now(UTC)
        self._at = now
        self._id = f"{now:%Y%m%dT%H%M%S%f}Z-{uuid.uuid4().hex[:8]}"
        self.base = f"{FILES}/{self._id}"
        self._take = _take_of(lake)

    def run(self) -> Ingested:
        size = sum(file.size for file in self._files)
        self._progress(f"reading {len(self._files)} files, {size / 1e6:.1f} MB")
        base = self._lake.uri(self.base)
        written, quarantined = self._take(self._files, base, self._at, self._progress)
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
        self._commit(done, f"{self.base}/{folder}" if events else None, runs)
        return done

    def _only_new(self, written: int) -> tuple[str, int, list[str]]:
        """Writes the events again without those that the lake has, if it has some.

        Returns:
            The folder that counts, the number of its events, and their runs.
        """
        from pyspark.sql import functions as sql

        lake = self._lake
        read = lake.spark.read.schema(bronze_schema())
        rows = read.parquet(lake.uri(f"{self.base}/events"))
        counts = [sql.sum(name).alias(name) for name in ("rows", "numbers")]
        found = statistics(rows).groupBy(*by("run")).agg(*counts)
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
        new.unionByName(others).write.parquet(lake.uri(f"{self.base}/new"))
        rows = read.parquet(lake.uri(f"{self.base}/new"))
        by_run_now = rows.groupBy(*by("run")).count().collect()
        lake.remove(f"{self.base}/events")
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
        self._must_hold()
        self._lake.write_text(f"{LEDGER}/{self._id}.json", json.dumps(entry, indent=1))


def _take_of(lake: Lake) -> Take:
    """The function that reads inputs on the engine of a lake."""
    if lake.engine.name == LOCAL:
        from kohort.pipeline.bronze.local_input import take

        return take
    from kohort.pipeline.bronze import spark_input

    return partial(spark_input.take, lake.spark)
