"""kohort's broker on a data directory, without sockets and without real time.

Requests go through the handlers as from a connection. The clock is moved by hand, so
housekeeping runs when it is due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.manual_clock import ManualClock
from tests.power.client import Client
from tests.power.model import SHARDS

from kohort.broker import notice
from kohort.broker.cluster.cluster import Cluster
from kohort.broker.config import Config
from kohort.broker.dispatch import ROUTES
from kohort.broker.events.bus import Events
from kohort.broker.housekeeping import Housekeeper
from kohort.broker.ids import Ids
from kohort.broker.request import Request
from kohort.protocol.registry import BY_NAME

CONFIG = {
    "offsets.topic.num.partitions": SHARDS,
    "auto.create.topics.enable": False,
    # A step takes some 100 ms: segments of a few records.
    "log.roll.ms": 1500,
    "log.retention.check.interval.ms": 2000,
    "log.flush.offset.checkpoint.interval.ms": 3000,
    "log.cleaner.backoff.ms": 1000,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "log.index.interval.bytes": 200,
}


class _Peer:
    """The far end of a connection."""

    software_name = "power"
    software_version = "1"
    listener = 0

    def __init__(self) -> None:
        self.answer: bytes | None = None

    def send(self, _request: Request, parts: list[Any]) -> None:
        """Takes the answer."""
        self.answer = b"".join(parts)

    def throttle(self, _wait_ms: int) -> None:
        """No quotas apply."""
        raise AssertionError

    def abort(self) -> None:
        """The broker failed."""
        raise AssertionError("the broker closed the connection")

    def fail(self, why: str) -> None:
        """The broker failed."""
        raise AssertionError(f"the broker closed the connection: {why}")


def _failed(error: Exception) -> None:
    raise error


class Serving(Client):
    """A running broker.

    Args:
        path: the data directory.
        config: in addition to CONFIG.
        now: the time, in seconds since the epoch.
    """

    def __init__(self, path: Path, config: Mapping[str, object], now: float) -> None:
        self.clock = ManualClock(now)
        self.cluster = Cluster(
            Config({**CONFIG, **config}),
            self.clock,
            Ids(1),
            data_dir=path,
            events=Events(),
        )
        self._loop = asyncio.new_event_loop()
        self._node = next(iter(self.cluster.nodes.values()))
        self._housekeeper = Housekeeper(self.cluster, lambda: ())
        self._run(self.cluster.load_coordinators)
        self._run(self._housekeeper.start)
        self.advance(0.001)

    def close(self) -> None:
        """Stops it cleanly."""
        self._run(self._housekeeper.stop)
        self._run(self.cluster.close)
        self._loop.close()

    def _run(self, what: Callable[[], object]) -> None:
        """Makes a call, and runs the work that it leaves for later turns."""

        async def run() -> None:
            what()

        self._loop.run_until_complete(run())
        while len(self.cluster.long_work):
            self._loop.run_until_complete(asyncio.sleep(0))

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self._run(lambda: self.clock.skip(seconds))

    def call(self, api_name: str, version: int, message: object) -> Any:
        """Sends a request, and returns its response."""
        api = BY_NAME[api_name]
        data = api.request(version).encode(message)
        route = ROUTES[api.key << 16 | version]
        decoded, _ = route.decode(data, 0, len(data))
        peer = _Peer()
        client = notice.Client("power", "/127.0.0.1")
        request = Request(
            route.format, route.respond, 1, client, decoded, self._node, peer
        )

        def handle() -> None:
            work = route.handle(request)
            if work is not None:
                self.cluster.long_work.start(work, _failed)

        self._run(handle)
        assert peer.answer is not None, f"{api_name} waits"
        start = 9 if api.response_header_version(version) >= 1 else 8
        answer, _ = api.response(version).decode(peer.answer, start, len(peer.answer))
        return answer
