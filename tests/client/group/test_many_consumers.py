"""A few, or 200, consumers of one group in one process, and their records."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

import pytest
from tests.client.stage import (
    EAGER_OR_COOPERATIVE,
    PATIENCE,
    Stage,
    every_protocol,
    in_groups,
)

from kohort.client.administering.values import ConfigResource, NewTopic, ResourceType
from kohort.client.consumer import Consumer
from kohort.client.consuming.consumer_group import ConsumerRebalanceListener
from kohort.client.errors import CommitFailedError, RebalanceInProgressError
from kohort.client.offsets import TopicPartition
from kohort.client.producer import Producer


class Crowd:
    """The members of a group, their partitions, and the records they have read.

    Attributes:
        owners: the current owner of each partition.
        seen: how often each record was read.
    """

    def __init__(self, stage: Stage, partitions: int, **settings: int) -> None:
        self.stage = stage
        self.partitions = partitions
        self.settings: dict[str, Any] = {"enable_auto_commit": False, **settings}
        self.members: list[Reading] = []
        self.owners: dict[TopicPartition, Reading] = {}
        self.seen: Counter[bytes] = Counter()
        self.changed = asyncio.Event()

    async def join(self, count: int, **settings: int) -> list[Reading]:
        """Starts this many new members at once."""
        new = [
            Reading(self, self.stage.consumer(**self.settings, **settings))
            for _ in range(count)
        ]
        self.members += new
        await asyncio.gather(*(member.start() for member in new))
        return new

    async def leave(self, members: list[Reading]) -> None:
        """Closes members, as applications do."""
        self.members = [each for each in self.members if each not in members]
        await asyncio.gather(*(member.leave() for member in members))

    async def crash(self, members: list[Reading]) -> None:
        """Crashes members; the group waits for their session timeout."""
        self.members = [each for each in self.members if each not in members]
        await asyncio.gather(*(member.crash() for member in members))
        for place in [p for p, owner in self.owners.items() if owner in members]:
            del self.owners[place]

    async def is_shared(self) -> None:
        """Returns when each partition has an owner, and each member its share."""
        least = self.partitions // len(self.members)

        def shared() -> bool:
            shares = Counter(self.owners.values())
            return len(self.owners) == self.partitions and all(
                least <= shares[member] <= least + 1 for member in self.members
            )

        await self._until(shared)

    async def has_seen(self, count: int) -> None:
        """Returns when this many records were read."""
        await self._until(lambda: len(self.seen) >= count)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            change = asyncio.create_task(self.changed.wait())
            readers = [member.task for member in self.members]
            done, _ = await asyncio.wait(
                [change, *readers], return_when=asyncio.FIRST_COMPLETED
            )
            change.cancel()
            for task in done - {change}:
                task.result()  # a reader only ends with an error, which this raises


class Reading(ConsumerRebalanceListener):
    """One member: reads, and commits the records it has read, until stopped."""

    def __init__(self, crowd: Crowd, reader: Consumer) -> None:
        self.crowd = crowd
        self.reader = reader
        self.task: asyncio.Task[None]

    async def start(self) -> None:
        """Joins, and reads from then on."""
        await self.reader.start()
        self.reader.subscribe([self.crowd.stage.topic], listener=self)
        self.task = asyncio.create_task(self._read())

    async def leave(self) -> None:
        """Stops reading, and leaves."""
        await self._stop()
        await self.reader.close()

    async def crash(self) -> None:
        """Stops immediately, without LeaveGroup."""
        await self._stop()
        await self.reader.close(0)

    async def _stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        assert self.task.cancelled(), self.task

    async def _read(self) -> None:
        crowd = self.crowd
        while True:
            found = await self.reader.getmany(timeout_ms=1_000)
            crowd.seen.update(
                r.value for rows in found.values() for r in rows if r.value is not None
            )
            crowd.changed.set()
            if found:
                # If it fails, the next owner of the partitions reads them again.
                with contextlib.suppress(CommitFailedError, RebalanceInProgressError):
                    await self.reader.commit()

    async def on_partitions_assigned(
        self, assigned: AbstractSet[TopicPartition]
    ) -> None:
        """Takes partitions; no other consumer of this process may own them."""
        owners = self.crowd.owners
        assert not assigned & owners.keys(), "a partition has two owners"
        owners.update(dict.fromkeys(assigned, self))
        self.crowd.changed.set()

    async def on_partitions_revoked(self, revoked: AbstractSet[TopicPartition]) -> None:
        """Releases partitions for other members."""
        for place in revoked:
            assert self.crowd.owners.pop(place) is self


async def produce(stage: Stage, first: int, count: int, partitions: int) -> None:
    """Produces records first .. first + count - 1, on all partitions."""
    async with Producer(bootstrap_servers=stage.bootstrap_servers) as producer:
        sent = [
            await producer.send(stage.topic, b"%d" % n, partition=n % partitions)
            for n in range(first, first + count)
        ]
        await asyncio.gather(*sent)


async def play(stage: Stage, many: int) -> None:
    """Members come in waves, leave and crash: all records are read and committed."""
    few, partitions = max(many // 10, 1), many * 6 // 5 + 2
    async with asyncio.timeout(4 * PATIENCE):
        async with stage.admin() as admin:
            topic = NewTopic(stage.topic, partitions, configs={"retention.ms": "-1"})
            (await admin.create_topics([topic])).check()
            if not stage.is_classic:
                # Else some thousand heartbeats per second are all that happens.
                group = ConfigResource(ResourceType.GROUP, stage.group)
                interval = {"consumer.heartbeat.interval.ms": f"{2 * many + 100}"}
                (await admin.alter_configs({group: interval})).check()
        before = asyncio.all_tasks()
        crowd = Crowd(stage, partitions, heartbeat_interval_ms=2 * many + 100)
        await produce(stage, 0, 400, partitions)
        early = await crowd.join(many // 2)
        mortal = await crowd.join(few, session_timeout_ms=many * 20 + 2_000)
        await crowd.has_seen(200)
        await crowd.join(many - len(crowd.members))
        await crowd.is_shared()
        await crowd.has_seen(400)

        await produce(stage, 400, 400, partitions)
        await crowd.leave(early[:few])
        await crowd.is_shared()
        await crowd.crash(mortal)
        await produce(stage, 800, 400, partitions)
        await crowd.is_shared()
        await crowd.join(many - len(crowd.members))
        await crowd.is_shared()
        await crowd.has_seen(1_200)
        assert set(crowd.seen) == {b"%d" % number for number in range(1_200)}

        await crowd.leave(crowd.members)
        assert not crowd.owners
        assert asyncio.all_tasks() <= before
        places = stage.places(*range(partitions))
        async with stage.consumer() as reader:
            committed = await reader.committed(*places)
            ends = await reader.end_offsets(places)
        assert {p: row.offset for p, row in committed.items() if row} == ends
        assert sum(ends.values()) == 1_200


@every_protocol
async def test_1200_records_through_rebalances(stage: Stage) -> None:
    """With four members, each record is read, and all are committed."""
    await play(stage, 4)


@pytest.mark.long
@in_groups(EAGER_OR_COOPERATIVE, ("kohort",))
async def test_1200_records_through_rebalances_of_200(stage: Stage) -> None:
    """The same with 200 members on one thread."""
    await play(stage, 200)
