"""Heartbeats credited to members while the clock is moved ahead."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from kohort.broker.notice import Client


class Sender(Protocol):
    """A connection, from its client's point of view."""

    @property
    def client(self) -> Client:
        """The sender of its latest request."""

    software_name: str
    """The name of its library (KIP-511); empty if unknown."""

    @property
    def is_waiting(self) -> bool:
        """True if a request of the client waits for its answer."""

    @property
    def is_heard(self) -> bool:
        """True if the client can send requests, and the broker handles them."""


class Credit:
    """Decides which members count as heard from.

    Args:
        open_connections: the open connections, by number.

    Attributes:
        until: the end of the advance in progress, in seconds since the epoch; minus
            infinity without one, or if it credits no heartbeats.
    """

    __slots__ = ("_clients", "_open", "_waiting", "until")

    def __init__(self, open_connections: Mapping[int, Sender]) -> None:
        self.until = -math.inf
        self._open = open_connections
        # (client id, host) of connected clients; None: `look` again if needed.
        self._clients: set[tuple[str, str]] | None = None
        # The same of those with a request that waits.
        self._waiting: set[tuple[str, str]] | None = None

    @property
    def is_given(self) -> bool:
        """True during an advance that credits heartbeats."""
        return self.until != -math.inf

    def look(self) -> None:
        """Makes the next question about clients use the connections open by then."""
        self._clients = self._waiting = None

    def is_live(self, client: Client) -> bool:
        """Returns whether a member's client is connected.

        A member is known by the connection of its last JoinGroup. A member loaded from
        a log, for example after a move of the coordinator, has none: it counts as
        connected while any connection has its client id and host. This uses the
        connections that were open after the last `look`, as there may be as many
        connections as members.
        """
        if client.connection is not None:
            found = self._open.get(client.connection)
            return found is not None and found.is_heard
        if self._clients is None:
            heard = (each.client for each in self._open.values() if each.is_heard)
            self._clients = {each[:2] for each in heard}
        return client[:2] in self._clients

    def software(self, client: Client) -> str | None:
        """The name of a member's client library; None if it has not said it."""
        found = self._open.get(client.connection or 0)
        return None if found is None else found.software_name or None

    def is_waiting(self, client: Client) -> bool:
        """Returns whether a request of a member's client waits for its answer.

        It looks at all connections with its client id and host, as they were after the
        last `look`. Consumers have others for their fetches than for their group.
        """
        if self._waiting is None:
            waiting = (each.client for each in self._open.values() if each.is_waiting)
            self._waiting = {each[:2] for each in waiting}
        return client[:2] in self._waiting
