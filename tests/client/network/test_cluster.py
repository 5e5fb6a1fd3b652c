"""Clusters: bootstrap, routing, retries and metadata."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import pytest
from tests.client.cancelling import cancel_at_every_await
from tests.client.deadlines import pass_deadline_after_failure
from tests.client.fake_broker import FakeBroker, alive, alone, knows
from tests.client.stage import PATIENCE

from kohort.broker.server import Broker
from kohort.client.config import CommonConfig
from kohort.client.errors import (
    ClosedError,
    ConnectionFailedError,
    CoordinatorNotAvailableError,
    KohortError,
    NotCoordinatorError,
    NotLeaderError,
    RequestTimedOutError,
    UnknownMemberError,
    UnsupportedVersionError,
    error_of,
)
from kohort.client.network.cluster import Cluster
from kohort.client.network.metadata import NOTHING, Metadata, read
from kohort.client.network.reconnecting import Backoff
from kohort.protocol.apis.k03_metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorResponse
from kohort.protocol.apis.k11_join_group import JoinGroupRequest
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.errors import ErrorCode

HEARTBEAT = HeartbeatRequest("g", 1, "m")
FOREVER_MS = 600_000


class Naps:
    """Sleeps that end at once, and callbacks during them."""

    def __init__(self, *happenings: Callable[[], Any]) -> None:
        self.happenings = list(happenings)
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        """Sleeps."""
        self.taken.append(seconds)
        if self.happenings:
            done = self.happenings.pop(0)()
            if asyncio.iscoroutine(done):
                await done
        await asyncio.sleep(0)


def config(servers: str, **settings: Any) -> CommonConfig:
    """A configuration."""
    return CommonConfig.parse({"bootstrap_servers": servers, **settings})


@contextlib.asynccontextmanager
async def connected(servers: str, **settings: Any) -> AsyncIterator[Cluster]:
    """A started cluster."""
    async with Cluster(config(servers, **settings), random=Random(1)) as cluster:
        yield cluster


@contextlib.asynccontextmanager
async def served(nodes: int = 3) -> AsyncIterator[tuple[Broker, Cluster]]:
    """Some nodes of kohort, and a client of theirs."""
    async with (
        Broker({"group.initial.rebalance.delay.ms": 0}, nodes=nodes) as broker,
        connected(broker.bootstrap_servers) as cluster,
    ):
        yield broker, cluster


async def heartbeat(cluster: Cluster, group: str = "g") -> None:
    """Sends a heartbeat of an unknown member to the coordinator.

    Raises:
        UnknownMemberError: from the right coordinator.
    """
    request = HeartbeatRequest(group, 1, "m")
    node_id = await cluster.coordinator(group)
    answer = await cluster.call(node_id, "Heartbeat", request, lane="group")
    if answer.error_code:
        broker = cluster.name_of(node_id)
        raise error_of(answer.error_code, api="Heartbeat", broker=broker, group=group)


async def heartbeat_arrives(cluster: Cluster) -> str:
    """Sends heartbeats until the right coordinator answers; returns its name."""
    with pytest.raises(UnknownMemberError) as caught:
        await cluster.retrying(
            cluster.deadline(FOREVER_MS), lambda: heartbeat(cluster, "g")
        )
    assert caught.value.broker is not None
    return caught.value.broker


# -- finding the cluster


@pytest.mark.parametrize("nodes", [1, 3])
async def test_a_cluster_is_found(nodes: int) -> None:
    """All nodes are known, and the bootstrap connection is reused for its node."""
    async with served(nodes) as (broker, cluster):
        assert set(cluster.metadata.nodes) == set(broker.cluster.nodes)
        assert cluster.metadata.controller_id == 1
        assert len(broker.connections) == 1
        for node_id in broker.cluster.nodes:
            await cluster.call(node_id, "Heartbeat", HEARTBEAT)
        assert len(broker.connections) == nodes
        assert {c.node.id for c in broker.connections} == set(broker.cluster.nodes)


async def test_a_cluster_that_comes_later_is_found() -> None:
    """No bootstrap server is reachable at first; then one is."""
    async with FakeBroker() as gone:
        pass
    broker = Broker(port=gone.port)
    naps = Naps(lambda: None, lambda: None, broker.start)
    cluster = Cluster(config(f"127.0.0.1:{gone.port}"), sleep=naps)
    await cluster.start(FOREVER_MS)
    assert set(cluster.metadata.nodes) == {1}
    assert len(naps.taken) >= 3
    await cluster.close()
    await broker.stop()


async def test_a_cluster_that_does_not_come_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the time limit: the error has the last one, and nothing stays open."""
    async with FakeBroker() as gone:
        pass
    cluster = Cluster(config(gone.address))
    pass_deadline_after_failure(monkeypatch)
    with pytest.raises(RequestTimedOutError, match="the last error was") as caught:
        await cluster.start()
    assert caught.value.broker == gone.address
    assert caught.value.api == "Metadata"
    assert isinstance(caught.value.__cause__, ConnectionFailedError)
    with pytest.raises(ClosedError):
        await cluster.refresh()


async def test_start_and_close_can_be_cancelled_anywhere() -> None:
    """No connection and no task is left."""
    async with alone() as fake:
        before = asyncio.all_tasks()
        made: list[Cluster] = []

        async def life() -> None:
            made.append(Cluster(config(fake.address)))
            await made[-1].start()
            await made[-1].close()

        async def afterwards() -> None:
            await made[-1].close()
            await fake.is_left_alone()
            left = asyncio.all_tasks() - before
            ours = asyncio.current_task()
            assert not [t for t in left if t is not ours and "_serve" not in repr(t)]

        assert await cancel_at_every_await(life, afterwards) >= 2


# -- versions


async def test_an_old_broker_is_spoken_to_in_its_versions() -> None:
    """It supports little more than ApiVersions: the oldest versions are used."""
    versions = {
        "ApiVersions": (0, 0),
        "Metadata": (0, 1),
        "FindCoordinator": (0, 0),
        "Heartbeat": (0, 0),
    }
    async with alone(versions=versions) as fake:
        fake.answers["Heartbeat"] = alive
        async with connected(fake.address) as cluster:
            assert await cluster.coordinators(["a", "b"]) == {"a": 1, "b": 1}
            await heartbeat(cluster)
            with pytest.raises(UnsupportedVersionError):
                await cluster.call(1, "Heartbeat", HEARTBEAT, versions=(1, 4))
            asked = [(each.api.name, each.version) for each in fake.asked]
            assert set(asked) == {
                ("Metadata", 1),
                ("FindCoordinator", 0),
                ("Heartbeat", 0),
            }


# -- nodes that stop, coordinators and leaders that move


async def test_a_coordinator_that_moves_is_found() -> None:
    """NOT_COORDINATOR from the old one; then the new one is looked up."""
    async with served() as (broker, cluster):
        for node_id in (1, 2, 3, 1):
            broker.move_coordinator("g", node_id)
            assert f"(node {node_id})" in await heartbeat_arrives(cluster)
        broker.move_coordinator("g", 2)
        with pytest.raises(NotCoordinatorError) as caught:
            await heartbeat(cluster)
        assert caught.value.broker == str(cluster.metadata.nodes[1])
        assert caught.value.group == "g"
        assert await cluster.coordinator("g") == 1
        cluster.note(caught.value)
        assert await cluster.coordinator("g") == 2


async def test_a_node_stops_and_starts_again() -> None:
    """Another node serves its group meanwhile; later it serves again."""
    async with served() as (broker, cluster):
        broker.move_coordinator("g", 2)
        assert "(node 2)" in await heartbeat_arrives(cluster)
        await broker.stop_node(2)
        with pytest.raises(ConnectionFailedError) as caught:
            await cluster.call(2, "Heartbeat", HEARTBEAT)
        assert "(node 2)" in str(caught.value)
        assert "(node 2)" not in await heartbeat_arrives(cluster)
        await broker.start_node(2)
        broker.move_coordinator("g", 2)
        assert "(node 2)" in await heartbeat_arrives(cluster)


async def test_lanes_have_their_own_connections() -> None:
    """A heartbeat does not wait behind a long request."""
    async with alone() as fake:
        fake.answers["Heartbeat"] = alive
        async with connected(fake.address) as cluster:
            waiting = asyncio.create_task(
                cluster.call(1, "JoinGroup", JoinGroupRequest("g"), lane="join")
            )
            await fake.has_been_asked(2)
            await cluster.call(1, "Heartbeat", HEARTBEAT, lane="group")
            assert fake.opened == 3
            assert not waiting.done()
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting


async def test_no_coordinator_yet_is_tried_again() -> None:
    """COORDINATOR_NOT_AVAILABLE while the broker starts, then there is one."""
    async with alone() as fake:
        answers = [
            FindCoordinatorResponse(0, ErrorCode.COORDINATOR_NOT_AVAILABLE, None, -1),
            FindCoordinatorResponse(0, 0, None, 1, "127.0.0.1", fake.port),
        ]
        fake.versions["FindCoordinator"] = (0, 2)
        fake.answers["FindCoordinator"] = lambda asked: asked.reply(answers.pop(0))
        async with connected(fake.address, retry_backoff_ms=1) as cluster:
            with pytest.raises(CoordinatorNotAvailableError) as caught:
                await cluster.coordinator("g")
            assert caught.value.group == "g"
            assert await cluster.coordinator("g") == 1


async def heard(cluster: Cluster, condition: Callable[[Metadata], bool]) -> None:
    """Returns when new metadata fulfils a condition."""
    told = asyncio.Event()
    cluster.listeners.append(lambda new: told.set() if condition(new) else None)
    async with asyncio.timeout(PATIENCE):
        await told.wait()


async def test_a_leader_that_moves_is_found() -> None:
    """NOT_LEADER_OR_FOLLOWER refreshes the metadata."""
    async with served() as (broker, cluster):
        request = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
        await cluster.call(1, "CreateTopics", request)
        await cluster.add_topics(["t"])
        old = cluster.leader("t", 0)
        assert old is not None
        new = old % 3 + 1
        broker.move_partition("t", 0, new)
        cluster.note(NotLeaderError("moved", code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
        await heard(cluster, lambda metadata: metadata.leader("t", 0) == new)
        assert cluster.leader("t", 0) == new


async def test_a_topic_that_is_made_later_is_heard_of() -> None:
    """An unknown topic in the metadata is requested again and again."""
    async with served(1) as (_, cluster):
        await cluster.watch(["later"])
        code = cluster.metadata.topics["later"].error_code
        assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert cluster.leader("later", 0) is None
        request = CreateTopicsRequest([CreatableTopic("later", 2, 1)])
        await cluster.call(None, "CreateTopics", request)
        await heard(cluster, lambda metadata: bool(metadata.partitions("later")))
        assert cluster.leader("later", 1) == 1
        await cluster.watch(None)
        assert set(cluster.metadata.topics) == {"later"}


async def test_a_listener_that_fails_harms_nobody() -> None:
    """The loop's exception handler gets the error; other listeners are called."""
    async with alone() as fake, connected(fake.address) as cluster:
        reported: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: reported.append(context["exception"])
        )
        told: list[Any] = []

        def fail(_: object) -> None:
            raise ZeroDivisionError

        cluster.listeners += [fail, told.append]
        await cluster.refresh()
        assert [type(error) for error in reported] == [ZeroDivisionError]
        assert told == [cluster.metadata]


def test_an_older_leader_does_not_replace_a_newer_one() -> None:
    """A lower epoch is ignored, unless the topic is a new one (KIP-320)."""

    def told(leader_id: int, epoch: int, topic_id: bytes = b"1" * 16) -> Any:
        partitions = [MetadataResponsePartition(0, 0, leader_id, epoch)]
        topic = MetadataResponseTopic(0, "t", topic_id, partitions=partitions)
        return MetadataResponse(topics=[topic])

    metadata = read(told(1, 5), 0.0, NOTHING)
    assert read(told(2, 4), 1.0, metadata).leader("t", 0) == 1
    assert read(told(2, 6), 1.0, metadata).leader("t", 0) == 2
    assert read(told(2, -1), 1.0, metadata).leader("t", 0) == 2
    assert read(told(2, 0, b"2" * 16), 1.0, metadata).leader("t", 0) == 2


async def test_many_who_ask_for_metadata_are_answered_together() -> None:
    """One fetch is pending and one more is due, for any number of callers."""
    async with alone() as fake, connected(fake.address) as cluster:
        before = len(fake.asked)
        await asyncio.gather(*(cluster.refresh() for _ in range(50)))
        first = cluster.refresh()
        await asyncio.gather(first, *(cluster.refresh() for _ in range(50)))
        assert len(fake.asked) - before <= 4


async def test_metadata_is_fetched_when_it_is_old() -> None:
    """metadata.max.age.ms, without a request for it."""
    async with alone() as fake:
        settings = {"metadata_max_age_ms": 1, "retry_backoff_ms": 1}
        async with connected(fake.address, **settings):
            await fake.has_been_asked(4)


async def test_a_broker_of_another_cluster_sends_the_client_back() -> None:
    """REBOOTSTRAP_REQUIRED: only bootstrap servers are used (KIP-1102)."""
    async with FakeBroker() as other, alone() as fake:
        other.answers["Metadata"] = lambda asked: asked.reply(
            MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
        )
        fake.answers["Metadata"] = knows((1, other))
        async with connected(fake.address) as cluster:
            before = fake.opened
            await cluster.connection(1)
            fake.answers["Metadata"] = knows((1, fake))
            await cluster.retrying(cluster.deadline(FOREVER_MS), cluster.refresh)
            assert cluster.metadata.nodes[1].port == fake.port
            connection = await cluster.connection(1)
            assert connection.port == fake.port
            assert fake.opened >= before


async def test_an_unknown_node_is_an_error_that_can_be_tried_again() -> None:
    """The node may not be known yet."""
    async with served(1) as (_, cluster):
        with pytest.raises(
            ConnectionFailedError, match="not in the metadata"
        ) as caught:
            await cluster.call(9, "Heartbeat", HEARTBEAT)
        assert caught.value.retriable
        assert caught.value.api == "Heartbeat"


# -- retries


def test_waits_double_up_to_a_limit() -> None:
    """With 20 % of jitter in both directions (KIP-580)."""
    backoff = Backoff(100, 1_000, Random(1))
    for failures, expected in enumerate([0.1, 0.2, 0.4, 0.8, 1.0, 1.0], start=1):
        waits = [backoff.seconds(failures) for _ in range(200)]
        assert 0.8 * expected <= min(waits) < 0.85 * expected
        assert 1.15 * expected < max(waits) <= 1.2 * expected
    assert backoff.seconds(10_000) <= 1.2


async def test_only_what_can_help_is_tried_again() -> None:
    """Retriable errors are retried after waits; others are raised at once."""
    naps = Naps()
    async with alone() as fake:
        cluster = Cluster(config(fake.address), sleep=naps, random=Random(1))
        failures: list[KohortError] = [
            ConnectionFailedError("1"),
            error_of(14, group="g"),
            UnknownMemberError("3", code=ErrorCode.UNKNOWN_MEMBER_ID),
            ConnectionFailedError("4"),
        ]

        async def attempt() -> None:
            raise failures.pop(0)

        with pytest.raises(UnknownMemberError):
            await cluster.retrying(cluster.deadline(FOREVER_MS), attempt)
        assert len(failures) == 1
        first, second = naps.taken
        assert 0.08 <= first <= 0.12
        assert 0.16 <= second <= 0.24
        await cluster.close()


async def test_a_broker_that_is_away_is_not_hammered() -> None:
    """Attempts to connect wait for the back-off, longer each time."""
    async with FakeBroker() as gone:
        pass
    naps = Naps()
    cluster = Cluster(
        config(gone.address), sleep=naps, random=Random(1), clock=lambda: 0.0
    )
    for _ in range(6):
        with pytest.raises(ConnectionFailedError):
            await cluster.refresh()
    assert len(naps.taken) == 5
    for taken, expected in zip(naps.taken, [0.05, 0.1, 0.2, 0.4, 0.8], strict=True):
        assert 0.8 * expected <= taken <= 1.2 * expected
    await cluster.close()


async def test_whoever_shares_a_connection_attempt_may_leave() -> None:
    """One of two waiters is cancelled; the other gets the connection."""
    async with alone() as fake, connected(fake.address) as cluster:
        first = asyncio.create_task(cluster.connection(1, "x"))
        second = asyncio.create_task(cluster.connection(1, "x"))
        await asyncio.sleep(0)  # both wait
        first.cancel()
        connection = await second
        assert first.cancelled()
        assert connection.is_open
        assert fake.opened == 2


# -- the end


async def test_closing_ends_everything() -> None:
    """Waits for responses, connections or metadata end with an error."""
    async with alone() as fake:
        cluster = Cluster(config(fake.address))
        await cluster.start()
        call = asyncio.create_task(cluster.call(1, "Heartbeat", HEARTBEAT))
        await fake.has_been_asked(2)
        fake.gate.clear()
        waiting = [
            call,
            asyncio.create_task(cluster.connection(1, "another")),
            asyncio.create_task(cluster.refresh()),
        ]
        await asyncio.sleep(0)  # they wait
        await cluster.close()
        for each in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(each, ClosedError), each
        for attempt in (cluster.refresh(), cluster.call(1, "Heartbeat", HEARTBEAT)):
            with pytest.raises(ClosedError) as caught:
                await attempt
            assert not caught.value.retriable


async def test_closing_does_not_wait_for_a_broker_that_does_not_read() -> None:
    """close() returns within its time limit, with unsent data."""
    async with alone() as fake:
        cluster = Cluster(config(fake.address))
        await cluster.start()
        fake.gate.clear()
        connection = await cluster.connection(1)
        big = HeartbeatRequest("x" * 30_000)
        answers = [connection.post("Heartbeat", 4, big) for _ in range(500)]
        await cluster.close(timeout_ms=1)
        for answer in answers:
            assert isinstance(answer.exception(), ClosedError)
        await connection.wait_closed()
