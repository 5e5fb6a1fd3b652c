"""The pytest plugin: a broker for each test, and power over its groups.

    async def test_a_second_instance_takes_half(kohort):
        kohort.topic("orders", partitions=6, records=60)
        group = kohort.group("billing")
        async with running(service(kohort.bootstrap_servers)):
            await group.stable(members=1)

The fixture is a `Kohort`. pytest imports this package in every test run of an
environment that has kohort, so the rest of it is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kohort.testing.group import Group, GroupMember
    from kohort.testing.kohort import Kohort
    from kohort.testing.member import Reply, ScriptedMember
    from kohort.testing.processes import Process
    from kohort.testing.services import in_thread, running
    from kohort.testing.topics import Record, Topic
    from kohort.testing.transaction import Transaction

_HOMES = {
    "Group": "group",
    "GroupMember": "group",
    "Kohort": "kohort",
    "Process": "processes",
    "Record": "topics",
    "Reply": "member",
    "ScriptedMember": "member",
    "Topic": "topics",
    "Transaction": "transaction",
    "in_thread": "services",
    "running": "services",
}

__all__ = [
    "Group",
    "GroupMember",
    "Kohort",
    "Process",
    "Record",
    "Reply",
    "ScriptedMember",
    "Topic",
    "Transaction",
    "in_thread",
    "running",
]


def __getattr__(name: str) -> Any:
    """Imports a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
