"""The fuzz targets by name."""

from __future__ import annotations

import importlib

from tests.fuzz import (
    batches,
    connections,
    decoders,
    directories,
    files,
    group_records,
)
from tests.fuzz.target import Target

TARGETS: dict[str, Target] = {
    "batches": batches.BATCHES,
    "connections": connections.CONNECTIONS,
    "decoders": decoders.DECODERS,
    "directories": directories.DIRECTORIES,
    "files": files.FILES,
    "frames": decoders.FRAMES,
    "groups": group_records.GROUP_RECORDS,
}


def target_of(name: str) -> Target:
    """A target of the table, or that of another module: ``module:NAME``."""
    module, colon, attribute = name.partition(":")
    if not colon:
        return TARGETS[name]
    found: Target = getattr(importlib.import_module(module), attribute)
    return found
