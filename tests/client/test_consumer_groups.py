"""Consumers of one group against brokers in this process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from tests.client.cancelling import cancel_at_every_await
from tests.client.consuming import (
    PATIENCE,
    Recorder,
    consumer,
    fill,
    places,
    poll_until,
    take,
    until_members,
)

from kohort.broker.server import Broker
from kohort.client.admin import Admin
from kohort.client.consumer import Consumer
from kohort.client.errors import (
    CommitFailedError,
    FencedInstanceError,
    GroupMaxSizeReachedError,
    RebalanceInProgressError,
)
from kohort.client.offsets import OffsetAndMetadata, TopicPartition

T0 = TopicPartition("t", 0)
STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]
NO_DELAY = {"group.initial.rebalance.delay.ms": 0}


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """A broker without an initial delay."""
    async with Broker(NO_DELAY) as broker:
        yield broker


def shares(*readers: Consumer) -> list[int]:
    """How many partitions each of them has."""
    return [len(reader.assignment()) for reader in readers]


def is_shared(count: int, *readers: Consumer) -> bool:
    """Whether each partition has exactly one of them."""
    owned = [p for reader in readers for p in reader.assignment()]
    return len(owned) == count == len(set(owned)) and all(shares(*readers))


async def crash(reader: Consumer) -> None:
    """Ends a consumer without a word to the group, as a killed process does."""
    await reader.close(0)


class Worker:
    """A consumer that reads, and commits what it has read, until it is told to stop."""

    def __init__(self, reader: Consumer, seen: Counter[str]) -> None:
        self.reader = reader
        self.seen = seen
        self.task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while True:
            found = await self.reader.getmany(timeout_ms=50, max_records=20)
            self.seen.update(r.value.decode() for rows in found.values() for r in rows)
            if found:
                # Where it fails, whoever has the partitions reads them again.
                with contextlib.suppress(CommitFailedError, RebalanceInProgressError):
                    await self.reader.commit()

    async def stop(self) -> None:
        """Stops reading."""
        self.task.cancel()
        await asyncio.wait([self.task])
        if not self.task.cancelled():
            self.task.result()


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_1200_records_through_rebalances(broker: Broker, strategy: str) -> None:
    """Members join, leave and crash; every record is read, and all is committed."""
    await fill(broker, counts=[200] * 6, batch=10)
    seen: Counter[str] = Counter()
    workers: list[Worker] = []

    async def join() -> None:
        reader = consumer(
            broker,
            "t",
            group_id="g",
            partition_assignment_strategy=strategy,
            enable_auto_commit=False,
            session_timeout_ms=6_000,
        )
        await reader.start()
        workers.append(Worker(reader, seen))

    async def until(count: int) -> None:
        while len(seen) < count:
            await asyncio.wait([w.task for w in workers], timeout=0.01)
            assert not any(w.task.done() for w in workers), workers

    async with asyncio.timeout(PATIENCE):
        await join()
        await until(100)
        await join()
        await join()
        await until(300)
        leaver = workers.pop(0)
        await leaver.stop()
        await leaver.reader.close()
        await join()
        await until(500)
        crashed = workers.pop(0)
        await crashed.stop()
        await crash(crashed.reader)
        await until(1_200)
        for worker in workers:
            await worker.stop()
        for worker in workers:
            await worker.reader.close()
    assert len(seen) == 1_200
    async with consumer(broker, group_id="g") as reader:
        found = await reader.committed(*places(*range(6)))
        assert [r.offset for r in found.values() if r] == [200] * 6


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_members_share_what_there_is(broker: Broker, strategy: str) -> None:
    """Callbacks tell each of them what it has; leaving hands it over."""
    await fill(broker, counts=[1] * 4)
    settings = {"group_id": "g", "partition_assignment_strategy": strategy}
    first, second = Recorder(), Recorder()
    async with consumer(broker, **settings) as a:
        a.subscribe(["t"], listener=first)
        await poll_until(lambda: shares(a) == [4], a)
        async with consumer(broker, **settings) as b:
            b.subscribe(["t"], listener=second)
            await poll_until(lambda: is_shared(4, a, b), a, b)
            assert shares(a, b) == [2, 2]
            revoked = [gone for kind, gone in first.calls if kind == "revoked"]
            is_cooperative = strategy == "cooperative-sticky"
            assert len(revoked[0]) == (2 if is_cooperative else 4)
        assert second.kinds()[-1] == "revoked"
        await poll_until(lambda: shares(a) == [4], a)
    held: set[TopicPartition] = set()
    for kind, moved in first.calls:
        if kind == "assigned":
            assert not held & moved
            held |= moved
        else:
            assert moved <= held
            held -= moved
    assert not held


async def test_partitions_that_are_added_are_shared(broker: Broker) -> None:
    """The leader sees them in its metadata."""
    await fill(broker, counts=[1, 1])
    settings = {"group_id": "g", "metadata_max_age_ms": 50}
    async with (
        consumer(broker, "t", **settings) as a,
        consumer(broker, "t", **settings) as b,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        await poll_until(lambda: is_shared(2, a, b), a, b)
        await admin.create_partitions({"t": 5})
        await poll_until(lambda: is_shared(5, a, b), a, b)


async def test_a_full_group_ends_the_consumer() -> None:
    """KIP-389: one error, no retry, no task left; the others work on."""
    async with Broker(NO_DELAY | {"group.max.size": 1}) as broker:
        await fill(broker, counts=[2])
        async with consumer(broker, "t", group_id="g") as a:
            await poll_until(lambda: shares(a) == [1], a)
            async with consumer(broker, "t", group_id="g") as b:
                for _ in range(2):
                    with pytest.raises(GroupMaxSizeReachedError) as caught:
                        await asyncio.wait_for(b.getone(), PATIENCE)
                    assert "already at its full capacity" in str(caught.value)
                    assert not caught.value.retriable
                member = b._member  # noqa: SLF001 - what is left of it
                assert member is not None
                assert not member.under_way()
            a.seek_to_beginning()
            assert await take(a, 2) == ["0:0", "0:1"]


async def test_a_static_member_restarts_without_a_rebalance(broker: Broker) -> None:
    """KIP-345: it gets what it had; the others hear nothing of it."""
    await fill(broker, counts=[1] * 4)
    other = Recorder()
    a = consumer(broker, "t", group_id="g", group_instance_id="i-a")
    await a.start()
    async with consumer(broker, group_id="g", group_instance_id="i-b") as b:
        b.subscribe(["t"], listener=other)
        await poll_until(lambda: is_shared(4, a, b), a, b)
        had = a.assignment()
        calls = len(other.calls)
        await a.close()
        async with consumer(broker, "t", group_id="g", group_instance_id="i-a") as c:
            await poll_until(lambda: bool(c.assignment()), b, c)
            assert c.assignment() == had
            assert len(other.calls) == calls


async def test_a_second_process_of_an_instance_id_fences_the_first(
    broker: Broker,
) -> None:
    """FencedInstanceError comes out of the poll; its partitions are lost."""
    await fill(broker, counts=[1])
    listener = Recorder()
    async with consumer(broker, group_id="g", group_instance_id="i") as a:
        a.subscribe(["t"], listener=listener)
        await poll_until(lambda: shares(a) == [1], a)
        async with consumer(broker, "t", group_id="g", group_instance_id="i") as b:
            await poll_until(lambda: shares(b) == [1], b)
            with pytest.raises(FencedInstanceError):
                await poll_until(lambda: False, a)
            assert listener.kinds() == ["assigned", "lost"]


# -- coordinators come and go


async def test_the_coordinator_moves() -> None:
    """Members keep their partitions and go on committing."""
    async with Broker(NO_DELAY, nodes=3) as cluster:
        await fill(cluster, counts=[3, 3])
        listener = Recorder()
        async with consumer(cluster, group_id="g") as a:
            a.subscribe(["t"], listener=listener)
            await take(a, 6)
            for node in (1, 2, 0):
                node_id = [*cluster.cluster.nodes][node]
                cluster.move_coordinator("g", node_id)
                await a.commit({T0: node})
                assert await a.committed(T0) == {T0: OffsetAndMetadata(node)}
            async with consumer(cluster, "t", group_id="g") as b:
                await poll_until(lambda: is_shared(2, a, b), a, b)
            assert "lost" not in listener.kinds()


async def test_the_coordinators_node_stops() -> None:
    """Another one takes over; what was on the way is sent again."""
    config = NO_DELAY | {"default.replication.factor": 3}
    async with Broker(config, nodes=3) as cluster:
        await fill(cluster, counts=[4, 4])
        async with consumer(cluster, "t", group_id="g") as a:
            await take(a, 8)
            async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
                group = (await admin.describe_consumer_groups(["g"]))["g"]
            await cluster.stop_node(group.coordinator_id)
            await a.commit()
            await fill(cluster, counts=[2, 2], is_new=False)
            assert len(await take(a, 4)) == 4
            async with consumer(cluster, "t", group_id="g") as b:
                await poll_until(lambda: is_shared(2, a, b), a, b)


# -- commits through rebalances


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_a_commit_on_revocation_comes_last(broker: Broker, strategy: str) -> None:
    """The double-commit hazard: one in the callback, after asynchronous ones."""
    await fill(broker, counts=[10, 10])
    settings = {
        "group_id": "g",
        "partition_assignment_strategy": strategy,
        "enable_auto_commit": False,
    }
    listener = Recorder()
    async with consumer(broker, **settings) as a, consumer(broker, **settings) as b:

        async def inside(kind: str) -> None:
            if kind == "revoked":
                gone = listener.calls[-1][1]
                await a.commit(dict.fromkeys(gone, 9))

        listener.inside = inside
        a.subscribe(["t"], listener=listener)
        await poll_until(lambda: shares(a) == [2], a)
        b.subscribe(["t"])
        async with asyncio.timeout(PATIENCE):
            while "revoked" not in listener.kinds():
                for place in a.assignment():
                    a.commit_async({place: 3})
                await a.getmany(timeout_ms=1)
        gone = listener.calls[1][1]
        await poll_until(lambda: is_shared(2, a, b), a, b)
        found = await b.committed(*gone)
        assert [row.offset for row in found.values() if row] == [9] * len(gone)


async def test_auto_commit_before_partitions_go(broker: Broker) -> None:
    """Whoever gets them goes on where the other has stopped."""
    await fill(broker, counts=[50] * 4, batch=5)
    seen: Counter[str] = Counter()
    async with consumer(broker, "t", group_id="g", max_poll_records=7) as a:
        while len(seen) < 60:
            seen.update(await take(a, 1))
        async with consumer(broker, "t", group_id="g") as b:

            async def read(reader: Consumer) -> None:
                while len(seen) < 200:
                    found = await reader.getmany(timeout_ms=20)
                    rows = [r for some in found.values() for r in some]
                    seen.update(r.value.decode() for r in rows)

            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(read(a), read(b))
    assert set(seen.values()) == {1}, "nothing is read twice"


# -- heartbeats and polls


async def test_a_member_learns_of_a_rebalance_by_its_heartbeat(broker: Broker) -> None:
    """With a heartbeat every 50 ms it does; with one every 20 s it has not yet.

    Both are in a group that a third member wants to join.
    """
    for name in ("quick", "slow"):
        await fill(broker, name, [1, 1])
    quick, slow = Recorder(), Recorder()
    async with (
        consumer(broker, group_id="quick", heartbeat_interval_ms=50) as a,
        consumer(broker, group_id="slow", heartbeat_interval_ms=20_000) as b,
        consumer(broker, "slow", group_id="slow") as d,
    ):
        a.subscribe(["quick"], listener=quick)
        b.subscribe(["slow"], listener=slow)
        # Only b is in its group so far: d does not poll, and is not asked to.
        await poll_until(lambda: is_shared(2, a), a)
        await poll_until(lambda: is_shared(2, b, d), b, d)
        calls = len(slow.calls)
        async with (
            consumer(broker, "slow", group_id="slow") as late,
            consumer(broker, "quick", group_id="quick") as c,
        ):
            await poll_until(lambda: is_shared(2, a, c), a, b, c, late)
            assert len(slow.calls) == calls
            assert not late.assignment()


async def test_heartbeats_go_on_while_the_application_works() -> None:
    """Longer than the session timeout without a poll: the member stays."""
    async with Broker(NO_DELAY | {"group.min.session.timeout.ms": 100}) as other:
        await fill(other, counts=[1])
        listener = Recorder()
        async with consumer(other, group_id="g", session_timeout_ms=1_000) as a:
            a.subscribe(["t"], listener=listener)
            await poll_until(lambda: shares(a) == [1], a)
            async with consumer(other, group_id=None) as clock:
                # Somebody else waits for longer than that, for nothing.
                assert await clock.getmany(timeout_ms=1_500) == {}
            await until_members(other, 1)
            await a.getmany()
            assert listener.kinds() == ["assigned"]


async def test_closing_in_the_middle_of_anything(broker: Broker) -> None:
    """While joining, while waiting, twice: it always ends, and nothing is left."""
    await fill(broker, counts=[1])
    before = asyncio.all_tasks()
    async with asyncio.timeout(PATIENCE):
        joining = consumer(broker, "t", group_id="g")
        await joining.start()
        await joining.close()
        waiting = consumer(broker, "t", group_id="g")
        await waiting.start()
        await take(waiting, 1)
        await asyncio.gather(waiting.close(), waiting.close())
        await consumer(broker, "t", group_id="g").close()
        await until_members(broker, 0)
    assert asyncio.all_tasks() <= before


async def test_close_returns_in_time_whatever_a_listener_does(broker: Broker) -> None:
    """A callback that hangs is given up."""
    await fill(broker, counts=[1])
    listener = Recorder()

    async def hang(kind: str) -> None:
        if kind == "revoked":
            await asyncio.Event().wait()

    listener.inside = hang
    before = asyncio.all_tasks()
    reader = consumer(broker, group_id="g")
    await reader.start()
    reader.subscribe(["t"], listener=listener)
    await poll_until(lambda: shares(reader) == [1], reader)
    async with asyncio.timeout(PATIENCE):
        await reader.close(timeout_ms=700)
    assert listener.kinds() == ["assigned", "revoked"]
    for task in asyncio.all_tasks() - before:
        await asyncio.wait([task])


async def test_cancelled_at_every_await(broker: Broker) -> None:
    """A consumer's whole life, cancelled anywhere: nothing runs on, nothing is lost."""
    await fill(broker, counts=[3])
    before = asyncio.all_tasks()
    groups = itertools.count()

    async def life() -> None:
        # Each in a group of its own: nobody waits for those that were cut short.
        group = f"g{next(groups)}"
        async with consumer(broker, "t", group_id=group) as a:
            record = await a.getone()
            assert record.offset == 0
            await a.commit({T0: 0})
            await a.committed(T0)
            await a.unsubscribe()

    async def afterwards() -> None:
        left = asyncio.all_tasks() - before
        if left:
            _, running = await asyncio.wait(left, timeout=PATIENCE)
            assert not running

    async with asyncio.timeout(2 * PATIENCE):
        assert await cancel_at_every_await(life, afterwards) > 10


async def test_two_hundred_consumers_in_one_process(broker: Broker) -> None:
    """All of them in one group: each partition has one owner, each record is read."""
    await fill(broker, counts=[6] * 200, batch=6)
    readers = [
        consumer(broker, "t", group_id="g", heartbeat_interval_ms=500)
        for _ in range(200)
    ]
    seen: Counter[str] = Counter()

    async def read(reader: Consumer) -> None:
        await reader.start()
        while len(seen) < 1_200:
            found = await reader.getmany(timeout_ms=100)
            seen.update(r.value.decode() for rows in found.values() for r in rows)

    async with asyncio.timeout(2 * PATIENCE):
        await asyncio.gather(*map(read, readers))
        await asyncio.gather(*(reader.close() for reader in readers))
    assert len(seen) == 1_200
