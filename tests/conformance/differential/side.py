"""A broker as a sequence sees it."""

from __future__ import annotations

from typing import Any, Protocol

from tests.conformance.differential.request import Connections, Request
from tests.conformance.differential.sequence import Step
from tests.conformance.env import Env


class Side(Protocol):
    """One of the brokers, and all that its answers have said so far.

    Attributes:
        env: the names of this run.
        connections: of all actors.
    """

    env: Env
    connections: Connections

    async def end(self) -> None:
        """Removes it, and closes all connections."""

    def requests(self, step: Step) -> list[Request]:
        """The requests of a step, in the order in which they are sent; maybe none."""

    def plan(self, request: Request) -> None:
        """Remembers a request that is about to be sent."""

    def restart(self, step: Step) -> None:
        """Forgets what an actor's process knew; its connections are closed."""

    def absorb(self, request: Request) -> None:
        """Learns from an answer."""

    def shown(self, request: Request) -> Any:
        """The answer, comparable between brokers."""

    async def state(self) -> Any:
        """What the broker says about the group, or partition, comparable as well."""

    async def keep_alive(self, step: Step) -> None:
        """Sends the heartbeats of those that a wait keeps alive."""
