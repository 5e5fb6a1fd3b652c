"""The fuzz targets by name."""

from __future__ import annotations

from tests.fuzz import batches, connections, decoders

TARGETS = {
    "batches": batches.BATCHES,
    "connections": connections.CONNECTIONS,
    "decoders": decoders.DECODERS,
    "frames": decoders.FRAMES,
}
