"""The resilient consumer over kohort's client and over confluent-kafka: same scenes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
from examples import resilient_consumer, resilient_consumer_confluent
from tests.client.cancelling import cancel_at_every_await
from tests.client.stage import PATIENCE, fill, places
from tests.examples.consumer_processes import (
    DEAF,
    QUICK,
    all_of,
    committed,
    is_shared,
    owned,
    running,
    until,
)

from kohort.broker.server import Broker
from kohort.client.admin import Admin
from kohort.client.administering.values import MemberToRemove
from kohort.client.consuming.chunks import ConsumerRecord

NO_DELAY = {"group.initial.rebalance.delay.ms": 0}
MODULES = [resilient_consumer, resilient_consumer_confluent]


@pytest.fixture(params=[module.__name__.rpartition(".")[2] for module in MODULES])
def name(request: pytest.FixtureRequest) -> str:
    """An example."""
    return str(request.param)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """A broker without an initial delay."""
    async with Broker(NO_DELAY) as broker:
        yield broker


class EnoughError(Exception):
    """All has been read that a scene is about."""


async def remove(broker: Broker, instance_id: str) -> None:
    """Puts a member out of the group."""
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        member = MemberToRemove(group_instance_id=instance_id)
        (await admin.remove_members_from_consumer_group("g", [member])).check()


async def grow(broker: Broker, count: int) -> None:
    """Gives the topic more partitions."""
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        (await admin.create_partitions({"t": count})).check()


def generation(broker: Broker) -> int:
    """The generation of the group."""
    return broker.cluster.shards.for_group("g").groups["g"].generation_id


@pytest.mark.parametrize("module", MODULES)
def test_the_settings_are_those_that_the_text_promises(module: Any) -> None:
    """Both have the same: static, cooperative, 15 s, 3 s, 300 s, by hand."""
    assert module.SETTINGS == {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": 15_000,
        "heartbeat.interval.ms": 3_000,
        "max.poll.interval.ms": 300_000,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    assert module.COMMIT_EVERY == 100


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_reads_all_from_the_start_and_ends_by_a_signal(
    name: str, broker: Broker, number: int
) -> None:
    """Exit code 0; what it has read is committed, and its place in the group kept."""
    await fill(broker, counts=[30, 45])
    async with running(name, broker) as example:
        await example.has_read(75)
        assert await example.end(number) == 0
    assert sorted(example.records) == all_of(30, 45)
    assert example.count("partitions assigned: t-0, t-1") == 1
    assert example.count("partitions revoked: t-0, t-1") == 1
    assert await committed(broker) == {0: 30, 1: 45}
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        described = (await admin.describe_consumer_groups(["g"]))["g"]
        assert [m.group_instance_id for m in described.members] == ["a"]


async def test_it_commits_every_100_records(name: str, broker: Broker) -> None:
    """Killed after 250 records it goes on with the 201st."""
    await fill(broker, counts=[250])
    async with running(name, broker) as example:
        await example.has_read(250)
        assert await committed(broker) == {0: 200}
    async with running(name, broker) as example:
        await example.has_read(50)
        assert example.records == [f"t-0@{n}" for n in range(200, 250)]
        assert await example.end() == 0
    assert await committed(broker) == {0: 250}


async def test_a_record_whose_processing_fails_is_not_committed(
    name: str, broker: Broker
) -> None:
    """What `process` raises comes out; the records before are committed."""
    await fill(broker, counts=[10])

    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "g",
        "group.instance.id": "a",
    }

    def fail_at_6(offset: int | None) -> None:
        if offset == 6:
            raise LookupError

    async def process(record: ConsumerRecord) -> None:
        fail_at_6(record.offset)

    consumer: Any
    if name == "resilient_consumer":
        consumer = resilient_consumer.ResilientConsumer("t", settings, process)
        life = consumer.run()
    else:
        consumer = resilient_consumer_confluent.ResilientConsumer(
            "t", settings, lambda message: fail_at_6(message.offset())
        )
        life = asyncio.to_thread(consumer.run)
    with pytest.raises(LookupError):
        await life
    assert await committed(broker) == {0: 6}


async def test_nothing_is_read_twice_in_a_rebalance(name: str, broker: Broker) -> None:
    """A second member joins in the middle: what moves was committed before."""
    await fill(broker, counts=[35] * 4)
    async with running(name, broker, "a", **QUICK) as a:
        await a.has_read(140)
        assert sum((await committed(broker)).values()) == 100
        count = 35
        async with running(name, broker, "b", **QUICK) as b:
            shared = asyncio.create_task(until(lambda: is_shared(4, a, b), a, b))
            while not shared.done() or count < 100:
                await fill(broker, counts=[5] * 4, is_new=False)
                count += 5
            await shared
            both = 4 * count
            await until(lambda: len(a.records) + len(b.records) >= both, a, b)
            assert await a.end() == await b.end() == 0
    assert sorted(a.records + b.records) == all_of(*[count] * 4)
    assert b.records
    assert await committed(broker) == dict.fromkeys(range(4), count)


async def test_a_commit_that_fails_as_it_ends_is_logged(
    name: str, broker: Broker
) -> None:
    """Put out of the group without knowing, it ends with 0 all the same."""
    await fill(broker, counts=[30])
    async with running(name, broker, **DEAF) as example:
        await example.has_read(30)
        await remove(broker, "a")
        assert await example.end() == 0
        assert example.count("partitions revoked: t-0") == 1
        assert example.count("not committed") == 1
    assert await committed(broker) == {}


async def test_a_commit_that_fails_at_a_revocation_does_not_end_it(
    name: str, broker: Broker
) -> None:
    """It joins again, and reads again what was not committed.

    Put out of the group without knowing, it gives all up (eagerly) when the topic
    grows, and only then learns that it is no member.
    """
    await fill(broker, counts=[30])
    eager = {"partition.assignment.strategy": "range", "metadata.max.age.ms": "500"}
    if name == "resilient_consumer_confluent":
        eager["topic.metadata.refresh.interval.ms"] = "500"
    async with running(name, broker, **DEAF, **eager) as example:
        await example.has_read(30)
        await remove(broker, "a")
        await grow(broker, 2)
        await example.until(lambda: owned(example) == places(0, 1))
        await example.has_read(60)
        assert example.count("not committed") == 1
        assert await example.end() == 0
    assert example.records == 2 * [f"t-0@{n}" for n in range(30)]
    assert await committed(broker) == {0: 30}


async def test_a_commit_that_fails_in_the_loop_does_not_end_it(
    name: str, broker: Broker
) -> None:
    """Put out of the group without knowing, it fails to commit after 100 records."""
    await fill(broker, counts=[30])
    async with running(name, broker, **DEAF) as example:
        await example.has_read(30)
        await remove(broker, "a")
        await fill(broker, counts=[70], is_new=False)
        await example.has_logged("not committed")
        await example.until(lambda: example.records.count("t-0@99") == 2)
        assert await example.end() == 0
    assert example.records == 2 * [f"t-0@{n}" for n in range(100)]
    assert await committed(broker) == {0: 100}, example.log


async def test_a_restart_causes_no_rebalance(name: str, broker: Broker) -> None:
    """KIP-345: it gets what it had, and goes on there; the other hears nothing."""
    await fill(broker, counts=[20] * 4)
    async with running(name, broker, "b", **QUICK) as b:
        async with running(name, broker, "a", **QUICK) as a:
            await until(lambda: is_shared(4, a, b), a, b)
            await until(lambda: len(a.records) + len(b.records) >= 80, a, b)
            had, before, has = owned(a), generation(broker), owned(b)
            revoked = b.count("partitions revoked")
            assert await a.end() == 0
        async with running(name, broker, "a", **QUICK) as a:
            await a.until(lambda: owned(a) == had)
            await fill(broker, counts=[5] * 4, is_new=False)
            await a.has_read(5 * len(had))
            assert set(a.records) == {
                f"t-{p}@{20 + n}" for _, p in had for n in range(5)
            }
        assert (owned(b), b.count("partitions revoked")) == (has, revoked)
        assert generation(broker) == before


@pytest.mark.parametrize("numbering", ["apache", "kip-389"])
async def test_it_ends_when_the_group_is_full(name: str, numbering: str) -> None:
    """Exit code 75 and KIP-389's text, at the first refusal, whatever its number."""
    config = {"group.max.size": 1, "wire.error.numbering": numbering}
    async with Broker({**NO_DELAY, **config}) as broker:
        await fill(broker, counts=[5])
        async with running(name, broker, "a") as a:
            await a.has_read(5)
            async with running(name, broker, "b") as b:
                assert await b.ended() == 75
                text = "Consumer group is already at its full capacity."
                assert b.count(text)
                assert text in b.log[-1]
                assert not b.records
            assert await a.end() == 0


async def test_cancelled_anywhere_it_leaves_nothing_behind(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No task is left, and no record is committed that was not processed."""
    monkeypatch.setattr(resilient_consumer, "COMMIT_EVERY", 4)
    await fill(broker, counts=[10])
    before = asyncio.all_tasks()
    groups = (f"g{number}" for number in itertools.count())
    processed: dict[str, list[int]] = {}

    async def consume() -> None:
        group = next(groups)
        rows = processed[group] = []

        async def process(record: ConsumerRecord) -> None:
            await asyncio.sleep(0)
            rows.append(record.offset)
            if len(rows) == 10:
                raise EnoughError

        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "group.instance.id": "a",
        }
        with contextlib.suppress(EnoughError):
            await resilient_consumer.ResilientConsumer("t", settings, process).run()

    async def afterwards() -> None:
        left = asyncio.all_tasks() - before
        ours = [t for t in left if "/client/" in repr(t.get_coro())]
        assert not ours, ours

    async with asyncio.timeout(2 * PATIENCE):
        assert await cancel_at_every_await(consume, afterwards) > 20
    for group, rows in processed.items():
        assert rows == [*range(len(rows))]
        offset = (await committed(broker, group)).get(0, 0)
        if len(rows) < 10:
            assert offset == len(rows)
        else:
            # The tenth was not processed; the last commit may have been cut short.
            assert 8 <= offset <= 9
