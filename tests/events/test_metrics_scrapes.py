"""Scrapes: formats, many at once, and clients that disconnect early."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from tests.broker.test_cluster import (
    cluster,
    elsewhere,
    heartbeat,
    join,
    offsets,
    stable,
)
from tests.events.test_metrics import leave, scraping
from tests.patience import PATIENCE_S
from tests.wire.client import connected

from kohort.broker.server import Broker
from kohort.control.http.metrics_routes import (
    OPEN_METRICS,
    PLAIN,
    Shared,
    chosen_format,
)
from kohort.control.http.server import Control
from kohort.protocol.apis.k14_sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from kohort.protocol.apis.k42_delete_groups import DeleteGroupsRequest
from kohort.protocol.consumer import Assignment, TopicPartitions, encode

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
"""What Prometheus 3 sends."""


SOME = encode(Assignment([TopicPartitions("t", [0])]), 0)
"""An assignment."""


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("text/html, */*;q=0.1", PLAIN),
        (PROMETHEUS, OPEN_METRICS),
        ("application/openmetrics-text", OPEN_METRICS),
        ("Application/OpenMetrics-Text ; Q=0.5", OPEN_METRICS),
        ("application/openmetrics-text;q=0", PLAIN),
        ("text/plain, application/openmetrics-text;q=0.9", PLAIN),
        ("text/plain;q=0.1,application/openmetrics-text;q=0.9", OPEN_METRICS),
        ("application/openmetrics-text;q=much", OPEN_METRICS),
        (";;,,;q=,=", PLAIN),
    ],
)
def test_the_format_is_the_one_that_is_wanted_most(accept: str, expected: str) -> None:
    """OpenMetrics only for clients that name it."""
    assert chosen_format(accept) == expected


async def test_a_version_that_there_is_not_is_no_fault() -> None:
    """Whatever the Accept header has in it, the answer is one of the two formats."""
    async with scraping() as s:
        content_type, _ = await s.text(Accept="text/plain; version=none")
        assert content_type.startswith("text/plain; version=0.0.4;")
        content_type, text = await s.text(Accept=PROMETHEUS)
        assert content_type.startswith("application/openmetrics-text; version=1.0.0;")
        assert text.endswith("# EOF\n")


async def test_head_has_the_length_and_no_body() -> None:
    """As HTTP wants it of whatever can be got."""
    async with scraping() as s, s.http.head("/metrics") as answer:
        assert answer.status == 200
        assert int(answer.headers["Content-Length"]) > 1000
        assert await answer.read() == b""


async def test_who_asks_at_once_shares() -> None:
    """One scrape is computed at a time; requests meanwhile share the next one."""
    begun: asyncio.Queue[asyncio.Event] = asyncio.Queue()
    count = 0

    async def make() -> int:
        nonlocal count
        count += 1
        number, may_end = count, asyncio.Event()
        await begun.put(may_end)
        await may_end.wait()
        return number

    shared = Shared(make)
    async with asyncio.timeout(PATIENCE_S):
        first = asyncio.create_task(shared.get())
        may_end = await begun.get()
        late = [asyncio.create_task(shared.get()) for _ in range(100)]
        await asyncio.sleep(0)
        # Some of them are gone before it is begun.
        for each in late[:50]:
            each.cancel()
        assert begun.empty()
        may_end.set()
        assert await first == 1
        (await begun.get()).set()
        assert {await each for each in late[50:]} == {2}


async def test_a_hundred_scrapes_at_once_leave_room_for_others() -> None:
    """All are answered, and each includes the events before it."""
    async with scraping() as s, asyncio.timeout(PATIENCE_S):
        member_id = await stable(s.wire)
        await heartbeat(s.wire, member_id)
        scrapes = [asyncio.create_task(s.text()) for _ in range(100)]
        assert await heartbeat(s.wire, member_id) == 0
        for _, text in await asyncio.gather(*scrapes):
            assert 'kohort_api_requests_total{api="Heartbeat"}' in text
        assert await s.value("kohort_api_requests_total", api="Heartbeat") == 2


async def test_who_is_gone_before_the_answer_harms_nobody() -> None:
    """Its connection is closed after the request: the next one is answered."""
    async with scraping() as s:
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", s.port)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await writer.drain()
            writer.transport.abort()
        await s.text()


async def test_a_scrape_while_the_port_is_closed() -> None:
    """A running scrape is answered or its connection closed; nothing hangs."""
    async with cluster(1) as broker, asyncio.timeout(PATIENCE_S):
        control = Control(broker)
        await control.start()
        async with aiohttp.ClientSession(control.url) as http:

            async def scrape() -> int:
                try:
                    async with http.get("/metrics") as answer:
                        await answer.read()
                        return answer.status
                except aiohttp.ClientConnectionError:
                    return 0

            scrapes = [asyncio.create_task(scrape()) for _ in range(20)]
            await asyncio.sleep(0)
            await control.stop()
            assert {await each for each in scrapes} <= {0, 200}


SUMS = (
    "kohort_group_rebalances_total",
    "kohort_group_rebalance_duration_seconds_count",
    "kohort_group_commits_total",
    "kohort_api_requests_total",
    "kohort_events_total",
)


async def one_generation(broker: Broker, generation: int) -> None:
    """A client commits to the group g, joins, assigns, and leaves."""
    async with connected(broker, broker.coordinator_of("g")) as client:
        await client.call("OffsetCommit", 8, offsets(generation, group="g"))
        member_id = (await join(client)).member_id
        request = SyncGroupRequest(
            "g", generation, member_id, None, "consumer", "range", []
        )
        assert (await client.call("SyncGroup", 5, request)).error_code == 0
        await leave(client, member_id)


async def delete_group(broker: Broker) -> None:
    """DeleteGroups."""
    async with connected(broker, broker.coordinator_of("g")) as client:
        answer = await client.call("DeleteGroups", 2, DeleteGroupsRequest(["g"]))
        assert answer.results[0].error_code == 0


async def test_what_is_counted_outlives_coordinators() -> None:
    """A group moves, a node goes and comes back, a group is deleted: no sum is less."""
    async with scraping(nodes=2) as s:
        broker = s.broker
        broker.cluster.create_topic("t", 1)
        before = dict.fromkeys(SUMS, 0.0)

        async def told() -> dict[str, float]:
            samples = await s.samples()
            now = {name: sum(samples[name].values()) for name in SUMS}
            assert all(now[name] >= before[name] for name in SUMS), (before, now)
            return now

        await one_generation(broker, 1)
        before = await told()
        node_id = broker.coordinator_of("g")
        broker.move_coordinator("g", elsewhere(broker, node_id))
        before = await told()
        # The leave made a generation without members.
        await one_generation(broker, 3)
        node_id = broker.coordinator_of("g")
        await broker.stop_node(node_id)
        before = await told()
        await broker.start_node(node_id)
        await one_generation(broker, 5)
        before = await told()
        await delete_group(broker)
        last = await told()
        assert last["kohort_group_commits_total"] == 3
        assert last["kohort_group_rebalances_total"] == 6
        assert last["kohort_group_rebalance_duration_seconds_count"] == 3
        # It is gone: its counts are there, its state is not.
        assert await s.value("kohort_group_commits_total", group="g") == 3
        assert "kohort_group_state" not in await s.samples()


async def test_a_port_that_is_opened_later_knows_who_has_what() -> None:
    """Groups that are there already have rows, and their members stand still, too."""
    async with cluster(1) as broker, connected(broker) as client:
        member_id = (await join(client)).member_id
        share = [SyncGroupRequestAssignment(member_id, SOME)]
        for generation in (1, 2):
            request = SyncGroupRequest(
                "g", generation, member_id, None, "consumer", "range", share
            )
            assert (await client.call("SyncGroup", 5, request)).error_code == 0
            if generation == 1:
                control = Control(broker)
                await control.start()
                # The leader asks for a rebalance by joining again.
                assert (await join(client, "g", member_id)).generation_id == 2
        async with (
            aiohttp.ClientSession(control.url) as http,
            http.get("/metrics.json") as answer,
        ):
            (row,) = (await answer.json())["groups"]
        await control.stop()
        assert row["rebalances"] == {"leader_rejoined": 1}
        assert sum(row["pause_seconds"]["buckets"]) == 1
