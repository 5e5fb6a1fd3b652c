"""Each effect: the bytes that a client receives, and the state afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.broker.test_records_over_the_wire import batch
from tests.faults.scene import BEAT, Scene
from tests.wire import frames
from tests.wire.client import connected, connections
from tests.wire.requests import (
    commit_offsets,
    fetch,
    join_group,
    metadata,
    produce,
    sync_group,
)

from kohort.broker.connection import HALF_CLOSED_SECONDS, Connection
from kohort.broker.server import Broker
from kohort.protocol.errors import ErrorCode

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
ONE = produce((0, batch(b"one")))
QUIET = produce((0, batch(b"one")), acks=0)


@pytest.fixture
async def scene() -> Scene:
    """One node, without an initial delay."""
    return Scene()


# -- error responses


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


# -- connections that end


async def test_disconnect_before(scene: Scene) -> None:
    """The request has no effect, and later ones are not handled."""
    peer = scene.peer()
    scene.faults.disconnect("Produce")
    beat, one = peer.frame("Heartbeat", 4, BEAT), peer.frame("Produce", 9, ONE)
    peer.connection.data_received(beat + one + beat)
    assert peer.is_closed
    assert (peer.errors, scene.end) == ([UNKNOWN], 0)


async def test_disconnect_after(scene: Scene) -> None:
    """The record is in the log, and no response is sent."""
    peer = scene.peer()
    scene.faults.disconnect("Produce", "after")
    one = peer.frame("Produce", 9, ONE)
    peer.connection.data_received(one + peer.frame("Heartbeat", 4, BEAT))
    assert peer.is_closed
    assert (peer.whole, scene.end) == ([], 1)


async def test_disconnect_after_a_join_that_waited(scene: Scene) -> None:
    """The member is in the generation without knowing it."""
    peer = scene.peer()
    offered = await peer.call("JoinGroup", 9, join_group("g"))
    scene.faults.disconnect("JoinGroup", "after")
    peer.send("JoinGroup", 9, join_group("g", offered.member_id))
    await scene.settled()
    assert peer.is_closed
    (group,) = scene.cluster.shards.groups()
    assert ([*group.members], group.generation_id) == ([offered.member_id], 1)


async def test_a_disconnect_over_a_socket() -> None:
    """One client sees the end of the stream; another one is served."""
    async with Broker() as broker, connected(broker) as a, connected(broker) as b:
        broker.faults.disconnect("Heartbeat", connection=1)
        await a.send("Heartbeat", 4, BEAT)
        await a.is_closed()
        assert (await b.call("Heartbeat", 4, BEAT)).error_code == UNKNOWN


# -- requests that are lost, duplicated, or answered as before


@pytest.mark.parametrize("effect", [{"disconnect": "after"}, {"truncate": True}])
async def test_a_connection_ends_without_an_answer(
    scene: Scene, effect: dict[str, Any]
) -> None:
    """A Produce with acks 0 has no response; its records are appended."""
    peer = scene.peer()
    scene.faults.add({"api": "Produce", **effect})
    peer.send("Produce", 9, QUIET)
    assert (peer.is_closed, peer.whole, scene.end) == (True, [], 1)


async def test_swallow_silences_the_connection(scene: Scene) -> None:
    """Requests behind a swallowed one wait; none of them has an effect."""
    peer, other = scene.peer(), scene.peer()
    scene.faults.swallow("Produce", once=True)
    beat, one = peer.frame("Heartbeat", 4, BEAT), peer.frame("Produce", 9, ONE)
    peer.connection.data_received(beat + one + beat + one)
    peer.beat()
    await scene.settled()
    assert (peer.errors, peer.is_closed, scene.end) == ([UNKNOWN], False, 0)
    other.send("Produce", 9, ONE)
    assert (len(other.whole), scene.end) == (1, 1)


async def test_a_silent_connection_stays_silent(scene: Scene) -> None:
    """Without the rule it stays silent, until the client closes it."""
    peer = scene.peer()
    rule = scene.faults.swallow("Heartbeat")
    peer.beat(2)
    scene.faults.remove(rule.id)
    peer.beat()
    await scene.after(60)
    assert (peer.whole, peer.is_closed) == ([], False)
    assert not peer.connection.is_heard
    peer.connection.connection_lost(None)
    assert not scene.faults.links


async def test_a_silent_connection_reads_no_more_than_others(scene: Scene) -> None:
    """Its further requests wait at the client, beyond the usual read-ahead."""
    peer = scene.peer()
    scene.faults.swallow("Heartbeat", once=True)
    peer.beat()
    assert peer.connection.is_reading
    while peer.connection.is_reading:
        peer.beat(1000)
    assert peer.whole == []


async def test_a_silent_connection_that_is_half_closed_ends(scene: Scene) -> None:
    """Its client has probably gone: it is closed after the usual wait."""
    peer = scene.peer()
    scene.faults.swallow("Heartbeat")
    peer.beat()
    assert peer.connection.eof_received()
    await scene.after(HALF_CLOSED_SECONDS - 1)
    assert not peer.is_closed
    await scene.after(1)
    assert (peer.is_closed, peer.whole) == (True, [])


async def test_a_silent_connection_can_be_idle() -> None:
    """``connections.max.idle.ms`` closes the silent connection."""
    config = {"connections.max.idle.ms": 200}
    async with Broker(config) as broker, connected(broker) as client:
        broker.faults.swallow("Heartbeat")
        await client.send("Heartbeat", 4, BEAT)
        await client.is_closed()


async def test_a_swallowed_produce_without_acks(scene: Scene) -> None:
    """Swallowing it holds back no later request: it has no response to wait for."""
    peer = scene.peer()
    scene.faults.swallow("Produce", once=True)
    quiet = peer.frame("Produce", 9, QUIET)
    peer.connection.data_received(quiet + peer.frame("Heartbeat", 4, BEAT) + quiet)
    assert (peer.errors, peer.is_closed, scene.end) == ([UNKNOWN], False, 1)


async def test_a_duplicate_takes_effect_twice(scene: Scene) -> None:
    """The client gets one response, to the second request."""
    peer = scene.peer()
    scene.faults.duplicate("Produce")
    served = await peer.call("Produce", 9, ONE)
    assert served.responses[0].partition_responses[0].base_offset == 1
    assert (len(peer.whole), scene.end) == (1, 2)


async def test_a_duplicated_join_leaves_a_ghost(scene: Scene) -> None:
    """Without KIP-394 a new member joins twice: its client knows one of the two."""
    peer = scene.peer()
    scene.faults.duplicate("JoinGroup")
    peer.send("JoinGroup", 3, join_group("g"))
    await scene.settled()
    (group,) = scene.cluster.shards.groups()
    assert len(group.members) + len(group.pending_members) == 2
    peer.connection.connection_lost(None)


async def test_a_duplicated_fetch_that_waits_is_forgotten(scene: Scene) -> None:
    """When its client disconnects, neither of the two waits any more."""
    peer = scene.peer()
    scene.faults.duplicate("Fetch")
    peer.send("Fetch", 11, fetch(0, wait_ms=60_000))
    assert len(scene.topic.partitions[0].watchers) == 2
    peer.connection.connection_lost(None)
    assert not scene.topic.partitions[0].watchers
    await scene.after(61)
    assert (peer.whole, scene.faults.links) == ([], {})


async def test_a_stale_answer(scene: Scene) -> None:
    """The first request passes; the next ones get its response, and have no effect."""
    peer = scene.peer()
    scene.faults.stale("Produce")
    first = await peer.call("Produce", 9, ONE)
    assert await peer.call("Produce", 9, ONE) == first
    assert scene.end == 1
    assert peer.numbers == [1, 2]
    other = await scene.peer("other").call("Produce", 9, ONE)
    assert other.responses[0].partition_responses[0].base_offset == 1


async def test_a_stale_answer_at_the_third_call(scene: Scene) -> None:
    """The stale response is the one to the second request."""
    peer = scene.peer()
    scene.faults.stale("Produce", nth=3)
    offsets = [
        (await peer.call("Produce", 9, ONE)).responses[0].partition_responses[0]
        for _ in range(4)
    ]
    assert [row.base_offset for row in offsets] == [0, 1, 1, 2]


async def test_kept_answers_are_forgotten(scene: Scene) -> None:
    """An expired rule repeats none, and keeps none."""
    peer = scene.peer()
    scene.faults.stale("Metadata", for_seconds=1)
    await peer.call("Metadata", 12, metadata("t"))
    assert scene.faults.kept_bytes > 0
    await scene.after(1)
    assert scene.faults.kept_bytes == 0


# -- damaged responses


async def test_a_corrupted_answer(scene: Scene) -> None:
    """Its size and correlation id are right, its body is not; the next one is whole."""
    peer = scene.peer()
    right = (await peer.call("Metadata", 12, metadata("t")), peer.whole[0])[1]
    rule = scene.faults.corrupt("Metadata", once=True)
    for _ in range(2):
        peer.send("Metadata", 12, metadata("t"))
    bad, good = peer.whole[1:]
    assert (len(bad), peer.numbers) == (len(right), [1, 2, 3])
    changed = sum(a != b for a, b in zip(bad[4:], right[4:], strict=True))
    assert 1 <= changed <= 3
    assert (good[4:], rule.strikes) == (right[4:], 1)


async def test_a_truncated_answer(scene: Scene) -> None:
    """Half of it is sent, then the connection closes."""
    peer = scene.peer()
    whole = (await peer.call("Metadata", 12, metadata("t")), peer.wire.written)[1]
    scene.faults.truncate("Metadata")
    one = peer.frame("Metadata", 12, metadata("t"))
    peer.connection.data_received(one + peer.frame("Heartbeat", 4, BEAT))
    rest = peer.wire.written[len(whole) :]
    assert len(rest) == len(whole) // 2
    assert (rest[:4], rest[8:]) == (whole[:4], whole[8 : len(rest)])
    assert peer.is_closed


async def test_a_trickled_answer(scene: Scene) -> None:
    """Byte by byte; the next request waits for the last one."""
    peer = scene.peer()
    scene.faults.trickle("Heartbeat", seconds=0.5)
    peer.beat(2)
    size = len(with_size_of_beat())
    for sent in range(1, size):
        assert len(peer.wire.written) == sent
        await scene.after(0.5)
    assert peer.errors == [UNKNOWN]
    for _ in range(size):
        await scene.after(0.5)
    assert peer.errors == [UNKNOWN, UNKNOWN]


def with_size_of_beat() -> bytes:
    """A response to a heartbeat: its size, number, no tags, time, error, no tags."""
    return bytes(4 + 4 + 1 + 4 + 2 + 1)


# -- time


async def test_a_delayed_answer_holds_up_those_behind_it(scene: Scene) -> None:
    """The request takes effect at once; later ones wait for its response."""
    peer, other = scene.peer(), scene.peer()
    scene.faults.delay("Produce", seconds=2)
    beat, one = peer.frame("Heartbeat", 4, BEAT), peer.frame("Produce", 9, ONE)
    peer.connection.data_received(beat + one + beat)
    other.beat()
    assert (scene.end, peer.numbers, other.errors) == (1, [1], [UNKNOWN])
    await scene.after(1.9)
    assert peer.numbers == [1]
    await scene.after(0.1)
    assert peer.numbers == [1, 2, 1]


async def test_an_error_and_a_delay_strike_together(scene: Scene) -> None:
    """Rules with two kinds of effect apply to one request."""
    peer = scene.peer()
    scene.faults.delay("Heartbeat", seconds=1)
    scene.faults.fail("Heartbeat", "COORDINATOR_LOAD_IN_PROGRESS")
    scene.faults.fail("Heartbeat", "NOT_COORDINATOR")
    peer.beat()
    assert peer.whole == []
    await scene.after(1)
    assert peer.errors == [LOADING]
    assert [rule.strikes for rule in scene.faults.rules] == [1, 1, 0]


async def test_a_throttle_time(scene: Scene) -> None:
    """The response has it, and the client is not read meanwhile (KIP-219)."""
    peer = scene.peer()
    scene.faults.throttle("Heartbeat", seconds=3, once=True)
    peer.beat(2)
    assert [answer.throttle_time_ms for answer in peer.answers] == [3000]
    assert not peer.wire.is_reading_now
    await scene.after(3)
    assert [answer.throttle_time_ms for answer in peer.answers] == [3000, 0]
    assert peer.wire.is_reading_now


async def test_a_throttled_answer_of_many_rows(scene: Scene) -> None:
    """A response that is encoded in pieces has it, too."""
    peer = scene.peer()
    scene.faults.throttle("OffsetCommit", seconds=3)
    rows = [(index, 1, -1, "") for index in range(3000)]
    peer.send("OffsetCommit", 8, commit_offsets("t", *rows))
    await scene.settled()
    (answer,) = peer.answers
    assert (answer.throttle_time_ms, len(answer.topics[0].partitions)) == (3000, 3000)


async def test_a_throttled_answer_that_is_encoded_already(scene: Scene) -> None:
    """Responses from templates and encoded rows have it, and are recorded, too."""
    peer = scene.peer()
    joined = await peer.join()
    scene.faults.requests.record()
    scene.faults.throttle(["SyncGroup", "Metadata"], seconds=3)
    sync = sync_group(joined.member_id, assignments={joined.member_id: b"t"})
    synced = await peer.call("SyncGroup", 5, sync)
    assert (synced.throttle_time_ms, synced.assignment) == (3000, b"t")
    await scene.after(3)
    found = await peer.call("Metadata", 9, metadata("t", "no", creates=False))
    assert (found.throttle_time_ms, len(found.topics[0].partitions)) == (3000, 2)
    errors = [row.error for row in scene.faults.requests.find()]
    assert errors == ["NONE", "UNKNOWN_TOPIC_OR_PARTITION"]


# -- black holes


async def test_a_black_hole_for_a_client(scene: Scene) -> None:
    """Open and new connections are silent; those of other clients are not."""
    before = scene.peer("victim")
    await before.call("Heartbeat", 4, BEAT)
    rule = scene.faults.black_hole(client_id="victim")
    after, other = scene.peer("victim"), scene.peer("other")
    for peer in (before, after, other):
        peer.beat()
    await scene.settled()
    assert (before.errors, after.errors) == ([UNKNOWN], [])
    assert other.errors == [UNKNOWN]
    assert (before.is_closed, after.is_closed) == (False, False)
    scene.faults.remove(rule.id)
    await scene.settled()
    assert (before.errors, after.errors) == ([UNKNOWN] * 2, [UNKNOWN])
    assert scene.strikes == [("black_hole", None)] * 2


async def test_a_black_hole_for_a_node() -> None:
    """The other node answers; after a time the first one does, too."""
    scene = Scene(nodes=2)
    first, second = scene.peer(node=1), scene.peer(node=2)
    scene.faults.black_hole(node=1, for_seconds=30)
    first.beat()
    second.beat()
    await scene.settled()
    assert (first.whole, len(second.whole)) == ([], 1)
    await scene.after(29)
    assert first.whole == []
    await scene.after(1)
    assert len(first.whole) == 1
    assert {type(each) for each in scene.connections} == {Connection}


async def test_heartbeats_in_a_black_hole_do_not_count(scene: Scene) -> None:
    """The member's session expires, although it sends heartbeats."""
    peer = scene.peer("victim")
    joined = await peer.join()
    scene.faults.black_hole(client_id="victim")
    (group,) = scene.cluster.shards.groups()
    assert [*group.members] == [joined.member_id]
    for _ in range(4):
        await scene.after(5)
        peer.beat()
    assert not group.members


@pytest.mark.parametrize("effect", ["black_hole", "swallow"])
async def test_a_member_that_is_not_heard_is_not_credited(effect: str) -> None:
    """When the clock is moved ahead, its session expires; another member's does not."""
    config = {"group.initial.rebalance.delay.ms": 0}
    async with Broker(config) as broker, connections(broker, 2) as clients:
        for client, group in zip(clients, "ab", strict=True):
            offered = await client.call("JoinGroup", 9, join_group(group))
            again = join_group(group, offered.member_id)
            joined = await client.call("JoinGroup", 9, again)
            sync = sync_group(joined.member_id, 1, group)
            await client.call("SyncGroup", 3, sync)
        broker.faults.add({"connection": 1, effect: True})
        await clients[0].send("Heartbeat", 4, BEAT)
        await struck(broker, 1)
        await broker.clock.advance(11)
        found = broker.cluster.shards.groups()
        assert {g.group_id: len(g.members) for g in found} == {"a": 0, "b": 1}


async def test_an_answer_that_comes_during_a_black_hole_waits(scene: Scene) -> None:
    """A waiting Fetch is answered after the black hole."""
    peer, producer = scene.peer("victim"), scene.peer("producer")
    peer.send("Fetch", 11, fetch(0, wait_ms=60_000))
    rule = scene.faults.black_hole(client_id="victim")
    await producer.call("Produce", 9, ONE)
    await scene.settled()
    assert peer.whole == []
    scene.faults.remove(rule.id)
    assert len(peer.whole) == 1


# -- jitter


async def test_jitter_delays_and_keeps_the_order(scene: Scene) -> None:
    """Each request waits before it is handled, and each response before it is sent."""
    scene.faults.jitter(7, 1000)
    peers = [scene.peer(str(n)) for n in range(20)]
    for peer in peers:
        peer.beat(3)
    assert not any(peer.whole for peer in peers)
    ends: dict[str, int] = {}
    for step in range(2000):
        await scene.after(0.005)
        for peer in peers:
            if len(peer.whole) == 3:
                ends.setdefault(peer.client_id, step)
    assert all(peer.numbers == [1, 2, 3] for peer in peers)
    assert max(ends.values()) > 5 * min(ends.values())
    assert scene.strikes == [("jitter", None)] * 20


async def test_a_broker_with_jitter_serves() -> None:
    """Over sockets, on the loop's own time."""
    async with Broker() as broker:
        broker.faults.jitter(1, 2)
        async with connected(broker) as client:
            for _ in range(5):
                assert (await client.call("Heartbeat", 4, BEAT)).error_code == UNKNOWN


async def test_a_broker_that_is_started_again_keeps_its_rules() -> None:
    """A rule with a time limit strikes again after a restart."""
    broker = Broker()
    rule = broker.faults.fail("Heartbeat", "NOT_COORDINATOR", for_seconds=3600)
    for _ in range(2):
        async with broker, connected(broker) as client:
            answer = await client.call("Heartbeat", 4, BEAT)
            assert answer.error_code == ErrorCode.NOT_COORDINATOR
    assert rule.strikes == 2


# -- requests that wait in the broker


@pytest.mark.parametrize(
    ("keys", "answers", "is_closed", "has_joined"),
    [
        ({"error": "NOT_COORDINATOR"}, 1, False, False),
        ({"swallow": True}, 0, False, False),
        ({"disconnect": "before"}, 0, True, False),
        ({"disconnect": "after"}, 0, True, True),
        ({"delay_ms": 500}, 1, False, True),
        ({"throttle_ms": 500}, 1, False, True),
        ({"duplicate": True}, 1, False, True),
        ({"stale": True}, 1, False, True),
        ({"corrupt": True}, 1, False, True),
        ({"truncate": True}, 0, True, True),
        ({"trickle_ms": 1}, 1, False, True),
        ({"jitter_ms": 500}, 1, False, True),
        ({"black_hole": True, "for_seconds": 5}, 1, False, True),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
async def test_a_join_that_waits(
    scene: Scene, keys: dict[str, Any], answers: int, is_closed: bool, has_joined: bool
) -> None:
    """Each effect works on a join that waits for another member to rejoin."""
    first, second = scene.peer(), scene.peer()
    joined = await first.join()
    offered = await second.call("JoinGroup", 9, join_group("g"))
    scene.faults.add({"connection": 2, **keys})
    second.send("JoinGroup", 9, join_group("g", offered.member_id))
    await scene.after(6)
    first.send("JoinGroup", 9, join_group("g", joined.member_id))
    await scene.after(1)
    await scene.after(1)
    assert (len(second.whole) - 1, second.is_closed) == (answers, is_closed)
    (group,) = scene.cluster.shards.groups()
    assert (offered.member_id in group.members) == has_joined


# -- rules that are removed while something waits


@pytest.mark.parametrize("effect", ["delay", "trickle"])
async def test_a_rule_that_goes_lets_its_answers_go(scene: Scene, effect: str) -> None:
    """The responses are sent at once, whole, and the requests behind them handled."""
    peer = scene.peer()
    rule = getattr(scene.faults, effect)("Heartbeat", seconds=60)
    peer.beat(2)
    assert peer.whole == []
    scene.faults.remove(rule.id)
    await scene.settled()
    assert peer.errors == [UNKNOWN] * 2
    assert {type(each) for each in scene.connections} == {Connection}
    assert not scene.faults.links


async def test_a_rule_that_goes_leaves_the_delays_of_others(scene: Scene) -> None:
    """The response waits for the remaining rules, counted from the request."""
    peer = scene.peer()
    scene.faults.delay("Heartbeat", seconds=10)
    jitter = scene.faults.jitter(1, 5000)
    await scene.after(0)
    peer.beat()
    await scene.after(5)
    scene.faults.remove(jitter.id)
    await scene.after(4.9)
    assert peer.whole == []
    await scene.after(5.1)
    assert peer.errors == [UNKNOWN]


async def test_jitter_that_goes_lets_requests_go(scene: Scene) -> None:
    """A request that was waiting is handled immediately."""
    peer = scene.peer()
    scene.faults.jitter(1, 60_000)
    peer.beat()
    scene.faults.clear()
    await scene.settled()
    assert peer.errors == [UNKNOWN]


@pytest.mark.parametrize("rule", [{"delay_ms": 100}, {"jitter_ms": 100}])
async def test_a_client_that_goes_while_it_waits(
    scene: Scene, rule: dict[str, int]
) -> None:
    """Nothing of a lost connection remains, and nothing happens when its delay ends."""
    peer = scene.peer()
    scene.faults.add(rule)
    peer.beat(2)
    peer.connection.connection_lost(None)
    await scene.after(1)
    assert (peer.whole, scene.faults.links) == ([], {})


async def test_a_stop_sends_the_answers_that_wait() -> None:
    """A stopping broker answers the requests that it has handled."""
    async with Broker() as broker, connected(broker) as client:
        broker.faults.delay("Heartbeat", seconds=3600)
        await client.send("Heartbeat", 4, BEAT)
        await struck(broker, 1)
        stopping = asyncio.create_task(broker.stop())
        assert (await client.response("Heartbeat", 4)).error_code == UNKNOWN
        await client.is_closed()
        await stopping


@pytest.mark.parametrize("effect", ["black_hole", "swallow"])
async def test_a_stop_without_an_answer(effect: str) -> None:
    """The connection is closed without a byte."""
    async with Broker() as broker, connected(broker) as client:
        broker.faults.add({effect: True})
        await client.send("Heartbeat", 4, BEAT)
        await struck(broker, 1)
        await broker.stop()
        await client.is_closed()


async def struck(broker: Broker, times: int) -> None:
    """Waits until the rule has struck this many times."""
    (rule,) = broker.faults.rules
    with broker.events.subscribe(past=True) as reader:
        while rule.strikes < times:
            await reader.wait()
            reader.take()


# -- the cost


async def test_connections_are_plain_ones_without_rules(scene: Scene) -> None:
    """A removed rule leaves nothing behind."""
    peer = scene.peer()
    rule = scene.faults.swallow("Fetch")
    peer.beat()
    assert type(peer.connection) is not Connection
    scene.faults.remove(rule.id)
    assert type(peer.connection) is Connection
    peer.beat()
    assert peer.errors == [UNKNOWN] * 2


async def test_a_long_request_meets_its_rule(scene: Scene) -> None:
    """It is decoded in pieces, and its response is made in pieces."""
    peer = scene.peer()
    scene.faults.fail("OffsetCommit", "NOT_COORDINATOR", partition=9_999)
    rows = [(index, 1, -1, "") for index in range(10_000)]
    peer.send("OffsetCommit", 8, commit_offsets("t", *rows))
    assert peer.whole == []
    await scene.settled()
    (answer,) = peer.answers
    codes = [row.error_code for row in answer.topics[0].partitions]
    assert codes == [ErrorCode.NOT_COORDINATOR] * 10_000


def test_frames_are_those_of_the_wire() -> None:
    """The size is the one that the trickle test counts with."""
    answer = frames.request("Heartbeat", 4, BEAT)
    assert len(answer) > len(with_size_of_beat())
