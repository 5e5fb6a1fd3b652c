"""The table of handlers matches the registry and the modules."""

from __future__ import annotations

import importlib

from kohort.broker.dispatch import HANDLERS, WITH_RESPOND
from kohort.protocol.registry import BY_KEY


def test_every_api_has_a_handler() -> None:
    """The table has each API of the registry, and no other."""
    assert HANDLERS.keys() == BY_KEY.keys()
    modules = {key: importlib.import_module(name) for key, name in HANDLERS.items()}
    assert all(hasattr(module, "handle") for module in modules.values())
    responding = {key for key, module in modules.items() if hasattr(module, "respond")}
    assert responding == WITH_RESPOND
