"""The fuzz targets by name."""

from __future__ import annotations

from tests.fuzz import batches, decoders

TARGETS = {
    "batches": batches.BATCHES,
    "decoders": decoders.DECODERS,
    "frames": decoders.FRAMES,
}
