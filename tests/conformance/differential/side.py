"""A broker from the view of a sequence."""

from __future__ import annotations

from typing import Any, Protocol

from tests.conformance.differential.request import Connections, Request
from tests.conformance.differential.sequence import Step
from tests.conformance.env import Env


class Side(Protocol):
    """One of the brokers, and the state from its responses so far.

    Attributes:
        env: the names of this run.
        connections: of all actors.
    """

    env: Env
    connections: Connections

    async def end(self) -> None:
        """Removes it, and closes all connections."""

    def requests(self, step: Step) -> list[Request]:
        """The requests of a step, in sending order; may be empty."""

    def plan(self, request: Request) -> None:
        """Remembers a request that is about to be sent."""

    def restart(self, step: Step) -> None:
        """Forgets the state of an actor's process; its connections are closed."""

    def absorb(self, request: Request) -> None:
        """Updates the state from a response."""

    def shown(self, request: Request) -> Any:
        """The response in a form that brokers can be compared by."""

    async def state(self) -> Any:
        """The broker's state of the group, or partition, in the form of `shown`."""

    async def keep_alive(self, step: Step) -> None:
        """Sends the heartbeats of members that a wait keeps alive."""
