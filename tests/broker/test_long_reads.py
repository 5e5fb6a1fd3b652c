"""Long requests are read into their memory; everything else stays the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.broker.test_cluster import until
from tests.broker.test_connection import Heartbeat, end_of
from tests.broker.test_records_over_the_wire import batch
from tests.wire import frames
from tests.wire.client import connected
from tests.wire.requests import produce

from kohort.broker import connection as connections
from kohort.broker.long_reads import FIRST_READ, LongReads
from kohort.broker.server import Broker

SIZES = [FIRST_READ - 200, FIRST_READ, 3 * FIRST_READ, 900_000]
BEAT = frames.request("Heartbeat", 4, Heartbeat, 99)


@pytest.mark.parametrize("size", SIZES)
async def test_records_that_arrive_in_parts(size: int) -> None:
    """Each batch is in the log, and what follows is answered, in order."""
    made = [batch(bytes([65 + i]) * size) for i in range(3)]
    async with Broker() as broker, connected(broker) as peer:
        log = broker.cluster.create_topic("t", 1).partitions[0]
        for number, each in enumerate(made):
            request = frames.request("Produce", 9, produce((0, each)), number) + BEAT
            for part in (request[:2], request[2:9000], request[9000:-5]):
                peer.writer.write(part)
                await peer.writer.drain()
                await asyncio.sleep(0)
            peer.writer.write(request[-5:])
            assert await peer.next_correlation_id() == number
            assert await peer.next_correlation_id() == 99
        found = log.read(0, 10_000_000, minimum_one=True)
        # After the base offset, which the broker sets.
        stored = b"".join(found.buffers)
        assert [stored.count(each[61:]) for each in made] == [1, 1, 1]


async def test_long_requests_that_arrive_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many in one stream, with short ones between them; one reader takes them all."""
    readers: list[LongReads] = []

    def reads(*args: Any) -> LongReads:
        readers.append(LongReads(*args))
        return readers[-1]

    monkeypatch.setattr(connections, "LongReads", reads)
    made = batch(bytes(200_000))
    stream = b"".join(
        frames.request("Produce", 9, produce((0, made)), number) + BEAT
        for number in range(8)
    )
    async with Broker() as broker, connected(broker) as peer:
        log = broker.cluster.create_topic("t", 1).partitions[0]
        peer.writer.write(stream)
        for number in range(8):
            assert await peer.next_correlation_id() == number
            assert await peer.next_correlation_id() == 99
        assert log.log_end_offset == 8
    assert len(readers) == 1


async def test_a_client_that_leaves_in_the_middle_of_a_long_request() -> None:
    """The connection ends, and its memory is released."""
    request = frames.request("Produce", 9, produce((0, batch(bytes(200_000)))))
    async with Broker() as broker:
        memory = broker.cluster.request_memory
        async with connected(broker) as peer:
            await peer.is_served()
            connection = end_of(broker, peer)
            peer.writer.write(request[:100_000])
            await until(lambda: memory.total > 0)
            assert connection.is_reading
            peer.writer.write_eof()
            await peer.is_closed()
        assert not memory.total
        assert not broker.cluster.open_connections
