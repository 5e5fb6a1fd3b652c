"""Errors that rules put in the place of an answer."""

from __future__ import annotations

from tests.faults.scene import LOADING, ONE, QUIET, UNKNOWN, Scene
from tests.wire.requests import fetch, join_group, metadata

from kohort.protocol.errors import ErrorCode


async def test_an_error_has_no_effect(scene: Scene) -> None:
    """The request is answered at once, with its own rows; the next one is served."""
    peer = scene.peer()
    scene.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", once=True)
    refused = (await peer.call("Produce", 9, ONE)).responses[0]
    row = refused.partition_responses[0]
    assert (refused.name, row.index, row.error_code) == ("t", 0, 6)
    assert row.base_offset == -1
    assert scene.end == 0
    served = (await peer.call("Produce", 9, ONE)).responses[0].partition_responses[0]
    assert (served.error_code, scene.end) == (0, 1)


async def test_an_error_without_an_answer_ends_the_connection(scene: Scene) -> None:
    """As in Kafka: a Produce with acks 0 has no response for it."""
    peer = scene.peer()
    scene.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER")
    peer.send("Produce", 9, QUIET)
    assert peer.is_closed
    assert (peer.whole, scene.end) == ([], 0)


async def test_an_error_of_a_request_that_would_wait(scene: Scene) -> None:
    """A JoinGroup and a Fetch are answered at once, and leave nothing waiting."""
    peer = scene.peer()
    scene.faults.fail(["JoinGroup", "Fetch"], "COORDINATOR_LOAD_IN_PROGRESS")
    joined = await peer.call("JoinGroup", 9, join_group("g"))
    assert joined.error_code == LOADING
    assert not list(scene.cluster.shards.groups())
    fetched = await peer.call("Fetch", 11, fetch(0, wait_ms=60_000))
    assert fetched.responses[0].partitions[0].error_code == LOADING


async def test_a_required_member_id_is_given(scene: Scene) -> None:
    """MEMBER_ID_REQUIRED has an id that the group does not know."""
    peer = scene.peer("billing")
    scene.faults.fail("JoinGroup", "MEMBER_ID_REQUIRED", once=True)
    offered = await peer.call("JoinGroup", 9, join_group("g"))
    assert offered.member_id.startswith("billing-")
    again = await peer.call("JoinGroup", 9, join_group("g", offered.member_id))
    assert again.error_code == UNKNOWN


async def test_an_error_of_a_fetch_session(scene: Scene) -> None:
    """An incremental Fetch lists no partition: those of its session get the error."""
    peer = scene.peer()
    first = await peer.call("Fetch", 11, fetch(0, 0, session_epoch=0))
    scene.faults.fail("Fetch", "KAFKA_STORAGE_ERROR", topic="t", once=True)
    again = fetch(session_id=first.session_id, session_epoch=1)
    refused = await peer.call("Fetch", 11, again)
    rows = [(p.partition_index, p.error_code) for p in refused.responses[0].partitions]
    assert (refused.responses[0].topic, rows) == ("t", [(0, 56), (1, 56)])
    assert (refused.error_code, refused.session_id) == (0, 0)
    unknown = await peer.call("Fetch", 11, again)
    assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_an_error_of_a_topic_leaves_the_brokers_in_metadata(scene: Scene) -> None:
    """A client without brokers could not send another request."""
    scene.faults.fail("Metadata", "LEADER_NOT_AVAILABLE")
    found = await scene.peer().call("Metadata", 12, metadata("t"))
    assert [(each.name, each.error_code) for each in found.topics] == [("t", 5)]
    assert [each.node_id for each in found.brokers] == [1]
