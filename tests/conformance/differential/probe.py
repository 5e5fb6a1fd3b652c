"""A member of another group, which shows that work of a coordinator is done."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from tests.conformance.connection import ScenarioError
from tests.conformance.differential.request import Request
from tests.patience import PATIENCE_S

LEAVES = -1
REBALANCE_MS = 60_000
Partitions = dict[uuid.UUID, list[int]]
"""Partitions by topic id."""


class Probe:
    """A member of a group beside the one that is compared.

    Args:
        ask: sends requests of no actor.
        group: its group.
    """

    def __init__(
        self, ask: Callable[[Request], Awaitable[list[Any]]], group: str
    ) -> None:
        self._ask = ask
        self._group = group
        self._epoch = 0
        self._assigned: Partitions = {}

    async def until_assigned(self, names: list[str], wanted: Partitions) -> None:
        """Sends heartbeats until it has these partitions."""
        await self._until(lambda has: has == wanted, subscribed_topic_names=names)

    async def until_matched(self, topic: str) -> None:
        """Sends heartbeats until its pattern is matched; then it leaves."""
        await self._until(bool, subscribed_topic_regex=topic)
        await self.leave()

    async def leave(self) -> None:
        """Leaves, if it is in."""
        if self._epoch:
            await self._beat(member_epoch=LEAVES)

    async def _until(self, is_done: Any, **subscribed: Any) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while True:
            body = await self._beat(
                member_epoch=self._epoch,
                rebalance_timeout_ms=REBALANCE_MS,
                topic_partitions=rows_of(self._assigned),
                **subscribed,
            )
            if int(body["error_code"]):
                # A busy machine may let its session end.
                self._epoch, self._assigned = 0, {}
                continue
            self._epoch = body["member_epoch"]
            self._assigned = partitions_of(body) if body["assignment"] else {}
            if is_done(self._assigned):
                return
            check(loop.time() < deadline, "the coordinator does not know the topics")
            await asyncio.sleep(0.01)

    async def _beat(self, **fields: Any) -> dict[str, Any]:
        named = {"group_id": self._group, "member_id": "probe"}
        unset = {"topic_partitions": None, "subscribed_topic_names": None}
        if "subscribed_topic_regex" in fields:
            unset["subscribed_topic_names"] = []  # type: ignore[assignment]
        request = Request(
            "watcher", "ConsumerGroupHeartbeat", 1, named | unset | fields
        )
        body: dict[str, Any] = (await self._ask(request))[0]
        return body


def rows_of(partitions: Partitions) -> list[dict[str, Any]]:
    """Partitions as a heartbeat reports them."""
    return [
        {"topic_id": topic_id, "partitions": each}
        for topic_id, each in partitions.items()
    ]


def partitions_of(body: dict[str, Any]) -> Partitions:
    """The partitions in the response to a heartbeat."""
    rows = body["assignment"]["topic_partitions"]
    return {row["topic_id"]: sorted(row["partitions"]) for row in rows}


def check(is_so: bool, problem: str) -> None:
    """Raises a ScenarioError if something is not so."""
    if not is_so:
        raise ScenarioError(problem)
