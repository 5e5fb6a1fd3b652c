"""Bronze: events as they came, each once.

An ingest reads files, writes the new events as Parquet, and writes its entry in the
ledger last: without the entry, as after a kill, its files do not count. A stream (see
`kohort.pipeline.bronze.stream`) counts as far as Structured Streaming has committed.
"""

from __future__ import annotations

from kohort.pipeline.bronze.files import Ingested, ingest
from kohort.pipeline.bronze.inputs import BronzeError
from kohort.pipeline.bronze.reading import changed_runs, events, identities, quarantine
from kohort.pipeline.bronze.stream_files import Compacted, compact

__all__ = [
    "BronzeError",
    "Compacted",
    "Ingested",
    "changed_runs",
    "compact",
    "events",
    "identities",
    "ingest",
    "quarantine",
]
