"""Compares the group protocols: eager, cooperative, and consumer (KIP-848).

The same group lives through the same changes in each of them, with kohort's own client,
which speaks all three, on a broker in this process:

    python -m bench.protocols

All timeouts and intervals of clients and broker are Kafka's defaults, in real time: it
takes some 45 minutes. (To divide all times by ten would multiply what the machine needs
to compute, and the differences between the clients' heartbeats.)

What the broker sees is taken from its accounts (`kohort.broker.events.account`,
`kohort.broker.events.delivery`): time without a reader, moves, records sent again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kohort.broker.server import Broker
from kohort.client.admin import Admin
from kohort.client.consumer import Consumer
from kohort.client.producer import Producer
from kohort.control.group import Group
from kohort.control.metrics.metrics import Metrics

TOPIC: Final = "orders"
GROUP: Final = "billing"
PROTOCOLS: Final[Mapping[str, Mapping[str, Any]]] = {
    "eager": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}
OF_GROUPS: Final = frozenset(
    {
        "JoinGroup",
        "SyncGroup",
        "Heartbeat",
        "LeaveGroup",
        "ConsumerGroupHeartbeat",
        "OffsetCommit",
        "OffsetFetch",
    }
)
"""The requests that are counted: those of groups."""
AWAY_S: Final = 5.0
"""How long a process needs to restart."""
WORK_S: Final = 20.0
"""How long a slow member works on one batch."""
RECORDS_PER_S: Final = 400


@dataclass(frozen=True)
class Size:
    """The size of the scene.

    Attributes:
        members, partitions: their numbers.
    """

    members: int
    partitions: int


@dataclass(frozen=True)
class Row:
    """The cost of one change in one protocol.

    Attributes:
        unread_s: partition-seconds without a reader.
        moved: partitions that changed owner.
        again: records that were sent again.
        requests: of the group.
        stable_s: until the group was stable again, with all partitions assigned.
    """

    unread_s: float
    moved: int
    again: int
    requests: int
    stable_s: float


class Process:
    """One consumer, with its loop: it polls, works, and commits by itself."""

    def __init__(self, deployment: Deployment, name: str) -> None:
        self.name = name
        self.work_s = 0.0
        self.consumer: Consumer[bytes, bytes] = deployment.consumer(name)
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        await self.consumer.start()
        while True:
            found = await self.consumer.getmany(timeout_ms=500)
            if found and self.work_s:
                await asyncio.sleep(self.work_s)

    async def _halt(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def stop(self) -> None:
        """Closes it: it commits, and leaves."""
        await self._halt()
        await self.consumer.close()

    async def crash(self) -> None:
        """Ends it without a word."""
        await self._halt()
        await self.consumer.close(0, leaves=False)


class Deployment:
    """A group of consumers on a broker, and a producer.

    Attributes:
        size: of the scene.
        broker: the broker.
        processes: the consumers that run.
    """

    def __init__(self, size: Size, broker: Broker, protocol: str) -> None:
        self.size = size
        self.broker = broker
        self.processes: list[Process] = []
        self.group = Group(broker, GROUP)
        self._settings = PROTOCOLS[protocol]
        self._names = itertools.count(1)

    def consumer(self, name: str) -> Consumer[bytes, bytes]:
        """A consumer with Kafka's defaults."""
        return Consumer(
            TOPIC,
            bootstrap_servers=self.broker.bootstrap_servers,
            group_id=GROUP,
            client_id=name,
            auto_offset_reset="earliest",
            **self._settings,
        )

    def start(self) -> Process:
        """Starts one more process."""
        process = Process(self, f"billing-{next(self._names)}")
        self.processes.append(process)
        return process

    async def settled(self, partitions: int | None = None) -> None:
        """Waits until the group is stable, with all partitions assigned."""
        count = len(self.processes)
        await self.group.until(
            state="Stable",
            members=count,
            assigned=True,
            partitions=partitions or self.size.partitions,
            timeout=600,
        )


async def rolling_restart(d: Deployment) -> None:
    """Each process is closed, and started again 5 s later; 15 s between two."""
    for process in [*d.processes]:
        d.processes.remove(process)
        await process.stop()
        await asyncio.sleep(AWAY_S)
        d.start()
        await asyncio.sleep(15)
    await d.settled()


async def scale_up(d: Deployment) -> None:
    """One more process."""
    d.start()
    await d.settled()


async def crash(d: Deployment) -> None:
    """A process ends without a word, and nothing comes in its place."""
    await d.processes.pop().crash()
    await d.settled()


async def slow_member(d: Deployment) -> None:
    """One process needs 20 s for each batch, and another one is started."""
    d.processes[0].work_s = WORK_S
    await asyncio.sleep(WORK_S)
    d.start()
    await d.settled()
    d.processes[0].work_s = 0


async def growth(d: Deployment) -> None:
    """The topic gets a tenth more partitions."""
    count = d.size.partitions * 11 // 10
    async with Admin(bootstrap_servers=d.broker.bootstrap_servers) as admin:
        (await admin.create_partitions({TOPIC: count})).check()
    await d.settled(count)


CHANGES: Final[Mapping[str, Callable[[Deployment], Awaitable[None]]]] = {
    "rolling restart": rolling_restart,
    "one more member": scale_up,
    "crash": crash,
    "slow member, and one more": slow_member,
    "topic growth": growth,
}


@contextlib.asynccontextmanager
async def deployed(size: Size, protocol: str) -> AsyncIterator[Deployment]:
    """A group that is stable, and a producer that goes on."""
    async with Broker(watch_fetches=True) as broker:
        broker.cluster.create_topic(TOPIC, size.partitions, 1)
        deployment = Deployment(size, broker, protocol)
        producing = asyncio.create_task(_produce(broker, size))
        for _ in range(size.members):
            deployment.start()
        await deployment.settled()
        await asyncio.sleep(10)
        try:
            yield deployment
        finally:
            await asyncio.gather(*(each.stop() for each in deployment.processes))
            producing.cancel()
            await asyncio.wait([producing])


async def _produce(broker: Broker, size: Size) -> None:
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in itertools.count():
            partition = number % size.partitions
            await producer.send(TOPIC, b"%d" % number, partition=partition)
            await asyncio.sleep(1 / RECORDS_PER_S)


async def played(size: Size, protocol: str, change: str) -> Row:
    """One change in one protocol."""
    async with deployed(size, protocol) as d:
        metrics = Metrics(d.broker)
        metrics.start()
        before = {each.started_sequence for each in d.group.history().rebalances}
        unread_ns = d.group.history().unread_ns
        again = d.group.redelivered
        since = time.monotonic()
        await CHANGES[change](d)
        stable_s = time.monotonic() - since
        await asyncio.sleep(10)
        snapshot = await metrics.snapshot()
        story = d.group.history()
        await d.group.delivery(timeout_s=60)
        row = Row(
            unread_s=(story.unread_ns - unread_ns) / 1e9,
            moved=sum(
                each.moved_count
                for each in story.rebalances
                if each.started_sequence not in before
            ),
            again=d.group.redelivered - again,
            requests=sum(
                sum((row["latency_seconds"] or {"buckets": ()})["buckets"])
                for row in snapshot["apis"]
                if row["api"] in OF_GROUPS
            ),
            stable_s=stable_s,
        )
        metrics.stop()
        return row


def table(rows: Mapping[tuple[str, str], Row], changes: Sequence[str]) -> list[str]:
    """The lines of a table of Markdown.

    Partition-seconds without a reader; partitions that changed owner; records that were
    sent again; requests of the group; seconds until it was stable.
    """
    lines = [
        "| change | protocol | unread | moved | sent again | requests | stable after |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for change in changes:
        for protocol in PROTOCOLS:
            row = rows[change, protocol]
            lines.append(
                f"| {change} | {protocol} | {row.unread_s:,.0f} | {row.moved}"
                f" | {row.again} | {row.requests:,} | {row.stable_s:.0f} s |"
            )
    return lines


async def main() -> None:
    """Plays each change in each protocol, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--partitions", type=int, default=120)
    parser.add_argument("--only", choices=CHANGES, help="one change")
    given = parser.parse_args()
    size = Size(given.members, given.partitions)
    changes = [given.only] if given.only else [*CHANGES]
    rows: dict[tuple[str, str], Row] = {}
    for change in changes:
        for protocol in PROTOCOLS:
            rows[change, protocol] = row = await played(size, protocol, change)
            print(f"{change}, {protocol}: {row}", flush=True)
    print()
    print("\n".join(table(rows, changes)))


if __name__ == "__main__":
    asyncio.run(main())
