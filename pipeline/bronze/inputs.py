"""Inputs of an ingest: files of JSON lines or Parquet, which each engine reads its way.

Both make the same rows: `kohort.pipeline.bronze.spark_input` by Spark's expressions,
`kohort.pipeline.bronze.local_input` in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from kohort.pipeline.errors import PipelineError
from kohort.pipeline.files import File

TEXTS: Final = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")


class BronzeError(PipelineError):
    """An input that cannot be read; the message names it and says why."""


class UnreadError(BronzeError):
    """One of the files of an ingest cannot be read.

    Attributes:
        path: of the file, as in its `File`.
        why: the reason, in few words.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


Taken = tuple[int, Mapping[str, int]]
"""Number of written events, copies included, and of quarantined records by reason."""
Take = Callable[[Sequence[File], str, datetime, Callable[[str], None]], Taken]
"""Writes the events of files into ``events`` of a folder, and all other records into
``quarantine``. Its arguments: the files, the folder's URI, the time of arrival, and a
function that is called with a line about each step.

Raises UnreadError if a file cannot be read.
"""
