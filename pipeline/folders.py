"""The tables of builds in folders of Parquet, which builds share as parts.

See `kohort.pipeline.parts`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from kohort.pipeline import failures, lineage, parts
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.files import Footers
from kohort.pipeline.lake import BUILDS, Lake
from kohort.pipeline.parts import Part, Plan
from kohort.pipeline.stores import Stored
from kohort.pipeline.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Folders:
    """The tables of a lake, see `kohort.pipeline.stores.Store`."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def draft(self, build_id: str, current: str | None) -> FolderDraft:
        """See `Store`; the folder is made by the first table."""
        return FolderDraft(self._lake, f"{BUILDS}/{build_id}")

    def read(self, build_id: str, table: Table, said: Mapping[str, Any]) -> DataFrame:
        """See `Store`.

        Raises:
            PipelineError: a folder is missing.
        """
        # Older builds have no parts.
        own = [f"{BUILDS}/{build_id}/{table.path}"]
        return _read(self._lake, table, said.get("parts", own))

    def published(self, said: Mapping[str, Any]) -> None:
        """Nothing to do: readers go by ``current.json``."""

    def sweep(self, gone: Sequence[str], stay: Sequence[Mapping[str, Any]]) -> None:
        """See `Store`."""
        named = {
            folder
            for said in stay
            for table in said["tables"]
            for folder in table.get("parts", ())
        }
        for name in gone:
            self._remove(f"{BUILDS}/{name}", named)

    def _remove(self, folder: str, named: Collection[str]) -> None:
        """Removes a folder of a build, but not the named ones in it."""
        if folder in named:
            return
        if not any(each.startswith(f"{folder}/") for each in named):
            self._lake.remove(folder)
            return
        self._lake.remove(f"{folder}/{lineage.OF_BUILD}")
        for name in self._lake.names(folder):
            self._remove(f"{folder}/{name}", named)


class FolderDraft:
    """A build's folder, see `kohort.pipeline.stores.Draft`."""

    def __init__(self, lake: Lake, folder: str) -> None:
        self._lake = lake
        self._folder = folder
        self._plan = Plan()
        self._tables: Mapping[str, Any] = {}
        self._written: dict[Table, Footers] = {}
        self._copied: dict[str, Footers] = {}
        self._stored: dict[str, Stored] = {}

    def base_on(self, base: Mapping[str, Any], runs: Sequence[str]) -> None:
        """See `Draft`."""
        self._plan = parts.plan(map(Part.of_json, base["parts"]), runs)
        self._tables = {each["table"]: each for each in base["tables"]}

    def write(self, table: Table, rows: DataFrame | None) -> Stored:
        """See `Draft`."""
        if rows is not None:
            self._written[table] = self._write(table, rows, self._folder)
        if parts.is_by_run(table) and self._plan.copies:
            folder = f"{self._folder}/{parts.COPIED}"
            self._copied[table.path] = self._write(table, self._copies(table), folder)
        found = self._found(table)
        stored = Stored(
            sum(each.rows for each in found.values()),
            sum(each.files for each in found.values()),
            sum(each.size for each in found.values()),
            [folder for folder, each in found.items() if each.rows] or [*found][:1],
        )
        self._stored[table.path] = stored
        return stored

    def rows(self, table: Table, *, only: bool) -> DataFrame:
        """See `Draft`."""
        if not only:
            return _read(self._lake, table, self._stored[table.path].parts)
        if table not in self._written:
            return self._lake.spark.createDataFrame([], table.schema())
        return _read(self._lake, table, [f"{self._folder}/{table.path}"])

    def as_json(self, computed: Callable[[], Sequence[str]]) -> dict[str, Any]:
        """See `Draft`."""
        written = self._written.items()
        own = {t.path: each for t, each in written if parts.is_by_run(t)}
        found = [*self._plan.kept]
        if self._copied:
            folder = f"{self._folder}/{parts.COPIED}"
            found.append(Part(folder, self._plan.copied_runs, self._copied))
        if own:
            found.append(Part(self._folder, computed(), own))
        return {"parts": [part.as_json() for part in found]}

    def discard(self) -> None:
        """See `Draft`."""
        self._lake.remove(self._folder)

    def _write(self, table: Table, rows: DataFrame, folder: str) -> Footers:
        path = f"{folder}/{table.path}"
        self._lake.engine.write(rows, table.schema(), self._lake.uri(path))
        return self._lake.footers(path)

    def _copies(self, table: Table) -> DataFrame:
        """The rows of the parts that are copied."""
        rows: list[DataFrame] = []
        for copy in self._plan.copies:
            some = _read(self._lake, table, [f"{copy.part.folder}/{table.path}"])
            if not copy.is_whole:
                some = some.where(some["run"].isin([*copy.runs]))
            rows.append(some)
        return reduce(lambda one, other: one.unionByName(other), rows)

    def _found(self, table: Table) -> dict[str, Footers]:
        """The folders with the rows of a table."""
        path = table.path
        found: dict[str, Footers] = {}
        if table in self._written:
            found[f"{self._folder}/{path}"] = self._written[table]
        elif not parts.is_by_run(table):
            said = self._tables[path]
            all_of_it = Footers(said["rows"], said["files"], said["bytes"])
            return dict.fromkeys(said["parts"], all_of_it)
        if path in self._copied:
            found[f"{self._folder}/{parts.COPIED}/{path}"] = self._copied[path]
        if parts.is_by_run(table):
            for part in self._plan.kept:
                if path in part.tables:
                    found[f"{part.folder}/{path}"] = part.tables[path]
        return found


def _read(lake: Lake, table: Table, folders: Sequence[str]) -> DataFrame:
    """The rows in some folders."""
    for folder in folders if lake.is_local else ():
        # For the local engine a missing folder is one without rows.
        if not lake.exists(folder):
            text = f"Path does not exist: {lake.uri(folder)}. "
            raise PipelineError(failures.sentence(text, lake.path))
    return lake.engine.read(table.schema(), [*map(lake.uri, folders)])
