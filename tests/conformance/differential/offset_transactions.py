"""Offsets that members of a group commit in transactions, all with one producer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.conformance.differential.request import Request
from tests.conformance.env import Env
from tests.patience import PATIENCE_S

TIMEOUT_MS = 600_000
"""No transaction times out while a sequence is played."""


class OffsetTransactions:
    """The producer of a side.

    Args:
        env: names the run.
        ask: sends requests of no actor.
    """

    def __init__(
        self, env: Env, ask: Callable[[Request], Awaitable[list[Any]]]
    ) -> None:
        self._env = env
        self._ask = ask
        self._id = f"x-{env.run_id}"
        env.symbols.name(self._id, "<x>")
        self._epoch: dict[str, int] = {}
        self._is_ending = False

    def next(self, who: str, version: int, offsets: dict[str, Any]) -> Request:
        """InitProducerId for the first time, then TxnOffsetCommit."""
        named = {"transactional_id": self._id}
        if not self._epoch:
            fields = named | {"transaction_timeout_ms": TIMEOUT_MS}
            unset = {"producer_id": -1, "producer_epoch": -1}
            return Request(who, "InitProducerId", 4, fields | unset)
        return Request(who, "TxnOffsetCommit", version, named | self._epoch | offsets)

    def end(self, who: str, *, is_commit: bool) -> Request | None:
        """EndTxn; None if there is no producer yet."""
        if not self._epoch:
            return None
        self._is_ending = True
        named = {"transactional_id": self._id, "committed": is_commit}
        return Request(who, "EndTxn", 5, named | self._epoch)

    def answered(self, body: dict[str, Any]) -> None:
        """Takes the producer's new id or epoch."""
        if not int(body["error_code"]):
            self._epoch = {
                name: body[name] for name in ("producer_id", "producer_epoch")
            }
            self._env.symbols.name_producer(body["producer_id"])

    async def until_written(self) -> None:
        """Waits for the markers of a transaction that has ended.

        Kafka answers EndTxn before.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while self._is_ending and loop.time() < deadline:
            ids = {"transactional_ids": [self._id]}
            (body,) = await self._ask(
                Request("watcher", "DescribeTransactions", 0, ids)
            )
            (found,) = body["transaction_states"]
            self._is_ending = found["transaction_state"].startswith("Prepare")
