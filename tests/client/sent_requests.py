"""The requests that clients of this process send, recorded where they are written."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Self

import pytest
from tests.client.stage import PATIENCE

from kohort.client.network.connection import Connection


@dataclass(slots=True)
class Exchange:
    """A request, and its response when there is one."""

    api: str
    request: Any
    response: Any = None


class SentRequests:
    """All requests, in the order in which they were written.

    It only looks on: every request goes to the broker as it is.
    """

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self._more = asyncio.Event()

    @classmethod
    def watching(cls, monkeypatch: pytest.MonkeyPatch) -> Self:
        """Records for the time of a test."""
        self = cls()
        post = Connection.post

        def seen(
            connection: Connection,
            api_name: str,
            version: int,
            message: object,
            *,
            timeout_ms: int | None = None,
        ) -> asyncio.Future[Any]:
            answer = post(connection, api_name, version, message, timeout_ms=timeout_ms)
            exchange = Exchange(api_name, message)
            self.exchanges.append(exchange)
            answer.add_done_callback(lambda done: self._answered(exchange, done))
            return answer

        monkeypatch.setattr(Connection, "post", seen)
        return self

    def _answered(self, exchange: Exchange, done: asyncio.Future[Any]) -> None:
        if not done.cancelled() and done.exception() is None:
            exchange.response = done.result()
        more, self._more = self._more, asyncio.Event()
        more.set()

    def requests(
        self, api: str, group: str, member_id: str | None = None
    ) -> list[Exchange]:
        """The requests of an API and a group, and of one member."""
        return [
            each
            for each in self.exchanges
            if each.api == api
            and each.request.group_id == group
            and member_id in (None, each.request.member_id)
        ]

    def answered(
        self, api: str, group: str, member_id: str | None = None
    ) -> list[Exchange]:
        """Those with a response."""
        found = self.requests(api, group, member_id)
        return [each for each in found if each.response is not None]

    def leaves(self, group: str) -> list[Exchange]:
        """The requests by which members have left, in either protocol."""
        beats = self.answered("ConsumerGroupHeartbeat", group)
        leaving = [each for each in beats if each.request.member_epoch < 0]
        return self.answered("LeaveGroup", group) + leaving

    async def until(
        self, api: str, group: str, count: int, member_id: str | None = None
    ) -> None:
        """Returns when this many have a response."""
        async with asyncio.timeout(PATIENCE):
            while len(self.answered(api, group, member_id)) < count:
                await self.more()

    async def more(self) -> None:
        """Returns after the next response."""
        await self._more.wait()
