"""Topics with records, and consumers of them, for scenes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest

from kohort.client.admin import Admin
from kohort.client.administering.values import NewTopic
from kohort.client.consumer import Consumer
from kohort.client.consuming.chunks import ConsumerRecord
from kohort.client.consuming.consumer_group import ConsumerRebalanceListener
from kohort.client.offsets import TopicPartition
from kohort.client.producer import Producer

KAFKA = "Apache Kafka 4.3"
"""The parameter of scenes on a node that `start_kafka` starts."""

QUICK = {"heartbeat_interval_ms": 50, "retry_backoff_ms": 10, "fetch_max_wait_ms": 50}
"""Settings of consumers in scenes: short intervals."""

CLASSIC_ONLY = {
    "heartbeat_interval_ms",
    "session_timeout_ms",
    "partition_assignment_strategy",
}
"""Settings that are the broker's in the consumer protocol."""

PATIENCE = 60.0
"""Seconds after which a scene is stuck; none takes that long."""


def on(*kohorts: str) -> list[Any]:
    """The parameters of a scene on these kohort clusters, and on Kafka."""
    return [*kohorts, pytest.param(KAFKA, marks=pytest.mark.interop)]


def in_groups(
    classic: Mapping[str, Mapping[str, str]],
    clusters: Sequence[str] = ("kohort", KAFKA),
    fixture: str = "stage",
) -> pytest.MarkDecorator:
    """A mark for scenes with a `stage`, or `small`, in groups of either protocol.

    Args:
        classic: settings of classic groups, such as an assignor, by the scene's name.
        clusters: those to play on.
        fixture: which takes the parameters.
    """
    protocols = {**classic, "consumer protocol": {"group_protocol": "consumer"}}
    rows = [(c, *each) for c in clusters for each in protocols.items()]
    params = [
        pytest.param(
            (cluster, settings),
            id=f"{cluster}, {name}",
            marks=[pytest.mark.interop] if cluster == KAFKA else [],
        )
        for cluster, name, settings in rows
    ]
    return pytest.mark.parametrize(fixture, params, indirect=True)


EAGER_OR_COOPERATIVE = {
    "eager": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
}
either_protocol = in_groups({"classic": {}})
every_protocol = in_groups(EAGER_OR_COOPERATIVE)
"""Eager and cooperative classic groups, and groups of the consumer protocol."""
consumer_protocol = in_groups({})
"""Groups of the consumer protocol alone."""


class Servers(Protocol):
    """Anything with an address: a broker in this process, or a `Stage`."""

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap servers."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A cluster, and the names of one scene; other scenes share the cluster."""

    bootstrap_servers: str
    suffix: str
    group_settings: Mapping[str, Any] = field(default_factory=dict)
    """Of its consumers: a group protocol, or an assignor."""

    @property
    def is_classic(self) -> bool:
        """True if its groups have the classic protocol."""
        return self.group_settings.get("group_protocol") != "consumer"

    def name(self, name: str) -> str:
        """A name that only this scene uses."""
        return f"{name}-{self.suffix}"

    @property
    def topic(self) -> str:
        """The name of its topic; `fill` creates it."""
        return self.name("t")

    @property
    def group(self) -> str:
        """The id of its group."""
        return self.name("g")

    @property
    def p0(self) -> TopicPartition:
        """The first partition of the topic."""
        return TopicPartition(self.topic, 0)

    @property
    def p1(self) -> TopicPartition:
        """The second one."""
        return TopicPartition(self.topic, 1)

    def places(self, *numbers: int) -> frozenset[TopicPartition]:
        """Partitions of the topic."""
        return places(*numbers, topic=self.topic)

    async def fill(
        self, counts: Sequence[int], topic: str | None = None, **options: Any
    ) -> None:
        """Creates the topic, or another one; see `fill`."""
        await fill(self, topic or self.topic, counts, **options)

    def consumer(self, *topics: str, **settings: Any) -> Consumer:
        """A consumer that starts at the beginning; by default in the group.

        If groups have the consumer protocol, settings of the other one are left out.
        """
        given = {"group_id": self.group, **QUICK, **self.group_settings, **settings}
        if not self.is_classic:
            given = {k: v for k, v in given.items() if k not in CLASSIC_ONLY}
        return _consumer(self, *topics, **given)

    def member(self, **settings: Any) -> Consumer:
        """A consumer of the topic in the group."""
        return self.consumer(self.topic, **settings)

    def admin(self, **settings: Any) -> Admin:
        """An admin client of the cluster."""
        return Admin(bootstrap_servers=self.bootstrap_servers, **settings)

    async def until_members(self, count: int, group: str | None = None) -> None:
        """Returns when the broker knows this many members of the group."""
        await until_members(self, count, group or self.group)


async def fill(
    broker: Servers,
    topic: str = "t",
    counts: Sequence[int] = (),
    *,
    batch: int = 50,
    is_new: bool = True,
    **settings: Any,
) -> None:
    """Creates a topic with a number of records in each partition; values are numbered.

    With `is_new` false the topic exists.
    """
    servers: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers}
    if is_new:
        async with Admin(**servers) as admin:
            # The records are from 1970: Kafka would soon delete them for their age.
            kept = {"retention.ms": "-1"}
            (
                await admin.create_topics([NewTopic(topic, len(counts), configs=kept)])
            ).check()
    async with Producer(**servers, **settings) as producer:
        for number, count in enumerate(counts):
            for n in range(count):
                value = f"{number}:{n}".encode()
                await producer.send(topic, value, b"k", number, 1_000 + n)
                if (n + 1) % batch == 0:
                    await producer.flush()


def consumer(broker: Servers, *topics: str, **settings: Any) -> Consumer:
    """A consumer of a broker that starts at the beginning."""
    return _consumer(broker, *topics, **(QUICK | settings))


def _consumer(broker: Servers, *topics: str, **settings: Any) -> Consumer:
    defaults: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap_servers,
        "auto_offset_reset": "earliest",
    }
    return Consumer(*topics, **(defaults | settings))


class Recorder(ConsumerRebalanceListener):
    """Records its calls, and checks that they are never concurrent."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, frozenset[TopicPartition]]] = []
        self.is_called = False
        self.inside: Callable[[str], Any] | None = None

    async def _called(self, kind: str, places: AbstractSet[TopicPartition]) -> None:
        assert not self.is_called, "callbacks are never concurrent"
        self.is_called = True
        self.calls.append((kind, frozenset(places)))
        if self.inside is not None:
            await self.inside(kind)
        await asyncio.sleep(0)
        self.is_called = False

    async def on_partitions_revoked(self, revoked: AbstractSet[TopicPartition]) -> None:
        """As above."""
        await self._called("revoked", revoked)

    async def on_partitions_assigned(
        self, assigned: AbstractSet[TopicPartition]
    ) -> None:
        """As above."""
        await self._called("assigned", assigned)

    async def on_partitions_lost(self, lost: AbstractSet[TopicPartition]) -> None:
        """As above."""
        await self._called("lost", lost)

    def kinds(self) -> list[str]:
        """The kinds of its calls, in order."""
        return [kind for kind, _ in self.calls]


def text(record: ConsumerRecord) -> str:
    """The value of a record, as text."""
    assert record.value is not None
    return record.value.decode()


async def take(reader: Consumer, count: int) -> list[str]:
    """The values of this many records, as text."""
    values: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while len(values) < count:
            found = await reader.getmany(timeout_ms=1_000)
            values += [text(record) for rows in found.values() for record in rows]
    return values


async def poll_until(condition: Callable[[], bool], *readers: Consumer) -> None:
    """Polls with all readers until a condition holds; drops the records.

    All readers stop together: the condition may change in a rebalance, and a reader
    that stops polling would delay the next generation.
    """
    is_so = condition()

    async def poll(reader: Consumer) -> None:
        nonlocal is_so
        while not is_so:
            await reader.getmany(timeout_ms=20)
            is_so = is_so or condition()

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*map(poll, readers))


def places(*numbers: int, topic: str = "t") -> frozenset[TopicPartition]:
    """Partitions of a topic."""
    return frozenset(TopicPartition(topic, number) for number in numbers)


async def until_members(broker: Servers, count: int, group: str = "g") -> None:
    """Returns when the broker knows this many members of a group.

    The members of the consumer protocol can only be counted down to none.
    """
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        async with asyncio.timeout(PATIENCE):
            while True:
                if not count:
                    listed = (await admin.list_consumer_groups()).groups.get(group)
                    if listed is None or listed.state == "Empty":
                        return
                    continue
                described = (await admin.describe_consumer_groups([group]))[group]
                if len(described.members) == count:
                    return


# -- assignments


def shares(*readers: Consumer) -> list[int]:
    """Number of partitions of each consumer."""
    return [len(reader.assignment()) for reader in readers]


def is_shared(count: int, *readers: Consumer) -> bool:
    """Returns whether each partition has exactly one of them as its owner."""
    owned = [p for reader in readers for p in reader.assignment()]
    return len(owned) == count == len(set(owned)) and all(shares(*readers))


# -- how consumers end


async def crash(reader: Consumer) -> None:
    """Ends a consumer without LeaveGroup, as a killed process does."""
    await reader.close(0, leaves=False)


async def all_end(before: AbstractSet[asyncio.Task[Any]]) -> None:
    """Returns when all tasks started since then have ended."""
    left = asyncio.all_tasks() - before
    if left:
        _, running = await asyncio.wait(left, timeout=PATIENCE)
        assert not running
