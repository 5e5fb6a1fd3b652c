"""Clients in separate processes: the workers of `tests.workers`.

They can be killed, and are of any language. They can only join, close and die.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from tests.events.causes.clients import HEARTBEAT_MS, Client, Membership
from tests.interop.scene import Member
from tests.workers.libraries import Library

LOAD_S = 60.0


class ProcessClient(Client):
    """One worker."""

    def __init__(self, library: Library, wanted: Membership) -> None:
        super().__init__(wanted)
        self._library = library
        self._changed = threading.Condition()
        self._folder = tempfile.TemporaryDirectory()
        self._member: Member | None = None

    async def start(self) -> None:
        """As above; returns when it is loaded and has started to join."""
        await asyncio.to_thread(self._start)

    def _start(self) -> None:
        wanted = self.wanted
        (topic,) = wanted.topics
        (assignor,) = wanted.assignors
        member = self._member = Member(
            wanted.name,
            self._library.command(),
            Path(self._folder.name),
            self._changed,
        )
        self._until(lambda: "ready" in member.said)
        member.send(
            "join",
            bootstrap=wanted.servers,
            topic=topic,
            group="g",
            client=wanted.name,
            assignor=assignor,
            session=wanted.session_ms,
            heartbeat=HEARTBEAT_MS,
            instance=wanted.instance,
        )

    def _until(self, holds: Callable[[], bool]) -> None:
        member = self._member
        assert member is not None
        with self._changed:
            self._changed.wait_for(lambda: holds() or bool(member.failure), LOAD_S)
            assert holds(), member.story()

    async def close(self) -> None:
        """As above."""
        member = self._member
        assert member is not None
        member.send("close")
        await asyncio.to_thread(self._until, lambda: "closed" in member.said)

    async def crash(self) -> None:
        """SIGKILL."""
        if self._member is not None:
            await asyncio.to_thread(self._member.stop)

    async def end(self) -> None:
        """As above."""
        await self.crash()
        self._folder.cleanup()
