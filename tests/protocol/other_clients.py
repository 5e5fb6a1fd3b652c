"""Modules of other Kafka clients, against which ours are held."""

from __future__ import annotations

import importlib
import warnings
from typing import Any


def module_of(name: str) -> Any:
    """A module by its name; what it warns of on import is not ours to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(name)
