"""Finds the store of a lake."""

from __future__ import annotations

from kohort.pipeline.folders import Folders
from kohort.pipeline.iceberg import IcebergTables
from kohort.pipeline.lake import ICEBERG, Lake
from kohort.pipeline.stores import Store


def store_of(lake: Lake) -> Store:
    """The store of a lake's tables, by its format."""
    return IcebergTables(lake) if lake.format == ICEBERG else Folders(lake)
