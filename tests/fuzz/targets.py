"""The fuzz targets by name."""

from __future__ import annotations

from tests.fuzz import batches, connections, decoders, directories

TARGETS = {
    "batches": batches.BATCHES,
    "connections": connections.CONNECTIONS,
    "decoders": decoders.DECODERS,
    "directories": directories.DIRECTORIES,
    "frames": decoders.FRAMES,
}
