"""A broker from the view of a sequence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.conformance.differential.request import Connections, Request
from tests.conformance.differential.sequence import Step
from tests.conformance.env import Env, Stage
from tests.conformance.symbols import render
from tests.patience import PATIENCE_S

PARTITIONS = 2
"""Partitions of the topic of a sequence."""


class Side:
    """One of the brokers, and the state from its responses so far.

    A method `_kind` makes the request of each kind of step.

    Args:
        target: the broker.

    Attributes:
        env: the names of this run.
        connections: of all actors.
    """

    def __init__(self, target: Stage) -> None:
        self.env = Env(target)
        self.connections = Connections(self.env)

    async def ask(self, *requests: Request) -> list[Any]:
        """Sends requests of no actor; returns their responses."""
        await self.connections.send(*requests)
        calls = [each.call for each in requests if each.call is not None]
        return [(await call.wait()).body for call in calls]

    async def end(self) -> None:
        """Removes what it has made, and closes all connections."""
        await self.env.close()

    def requests(self, step: Step) -> list[Request]:
        """The requests of a step, in sending order; may be empty."""
        raise NotImplementedError

    def plan(self, request: Request) -> None:
        """Remembers a request that is about to be sent."""

    def restart(self, step: Step) -> None:
        """Forgets the state of an actor's process; its connections are closed."""
        raise NotImplementedError

    def absorb(self, request: Request) -> None:
        """Updates the state from a response."""
        assert request.call is not None
        self.answered(request, request.call.future.result().body)

    def answered(self, request: Request, body: dict[str, Any] | None) -> None:
        """Updates the state from a response; None: the connection was closed."""
        raise NotImplementedError

    def shown(self, request: Request) -> Any:
        """The response in a form that brokers can be compared by."""
        assert request.call is not None
        outcome = request.call.future.result()
        if outcome.body is None:
            return f"{outcome.status} {outcome.detail}"
        return self.rendered(self.told(request, dict(outcome.body)))

    def told(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        """The response without parts that are not compared."""
        return body

    def plain(self, value: Any, key: str = "") -> Any:
        """A message without the values that differ from run to run."""
        return value

    def rendered(self, body: Any) -> Any:
        """A message with symbols for what differs from run to run."""
        return render(self.plain(body), self.env.symbols, response=True)

    @property
    def order(self) -> Any:
        """All that decides how partitions are divided, beside the requests so far."""
        return None

    async def state(self) -> Any:
        """The broker's state of the group, or partition, in the form of `shown`."""
        raise NotImplementedError

    async def keep_alive(self, step: Step) -> None:
        """Sends the heartbeats of members that a wait keeps alive."""


class TopicSide(Side):
    """A side whose sequence begins with a topic."""

    def __init__(self, target: Stage) -> None:
        super().__init__(target)
        self.topic = self.env.fresh_topic_name("t")
        self.is_made = False

    async def end(self) -> None:
        """Deletes the topic, and closes all connections."""
        fields = {"topic_names": [self.topic], "timeout_ms": 5000}
        await self.ask(Request("watcher", "DeleteTopics", 3, fields))
        await super().end()

    def creation(self, **fields: Any) -> dict[str, Any]:
        """The fields of CreateTopics."""
        topic = {
            "name": self.topic,
            "num_partitions": PARTITIONS,
            "replication_factor": 1,
        }
        return {"topics": [topic | fields], "timeout_ms": 10_000}

    async def settled(
        self, *looks: Request, codes: Callable[[list[Any]], list[int]]
    ) -> list[Any]:
        """The responses; Kafka creates a topic a little later than it answers.

        Args:
            looks: the requests.
            codes: the error codes that a topic without leaders has.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while True:
            bodies = await self.ask(*looks)
            if not self.is_made or not any(codes(bodies)) or loop.time() > deadline:
                return bodies
            await asyncio.sleep(0.05)


def following(kind: str, sequence: int, last: int) -> int:
    """The sequence number of a batch.

    Args:
        kind: as in a step.
        sequence: that of the next record.
        last: that of the last accepted batch.
    """
    return {
        "next": sequence,
        "same": last,
        "gap": sequence + 3,
        "back": sequence - 1,
        "zero": 0,
        "none": -1,
    }[kind]
