"""kohort: a Kafka broker for testing consumer groups.

The names that most programs need; each is imported on first use:

    from kohort import Broker, Group

    with Broker() as broker:
        print(broker.call(lambda: Group(broker, "billing").state))

`Kohort` is the object of the pytest fixture: the same broker with verbs that block, or
are awaited. The client is in `kohort.client`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.broker.server import Broker
    from kohort.control.group import Group
    from kohort.control.transaction import Transaction
    from kohort.testing.kohort import Kohort

_HOMES = {
    "Broker": "broker.server",
    "Group": "control.group",
    "Kohort": "testing.kohort",
    "Transaction": "control.transaction",
}

__all__ = ["Broker", "Group", "Kohort", "Transaction"]


if not TYPE_CHECKING:  # a wrong name is an error to type checkers

    def __getattr__(name: str) -> object:
        """Imports a public name on first use."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
