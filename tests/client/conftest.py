"""Brokers for the client's tests: kohort in this process, or Apache Kafka.

A scene that asks for `servers`, `stage` or `small` is played on kohort, and, marked
`interop`, on Apache Kafka 4.3, which `tests.apache_kafka` starts; its asserts are the
same for both. With `in_groups`, they are the same for both group protocols, too.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import pytest
from tests import apache_kafka
from tests.client.sent_requests import SentRequests
from tests.client.stage import KAFKA, Stage, on

from kohort.broker.server import Broker

CONFIG = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.session.timeout.ms": 5_000,
    "group.consumer.min.session.timeout.ms": 5_000,
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.min.assignment.interval.ms": 0,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 50,
    "transaction.state.log.num.partitions": 4,
}
"""Settings of all brokers: no initial delay, short sessions, quick time-outs."""
SMALL = CONFIG | {"group.max.size": 2, "group.consumer.max.size": 2}

StartKafka = Callable[[Mapping[str, object]], apache_kafka.Kafka]


@pytest.fixture(scope="session")
def start_kafka() -> Iterator[StartKafka]:
    """Starts a node of Apache Kafka, one for each configuration."""
    nodes: dict[str, apache_kafka.Kafka] = {}
    failed: dict[str, str] = {}
    with contextlib.ExitStack() as stack:

        def start(config: Mapping[str, object]) -> apache_kafka.Kafka:
            key = repr(sorted(config.items()))
            if key in failed:  # a failure takes long: fail only once
                pytest.fail(failed[key])
            if key not in nodes:
                try:
                    nodes[key] = stack.enter_context(apache_kafka.running(config))
                except (AssertionError, pytest.fail.Exception) as error:
                    failed[key] = str(error)
                    raise
            return nodes[key]

        yield start


@contextlib.asynccontextmanager
async def _running(cluster: str, start_kafka: StartKafka) -> AsyncIterator[str]:
    """The bootstrap servers of a cluster without an initial rebalance delay.

    kohort's has three nodes, which a client has to tell apart; Kafka's has one.
    """
    if cluster == KAFKA:
        yield start_kafka(CONFIG).bootstrap_servers
    else:
        async with Broker(CONFIG, nodes=3) as broker:
            yield broker.bootstrap_servers


@pytest.fixture(params=on("kohort"))
async def servers(
    request: pytest.FixtureRequest, start_kafka: StartKafka
) -> AsyncIterator[str]:
    """Bootstrap servers of a cluster without an initial rebalance delay."""
    async with _running(request.param, start_kafka) as servers:
        yield servers


@pytest.fixture(params=on("kohort"))
async def stage(
    request: pytest.FixtureRequest, start_kafka: StartKafka
) -> AsyncIterator[Stage]:
    """Such a cluster, and unused names for a topic and a group.

    The parameter may be one of `in_groups`, with settings of the group's members.
    """
    cluster, settings = _parameter(request)
    async with _running(cluster, start_kafka) as servers:
        yield Stage(servers, uuid.uuid4().hex[:12], settings)


@pytest.fixture(params=on("kohort, numbers of apache", "kohort"))
async def small(
    request: pytest.FixtureRequest, start_kafka: StartKafka
) -> AsyncIterator[Stage]:
    """A cluster whose groups have at most two members.

    kohort refuses others with KIP-389's error code, by default for this client, and
    with Apache Kafka's (`wire.error.numbering`).
    """
    suffix = uuid.uuid4().hex[:12]
    cluster, settings = _parameter(request)
    if cluster == KAFKA:
        yield Stage(start_kafka(SMALL).bootstrap_servers, suffix, settings)
    else:
        numbering = "apache" if "apache" in cluster else "auto"
        async with Broker(SMALL | {"wire.error.numbering": numbering}) as broker:
            yield Stage(broker.bootstrap_servers, suffix, settings)


def _parameter(request: pytest.FixtureRequest) -> tuple[str, dict[str, str]]:
    """A cluster, and settings of groups from `in_groups`."""
    found = request.param
    return found if isinstance(found, tuple) else (found, {})


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> SentRequests:
    """The requests that clients of this process send from now on."""
    return SentRequests.watching(monkeypatch)
