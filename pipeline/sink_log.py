"""The files of a stream that count, by the log of Structured Streaming's file sink.

The sink adds a file ``_spark_metadata/<batch>`` for each batch: a version, and a line
of JSON for each file of the batch. Every tenth is ``<batch>.compact``: it has the lines
of all batches up to there, in their order, so that the older ones may go. Files that
are not in the log are of a batch that was killed, and do not count.
"""

from __future__ import annotations

import json
from typing import Final

from kohort.pipeline.errors import PipelineError
from kohort.pipeline.lake import STREAMS, Lake

METADATA: Final = "_spark_metadata"
"""Folder in which a stream's file sink lists the files that count."""
EVENTS: Final = "quarantined=false/"
QUARANTINED: Final = "quarantined=true/"
"""The start of the paths of files with events, and with quarantined records."""
_COMPACT: Final = ".compact"
_VERSION: Final = "v1"


def files(lake: Lake, stream: str) -> list[str]:
    """The files in the order in which they were written, from the oldest batch on.

    Returns:
        Paths in the folder of the stream: ``quarantined=false/part-00000-....parquet``.

    Raises:
        PipelineError: the log has another version.
    """
    while True:
        folder = f"{STREAMS}/{stream}/{METADATA}"
        texts = [lake.read_text(f"{folder}/{name}") for name in _logs(lake, folder)]
        if None not in texts:
            return [path for text in texts for path in _paths(text or "", stream)]
        # A later log has the lines of one that has just gone.


def _logs(lake: Lake, folder: str) -> list[str]:
    """The logs that together have all files."""
    names = lake.names(folder)
    ends = [int(n.removesuffix(_COMPACT)) for n in names if n.endswith(_COMPACT)]
    latest = max(ends, default=-1)
    later = sorted(int(name) for name in names if name.isdigit() and int(name) > latest)
    return [*([f"{latest}{_COMPACT}"] if ends else []), *map(str, later)]


def _paths(text: str, stream: str) -> list[str]:
    """The files in a log."""
    version, *lines = text.splitlines()
    if version != _VERSION:
        raise PipelineError(f"the log of stream {stream} has version {version[:20]!r}")
    # Absolute paths; the lake may have been moved since.
    return ["/".join(json.loads(line)["path"].split("/")[-2:]) for line in lines]
