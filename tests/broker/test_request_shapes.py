"""Each array of each request, long: the work is cut into pieces, the response limited.

The requests are made from the declarations, so a new API, or a new array, is tested
without being listed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from importlib import import_module
from typing import Any

import pytest
from tests.broker.request_shapes import Shape, footprint, shapes
from tests.broker.test_cluster import NO_DELAY
from tests.wire.client import connected
from tests.wire.requests import commit_offsets

from kohort.broker import long_work
from kohort.broker.dispatch import HANDLERS, WITH_RESPOND
from kohort.broker.handlers import k11_join_group, k14_sync_group, repeated_rows
from kohort.broker.long_work import Pace, Work
from kohort.broker.notice import Client
from kohort.broker.request import AnswerSizeError, Request, ResponseFormat
from kohort.broker.server import Broker
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdRequest
from kohort.protocol.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer
from kohort.protocol.records import Record, build_batch
from kohort.protocol.registry import APIS, BY_NAME, Api

PARTITIONS = 40
PIECE_COST = 100
"""A tenth of the usual: as many pieces are made of a tenth of the rows."""
SLICED = {
    *("Fetch", "OffsetCommit", "LeaveGroup", "OffsetDelete"),
    *("CreateAcls", "DeleteAcls"),
}
"""APIs with slices of a fixed number of rows: they get the usual pieces."""
BYTES_PER_ROW = 450
"""Memory of a response for each item of the request: a row, its ids, and a text. With
the largest number of items, that is as much as the request may take twice."""
AT_ONCE = {
    # With a limit of their own.
    "JoinGroup protocols",
    "SyncGroup assignments",
    # Refused by their number, or at the second item, before they are read.
    "CreateTopics topics.assignments",
    "CreateTopics topics.assignments.broker_ids",
    "CreateTopics topics.configs",
    "CreatePartitions topics.assignments",
    "CreatePartitions topics.assignments.broker_ids",
    "AlterPartitionReassignments topics.partitions.replicas",
    "AlterClientQuotas entries.ops",
    "DescribeClientQuotas components",
    # Only numbers: they become a set at once.
    "ListConfigResources resource_types",
    # Not read by a request that ends its session.
    "Fetch forgotten_topics_data",
    "Fetch forgotten_topics_data.partitions",
    # Refused, whatever is in it.
    "CreateDelegationToken",
    "DescribeDelegationToken",
    "ConsumerGroupHeartbeat",
    "ShareGroupHeartbeat",
    "StreamsGroupHeartbeat",
}
"""APIs and arrays that are handled in one piece."""
LIMITED = {"CreateTopics"}
"""APIs whose responses grow more, up to a limit: 10,000 partitions."""

KNOWN = {
    **dict.fromkeys(("name", "topic", "topic_name", "topics", "topic_names"), "t"),
    **dict.fromkeys(("group_id", "groups", "groups_names", "coordinator_keys"), "g"),
    "timeout_ms": 10_000,
    "session_timeout_ms": 1,
    **dict.fromkeys(("entity_type", "entity_name"), "client-id"),
    "transactional_ids": "x",
    "resource_type": 2,
    "resource_name": "t",
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "retention_time_ms": -1,
    "session_epoch": -1,
    "timestamp": -1,
    "num_partitions": 1,
    "replication_factor": 1,
    "validate_only": True,
    "protocol_type": "consumer",
    "mechanism": 1,
    "iterations": 4096,
    "salted_password": b"p",
}


class Captured(Request):
    """A request whose pieces are counted, and whose response is kept."""

    response: Any = None
    pieces = 0

    def counted(self, work: Iterable[None]) -> None:
        """Does some work."""
        for _ in work:
            self.pieces += 1

    def go_on(self, work: Work) -> None:
        """Does the rest of the work."""
        self.counted(work)

    def finish(self, answer: Any) -> None:
        """Takes a response; "" if none is sent."""
        self.response = "" if answer is None else answer
        super().finish(answer)

    def finish_in_pieces(
        self, response: Any, pace: Pace | None = None
    ) -> Iterable[None]:
        """Takes a response."""
        self.response = response
        return super().finish_in_pieces(response, pace)

    def forget(self, why: str) -> None:
        """No response is sent."""
        self.response = why


class Peer:
    """The connection of these requests."""

    software_name = software_version = "test"
    client = Client("", "", 1)
    is_heard, reads, listener = True, 0, 0

    def send(self, _: Request, parts: list[Buffer]) -> None:
        """Takes a response."""

    def throttle(self, wait_ms: int) -> None:
        """No quota applies here."""

    def fail(self, why: str) -> None:
        """A Produce without acks fails."""

    def abort(self) -> None:
        """No request fails here."""
        raise AssertionError


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """A broker with a topic, 50 producers, a group's offsets, and a transaction."""
    config = {**NO_DELAY, "group.min.session.timeout.ms": "1"}
    async with Broker(config) as broker, connected(broker) as client:
        topic = broker.cluster.create_topic("t", PARTITIONS)
        for number in range(50):
            batch = build_batch(
                [Record(0, 0, b"k")],
                producer_id=1000 + number,
                producer_epoch=0,
                base_sequence=0,
            )
            assert not topic.partitions[0].append(batch, now_ms=0).error_code
        rows = [(index, 1) for index in range(PARTITIONS)]
        await client.call("OffsetCommit", 8, commit_offsets("t", *rows, group="g"))
        made = await client.call("InitProducerId", 2, InitProducerIdRequest("x", 1000))
        added = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=made.producer_id,
            v3_and_below_producer_epoch=made.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic("t", range(PARTITIONS))],
        )
        await client.call("AddPartitionsToTxn", 3, added)
        yield broker


async def asked(broker: Broker, shape: Shape, message: Any) -> Captured:
    """Handles and answers a request."""
    api = shape.api
    module = import_module(HANDLERS[api.key])
    form = ResponseFormat(api, shape.version, getattr(module, "template", None))
    respond = module.respond if api.key in WITH_RESPOND else Request.finish
    node = broker.cluster.node(1)
    request = Captured(form, respond, 1, Peer.client, message, node, Peer())
    request.counted(module.handle(request) or ())
    for shard in broker.cluster.shards:
        if shard.driver is not None:
            shard.driver.flush()
    while request.response is None:
        # The controller's work: a piece in each turn.
        await asyncio.sleep(0)
        request.pieces += 1
    return request


def others(topic_id: bytes) -> Mapping[str, Any]:
    """Values that differ in each row; only the first ones exist."""
    texts = {
        name: lambda row, name=name: f"{name}{row}"
        for name, value in KNOWN.items()
        if isinstance(value, str) and name not in ("entity_type", "group_id")
    }
    numbers = ("partition", "partition_index", "partition_indexes", "partitions")
    return {
        **KNOWN,
        **texts,
        **dict.fromkeys(numbers, lambda row: row),
        "topic_id": lambda row: row.to_bytes(16, "big") if row else topic_id,
    }


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
async def test_work_and_response_of_many_rows(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, api: Api
) -> None:
    """Equal rows, and different ones; memory counts an object once."""
    if api.name not in SLICED:
        monkeypatch.setattr(long_work, "PIECE_COST", PIECE_COST)
    # The cheapest row costs 1: these are more than two pieces.
    rows = 2 * long_work.PIECE_COST + 10
    topic_id = broker.cluster.topics.by_name["t"].id
    for shape in shapes(api):
        array = f"{api.name} {'.'.join(shape.path)}"
        for values in ({**KNOWN, "topic_id": topic_id}, others(topic_id)):
            one = await asked(broker, shape, shape.message(1, values))
            many = await asked(broker, shape, shape.message(rows, values))
            growth = footprint(many.response) - footprint(one.response)
            assert growth <= BYTES_PER_ROW * rows or api.name in LIMITED, shape.name
            assert many.pieces >= 2 or {array, api.name} & AT_ONCE, shape.name


async def test_repeated_rows_are_limited(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A response repeats a partition's producers as in Kafka, but not without end."""
    monkeypatch.setattr(repeated_rows, "MOST_REPEATED_ROWS", 51 * 10)
    (shape,) = (
        each
        for each in shapes(BY_NAME["DescribeProducers"])
        if each.path == ("topics", "partition_indexes")
    )
    found = await asked(broker, shape, shape.message(11, KNOWN))
    (topic,) = found.response.topics
    assert [len(row.active_producers) for row in topic.partitions] == [50] * 11
    with pytest.raises(AnswerSizeError, match="510 repeated rows"):
        await asked(broker, shape, shape.message(12, KNOWN))


@pytest.mark.parametrize(
    ("api", "limit"),
    [
        ("JoinGroup", k11_join_group.MOST_PROTOCOLS),
        ("SyncGroup", k14_sync_group.MOST),
    ],
)
async def test_group_requests_above_a_limit(
    broker: Broker, api: str, limit: int
) -> None:
    """The coordinator would take all of them at once."""
    (shape,) = (
        each for each in shapes(BY_NAME[api]) if each.version == BY_NAME[api].newest
    )
    for count, is_refused in ((limit, False), (limit + 1, True)):
        found = await asked(broker, shape, shape.message(count, KNOWN))
        refusal = ErrorCode.INVALID_REQUEST
        assert (found.response.error_code == refusal) is is_refused
