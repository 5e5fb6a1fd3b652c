"""The actors: consumers, a producer, and an observer of the group."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Set as AbstractSet

from kohort.client.admin import Admin
from kohort.client.consumer import Consumer
from kohort.client.consuming.consumer_group import ConsumerRebalanceListener
from kohort.client.errors import (
    ClosedError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    KohortError,
)
from kohort.client.offsets import TopicPartition
from kohort.client.producer import Producer
from kohort.client.producing.results import Delivery
from kohort.control.demo.state import (
    EMPTY,
    LIVE,
    STABLE,
    Described,
    Kind,
    Seen,
    Standing,
)

COMMIT_S = 1.0
"""Commit interval of members, which also commit before they revoke partitions."""
BATCH_S = 0.1
RATE = 60
"""Records per second that are produced."""
WATCH_S = 0.02
"""Between two looks at the group."""
WATCH_CLOSELY_S = 0.002
"""Likewise while it rebalances: CompletingRebalance takes a few milliseconds."""


class Actor(ConsumerRebalanceListener):
    """A consumer of the group, as in an application.

    Args:
        seen: where it says how it is doing.
        name: its client id.
    """

    def __init__(self, seen: Seen, name: str) -> None:
        setup = seen.setup
        self.seen = seen
        self.member = seen.add(name)
        self.consumer = Consumer(
            bootstrap_servers=seen.address,
            client_id=name,
            group_id=setup.group,
            session_timeout_ms=setup.session_timeout_ms,
            heartbeat_interval_ms=setup.heartbeat_interval_ms,
            partition_assignment_strategy=setup.assignor,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=200,
        )
        seen.tell(Kind.JOIN, f"{name} joins")
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._consume()
        except ClosedError:
            pass  # it has left
        except GroupMaxSizeReachedError as error:
            self._refused(error)
        except KohortError as error:
            self._failed(str(error))
        except Exception as error:  # noqa: BLE001 - the demo is to end and to say why
            self._failed(repr(error))

    async def _consume(self) -> None:
        await self.consumer.start()
        self.consumer.subscribe([self.seen.setup.topic], listener=self)
        clock = asyncio.get_running_loop().time
        committed_at = clock()
        while True:
            found = await self.consumer.getmany(timeout_ms=100)
            for partition, records in found.items():
                for record in records:
                    self.seen.got(self.member, partition.partition, record.offset)
            if clock() - committed_at >= COMMIT_S:
                committed_at = clock()
                # Not awaited: the next owner of the partition shows the result.
                self.consumer.commit_async()

    def _refused(self, error: GroupMaxSizeReachedError) -> None:
        self.member.standing = Standing.REFUSED
        self.member.note = error.message
        self.seen.counts.refused += 1
        assert error.code is not None
        self.seen.tell(
            Kind.REFUSAL,
            f"{self.member.name} is refused: {error.message} "
            f"({error.code.name}, {error.wire_code} on the wire)",
        )

    def _failed(self, why: str) -> None:
        self.member.standing = Standing.FAILED
        self.member.note = why
        self.seen.changed()

    async def leave(self) -> None:
        """Closes the consumer normally: it commits and sends LeaveGroup."""
        self.seen.tell(Kind.LEAVE, f"{self.member.name} leaves: it sends LeaveGroup")
        self.member.standing = Standing.LEAVING
        await self.consumer.close()
        await self.task
        self.member.standing = Standing.LEFT

    async def cut_off(self) -> None:
        """Ends tasks and connections, without LeaveGroup and without a commit."""
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.consumer.close(0, leaves=False)

    async def crash(self) -> None:
        """Goes as a process that is killed does."""
        member = self.member
        member.standing, member.gone_at = Standing.CRASHED, self.seen.now()
        self.seen.tell(
            Kind.CRASH,
            f"{member.name} crashes: its connections close without LeaveGroup",
        )
        await self.cut_off()

    # -- the listener

    async def on_partitions_assigned(
        self, assigned: AbstractSet[TopicPartition]
    ) -> None:
        """New partitions, if any, after each rebalance."""
        self.seen.assigned(self.member, numbers(assigned))

    async def on_partitions_revoked(self, revoked: AbstractSet[TopicPartition]) -> None:
        """The next owner is to begin where this one has ended."""
        if self.member.standing is Standing.CRASHED:
            return  # the dead do not commit
        with contextlib.suppress(KohortError):
            await self.consumer.commit()
        self.seen.revoked(self.member, numbers(revoked), lost=False)

    async def on_partitions_lost(self, lost: AbstractSet[TopicPartition]) -> None:
        """Others may have them already."""
        self.seen.revoked(self.member, numbers(lost), lost=True)


def numbers(partitions: AbstractSet[TopicPartition]) -> frozenset[int]:
    """Numbers of the topic's partitions."""
    return frozenset(place.partition for place in partitions)


async def produce(seen: Seen, enough: asyncio.Event) -> None:
    """Sends records to all partitions until it is enough, and all are delivered."""
    setup = seen.setup
    produced = seen.counts.produced
    number = 0

    def delivered(delivery: Delivery) -> None:
        if not delivery.cancelled() and delivery.exception() is None:
            where = delivery.result()
            end = max(produced.get(where.partition, 0), where.offset + 1)
            produced[where.partition] = end

    producer = Producer(bootstrap_servers=seen.address, client_id="producer")
    await producer.start()
    try:
        while not enough.is_set():
            for _ in range(max(1, round(RATE * BATCH_S))):
                sent = await producer.send(
                    setup.topic,
                    f"order {number}".encode(),
                    partition=number % setup.partitions,
                )
                sent.add_done_callback(delivered)
                number += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BATCH_S):
                    await enough.wait()
        await producer.flush()
    finally:
        await producer.close(0)


async def watch(seen: Seen, admin: Admin, actors: dict[str, Actor]) -> None:
    """Asks the broker for the group's state again and again, until cancelled."""
    group = seen.setup.group
    while True:
        try:
            described = (await admin.describe_consumer_groups([group]))[group]
        except GroupIdNotFoundError:
            await asyncio.sleep(WATCH_S)
            continue
        for actor in actors.values():
            if actor.member.standing in LIVE:
                with contextlib.suppress(ClosedError):
                    said = actor.consumer.group_metadata()
                    actor.member.generation = said.generation_id
        seen.described(
            described.state,
            max((a.member.generation for a in actors.values()), default=-1),
            {
                each.member_id: Described(
                    each.client_id, numbers(frozenset(each.partitions or ()))
                )
                for each in described.members
            },
        )
        is_still = described.state in (STABLE, EMPTY)
        await asyncio.sleep(WATCH_S if is_still else WATCH_CLOSELY_S)
