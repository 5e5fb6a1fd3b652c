"""Notices: events of groups and transactions, before they are rendered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

make = tuple.__new__
"""``make(Notice, (...))`` with all fields: implemented in C, in a third of the time.
Each member of a rebalance makes some of these tuples."""


class Client(NamedTuple):
    """The sender of a request."""

    id: str
    host: str
    connection: int | None = None
    """The number of its connection, unique in a run; None if unknown."""


class Who(NamedTuple):
    """The member that a notice is about, or a client that is not a member."""

    member_id: str | None
    group_instance_id: str | None = None
    client: Client | None = None
    """The sender of the member's JoinGroup, or of the request; None if unknown."""


class Notice(NamedTuple):
    """A raw notice: becomes an event of `kohort.broker.events.schema` when it is read.

    `kohort.broker.events.render` renders it. The objects in its fields never change
    afterwards.
    """

    kind: str
    """An event kind, for example ``rebalance_started``."""
    group_id: str | None
    """The group's id; None if the notice is about no group."""
    generation: int | None
    """The group's generation after the event."""
    who: Who | None
    fields: Mapping[str, Any]
    """The kind's fields, ``cause`` and ``reason``; `render` converts raw values.
    """
    weight: int = 1
    """Rows that it keeps in memory: members, partitions, or offsets."""
