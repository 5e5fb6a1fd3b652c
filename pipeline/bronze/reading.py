"""Reads the events of all sources, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from kohort.pipeline.bronze.columns import (
    ARRIVED,
    SOURCE,
    bronze_schema,
    quarantine_schema,
)
from kohort.pipeline.bronze.copies import of_runs, once, statistics
from kohort.pipeline.bronze.stream_files import StreamFiles, streams
from kohort.pipeline.engines import LOCAL
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.event_schema import RAW, WHY
from kohort.pipeline.lake import FILES, LEDGER, Lake
from kohort.pipeline.lineage import Inputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def ledger(lake: Lake) -> list[dict[str, Any]]:
    """The entries of all ingests that count, in order."""
    names = [name for name in lake.names(LEDGER) if name.endswith(".json")]
    entries = [lake.read_json(f"{LEDGER}/{name}") for name in names]
    return [entry for entry in entries if entry is not None]


def events(lake: Lake, runs: Collection[str] | None = None) -> DataFrame:
    """Each event once, over all sources: the columns of `bronze_schema`.

    It looks for runs that are in several sources, which costs a job or two, and
    shuffles only those that have an event twice.

    Args:
        lake: the lake to read.
        runs: reads only these runs; None: all.
    """
    from pyspark.sql import functions as sql

    sources = Sources.of(lake)
    everything = sources.rows(runs)
    if everything is None:
        return lake.spark.createDataFrame([], bronze_schema())
    twice = _with_copies(sources, runs)
    if not twice:
        return everything
    others = everything.filter(~sql.col("run").isin(twice))
    return others.unionByName(once(of_runs(everything, twice)))


def identities(lake: Lake, runs: Collection[str] | None = None) -> DataFrame:
    """Counts the sequence numbers of each run's nodes.

    Returns:
        ``run``, ``node``; ``rows``: all copies in all sources; ``events``: different
        ones; ``first``, ``last``: the least and the greatest number; ``missing``: how
        many of the numbers from 1 to the last one are in no source; ``announced``: how
        many of all numbers an ``events_lost`` of some source says are missing there.
    """
    everything = Sources.of(lake).rows(runs)
    if everything is None:
        everything = lake.spark.createDataFrame([], bronze_schema())
    return statistics(everything).selectExpr(
        "run",
        "node",
        "events",
        "rows",
        "first",
        "last",
        "last - events as missing",
        "announced",
    )


def changed_runs(lake: Lake, before: Mapping[str, Any], now: Inputs) -> set[str] | None:
    """The runs with events that were not there before.

    Args:
        lake: the lake to read.
        before: inputs as JSON, of a build.
        now: the current inputs.

    Returns:
        The runs; None: an ingest or a stream is gone, so it may be any.
    """
    known = before["ledger"], before["streams"]
    if not known[0].keys() <= now.ledger.keys():
        return None
    if not known[1].keys() <= now.streams.keys():
        return None
    later = (entry for name, entry in now.ledger.items() if name not in known[0])
    runs = {run for entry in later for run in entry["runs"]}
    for name, said in now.streams.items():
        last = known[1].get(name, {}).get("last_file")
        if said["last_file"] != last:
            runs |= StreamFiles.of(lake, name).runs_after(last)
    return runs


def quarantine(lake: Lake) -> DataFrame:
    """Records that are not events: the columns of `quarantine_schema`.

    Of a file that was ingested again only those of the last time: a line that was cut
    off may be whole by now.
    """
    from pyspark.sql import functions as sql

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
    parts += [quarantined(stream.quarantine()) for stream in _streams(lake)]
    if not parts:
        return lake.spark.createDataFrame([], schema)
    return reduce(lambda a, b: a.unionByName(b), parts)


def quarantined(rows: DataFrame) -> DataFrame:
    """The columns of `quarantine_schema`, of rows that have `RAW` and `WHY`."""
    return rows.selectExpr(RAW, f"{WHY} as reason", SOURCE, ARRIVED)


@dataclass(frozen=True, slots=True)
class Sources:
    """The places that bronze is read from: ledger entries and files of streams."""

    lake: Lake
    entries: Sequence[Mapping[str, Any]]
    streams: Sequence[StreamFiles]

    @classmethod
    def of(cls, lake: Lake) -> Sources:
        """The sources of a lake, as they are now."""
        return cls(lake, ledger(lake), _streams(lake))

    def rows(self, runs: Collection[str] | None) -> DataFrame | None:
        """All copies of the events; None without any."""
        parts: list[DataFrame] = []
        wanted = None if runs is None else set(runs)
        folders = [
            self.lake.uri(entry["folder"])
            for entry in self.entries
            if entry["folder"]
            and (wanted is None or wanted.intersection(entry["runs"]))
        ]
        if folders:
            parts.append(self.lake.engine.read(bronze_schema(), folders))
        if wanted is None or wanted:
            parts += self._streamed()
        if not parts:
            return None
        together = reduce(lambda a, b: a.unionByName(b), parts)
        return together if runs is None else of_runs(together, sorted(runs))

    def runs(self, among: Collection[str] | None) -> list[set[str]]:
        """The runs of each source, of these only."""
        found = [
            {run for run in entry["runs"] if among is None or run in among}
            for entry in self.entries
        ]
        for rows in self._streamed():
            some = rows if among is None else of_runs(rows, sorted(among))
            found.append(
                {row["run"] for row in some.select("run").distinct().collect()}
            )
        return found

    def _streamed(self) -> list[DataFrame]:
        return [stream.events() for stream in self.streams]


def _streams(lake: Lake) -> list[StreamFiles]:
    names = streams(lake)
    if names and lake.engine.name == LOCAL:
        raise PipelineError(
            f"{lake.path} has events of a stream, which only Spark reads:"
            " --engine spark",
            2,
        )
    return [StreamFiles.of(lake, name) for name in names]


def _with_copies(sources: Sources, runs: Collection[str] | None) -> list[str]:
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
    twice = statistics(rows).filter("rows > numbers").select("run").distinct()
    return sorted(row["run"] for row in twice.collect())
