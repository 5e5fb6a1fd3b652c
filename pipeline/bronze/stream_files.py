"""The files of a stream: those that its sink has written, and those made of them.

Many small files slow down readers, so `compact` writes their rows to few:

1. It takes the files of the sink's log that no compaction has taken before, and writes
   their rows to ``bronze/compacted/<stream>/<id>``, with those of its latest folders
   that are not larger.
2. It moves ``bronze/compacted/<stream>.json`` into place, which names the folders, and
   the last file of the log that is in them. From here on readers read these folders,
   and of the log the files behind that one.
3. It removes the files and folders that are no longer read.

Killed before the second step it has changed nothing; killed later it leaves files that
do not count. The next compaction removes either. The sink's log stays as it is: to
Structured Streaming it says which batches are written, and it reads no file again.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from kohort.pipeline import sink_log
from kohort.pipeline.bronze.columns import bronze_schema, sink_schema
from kohort.pipeline.lake import STREAMS, Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

COMPACTED: Final = "bronze/compacted"
EVENTS: Final = "events"
QUARANTINE: Final = "quarantine"
FILE_BYTES: Final = 128 << 20
"""The size of a file that a compaction writes, roughly."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a compaction of a stream.

    Attributes:
        stream: its name.
        before: number of files that were read before.
        after: number of files that are read now.
    """

    stream: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class StreamFiles:
    """The files of a stream that count, as they were at one time.

    Attributes:
        lake: the lake.
        name: the stream's name.
        folders: entries of the folders that compactions have written.
        logged: all files of the sink's log, also those that are in these folders.
        taken: number of files of the log that are in these folders.
    """

    lake: Lake
    name: str
    folders: Sequence[Mapping[str, Any]]
    logged: Sequence[str]
    taken: int

    @classmethod
    def of(cls, lake: Lake, name: str) -> StreamFiles:
        """The files of a stream."""
        # First, so that a compaction in between only hides files that it has removed.
        said = lake.read_json(f"{COMPACTED}/{name}.json") or {"folders": []}
        logged = sink_log.files(lake, name)
        folders = said["folders"]
        taken = logged.index(folders[-1]["last"]) + 1 if folders else 0
        return cls(lake, name, folders, logged, taken)

    @property
    def files(self) -> Sequence[str]:
        """The files of the log that are read."""
        return self.logged[self.taken :]

    def events(self) -> DataFrame:
        """The events: the columns of `bronze_schema`."""
        names = bronze_schema().names
        if not self.folders:
            return self._sink().filter("not quarantined").select(*names)
        return self._rows(self.files, self.folders, EVENTS, bronze_schema())

    def quarantine(self) -> DataFrame:
        """The records that are no events: the columns of `written_schema`."""
        if not self.folders:
            return self._sink().filter("quarantined").drop("quarantined")
        return self._rows(self.files, self.folders, QUARANTINE, written_schema())

    def runs_after(self, last: str | None) -> set[str]:
        """The runs with events behind a file of the log; None: all."""
        place = self.logged.index(last) + 1 if last in self.logged else 0
        runs: set[str] = set()
        for folder in self.folders:
            if self.logged.index(folder["last"]) >= place:
                runs.update(folder["runs"])
        files = self.logged[max(place, self.taken) :]
        if any(map(_has_events, files)):
            runs.update(_runs(self._rows(files, (), EVENTS, bronze_schema())))
        return runs

    def _sink(self) -> DataFrame:
        uri = self.lake.uri(f"{STREAMS}/{self.name}")
        return self.lake.spark.read.schema(sink_schema()).parquet(uri)

    def _rows(
        self,
        files: Sequence[str],
        folders: Sequence[Mapping[str, Any]],
        kind: str,
        schema: StructType,
    ) -> DataFrame:
        """The rows of some files and folders."""
        lake = self.lake
        own = [
            lake.uri(f"{STREAMS}/{self.name}/{file}")
            for file in files
            if _has_events(file) == (kind == EVENTS)
        ]
        made = [lake.uri(f"{each['folder']}/{kind}") for each in folders]
        parts = [lake.engine.read(schema, uris) for uris in (own, made) if uris]
        if not parts:
            return lake.spark.createDataFrame([], schema)
        return reduce(lambda one, other: one.unionByName(other), parts)

    def compact(
        self, least: int, locks: Iterable[Callable[[], None]]
    ) -> Compacted | None:
        """Compacts the files, if there are enough; the caller has the locks."""
        if len(self.files) < max(least, 1):
            return None
        lake = self.lake
        size = self._size(self.files)
        kept = [*self.folders]
        merged: list[Mapping[str, Any]] = []
        while kept and kept[-1]["bytes"] <= size:
            merged.insert(0, kept.pop())
            size += merged[0]["bytes"]
        number = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}Z-{uuid.uuid4().hex[:8]}"
        folder = f"{COMPACTED}/{self.name}/{number}"
        for kind, schema in ((EVENTS, bronze_schema()), (QUARANTINE, written_schema())):
            rows = self._rows(self.files, merged, kind, schema)
            uri = lake.uri(f"{folder}/{kind}")
            lake.engine.write(rows.coalesce(1 + size // FILE_BYTES), schema, uri)
        footers = [lake.footers(f"{folder}/{kind}") for kind in (EVENTS, QUARANTINE)]
        uri = lake.uri(f"{folder}/{EVENTS}")
        written = lake.engine.read(bronze_schema(), [uri])
        entry = {
            "folder": folder,
            "last": self.logged[-1],
            "runs": sorted(_runs(written)),
            "files": sum(each.files for each in footers),
            "bytes": sum(each.size for each in footers),
        }
        folders = [*kept, entry]
        text = json.dumps({"folders": folders}, indent=1)
        for must_hold in locks:
            must_hold()
        lake.write_text(f"{COMPACTED}/{self.name}.json", text)
        now = StreamFiles.of(lake, self.name)
        now.sweep()
        before = len(self.files) + sum(each["files"] for each in self.folders)
        return Compacted(self.name, before, sum(each["files"] for each in folders))

    def sweep(self) -> None:
        """Removes files and folders that compactions no longer need."""
        taken = set(self.logged[: self.taken])
        for kind in (sink_log.EVENTS, sink_log.QUARANTINED):
            folder = f"{STREAMS}/{self.name}/{kind.rstrip('/')}"
            for name in self.lake.names(folder):
                if f"{kind}{name}" in taken:
                    self.lake.remove(f"{folder}/{name}")
        counting = {each["folder"] for each in self.folders}
        for name in self.lake.names(f"{COMPACTED}/{self.name}"):
            folder = f"{COMPACTED}/{self.name}/{name}"
            if folder not in counting:
                self.lake.remove(folder)

    def _size(self, files: Sequence[str]) -> int:
        folder = self.lake.uri(f"{STREAMS}/{self.name}")
        wanted = set(files)
        found = self.lake.inputs(folder)
        return sum(
            each.size for each in found if "/".join(each.path.split("/")[-2:]) in wanted
        )


def compact(lake: Lake, least: int) -> list[Compacted]:
    """Makes few large files of the small ones of all streams, which may go on.

    Args:
        lake: the lake.
        least: compacts streams with this many files.

    Returns:
        The streams that were compacted.

    Raises:
        LakeError: another process is building, ingesting, or compacting, or has taken
            over.
    """
    done: list[Compacted] = []
    with (
        lake.lock("build", "a compaction") as no_build,
        lake.lock("ingest", "a compaction") as no_ingest,
    ):
        for name in streams(lake):
            files = StreamFiles.of(lake, name)
            files.sweep()
            made = files.compact(least, (no_build, no_ingest))
            done += [] if made is None else [made]
    return done


def streams(lake: Lake) -> list[str]:
    """The names of the streams with a log."""
    return [
        name
        for name in lake.names(STREAMS)
        if lake.exists(f"{STREAMS}/{name}/{sink_log.METADATA}")
    ]


def written_schema() -> StructType:
    """The columns of the files that a stream writes, apart from those of their path."""
    from pyspark.sql.types import StructType

    return StructType([f for f in sink_schema().fields if f.name != "quarantined"])


def _has_events(file: str) -> bool:
    return file.startswith(sink_log.EVENTS)


def _runs(events: DataFrame) -> set[str]:
    return {row["run"] for row in events.select("run").distinct().collect()}
