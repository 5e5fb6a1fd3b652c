"""Topics with records in them, and consumers of them, for scenes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from kohort.client.admin import Admin
from kohort.client.administering.values import NewTopic
from kohort.client.consumer import Consumer
from kohort.client.consuming.consumer_group import ConsumerRebalanceListener
from kohort.client.offsets import TopicPartition
from kohort.client.producer import Producer

RUNNING = os.environ.get("KOHORT_INTEROP_BOOTSTRAP", "")
"""A Kafka that runs; scenes that need nothing of kohort's own are played there."""

KAFKA = "Apache Kafka 4.3"
"""What scenes are called by that are played on a node that `start_kafka` starts."""

QUICK = {"heartbeat_interval_ms": 50, "retry_backoff_ms": 10, "fetch_max_wait_ms": 50}
"""Settings of consumers in scenes: they hear of everything soon."""

PATIENCE = 60.0
"""Seconds after which a scene is stuck; none takes as long."""


def on(*kohorts: str) -> list[Any]:
    """The parameters of a scene that is played on these kohorts, and on Kafka."""
    on_kafka = pytest.param(KAFKA, marks=pytest.mark.interop)
    return [RUNNING] if RUNNING else [*kohorts, on_kafka]


class Servers(Protocol):
    """What has an address: a broker in this process, or a `Stage`."""

    @property
    def bootstrap_servers(self) -> str:
        """Where to ask for the others."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A cluster, and the names of one scene: other scenes use the cluster, too."""

    bootstrap_servers: str
    suffix: str

    def name(self, name: str) -> str:
        """A name of this scene's own."""
        return f"{name}-{self.suffix}"

    @property
    def topic(self) -> str:
        """The name of its topic; `fill` makes it."""
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
        """Makes the topic, or another one; see `fill`."""
        await fill(self, topic or self.topic, counts, **options)

    def consumer(self, *topics: str, **settings: Any) -> Consumer:
        """A consumer that begins at the start; of the group, if not told otherwise."""
        return consumer(self, *topics, **({"group_id": self.group} | settings))

    def member(self, **settings: Any) -> Consumer:
        """A consumer of the topic in the group."""
        return self.consumer(self.topic, **settings)

    def admin(self) -> Admin:
        """A client to look at the group, and to change things."""
        return Admin(bootstrap_servers=self.bootstrap_servers)

    async def until_members(self, count: int, group: str | None = None) -> None:
        """Returns when the group has so many members, as the broker knows them."""
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
    """Makes a topic with so many records in each partition; values are numbered.

    With `is_new` false the topic is there.
    """
    servers: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers}
    if is_new:
        async with Admin(**servers) as admin:
            # The records are of 1970: Kafka would soon delete them for their age.
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
    """A consumer of a broker that begins at the start."""
    defaults: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap_servers,
        "auto_offset_reset": "earliest",
        **QUICK,
    }
    return Consumer(*topics, **(defaults | settings))


class Recorder(ConsumerRebalanceListener):
    """Remembers what it was called with, and that nothing ran at the same time."""

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
        """What it was called for, in order."""
        return [kind for kind, _ in self.calls]


async def take(reader: Consumer, count: int) -> list[str]:
    """The values of so many records, as text."""
    values: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while len(values) < count:
            found = await reader.getmany(timeout_ms=1_000)
            values += [r.value.decode() for rows in found.values() for r in rows]
    return values


async def poll_until(condition: Callable[[], bool], *readers: Consumer) -> None:
    """Polls with all of them until something is so; records are thrown away.

    Nobody ends before the others: what is so may pass, as groups rebalance, and whoever
    does not poll any more keeps the next generation from beginning.
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
    """Returns when a group has so many members, as the broker knows them."""
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        async with asyncio.timeout(PATIENCE):
            while True:
                described = (await admin.describe_consumer_groups([group]))[group]
                if len(described.members) == count:
                    return


# -- who has what


def shares(*readers: Consumer) -> list[int]:
    """How many partitions each of them has."""
    return [len(reader.assignment()) for reader in readers]


def is_shared(count: int, *readers: Consumer) -> bool:
    """Whether each partition has exactly one of them."""
    owned = [p for reader in readers for p in reader.assignment()]
    return len(owned) == count == len(set(owned)) and all(shares(*readers))


# -- how consumers end


async def crash(reader: Consumer) -> None:
    """Ends a consumer without a word to the group, as a killed process does."""
    await reader.close(0, leaves=False)


async def all_end(before: AbstractSet[asyncio.Task[Any]]) -> None:
    """All tasks that have begun since then come to their end."""
    left = asyncio.all_tasks() - before
    if left:
        _, running = await asyncio.wait(left, timeout=PATIENCE)
        assert not running
