"""Stores: the places of the tables of builds, by the format of a lake.

`kohort.pipeline.folders` has them in folders of Parquet, `kohort.pipeline.iceberg` in
tables of Apache Iceberg. In both a build writes a draft, the checks read it, and
``current.json`` publishes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kohort.pipeline.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Stored:
    """A table of a draft.

    Attributes:
        rows: how many it has, with those of other runs.
        files: how many it is in.
        size: their bytes.
        parts: the folders with its rows; empty: the format has none.
    """

    rows: int
    files: int
    size: int
    parts: Sequence[str] = ()


class Draft(Protocol):
    """The tables of a build that is not published.

    Each table is written by a thread.
    """

    def base_on(self, base: Mapping[str, Any], runs: Sequence[str]) -> None:
        """Takes rows over from the build that readers see.

        Args:
            base: its lineage.
            runs: the runs that are computed: rows of the others are taken over.
        """

    def write(self, table: Table, rows: DataFrame | None) -> Stored:
        """Writes a table: the rows of the computed runs; None: all are as they were."""

    def rows(self, table: Table, *, only: bool) -> DataFrame:
        """All rows of a written table, or only those of the computed runs."""

    def as_json(self, computed: Callable[[], Sequence[str]]) -> dict[str, Any]:
        """The place of the tables, for the build's lineage.

        Args:
            computed: the computed runs; costs a job.
        """

    def discard(self) -> None:
        """Removes all that was written."""


class Store(Protocol):
    """The tables of all builds of a lake."""

    def draft(self, build_id: str, current: str | None) -> Draft:
        """Begins a build.

        Args:
            build_id: its id.
            current: the build that readers see.
        """

    def read(self, build_id: str, table: Table, said: Mapping[str, Any]) -> DataFrame:
        """A table of a build that has ended; ``said`` is its lineage."""

    def published(self, said: Mapping[str, Any]) -> None:
        """Follows ``current.json``, which has moved to the build of this lineage."""

    def sweep(self, gone: Sequence[str], stay: Sequence[Mapping[str, Any]]) -> None:
        """Removes builds, except rows that the lineages of others refer to."""
