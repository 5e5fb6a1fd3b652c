"""Transactions of producers, as consumers of both isolation levels see them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.client.producer_stage import producer
from tests.client.sent_requests import SentRequests
from tests.client.stage import PATIENCE, Stage, take

from kohort.client.consumer import Consumer
from kohort.client.errors import (
    CommitFailedError,
    ConfigError,
    KohortError,
    MessageTooLargeError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionStateError,
    TransactionTimeoutError,
)
from kohort.client.network.cluster import Cluster
from kohort.client.offsets import OffsetAndMetadata, TopicPartition
from kohort.client.producer import Producer
from kohort.protocol.apis.k57_update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from kohort.protocol.errors import ErrorCode

COMMITTED = {"isolation_level": "read_committed", "group_id": None}
_UPGRADE, _SAFE_DOWNGRADE = 1, 2


async def set_version(stage: Stage, version: int) -> None:
    """Sets the cluster's ``transaction.version``; returns when brokers have it."""
    kind = _UPGRADE if version == 2 else _SAFE_DOWNGRADE
    update = FeatureUpdateKey("transaction.version", version, False, kind)
    async with stage.admin() as admin, asyncio.timeout(PATIENCE):
        controller = (await admin.describe_cluster()).controller_id
        found = await admin.cluster.call(
            controller, "UpdateFeatures", UpdateFeaturesRequest(10_000, [update])
        )
        assert not found.error_code, found
        level = None
        while level != version:
            async with Cluster(admin.config) as fresh:
                features = (await fresh.connection(None)).supported.features
                level = features.get("transaction.version", 0)


@pytest.fixture(params=[2, 1], ids=["v2", "v1"])
async def scene(stage: Stage, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """A cluster with either transaction version, and a topic of two partitions."""
    await stage.fill([0, 0])
    if request.param != 2:
        await set_version(stage, request.param)
    yield stage
    if request.param != 2:
        await set_version(stage, 2)


def sender(stage: Stage, **settings: Any) -> Producer[Any, Any]:
    """A transactional producer; those of one scene have the same id."""
    name = stage.name("x")
    return producer(stage.bootstrap_servers, transactional_id=name, **settings)


async def send(to: Producer[Any, Any], stage: Stage, *values: str) -> None:
    """Sends values to the partitions in turn, and waits for the responses."""
    for number, value in enumerate(values):
        await to.send(stage.topic, value.encode(), partition=number % 2)
    await to.flush()


async def in_a_transaction(
    to: Producer[Any, Any], stage: Stage, *values: str, then: Callable[[], Any]
) -> None:
    """Sends values in one transaction, and then calls a function."""
    async with to.transaction():
        await send(to, stage, *values)
        await then()


def reader(stage: Stage, **settings: Any) -> Consumer:
    """A consumer of both partitions, without a group unless one is given."""
    return stage.consumer(**({"group_id": None} | settings))


async def ends(stage: Stage, isolation_level: str) -> dict[TopicPartition, int]:
    """The end of each partition for consumers of this level."""
    async with reader(stage, isolation_level=isolation_level) as consumer:
        return await consumer.end_offsets(stage.places(0, 1))


async def markers_are_written(stage: Stage) -> None:
    """Returns when no transaction is open: brokers write markers after the response."""
    async with asyncio.timeout(PATIENCE):
        everything = await ends(stage, "read_uncommitted")
        while await ends(stage, "read_committed") != everything:
            everything = await ends(stage, "read_uncommitted")


async def values(stage: Stage, isolation_level: str) -> list[str]:
    """All values that a consumer of this level reads, sorted."""
    found: list[str] = []
    async with reader(stage, isolation_level=isolation_level) as consumer:
        consumer.assign(stage.places(0, 1))
        async with asyncio.timeout(PATIENCE):
            for place, end in (await ends(stage, isolation_level)).items():
                while await consumer.position(place) < end:
                    rows = await consumer.getmany(timeout_ms=100)
                    for records in rows.values():
                        found += [str(r.value, "utf-8") for r in records if r.value]
    return sorted(found)


async def both(stage: Stage) -> tuple[list[str], list[str]]:
    """The values for both levels: committed ones, and all."""
    committed = await values(stage, "read_committed")
    return committed, await values(stage, "read_uncommitted")


async def in_the_end(stage: Stage) -> tuple[list[str], list[str]]:
    """The same after all transactions."""
    await markers_are_written(stage)
    return await both(stage)


async def test_a_transaction_is_read_as_a_whole(scene: Stage) -> None:
    """Nothing before the commit; all of it afterwards, in both partitions."""
    async with sender(scene) as to:
        await to.begin_transaction()
        await send(to, scene, "a", "b", "c")
        assert await both(scene) == ([], ["a", "b", "c"])
        await to.commit_transaction()
        assert await in_the_end(scene) == (["a", "b", "c"],) * 2
        async with to.transaction():
            await send(to, scene, "d", "e")
            assert (await both(scene))[0] == ["a", "b", "c"]
    assert await in_the_end(scene) == (["a", "b", "c", "d", "e"],) * 2


async def test_an_aborted_transaction_is_left_out(scene: Stage) -> None:
    """With read_committed only; its markers have offsets, and are never returned."""
    async with sender(scene) as to:
        with pytest.raises(ZeroDivisionError):
            await in_a_transaction(to, scene, "lost", "lost too", then=lambda: 1 / 0)
        async with to.transaction():
            await send(to, scene, "kept")
        await to.begin_transaction()
        await send(to, scene, "aborted")
        await to.abort_transaction()
    assert await in_the_end(scene) == (
        ["kept"],
        ["aborted", "kept", "lost", "lost too"],
    )
    async with reader(scene, **COMMITTED) as consumer:
        consumer.assign([scene.p0])
        assert await take(consumer, 1) == ["kept"]
        async with asyncio.timeout(PATIENCE):
            while await consumer.position(scene.p0) < 6:
                assert not await consumer.getmany(timeout_ms=20)


async def test_unsent_records_of_an_aborted_transaction_fail(scene: Stage) -> None:
    """Their futures have the error; it is no warning if they are not awaited."""
    async with sender(scene, linger_ms=10_000) as to:
        await to.begin_transaction()
        delivery = await to.send(scene.topic, b"x", partition=0)
        await to.abort_transaction()
        with pytest.raises(TransactionAbortedError):
            await delivery
    assert await in_the_end(scene) == ([], [])


async def test_a_commit_sends_what_lingers(scene: Stage) -> None:
    """And the futures have their offsets when it returns."""
    async with sender(scene, linger_ms=10_000) as to:
        async with to.transaction():
            delivery = await to.send(scene.topic, b"x", partition=0)
        assert delivery.result().offset == 0
    assert await in_the_end(scene) == (["x"], ["x"])


async def test_the_last_stable_offset_and_the_lag(scene: Stage) -> None:
    """An open transaction ends the log for read_committed, and the lag counts to it."""
    async with sender(scene) as to:
        async with to.transaction():
            await send(to, scene, "a")
        await markers_are_written(scene)
        await to.begin_transaction()
        await send(to, scene, "b")
        for level, end in (("read_committed", 2), ("read_uncommitted", 3)):
            async with reader(scene, isolation_level=level) as consumer:
                consumer.assign([scene.p0])
                assert consumer.lag(scene.p0) is None
                assert (await take(consumer, 1))[0] == "a"
                consumer.seek(scene.p0, 1)
                assert consumer.last_stable_offset(scene.p0) == 2
                assert consumer.highwater(scene.p0) == 3
                assert consumer.lag(scene.p0) == end - 1
                assert (await consumer.end_offsets([scene.p0]))[scene.p0] == end
        await to.commit_transaction()


# -- offsets


@contextlib.asynccontextmanager
async def reads(
    scene: Stage, **settings: Any
) -> AsyncIterator[tuple[Consumer, Producer[Any, Any], TopicPartition]]:
    """A member that has read four records, a producer, and the records' partition."""
    source = scene.name("source")
    await scene.fill([4], source)
    async with scene.consumer(source, **settings) as consumer, sender(scene) as to:
        await take(consumer, 4)
        yield consumer, to, TopicPartition(source, 0)


async def test_offsets_are_committed_with_the_records(scene: Stage) -> None:
    """Consume, transform, produce: the offsets of an abort are not committed."""
    async with reads(scene) as (consumer, to, place):
        for offset, is_good in ((2, True), (4, False)):
            await to.begin_transaction()
            await send(to, scene, f"to {offset}")
            group = consumer.group_metadata()
            await to.send_offsets_to_transaction({place: (offset, "note")}, group)
            await (to.commit_transaction if is_good else to.abort_transaction)()
        expected = OffsetAndMetadata(2, "note")
        assert await consumer.committed(place) == {place: expected}
        await consumer.seek_to_committed()
        assert len(await take(consumer, 2)) == 2
    assert (await in_the_end(scene))[0] == ["to 2"]


async def test_pending_offsets_are_waited_for(scene: Stage, sent: SentRequests) -> None:
    """The next owner starts behind a transaction that commits meanwhile (KIP-447)."""
    async with (
        reads(scene) as (consumer, to, place),
        scene.consumer(retry_backoff_max_ms=10) as other,
    ):
        await to.begin_transaction()
        group = consumer.group_metadata()
        await to.send_offsets_to_transaction({place: 3}, group)
        asked = len(sent.exchanges)
        found = asyncio.create_task(other.committed(place))
        await refused(sent, asked)
        assert not found.done()
        await to.commit_transaction()
        assert (await found)[place] == OffsetAndMetadata(3)


async def refused(sent: SentRequests, since: int) -> None:
    """Returns when an OffsetFetch was answered with UNSTABLE_OFFSET_COMMIT."""
    async with asyncio.timeout(PATIENCE):
        while not any(
            row.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
            for each in sent.exchanges[since:]
            if each.api == "OffsetFetch" and each.response is not None
            for group in each.response.groups
            for topic in group.topics
            for row in topic.partitions
        ):
            await sent.more()


async def test_a_member_that_lost_its_partitions_commits_nothing(scene: Stage) -> None:
    """Its transaction is aborted, and the producer goes on with the next one."""
    async with reads(scene, enable_auto_commit=False) as (consumer, to, place):
        stale = consumer.group_metadata()
        await consumer.unsubscribe()
        with pytest.raises(CommitFailedError) as caught:
            await in_a_transaction(
                to,
                scene,
                "lost",
                then=lambda: to.send_offsets_to_transaction({place: 4}, stale),
            )
        assert caught.value.requires_abort
        assert not caught.value.fatal
        async with to.transaction():
            await send(to, scene, "kept")
        assert await consumer.committed(place) == {place: None}
    assert (await in_the_end(scene))[0] == ["kept"]


# -- ends that the application does not choose


async def test_a_new_producer_fences_the_earlier_one(scene: Stage) -> None:
    """The open transaction is aborted; the earlier producer can only be closed."""
    async with sender(scene) as first:
        await first.begin_transaction()
        await send(first, scene, "lost")
        async with sender(scene) as second:
            assert (await in_the_end(scene))[0] == []
            with pytest.raises(ProducerFencedError) as caught:
                await first.commit_transaction()
            assert caught.value.fatal
            assert "another producer has taken this transactional id" in str(
                caught.value
            )
            for call in (
                first.begin_transaction,
                first.commit_transaction,
                first.abort_transaction,
            ):
                with pytest.raises(ProducerFencedError):
                    await call()
            async with second.transaction():
                await send(second, scene, "kept")
    assert (await in_the_end(scene))[0] == ["kept"]


async def test_the_block_says_that_its_producer_is_fenced(scene: Stage) -> None:
    """Whatever the partition answered, the error is fatal."""
    async with sender(scene) as first:
        async with first.transaction():
            await send(first, scene, "kept")
        async with sender(scene):
            with pytest.raises(ProducerFencedError) as caught:
                async with first.transaction():
                    await first.send_and_wait(scene.topic, b"lost", partition=0)
            assert caught.value.fatal
    assert (await in_the_end(scene))[0] == ["kept"]


async def test_a_transaction_that_is_open_for_too_long_is_aborted(scene: Stage) -> None:
    """Consumers continue, and the commit of the slow producer is refused."""
    async with sender(scene, transaction_timeout_ms=100) as slow:
        await slow.begin_transaction()
        await send(slow, scene, "lost")
        async with reader(scene, **COMMITTED) as consumer:
            consumer.assign([scene.p0])
            async with asyncio.timeout(PATIENCE):
                while (await consumer.end_offsets([scene.p0]))[scene.p0] < 2:
                    await consumer.getmany(timeout_ms=20)
        # Kafka has either error, depending on how far the abort is.
        with pytest.raises((ProducerFencedError, TransactionStateError)) as caught:
            await slow.commit_transaction()
        assert caught.value.fatal
    async with sender(scene) as next_one, next_one.transaction():
        await send(next_one, scene, "kept")
    assert (await in_the_end(scene))[0] == ["kept"]


async def test_close_aborts_an_open_transaction(scene: Stage) -> None:
    """Consumers need not wait for its time-out."""
    async with sender(scene) as to:
        await to.begin_transaction()
        await send(to, scene, "lost")
    assert (await in_the_end(scene))[0] == []


# -- wrong use


async def test_a_record_that_cannot_be_sent_fails_the_transaction(scene: Stage) -> None:
    """As in the Java client: not all of its records would be committed."""
    async with sender(scene, max_request_size=2_000) as to:
        await to.begin_transaction()
        await send(to, scene, "lost")
        with pytest.raises(MessageTooLargeError):
            await to.send(scene.topic, b"x" * 3_000)
        with pytest.raises(MessageTooLargeError) as caught:
            await to.commit_transaction()
        assert caught.value.requires_abort
        with pytest.raises(MessageTooLargeError):
            await to.begin_transaction()
        await to.abort_transaction()
        async with to.transaction():
            await send(to, scene, "kept")
    assert (await in_the_end(scene))[0] == ["kept"]


async def test_records_need_a_transaction(stage: Stage) -> None:
    """Also after the end of one."""
    await stage.fill([0, 0])
    async with sender(stage) as to:
        for _ in range(2):
            with pytest.raises(TransactionStateError, match="send: no transaction"):
                await to.send(stage.topic, b"x")
            async with to.transaction():
                await send(to, stage, "a")
                with pytest.raises(TransactionStateError, match="has not ended"):
                    await to.begin_transaction()


async def test_a_transaction_timeout_above_the_limit_is_refused(stage: Stage) -> None:
    """By the start, which closes the producer."""
    to = sender(stage, transaction_timeout_ms=2**31 - 1)
    with pytest.raises(TransactionTimeoutError) as caught:
        await to.start()
    assert caught.value.fatal
    assert stage.name("x") in str(caught.value)


async def test_other_producers_have_no_transactions(stage: Stage) -> None:
    """The error names the setting."""
    async with producer(stage.bootstrap_servers) as to:
        for call in (to.begin_transaction, to.commit_transaction, to.abort_transaction):
            with pytest.raises(ConfigError, match="transactional_id: is needed"):
                await call()
    assert issubclass(ConfigError, KohortError)
