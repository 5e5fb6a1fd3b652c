"""Modules of other Kafka clients, which ours are compared with."""

from __future__ import annotations

import importlib
import warnings
from typing import Any


def module_of(name: str) -> Any:
    """Imports a module by its name, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(name)
