"""TxnOffsetCommit over the wire, and the markers that end its transactions."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.test_cluster import NO_DELAY, coordinator, offsets, stable, until
from tests.broker.test_restart import killed
from tests.broker.topics import delete_topic
from tests.wire.client import WireClient, connected
from tests.wire.requests import create_topics

from kohort.broker.cluster.markers import EndMarker, write_marker
from kohort.broker.server import Broker
from kohort.broker.topics.topic import OFFSETS_TOPIC
from kohort.broker.transactions.events import AddPartitions, AddPartitionsResult
from kohort.protocol.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kohort.protocol.apis.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kohort.protocol.errors import ErrorCode

PRODUCER = 7
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


class Transactions:
    """The transaction coordinator: answers every question with `result`.

    Attributes:
        result: its answer; None keeps questions.
        asked: the questions.
    """

    def __init__(self) -> None:
        self.result: AddPartitionsResult | None = AddPartitionsResult(0)
        self.asked: list[AddPartitions] = []

    def submit(self, _node_id: int | None, event: AddPartitions) -> None:
        """Answers at once."""
        self.asked.append(event)
        if self.result is not None:
            self.answer(event, self.result)

    def answer(self, event: AddPartitions, result: AddPartitionsResult) -> None:
        """Answers a question that was kept."""
        event.token.answer(result)  # type: ignore[attr-defined]


class Scene:
    """A broker with the topic "t" and a client."""

    def __init__(self, broker: Broker, client: WireClient) -> None:
        self.broker = broker
        self.client = client
        self.transactions = Transactions()
        broker.cluster.transactions = self.transactions  # type: ignore[assignment]

    async def commit(self, offset: int, *, version: int = 5, **over: Any) -> int:
        """Sends TxnOffsetCommit of partition 0; returns the error code."""
        answer = await self.client.call("TxnOffsetCommit", version, txn(offset, **over))
        return int(answer.topics[0].partitions[0].error_code)

    async def fetched(self, *, is_stable: bool = True) -> tuple[int, int]:
        """The offset of partition 0, and its error code."""
        wanted = [OffsetFetchRequestTopics("t", partition_indexes=[0])]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup("g", topics=wanted)],
            require_stable=is_stable,
        )
        answer = await self.client.call("OffsetFetch", 9, request)
        (row,) = answer.groups[0].topics[0].partitions
        return row.committed_offset, row.error_code

    def end(self, *, is_commit: bool = True, epoch: int = 0, version: int = 1) -> int:
        """Writes a marker to the group's partition; returns the error code."""
        codes: list[int] = []
        cluster = self.broker.cluster
        index = cluster.shards.index_of("g")
        end = EndMarker(PRODUCER, epoch, is_commit, 0, version)
        write_marker(cluster, None, end, OFFSETS_TOPIC, index, codes.append)
        return codes[0]


def txn(
    offset: int,
    group: str = "g",
    topic: str = "t",
    partition: int = 0,
    epoch: int = 0,
    metadata: str = "",
) -> TxnOffsetCommitRequest:
    """TxnOffsetCommit of one partition, without a member."""
    row = TxnOffsetCommitRequestPartition(partition, offset, -1, metadata)
    topics = [TxnOffsetCommitRequestTopic(topic, [row])]
    return TxnOffsetCommitRequest("x", group, PRODUCER, epoch, topics=topics)


@contextlib.asynccontextmanager
async def scene(data_dir: Path | None = None, **config: object) -> AsyncIterator[Scene]:
    """A new scene; keys have ``_`` in place of dots."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    async with (
        Broker(NO_DELAY | settings, data_dir=data_dir) as broker,
        connected(broker) as client,
    ):
        if "t" not in broker.cluster.topics.by_name:
            await client.call("CreateTopics", 7, create_topics("t"))
        yield Scene(broker, client)


@pytest.mark.parametrize("version", range(6))
async def test_each_version(version: int) -> None:
    """The offset counts from the marker on; v5 adds the partition, others verify it."""
    async with scene() as s:
        assert await s.commit(5, version=version) == 0
        (asked,) = s.transactions.asked
        index = s.broker.cluster.shards.index_of("g")
        assert [*asked.partitions] == [(OFFSETS_TOPIC, index)]
        assert asked.verify_only == (version < 5)
        assert (asked.transactional_id, asked.group_id) == ("x", "g")
        assert await s.fetched() == (-1, UNSTABLE)
        assert await s.fetched(is_stable=False) == (-1, 0)
        assert s.end() == 0
        assert await s.fetched() == (5, 0)


async def test_the_coordinator_is_asked_once_in_a_transaction() -> None:
    """Later commits find the transaction open in the partition, until its end."""
    async with scene() as s:
        assert [await s.commit(n, version=4) for n in (1, 2)] == [0, 0]
        assert len(s.transactions.asked) == 1
        s.end()
        assert await s.commit(3, version=4) == 0
        assert len(s.transactions.asked) == 2


async def test_verification_may_be_off() -> None:
    """Then only v5, which adds the partition, asks the coordinator."""
    async with scene(transaction_partition_verification_enable=False) as s:
        assert await s.commit(5, version=4) == 0
        assert s.transactions.asked == []
        s.end()
        assert await s.commit(6, version=5) == 0
        assert len(s.transactions.asked) == 1


async def test_the_first_commit_in_a_new_cluster() -> None:
    """It is refused, as by Apache Kafka, before the coordinator is asked."""
    async with scene(coordinator_first_use="kafka") as s:
        assert await s.commit(5) == ErrorCode.NOT_COORDINATOR
        await coordinator(s.client, "g")
        assert await s.commit(5) == ErrorCode.NOT_COORDINATOR
        assert s.transactions.asked == []
        assert await s.commit(5) == 0


@pytest.mark.parametrize(
    ("error", "codes"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, {3: 48, 4: 120, 5: 120}),
        (ErrorCode.PRODUCER_FENCED, {0: 47, 4: 47, 5: 47}),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, {3: 49, 5: 49}),
        (ErrorCode.NETWORK_EXCEPTION, {1: 15, 2: 14, 5: 14}),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {0: 15, 1: 15, 2: 14}),
    ],
)
async def test_refusals_of_the_coordinator(
    error: ErrorCode, codes: dict[int, int]
) -> None:
    """Clients get errors that their version knows; nothing is stored."""
    async with scene() as s:
        for result in (AddPartitionsResult(error), AddPartitionsResult(0, [error])):
            s.transactions.result = result
            for version, code in codes.items():
                assert await s.commit(5, version=version) == code
        assert await s.fetched() == (-1, 0)


async def test_events_of_refusals() -> None:
    """A refused commit is an event, unless the client has to try again."""
    async with scene() as s:
        for error in ("CONCURRENT_TRANSACTIONS", "INVALID_TXN_STATE"):
            s.transactions.result = AddPartitionsResult(ErrorCode[error])
            assert await s.commit(5) == ErrorCode[error]
        refused = [
            (event["error"], event["producer_id"])
            for event in s.broker.cluster.events.recent()
            if event["kind"] == "commit_refused"
        ]
        assert refused == [("INVALID_TXN_STATE", PRODUCER)]


async def test_old_epochs() -> None:
    """They are refused without a question once the partition knows a newer one."""
    async with scene() as s:
        assert await s.commit(5, epoch=1) == 0
        assert await s.commit(6, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert s.end(epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await s.fetched() == (-1, UNSTABLE)
        assert s.end(epoch=1) == 0
        assert await s.fetched() == (5, 0)
        assert len(s.transactions.asked) == 1


async def test_a_marker_comes_before_the_answer_of_the_coordinator() -> None:
    """The commit would open a transaction that has no end: it is refused."""
    async with scene() as s:
        s.transactions.result = None
        await s.client.send("TxnOffsetCommit", 4, txn(5))
        await until(lambda: bool(s.transactions.asked))
        s.end()
        (asked,) = s.transactions.asked
        s.transactions.answer(asked, AddPartitionsResult(0))
        answer = await s.client.response("TxnOffsetCommit", 4)
        code = answer.topics[0].partitions[0].error_code
        assert code == ErrorCode.INVALID_TXN_STATE
        assert await s.fetched() == (-1, 0)


@pytest.mark.parametrize("is_made_anew", [False, True])
async def test_a_topic_goes_before_the_answer_of_the_coordinator(
    *, is_made_anew: bool
) -> None:
    """Its partitions are looked up again: an offset would be that of a later topic."""
    async with scene() as s:
        s.transactions.result = None
        await s.client.send("TxnOffsetCommit", 5, txn(5))
        await until(lambda: bool(s.transactions.asked))
        delete_topic(s.broker, "t")
        if is_made_anew:
            s.broker.cluster.create_topic("t", 1)
        s.transactions.result = AddPartitionsResult(0)
        s.transactions.answer(s.transactions.asked[0], s.transactions.result)
        answer = await s.client.response("TxnOffsetCommit", 5)
        code = answer.topics[0].partitions[0].error_code
        assert code == (0 if is_made_anew else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        # The new topic's partition is one that the coordinator is asked about again.
        assert len(s.transactions.asked) == 1 + is_made_anew
        s.end()
        if not is_made_anew:
            s.broker.cluster.create_topic("t", 1)
        assert await s.fetched() == ((5, 0) if is_made_anew else (-1, 0))


async def test_unknown_partitions_and_the_empty_group() -> None:
    """They are refused without a question, each with its error; others are stored."""
    async with scene() as s:
        assert await s.commit(5, topic="u") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await s.commit(5, partition=1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await s.commit(5, group="") == ErrorCode.INVALID_GROUP_ID
        assert s.transactions.asked == []
        rows = [TxnOffsetCommitRequestPartition(n, 5) for n in (1, 0)]
        topics = [TxnOffsetCommitRequestTopic("t", rows)]
        request = TxnOffsetCommitRequest("x", "g", PRODUCER, 0, topics=topics)
        answer = await s.client.call("TxnOffsetCommit", 5, request)
        (found,) = answer.topics
        assert [(p.partition_index, p.error_code) for p in found.partitions] == [
            (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (0, 0),
        ]


async def test_a_commit_that_is_too_large() -> None:
    """It is refused as OffsetCommit's is, and the group is as before."""
    async with scene(offset_metadata_max_bytes=20_000) as s:
        config = s.broker.cluster.topics
        assert await s.commit(4) == 0
        partition = config.by_name[OFFSETS_TOPIC].partitions[0]
        rows = [
            TxnOffsetCommitRequestPartition(0, 5, -1, "x" * 20_000)
            for _ in range(partition.config.max_message_bytes // 20_000 + 1)
        ]
        topics = [TxnOffsetCommitRequestTopic("t", rows)]
        request = TxnOffsetCommitRequest("x", "g", PRODUCER, 0, topics=topics)
        answer = await s.client.call("TxnOffsetCommit", 5, request)
        codes = {p.error_code for p in answer.topics[0].partitions}
        assert codes == {ErrorCode.UNKNOWN_SERVER_ERROR}
        s.end()
        assert await s.fetched() == (4, 0)


async def test_stable_offsets_before_v8() -> None:
    """OffsetFetch v7 has the error in the row of the partition; v6 never wants it."""
    async with scene() as s:
        await s.client.call("OffsetCommit", 8, offsets(3))
        await s.commit(5)
        rows = {}
        for version in (6, 7):
            wanted = [OffsetFetchRequestTopic("t", [0])]
            request = OffsetFetchRequest("g", wanted, require_stable=version == 7)
            answer = await s.client.call("OffsetFetch", version, request)
            (row,) = answer.topics[0].partitions
            rows[version] = (row.committed_offset, row.error_code)
        assert rows == {6: (3, 0), 7: (-1, UNSTABLE)}


async def test_a_deleted_topic() -> None:
    """Its pending offsets go with it."""
    async with scene() as s:
        await s.commit(5)
        delete_topic(s.broker, "t")
        assert await s.fetched() == (-1, 0)
        assert s.end() == 0
        assert await s.fetched() == (-1, 0)


# -- order, restarts and moves


async def test_a_marker_comes_behind_records_that_wait() -> None:
    """A plain commit that is collected comes before the marker in the log."""
    async with scene(group_coordinator_append_linger_ms=60_000) as s:
        assert await s.commit(5) == 0
        await s.client.send("OffsetCommit", 8, offsets(7))
        await s.client.send("OffsetFetch", 9, OffsetFetchRequest())
        shard = s.broker.cluster.shards.for_id("g")
        assert shard.driver is not None
        appends = shard.driver.coordinator.appends
        await until(lambda: bool(appends.waiting))
        assert s.end() == 0
        answer = await s.client.response("OffsetCommit", 8)
        assert answer.topics[0].partitions[0].error_code == 0
        await s.client.response("OffsetFetch", 9)
        assert await s.fetched() == (7, 0)


@pytest.mark.parametrize("is_commit", [True, False])
async def test_pending_offsets_survive_a_kill(
    tmp_path: Path, *, is_commit: bool
) -> None:
    """The next broker finds them in the log, and the marker ends their transaction."""
    path = tmp_path / "data"
    async with scene(path) as s:
        await s.client.call("OffsetCommit", 8, offsets(3))
        await s.commit(5)
        copy = killed(path)
    async with scene(copy) as s:
        assert await s.fetched() == (-1, UNSTABLE)
        assert await s.commit(6) == 0
        assert s.transactions.asked == []
        assert s.end(is_commit=is_commit) == 0
        assert await s.fetched() == ((6, 0) if is_commit else (3, 0))
    async with scene(copy) as s:
        assert await s.fetched() == ((6, 0) if is_commit else (3, 0))


async def test_a_move_of_the_coordinator() -> None:
    """Pending offsets move with it; the old node refuses commits, and asks nothing."""
    async with Broker(NO_DELAY, nodes=2) as broker:
        broker.move_coordinator("g", 1)
        async with connected(broker, 1) as client:
            await client.call("CreateTopics", 7, create_topics("t"))
            s = Scene(broker, client)
            assert await s.commit(5) == 0
            broker.move_coordinator("g", 2)
            assert await s.commit(6) == ErrorCode.NOT_COORDINATOR
        assert len(s.transactions.asked) == 1
        assert s.end() == 0
        async with connected(broker, 2) as other:
            assert await Scene(broker, other).fetched() == (5, 0)


async def test_compaction_keeps_pending_offsets() -> None:
    """Before and after the end of their transaction, what a load finds is the same."""
    config = {"log.cleaner.backoff.ms": 1, "offsets.topic.num.partitions": 1}
    async with Broker(NO_DELAY | config, nodes=2) as broker:
        broker.move_coordinator("g", 1)
        async with connected(broker, 1) as client:
            await client.call("CreateTopics", 7, create_topics("t"))
            s = Scene(broker, client)
            log = broker.cluster.topics.by_name[OFFSETS_TOPIC].partitions[0].store

            async def is_compacted() -> None:
                for offset in range(50):
                    await client.call("OffsetCommit", 8, offsets(offset, group="h"))
                await until(lambda: len(log) < 10)
                for node_id in (2, 1):
                    broker.move_coordinator("g", node_id)

            for offset in range(50):
                await client.call("OffsetCommit", 8, offsets(offset))
            assert await s.commit(5) == 0
            await until(lambda: len(log) < 10)
            for node_id in (2, 1):
                broker.move_coordinator("g", node_id)
            assert await s.fetched() == (-1, UNSTABLE)
            assert await s.fetched(is_stable=False) == (49, 0)
            assert s.end() == 0
            await is_compacted()
            assert await s.fetched() == (5, 0)
            assert await s.commit(6) == 0
            assert s.end(is_commit=False) == 0
            await is_compacted()
            assert await s.fetched() == (5, 0)


async def test_a_coordinator_that_is_loading() -> None:
    """Commits and markers are refused so that they are sent again."""
    async with scene(coordinator_load_delay_ms=60_000) as s:
        assert await s.commit(5) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert s.end() == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_member_commits() -> None:
    """The group's coordinator checks the member, after the transaction is verified."""
    async with scene() as s:
        member_id = await stable(s.client)
        request = txn(5)
        known = TxnOffsetCommitRequest(
            "x", "g", PRODUCER, 0, 1, member_id, None, request.topics
        )
        answer = await s.client.call("TxnOffsetCommit", 3, known)
        assert answer.topics[0].partitions[0].error_code == 0
        stranger = TxnOffsetCommitRequest(
            "x", "g", PRODUCER, 0, 1, "M", None, request.topics
        )
        answer = await s.client.call("TxnOffsetCommit", 3, stranger)
        code = answer.topics[0].partitions[0].error_code
        assert code == ErrorCode.UNKNOWN_MEMBER_ID
