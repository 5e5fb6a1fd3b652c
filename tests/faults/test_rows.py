"""Errors of one partition, or one topic: the other rows of the request succeed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.test_records_over_the_wire import batch
from tests.faults.scene import Peer, Scene
from tests.wire.requests import (
    commit_offsets,
    delete_records,
    epoch_ends,
    fetch,
    list_offsets,
    metadata,
    produce,
)

from kohort.protocol.apis.k03_metadata import MetadataRequest
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

BOTH = produce((0, batch(b"one")), (1, batch(b"two")))
"""One record for each partition."""
COMMIT = commit_offsets("t", (0, 1, -1, ""), (1, 1, -1, ""))
STALE, MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR


def codes(topic: Any) -> dict[int, int]:
    """The error of each partition in a topic's row."""
    rows = getattr(topic, "partition_responses", None) or topic.partitions
    index = next(
        name
        for name in ("partition_index", "index", "partition")
        if hasattr(rows[0], name)
    )
    return {getattr(row, index): row.error_code for row in rows}


async def stored(peer: Peer, group: str = "g") -> dict[int, int]:
    """The committed offsets of a group."""
    wanted = OffsetFetchRequestTopics("t", partition_indexes=[0, 1])
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=[wanted])])
    found = (await peer.call("OffsetFetch", 8, asked)).groups[0].topics[0]
    return {row.partition_index: row.committed_offset for row in found.partitions}


async def test_a_partition_is_not_appended_to(scene: Scene) -> None:
    """The other one is; and the next request is served as a whole."""
    peer = scene.peer()
    scene.faults.fail("Produce", STALE.name, topic="t", partition=1, once=True)
    refused = (await peer.call("Produce", 9, BOTH)).responses
    assert [codes(topic) for topic in refused] == [{0: 0, 1: STALE}]
    assert [each.log_end_offset for each in scene.topic.partitions] == [1, 0]
    served = (await peer.call("Produce", 9, BOTH)).responses
    assert [codes(topic) for topic in served] == [{0: 0, 1: 0}]


async def test_without_acks_the_connection_is_closed(scene: Scene) -> None:
    """As by Kafka, which appends to the other partitions."""
    peer = scene.peer()
    scene.faults.fail("Produce", STALE.name, partition=1)
    peer.send("Produce", 9, produce((0, batch(b"")), (1, batch(b"")), acks=0))
    await scene.settled()
    assert peer.is_closed
    assert [each.log_end_offset for each in scene.topic.partitions] == [1, 0]


async def test_an_offset_is_not_committed(scene: Scene) -> None:
    """The other one is, in the same request."""
    peer = scene.peer()
    rule = scene.faults.fail("OffsetCommit", MOVED.name, topic="t", partition=1)
    answer = await peer.call("OffsetCommit", 8, COMMIT)
    assert [codes(topic) for topic in answer.topics] == [{0: 0, 1: MOVED}]
    assert rule.strikes == 1
    assert await stored(peer) == {0: 1, 1: -1}


async def test_an_offset_is_not_committed_in_a_transaction(scene: Scene) -> None:
    """TxnOffsetCommit, too; the coordinator has answered the other partition."""
    rows = [TxnOffsetCommitRequestPartition(index, 1) for index in range(2)]
    commit = TxnOffsetCommitRequest(
        "x", "g", 1, 0, topics=[TxnOffsetCommitRequestTopic("t", rows)]
    )
    scene.faults.fail("TxnOffsetCommit", "GROUP_AUTHORIZATION_FAILED", partition=0)
    answer = await scene.peer().call("TxnOffsetCommit", 3, commit)
    found = codes(answer.topics[0])
    assert found[0] == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert found[1] == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("version", [7, 8])
async def test_a_committed_offset_is_not_read(scene: Scene, version: int) -> None:
    """Also where the response has an error for the whole group: that stays 0."""
    peer = scene.peer()
    await peer.call("OffsetCommit", 8, COMMIT)
    scene.faults.fail("OffsetFetch", "UNSTABLE_OFFSET_COMMIT", partition=0)
    if version < 8:
        topic = OffsetFetchRequestTopic("t", [0, 1])
        whole = await peer.call("OffsetFetch", 7, OffsetFetchRequest("g", [topic]))
    else:
        wanted = OffsetFetchRequestTopics("t", partition_indexes=[0, 1])
        asked = OffsetFetchRequestGroup("g", topics=[wanted])
        answer = await peer.call("OffsetFetch", 8, OffsetFetchRequest(groups=[asked]))
        whole = answer.groups[0]
    assert whole.error_code == 0
    assert codes(whole.topics[0]) == {0: ErrorCode.UNSTABLE_OFFSET_COMMIT, 1: 0}


async def test_only_the_rows_of_one_group(scene: Scene) -> None:
    """A request for several groups: `group` selects among them."""
    peer = scene.peer()
    wanted = [OffsetFetchRequestTopics("t", partition_indexes=[0])]
    asked = [OffsetFetchRequestGroup(each, topics=wanted) for each in ("g", "h")]
    scene.faults.fail("OffsetFetch", MOVED.name, group="h", partition=0)
    answer = await peer.call("OffsetFetch", 8, OffsetFetchRequest(groups=asked))
    found = {group.group_id: codes(group.topics[0])[0] for group in answer.groups}
    assert found == {"g": 0, "h": MOVED}


async def test_all_rows_are_struck(scene: Scene) -> None:
    """A request for that partition alone has the error in its row, too."""
    peer = scene.peer()
    scene.faults.fail("Produce", STALE.name, partition=1)
    one = produce((1, batch(b"one")))
    refused = (await peer.call("Produce", 9, one)).responses
    assert [codes(topic) for topic in refused] == [{1: STALE}]


@pytest.mark.parametrize(
    ("api", "version", "message"),
    [
        ("ListOffsets", 7, list_offsets("t", 0, 1)),
        ("OffsetForLeaderEpoch", 4, epoch_ends("t", 0, 1)),
        ("DeleteRecords", 2, delete_records(("t", 0, -1), ("t", 1, -1))),
    ],
)
async def test_other_requests(
    scene: Scene, api: str, version: int, message: object
) -> None:
    """Their rows have the error, or not, each by itself."""
    scene.faults.fail(api, STALE.name, topic="t", partition=1)
    answer = await scene.peer().call(api, version, message)
    found: dict[int, int] = {}
    for topic in answer.topics:
        found |= codes(topic)
    assert found == {0: 0, 1: STALE}


async def test_a_partition_of_a_fetch_session(scene: Scene) -> None:
    """The other one is read; the session ends, as its client has to list all again."""
    peer = scene.peer()
    await peer.call("Produce", 9, BOTH)
    first = await peer.call("Fetch", 11, fetch(0, 0, session_epoch=0))
    await peer.call("Produce", 9, BOTH)
    rule = scene.faults.fail("Fetch", STALE.name, topic="t", partition=1)
    # It lists the partition that has moved on: the other one is as in the session.
    again = fetch(1, session_id=first.session_id, session_epoch=1, wait_ms=60_000)
    refused = await peer.call("Fetch", 11, again)
    (topic,) = refused.responses
    assert (refused.session_id, codes(topic)) == (0, {0: 0, 1: STALE})
    read = {row.partition_index: bool(row.records) for row in topic.partitions}
    assert read == {0: True, 1: False}
    scene.faults.remove(rule.id)
    unknown = await peer.call("Fetch", 11, again)
    assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_fetch_by_topic_id_does_not_wait(scene: Scene) -> None:
    """As in Kafka, an error is no reason to wait for records of other partitions."""
    scene.faults.fail("Fetch", STALE.name, topic="t", partition=0)
    asked = fetch(0, 0, topic="", topic_id=scene.topic.id, wait_ms=60_000)
    answer = await scene.peer().call("Fetch", 13, asked)
    assert [codes(topic) for topic in answer.responses] == [{0: STALE, 1: 0}]


@pytest.mark.parametrize("asked", [metadata("t"), MetadataRequest(None)])
async def test_a_partition_without_a_leader(
    scene: Scene, asked: MetadataRequest
) -> None:
    """Metadata names topics: the partition's row has the error and no leader."""
    scene.cluster.create_topic("u", 1)
    scene.faults.fail("Metadata", "LEADER_NOT_AVAILABLE", topic="t", partition=1)
    answer = await scene.peer().call("Metadata", 12, asked)
    (topic,) = (each for each in answer.topics if each.name == "t")
    assert topic.error_code == 0
    assert codes(topic) == {0: 0, 1: 5}
    assert {row.partition_index: row.leader_id for row in topic.partitions} == {
        0: 1,
        1: -1,
    }
    assert all(codes(each) == {0: 0} for each in answer.topics if each.name != "t")


async def test_a_topic_of_metadata(scene: Scene) -> None:
    """The other topic is described; an unknown one is not created."""
    scene.faults.fail("Metadata", "TOPIC_AUTHORIZATION_FAILED", topic="new")
    answer = await scene.peer().call("Metadata", 12, metadata("t", "new"))
    assert {each.name: each.error_code for each in answer.topics} == {"t": 0, "new": 29}
    assert len(answer.brokers) == 1
    assert "new" not in scene.cluster.topics.by_name


async def test_a_recorded_request_has_both(scene: Scene) -> None:
    """The row of the request lists the error."""
    scene.faults.requests.record()
    scene.faults.fail("OffsetCommit", MOVED.name, partition=1, name="one row")
    await scene.peer().call("OffsetCommit", 8, COMMIT)
    (row,) = scene.faults.requests.find("OffsetCommit")
    assert (row.error, row.fault) == ("NOT_COORDINATOR", "one row")
