"""kohort's broker on a data directory, without sockets and without time passing.

Requests go through the handlers as those of a connection do. The clock is moved by
hand, so housekeeping does what it does when it is due.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.power import batches
from tests.power.findings import Found, FoundPart, FoundTopic
from tests.power.model import OFFSETS, SHARDS

from kohort.broker.cluster import Cluster
from kohort.broker.config import Config
from kohort.broker.dispatch import route_of
from kohort.broker.events.bus import Events
from kohort.broker.housekeeping import Housekeeper
from kohort.broker.ids import Ids
from kohort.broker.request import Request
from kohort.protocol.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.apis.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kohort.protocol.apis.k03_metadata import MetadataRequest
from kohort.protocol.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from kohort.protocol.apis.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kohort.protocol.messages import ZERO_UUID
from kohort.protocol.registry import BY_NAME

TOPIC = 2
START = 1_700_000_000.0
EARLIEST, LATEST = -2, -1
CONFIG = {
    "offsets.topic.num.partitions": SHARDS,
    "auto.create.topics.enable": False,
    # Time passes by some 100 ms a step: segments of a few records.
    "log.roll.ms": 1500,
    "log.retention.check.interval.ms": 2000,
    "log.flush.offset.checkpoint.interval.ms": 3000,
    "log.cleaner.backoff.ms": 1000,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "log.index.interval.bytes": 200,
}


class Clock:
    """A clock that is moved by hand."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._timers: list[tuple[float, int, _Timer]] = []
        self._order = itertools.count()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._now

    def call_at(self, when: float, callback: Callable[[], object]) -> _Timer:
        """Calls it once the clock is moved there."""
        timer = _Timer(callback)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Moves it, and calls what is due."""
        end = self._now + seconds
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            if timer.callback is not None:
                timer.callback()
        self._now = end


class _Timer:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """It is not called any more."""
        self.callback = None


class _Peer:
    """The far end of a connection."""

    client_host = "127.0.0.1"
    software_name = "power"
    software_version = "1"

    def __init__(self) -> None:
        self.answer: bytes | None = None

    def send(self, _request: Request, parts: list[Any]) -> None:
        """Takes the answer."""
        self.answer = b"".join(parts)

    def abort(self) -> None:
        """The broker gave up."""
        raise AssertionError("the broker closed the connection")

    def fail(self, why: str) -> None:
        """The same."""
        raise AssertionError(f"the broker closed the connection: {why}")


def _failed(error: Exception) -> None:
    raise error


class Serving:
    """A broker that runs.

    Args:
        path: the data directory.
        config: besides CONFIG.
        now: the time, in seconds since the epoch.
    """

    def __init__(self, path: Path, config: Mapping[str, object], now: float) -> None:
        self.clock = Clock(now)
        self.cluster = Cluster(
            Config({**CONFIG, **config}),
            self.clock,
            Ids(1),
            data_dir=path,
            events=Events(),
        )
        self._loop = asyncio.new_event_loop()
        self._node = next(iter(self.cluster.nodes.values()))
        self._housekeeper = Housekeeper(self.cluster, self.clock, lambda: ())
        self._run(self.cluster.load_groups)
        self._run(self._housekeeper.start)
        self.advance(0.001)

    def close(self) -> None:
        """Stops it in order."""
        self._run(self._housekeeper.stop)
        self._run(self.cluster.close)
        self._loop.close()

    def _run(self, what: Callable[[], object]) -> None:
        """Does something, and what it has left for later turns of the loop."""

        async def run() -> None:
            what()

        self._loop.run_until_complete(run())
        while len(self.cluster.long_work):
            self._loop.run_until_complete(asyncio.sleep(0))

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self._run(lambda: self.clock.advance(seconds))

    def call(self, api_name: str, version: int, message: object) -> Any:
        """The answer to a request."""
        api = BY_NAME[api_name]
        data = api.request(version).encode(message)
        route = route_of(api.key << 16 | version)
        decoded, _ = route.decode(data, 0, len(data))
        peer = _Peer()
        request = Request(
            route.format, route.respond, 1, "power", decoded, self._node, peer
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

    # -- all that clients can see

    def found(self, groups: Iterable[str]) -> Found:
        """Topics, their records, and what these groups have committed."""
        answer = self.call("Metadata", 12, MetadataRequest(None, False))
        topics = {}
        for each in answer.topics:
            if each.name != OFFSETS:
                assert each.error_code == 0, each
                parts = [self.part(each.name, i) for i in range(len(each.partitions))]
                config = self.config_of(each.name)
                topics[each.name] = FoundTopic(bytes(each.topic_id), config, parts)
        committed = {}
        for group in groups:
            request = OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group, topics=None)]
            )
            (about,) = self.call("OffsetFetch", 8, request).groups
            assert about.error_code == 0, about
            for topic in about.topics:
                for row in topic.partitions:
                    key = group, (topic.name, row.partition_index)
                    committed[key] = row.committed_offset, row.metadata or ""
        return Found(topics, committed)

    def offset(self, topic: str, index: int, which: int) -> int:
        """ListOffsets of the earliest or latest."""
        rows = [ListOffsetsPartition(index, -1, which)]
        request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, rows)])
        (about,) = self.call("ListOffsets", 6, request).topics
        assert about.partitions[0].error_code == 0, about
        offset: int = about.partitions[0].offset
        return offset

    def part(self, topic: str, index: int) -> FoundPart:
        """All of a partition, by Fetch."""
        start, end = (self.offset(topic, index, w) for w in (EARLIEST, LATEST))
        records = []
        position = start
        while position < end:
            rows = [FetchPartition(index, -1, position, partition_max_bytes=1 << 20)]
            request = FetchRequest(topics=[FetchTopic(topic, ZERO_UUID, rows)])
            (about,) = self.call("Fetch", 12, request).responses[0].partitions
            assert about.error_code == 0, about
            got = list(batches.read(bytes(about.records or b"")))
            if not got:
                break
            for batch in got:
                assert batch.last >= position, f"{topic}: {batch.last} at {position}"
                records += [row for row in batch.records if row[0] >= start]
                position = batch.last + 1
        return FoundPart(start, end, records)

    def config_of(self, topic: str) -> dict[str, str]:
        """A topic's configuration."""
        wanted = [DescribeConfigsResource(TOPIC, topic, None)]
        (about,) = self.call(
            "DescribeConfigs", 4, DescribeConfigsRequest(wanted)
        ).results
        assert about.error_code == 0, about
        return {each.name: each.value for each in about.configs}
