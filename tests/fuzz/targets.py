"""The fuzz targets by name."""

from __future__ import annotations

from tests.fuzz import (
    batches,
    connections,
    decoders,
    directories,
    files,
    group_records,
)

TARGETS = {
    "batches": batches.BATCHES,
    "connections": connections.CONNECTIONS,
    "decoders": decoders.DECODERS,
    "directories": directories.DIRECTORIES,
    "files": files.FILES,
    "frames": decoders.FRAMES,
    "groups": group_records.GROUP_RECORDS,
}
