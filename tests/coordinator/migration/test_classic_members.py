"""Classic members of a consumer group join, sync, beat and leave (KIP-848)."""

from __future__ import annotations

import pytest
from tests.coordinator.consumer.member import Consumer
from tests.coordinator.member import Member, subscribed
from tests.coordinator.migration.context import Mixed, partitions

from kohort.protocol.errors import ErrorCode

AGAIN = ErrorCode.REBALANCE_IN_PROGRESS


def mixed_group(scene: Mixed) -> tuple[Member, Consumer]:
    """A classic member that has to join again, and a consumer that waits for it."""
    (a,) = scene.classic_group({"A": [0, 1]})
    c = scene.consumer("C", "t")
    c.join()
    return a, c


def test_a_member_learns_of_the_rebalance_joins_and_syncs() -> None:
    """No leader assigns; the consumer gets the partition once the member joined."""
    scene = Mixed()
    a, c = mixed_group(scene)
    assert a.heartbeat() == AGAIN
    assert a.sync().result.error_code == AGAIN
    joined = a.join().result
    assert (joined.error_code, joined.generation_id) == (0, 2)
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert (joined.leader, joined.members) == ("", ())
    assert a.heartbeat() == 0
    c.beat()
    assert c.assigned == {"t": [1]}
    for _ in range(2):
        synced = a.sync(protocol_type="consumer", protocol_name="range").result
        assert (synced.protocol_type, synced.protocol_name) == ("consumer", "range")
        assert partitions(synced.assignment) == [0]
    assert scene.describe_consumers().state == "Stable"


def test_a_cooperative_member_gives_up_its_partitions_first() -> None:
    """Its join names the partitions it owns; it joins again after it revoked some."""
    scene = Mixed()
    a, c = mixed_group(scene)
    a.protocols = subscribed("t", owned=[0, 1])
    joined = a.join().result
    assert (joined.error_code, joined.generation_id) == (0, 1)
    assert a.heartbeat() == AGAIN
    assert partitions(a.sync().result.assignment) == [0]
    assert c.beat().assignment is None
    a.protocols = subscribed("t", owned=[0])
    assert a.join().result.generation_id == 2
    assert partitions(a.sync().result.assignment) == [0]
    c.beat()
    assert c.assigned == {"t": [1]}


def test_a_member_joins_again_when_partitions_are_free() -> None:
    """As long as others hold them, its heartbeats are fine."""
    scene = Mixed()
    (c,) = scene.settled("C")
    a = scene.classic("A")
    a.enter()
    assert partitions(a.sync().result.assignment) == []
    assert a.heartbeat() == 0
    c.beat()
    assert a.heartbeat() == 0
    c.settle()
    assert a.heartbeat() == AGAIN
    a.join()
    assert partitions(a.sync().result.assignment) == [1]
    assert a.heartbeat() == 0


def test_requests_are_checked() -> None:
    """The generation is the member's epoch; consumers are unknown here."""
    scene = Mixed()
    a, c = mixed_group(scene)
    a.join()
    assert a.heartbeat(generation_id=99) == ErrorCode.ILLEGAL_GENERATION
    assert a.heartbeat(member_id="made-up") == ErrorCode.UNKNOWN_MEMBER_ID
    assert a.heartbeat(instance="i") == ErrorCode.UNKNOWN_MEMBER_ID
    mine = {"member_id": c.member_id, "generation_id": c.epoch}
    assert a.heartbeat(**mine) == ErrorCode.UNKNOWN_MEMBER_ID
    for fields, code in (
        ({"generation_id": 99}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "made-up"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_name": "other"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"required": True}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (mine, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        assert a.sync(**fields).result.error_code == code


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (
            {"protocols": subscribed("t", protocol="other")},
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ),
        ({"session_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"instance": "i", "member_id": "made-up"}, ErrorCode.UNKNOWN_MEMBER_ID),
        *(
            (
                {"protocols": [("range", malformed)], "member_id": "made-up"},
                ErrorCode.UNKNOWN_SERVER_ERROR,
            )
            for malformed in (b"", b"\x00\x03", b"\xff\xff", b"opaque bytes")
        ),
    ],
)
def test_joins_that_are_refused(fields: dict[str, object], code: int) -> None:
    """Classic members need a protocol in common; the group stays as it is."""
    scene = Mixed(min_session_timeout_ms=6_000)
    mixed_group(scene)
    before = scene.describe_consumers()
    b = scene.classic("B")
    assert b.join(**fields).result.error_code == code
    assert scene.describe_consumers() == before


def test_a_full_group_refuses_joins() -> None:
    """`group.consumer.max.size` holds for members of both protocols."""
    scene = Mixed(consumer_max_size=2)
    a, _ = mixed_group(scene)
    full = ErrorCode.GROUP_MAX_SIZE_REACHED
    assert scene.classic("B").join().result.error_code == full
    assert a.join().result.error_code == 0


def test_a_member_gets_an_id_first() -> None:
    """It is no pending member; any made-up id is as good."""
    scene = Mixed()
    scene.settled("C")
    a = scene.classic("A")
    given = a.join().result
    assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert given.member_id
    assert len(scene.group.members) == 1
    assert scene.classic("B").join(member_id="made-up").result.error_code == 0
    assert "made-up" in scene.group.members


def test_a_static_member_gets_a_new_id() -> None:
    """It keeps its partitions under it; the old id is fenced."""
    scene = Mixed()
    a, b = scene.classic_group({"A": [0], "B": [1]}, static=True)
    scene.consumer("C", "t", instance="i-B").join()
    old = a.member_id
    joined = a.join(member_id="").result
    assert joined.error_code == 0
    assert joined.member_id != old
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert a.heartbeat(member_id=old) == b.heartbeat() == fenced
    assert a.join(member_id=old).result.error_code == fenced
    assert partitions(a.sync().result.assignment) == [0]


def test_a_silent_member_expires_by_its_own_timeout() -> None:
    """The consumer gets its partitions."""
    scene = Mixed()
    (a,) = scene.classic_group({"A": [0, 1]}, session_ms=10_000)
    c = scene.consumer("C", "t")
    c.join()
    scene.sleep(9_999)
    assert a.member_id in scene.group.members
    scene.sleep(1)
    assert a.member_id not in scene.group.members
    scene.settle(c)
    assert c.assigned == {"t": [0, 1]}
    assert a.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_join_again_is_removed() -> None:
    """Its heartbeats do not help: it has its rebalance timeout, once it knows."""
    scene = Mixed()
    (a,) = scene.classic_group({"A": [0, 1]}, rebalance_ms=20_000)
    c = scene.consumer("C", "t")
    c.join()
    scene.sleep(5_000)
    for _ in range(4):
        assert a.heartbeat() == AGAIN
        scene.sleep(4_999)
    c.beat()
    assert a.heartbeat() == AGAIN
    scene.sleep(4)
    assert a.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.event("member_kicked")["cause"] == "did_not_join_in_time"


def test_a_member_that_does_not_sync_is_removed() -> None:
    """A sync in time ends that."""
    scene = Mixed()
    (a,) = scene.classic_group({"A": [0, 1]}, rebalance_ms=20_000)
    scene.consumer("C", "t").join()
    a.join()
    scene.sleep(10_000)
    a.sync()
    a.heartbeat()
    scene.sleep(10_000)
    assert a.heartbeat() == 0
    a.join()
    scene.sleep(19_999)
    assert a.heartbeat() == 0
    scene.sleep(1)
    assert a.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.event("member_kicked")["cause"] == "did_not_sync_in_time"


def test_a_join_without_a_rebalance_timeout_has_no_time_to_sync() -> None:
    """As in Kafka, the time to sync is the request's, not the one known before."""
    scene = Mixed()
    (a,) = scene.classic_group({"A": [0, 1]})
    scene.consumer("C", "t").join()
    a.rebalance_ms = -1
    a.join()
    assert a.generation_id == 2
    scene.sleep(1)
    assert a.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_leave_group_removes_members_of_any_protocol() -> None:
    """One new epoch for all of them; unknown ones are reported."""
    scene = Mixed()
    a, c = mixed_group(scene)
    d = scene.consumer("D", "t", instance="i-D")
    d.join()
    epoch = scene.group.generation_id
    result = scene.leave(
        (a.member_id, None),
        ("made-up", None),
        (c.member_id, "i-D"),
        ("", "i-D"),
        ("", "i-X"),
    )
    unknown, fenced = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
    codes = [code for _, _, code in result.members]
    assert codes == [0, unknown, fenced, 0, unknown]
    assert scene.group.members.keys() == {c.member_id}
    assert scene.group.generation_id == epoch + 1


def test_commits_by_generation() -> None:
    """Also with older generations, for partitions that the member still has."""
    scene = Mixed()
    a, _ = mixed_group(scene)
    assert a.commit("t", 1) == 0
    a.join()
    assert a.commit("t", 2) == 0
    assert a.commit("t", 3, generation_id=a.generation_id - 1) == 0
    newer = a.generation_id + 1
    illegal = ErrorCode.ILLEGAL_GENERATION
    assert a.commit("t", 4, generation_id=newer) == illegal


def test_the_log_refuses_a_join() -> None:
    """The group is as before, and the member may join again."""
    scene = Mixed()
    scene.settled("C")
    a = scene.classic("A")
    a.join()
    scene.is_holding = True
    pending = a.join()
    scene.is_holding = False
    scene.refuse()
    assert pending.result.error_code
    assert a.member_id not in scene.group.members
    scene.sleep(10_000)
    assert a.join().result.error_code == 0
