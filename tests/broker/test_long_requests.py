"""Requests of many rows run in pieces, and repeated names are answered once.

Pieces are counted, so no test depends on the speed of the machine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from importlib import import_module

import pytest
from tests.broker.test_cluster import NO_DELAY, offsets, stable
from tests.broker.test_txn_offset_commit import PRODUCER, Scene
from tests.broker.topics import delete_topic
from tests.wire.client import WireClient, connected
from tests.wire.requests import (
    TOPIC,
    commit_offsets,
    delete_records,
    describe_configs,
    epoch_ends,
    fetch_offsets,
    leave_group,
    metadata,
    sync_group,
)

from kohort.broker.coordinator.effects import OffsetRecord
from kohort.broker.long_work import Work
from kohort.broker.notice import Client
from kohort.broker.request import Request, ResponseFormat
from kohort.broker.server import Broker
from kohort.broker.shards.group_records import BatchSize, Encoder
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.apis.k15_describe_groups import DescribeGroupsRequest
from kohort.protocol.apis.k16_list_groups import ListGroupsRequest
from kohort.protocol.apis.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kohort.protocol.apis.k42_delete_groups import DeleteGroupsRequest
from kohort.protocol.apis.k44_incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.protocol.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.protocol.apis.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer
from kohort.protocol.registry import BY_NAME

PARTITIONS = 20
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class CountedRequest(Request):
    """A request whose work after a wait is done at once, and counted."""

    rest = 0

    def go_on(self, work: Work) -> None:
        """Does the rest of the work."""
        self.rest += sum(1 for _ in work)


class Asked:
    """A connection that counts its responses and their pieces.

    Attributes:
        during: called after the third piece.
    """

    software_name = "test"
    software_version = "1"
    listener = 0

    def __init__(self, broker: Broker) -> None:
        self._node = broker.cluster.node(1)
        self.sizes: list[int] = []
        self.during: Callable[[], object] = int

    def send(self, _: Request, parts: list[Buffer]) -> None:
        """Takes a response."""
        self.sizes.append(sum(map(len, parts)))

    def abort(self) -> None:
        """No request fails here."""
        raise AssertionError

    def throttle(self, wait_ms: int) -> None:
        """No quota applies here."""
        raise AssertionError

    def fail(self, why: str) -> None:
        """No request fails here."""
        raise AssertionError(why)

    def pieces(self, api_name: str, version: int, message: object) -> int:
        """The number of pieces in which a request is handled and answered."""
        api = BY_NAME[api_name]
        module = import_module(
            f"kohort.broker.handlers.{api.module_name.rpartition('.')[2]}"
        )
        form = ResponseFormat(api, version)
        respond = getattr(module, "respond", Request.finish)
        sender = Client("", "")
        request = CountedRequest(form, respond, 1, sender, message, self._node, self)
        work: Work | None = module.handle(request)
        count = 1
        for _ in work or ():
            count += 1
            if count == 3:
                self.during()
        for shard in self._node.cluster.shards:
            assert shard.driver is not None
            shard.driver.flush()
        count += request.rest
        assert len(self.sizes) == 1
        self.sizes.clear()
        return count


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """A broker with a topic, and a group that has committed all of it."""
    async with Broker(NO_DELAY) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", PARTITIONS)
        await client.call("OffsetCommit", 8, commit(PARTITIONS))
        yield broker


def commit(
    rows: int, topic: str = "t", group: str = "g", member: tuple[int, str] = (-1, "")
) -> OffsetCommitRequest:
    """OffsetCommit of a topic's partitions, repeatedly."""
    offsets = [(row % PARTITIONS, row) for row in range(rows)]
    generation, member_id = member
    return commit_offsets(
        topic, *offsets, group=group, generation=generation, member_id=member_id
    )


def indexes(rows: int) -> list[int]:
    """This many partitions."""
    return [row % PARTITIONS for row in range(rows)]


def names(rows: int) -> list[str]:
    """This many names without a topic."""
    return [f"x{row}" for row in range(rows)]


Make = Callable[[int], object]

REQUESTS: Sequence[tuple[str, int, Make]] = [
    ("Metadata", 9, lambda n: metadata(*names(n), creates=False)),
    ("OffsetCommit", 8, lambda n: commit(n, "nope")),
    ("OffsetCommit", 8, commit),
    (
        "OffsetFetch",
        7,
        lambda n: OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", indexes(n))]),
    ),
    (
        "OffsetFetch",
        8,
        lambda n: OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    "g", topics=[OffsetFetchRequestTopics("t", b"", indexes(n))]
                )
            ]
        ),
    ),
    ("OffsetFetch", 8, lambda n: fetch_offsets(*["g"] * n)),
    ("FindCoordinator", 4, lambda n: FindCoordinatorRequest("", 0, names(n))),
    ("LeaveGroup", 5, lambda n: leave_group("g", *names(n))),
    (
        "SyncGroup",
        4,
        lambda n: sync_group("m", assignments=dict.fromkeys(names(n), b"")),
    ),
    ("DescribeGroups", 5, lambda n: DescribeGroupsRequest(names(n))),
    ("ListGroups", 4, lambda n: ListGroupsRequest(names(n))),
    ("DeleteRecords", 2, lambda n: delete_records(*[("t", i, 0) for i in indexes(n)])),
    ("OffsetForLeaderEpoch", 4, lambda n: epoch_ends("t", *indexes(n))),
    ("DescribeConfigs", 4, lambda n: describe_configs(TOPIC, *names(n))),
    ("DescribeConfigs", 4, lambda n: describe_configs(TOPIC, "t", keys=names(n))),
    ("DeleteGroups", 2, lambda n: DeleteGroupsRequest(names(n))),
    (
        "IncrementalAlterConfigs",
        1,
        lambda n: IncrementalAlterConfigsRequest(
            [AlterConfigsResource(TOPIC, name, ()) for name in names(n)]
        ),
    ),
    (
        "OffsetDelete",
        0,
        lambda n: OffsetDeleteRequest(
            "g",
            [
                OffsetDeleteRequestTopic(
                    "t", [OffsetDeleteRequestPartition(i) for i in indexes(n)]
                )
            ],
        ),
    ),
    (
        "DescribeTopicPartitions",
        0,
        lambda n: DescribeTopicPartitionsRequest([TopicRequest(x) for x in names(n)]),
    ),
]


@pytest.mark.parametrize(
    ("api", "version", "make"),
    REQUESTS,
    ids=[f"{row[0]}-{number}" for number, row in enumerate(REQUESTS)],
)
async def test_more_rows_are_more_pieces(
    broker: Broker, api: str, version: int, make: Make
) -> None:
    """One row is one piece; the pieces of 10,000 rows are as small as of 5,000."""
    asked = Asked(broker)
    assert asked.pieces(api, version, make(1)) == 1
    some, more = (asked.pieces(api, version, make(n)) for n in (5000, 10_000))
    assert some >= 5
    # Part of the work may be the same: it concerns 20 partitions.
    assert more >= 1.4 * some


async def test_the_largest_commit_is_kafkas(broker: Broker) -> None:
    """16,774 offsets are one batch of the log; one more is refused, as in Kafka.

    The numbers are Kafka 4.3's: by default its batches have at most 1,048,588 bytes.
    """
    async with connected(broker) as client:
        assert await codes(client, commit(16_774)) == {0}
        error = ErrorCode.UNKNOWN_SERVER_ERROR
        assert await codes(client, commit(16_775, group="h")) == {error}
        assert await codes(client, commit(60_000, group="h")) == {error}
        # The new group does not exist.
        assert "h" not in [each.group_id for each in broker.cluster.shards.groups()]
        # A member that may not commit at all gets that error first.
        stale = commit(16_775, member=(5, "m"))
        assert await codes(client, stale) == {ErrorCode.UNKNOWN_MEMBER_ID}


async def codes(client: WireClient, request: object) -> set[int]:
    """The error codes of the response to a commit."""
    answer = await client.call("OffsetCommit", 8, request)
    return {row.error_code for topic in answer.topics for row in topic.partitions}


@pytest.mark.parametrize(
    ("group", "topic", "count", "metadata", "expire_ms"),
    [
        ("g", "t", 1, "", -1),
        ("g", "t", 9000, "", -1),
        ("g" * 1000, "t" * 249, 70, "m" * 200, -1),
        ("é" * 99, "t", 70, "ü" * 4000, -1),
        ("g", "t", 70, "m" * 127, 99),
    ],
)
def test_the_size_of_a_batch_is_known_before_it_is_made(
    group: str, topic: str, count: int, metadata: str, expire_ms: int
) -> None:
    """The size is exact, as commits are accepted or refused by it."""
    size = BatchSize(group, has_expiry=expire_ms != -1)
    records = []
    for row in range(count):
        size.add(topic, metadata)
        entry = (row, -1, metadata, 1_700_000_000_000)
        records.append(OffsetRecord(group, topic, row, entry, expire_ms))
    batch = Encoder({topic: bytes(16)}).encode(records, 1_700_000_000_000)
    assert size.total == len(batch)


async def test_large_metadata_is_counted(broker: Broker) -> None:
    """As in Kafka, 250 offsets with 4,096 bytes each fit into a batch, 255 do not."""
    async with connected(broker) as client:
        for count, code in ((250, 0), (255, ErrorCode.UNKNOWN_SERVER_ERROR)):
            rows = [(i % PARTITIONS, i, -1, "m" * 4096) for i in range(count)]
            assert await codes(client, commit_offsets("t", *rows)) == {code}


async def test_a_long_commit_of_unknown_partitions(broker: Broker) -> None:
    """They have their own errors, and the known ones among them are stored."""
    partitions = [OffsetCommitRequestPartition(i, i, -1, "") for i in range(-5, 30_000)]
    topics = [
        OffsetCommitRequestTopic(name=name, partitions=partitions)
        for name in ("t", "nope", "t")
    ]
    async with connected(broker) as client:
        request = OffsetCommitRequest("g", -1, "", topics=topics)
        answer = await client.call("OffsetCommit", 8, request)
    found = {topic.name: topic.partitions for topic in answer.topics}
    # One entry per topic, as in Kafka if a partition was unknown.
    assert [topic.name for topic in answer.topics] == ["t", "nope"]
    assert len(found["t"]) == 2 * len(partitions)
    assert {row.error_code for row in found["nope"]} == {UNKNOWN}
    taken = {row.partition_index for row in found["t"] if not row.error_code}
    assert taken == set(range(PARTITIONS))


async def test_a_topic_that_goes_during_a_long_commit(broker: Broker) -> None:
    """Its offsets are not committed: a new topic of that name must not have them."""
    asked = Asked(broker)
    asked.during = lambda: delete_topic(broker, "t")
    asked.pieces("OffsetCommit", 8, commit(5000))
    broker.cluster.create_topic("t", PARTITIONS)
    async with connected(broker) as client:
        answer = await client.call("OffsetFetch", 8, fetch_offsets("g"))
    assert answer.groups[0].topics == []


async def test_a_topic_that_goes_during_a_long_commit_in_a_transaction(
    broker: Broker,
) -> None:
    """The same, when the transaction is committed."""
    rows = [TxnOffsetCommitRequestPartition(row % PARTITIONS, 7) for row in range(5000)]
    topics = [TxnOffsetCommitRequestTopic("t", rows)]
    request = TxnOffsetCommitRequest("x", "g", PRODUCER, 0, topics=topics)
    asked = Asked(broker)
    asked.during = lambda: delete_topic(broker, "t")
    async with connected(broker) as client:
        scene = Scene(broker, client)
        asked.pieces("TxnOffsetCommit", 5, request)
        broker.cluster.create_topic("t", PARTITIONS)
        scene.end()
        answer = await client.call("OffsetFetch", 8, fetch_offsets("g"))
    assert answer.groups[0].topics == []


async def test_a_group_that_is_repeated_is_looked_up_once(broker: Broker) -> None:
    """As in Kafka each is answered, all of them with the same rows."""
    async with connected(broker) as client:
        answer = await client.call("OffsetFetch", 8, fetch_offsets(*["g"] * 300))
        assert len(answer.groups) == 300
        rows = [len(group.topics[0].partitions) for group in answer.groups]
        assert rows == [PARTITIONS] * 300
        described = await client.call(
            "DescribeGroups", 5, DescribeGroupsRequest(["g", "nope"] * 300)
        )
        states = [group.group_state for group in described.groups]
        assert states == ["Empty", "Dead"] * 300
        request = describe_configs(TOPIC, *["t"] * 300)
        configs = await client.call("DescribeConfigs", 4, request)
        assert len({len(result.configs) for result in configs.results}) == 1
        assert len(configs.results) == 300


async def test_a_group_that_is_repeated_is_encoded_in_pieces(broker: Broker) -> None:
    """A few rows are looked up, and many are encoded."""
    pieces = Asked(broker).pieces("OffsetFetch", 8, fetch_offsets(*["g"] * 150))
    assert pieces > 5


async def test_very_many_members_leave(broker: Broker) -> None:
    """In parts; the existing member leaves, and each one is answered."""
    async with connected(broker) as client:
        member_id = await stable(client, "m")
        leaving = [*names(2500), member_id, *names(2)]
        answer = await client.call("LeaveGroup", 5, leave_group("m", *leaving))
        gone = [m.member_id for m in answer.members if not m.error_code]
        assert gone == [member_id]
        assert len(answer.members) == len(leaving)
        assert (await client.call("OffsetCommit", 8, offsets(1, "t", "m"))).topics
