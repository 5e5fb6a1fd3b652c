"""The records in the log, and when they are written, as in docs/reference/group-log.md.

Apache Kafka 4.3.0 wrote them to its ``__consumer_offsets`` in the same steps, as its
DumpLogSegments shows.
"""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import assign, subscribed

from kohort.broker.coordinator.effects import (
    GroupRecord,
    GroupTombstone,
    OffsetRecord,
    PendingOffset,
    Record,
    TransactionEnd,
)

CREATED = "g: 0 '' None led by None, "
NOTHING: list[str] = []


def text(record: Record) -> str:
    """A record in short."""
    if isinstance(record, GroupTombstone):
        return f"{record.group_id}: gone"
    if isinstance(record, GroupRecord):
        members = " ".join(f"{m[0]}={m[7].decode()}" for m in record.members)
        return (
            f"{record.group_id}: {record.generation_id} {record.protocol_type!r}"
            f" {record.protocol_name} led by {record.leader}, {members}"
        )
    if isinstance(record, PendingOffset):
        return f"{record.producer_id}: {text(record.offset)}"
    if isinstance(record, TransactionEnd):
        return f"{record.producer_id}: {'committed' if record.is_commit else 'aborted'}"
    assert isinstance(record, OffsetRecord)
    value = "gone" if record.entry is None else record.entry[0]
    expires = record.expire_timestamp_ms
    suffix = "" if expires < 0 else f" until {expires}"
    return f"{record.group_id} {record.topic}/{record.partition}: {value}{suffix}"


class Scene(Context):
    """A context that shows the records written since the last call."""

    seen = 0

    def written(self) -> list[str]:
        """The new records, in short."""
        records = self.records[self.seen :]
        self.seen = len(self.records)
        return [text(record) for record in records]


@pytest.fixture
def scene() -> Scene:
    """Retention of a minute, checked every second."""
    return Scene(offsets_retention_ms=60_000, offsets_retention_check_interval_ms=1_000)


# -- joins


def test_group_is_made_by_a_join(scene: Scene) -> None:
    """A join that is answered with an id creates the group; the next does not."""
    a = scene.member("A")
    assert a.join().result.error_code == 79
    assert scene.written() == [CREATED]
    a.join()
    assert scene.state() == "CompletingRebalance"
    assert scene.written() == NOTHING


def test_group_is_made_by_a_refused_join(scene: Scene) -> None:
    """A join that is refused for its protocols creates the group."""
    a = scene.member("A", requires_id=False)
    a.protocols = []
    assert a.join().result.error_code == 23
    assert scene.written() == [CREATED]


def test_group_is_not_made(scene: Scene) -> None:
    """An unknown member id or an invalid timeout creates no group."""
    a = scene.member("A")
    assert a.join(member_id="made-up").result.error_code == 25
    assert a.join(session_ms=1).result.error_code == 26
    assert scene.written() == NOTHING


def test_join_phase_writes_nothing(scene: Scene) -> None:
    """Newcomers, rejoins, and the end of a join phase with members write nothing."""
    a, _ = scene.stable_group("A", "B")
    scene.written()
    joining = scene.member("C", requires_id=False).join()
    a.join()
    scene.sleep(29_000)
    assert scene.written() == NOTHING
    assert not joining.answered
    scene.sleep(1_000)
    assert joining.result.generation_id == 3
    assert scene.written() == NOTHING


# -- syncs, and the rest of a generation


def test_leader_syncs(scene: Scene) -> None:
    """The leader's sync writes the whole group."""
    a, b = scene.stable_group("A", "B", sync=False)
    scene.written()
    following = b.sync()
    assert scene.written() == NOTHING
    a.sync(assign(a, b))
    assert following.answered
    assert scene.written() == [
        "g: 2 'consumer' range led by A-1, A-1=assigned-A B-2=assigned-B"
    ]
    written = scene.group_records()[-1]
    assert written.state_timestamp_ms == int(scene.now * 1000)
    assert written.members[0] == (
        "A-1",
        None,
        "A",
        "/127.0.0.1",
        30_000,
        30_000,
        b"meta-A",
        b"assigned-A",
    )


def test_nothing_new_in_stable(scene: Scene) -> None:
    """Syncs, heartbeats, and a follower's join with new timeouts write nothing."""
    a, b = scene.stable_group("A", "B")
    scene.written()
    assert a.sync(assign(b, a)).result.error_code == 0
    assert b.sync().result.error_code == 0
    assert b.heartbeat() == 0
    assert b.join(session_ms=9_000, rebalance_ms=9_000).result.error_code == 0
    assert scene.written() == NOTHING


def test_rebalance_starts(scene: Scene) -> None:
    """A rebalance by a LeaveGroup, metadata or the leader's join writes nothing."""
    a, b, c = scene.stable_group("A", "B", "C")
    scene.written()
    c.leave()
    b.join(protocols=subscribed("other"))
    assert scene.written() == NOTHING
    a.join()
    assert scene.written() == NOTHING
    a.sync(assign(a, b))
    assert scene.written() == [
        "g: 3 'consumer' range led by A-1, A-1=assigned-A B-2=assigned-B"
    ]


# -- generations that end Empty

EMPTY = "g: 2 'consumer' None led by None, "


def test_last_member_leaves(scene: Scene) -> None:
    """A departure writes the Empty group, in Stable and CompletingRebalance."""
    for sync in (True, False):
        (a,) = scene.stable_group("A", sync=sync)
        scene.written()
        a.leave()
        assert scene.written() == [EMPTY]
        scene.delete()


# -- static members


def test_replacement_in_stable(scene: Scene) -> None:
    """The record has the new id and metadata; the time of becoming Stable stays."""
    a, _ = scene.stable_group("A", "B", static=True)
    before = scene.group_records()[-1]
    scene.written()
    scene.sleep(100)
    back = scene.member("B2", instance="i-B", rebalance_ms=7_000, session_ms=8_000)
    back.protocols = subscribed("other")
    assert back.join().result.generation_id == 2
    assert scene.written() == [
        "g: 2 'consumer' range led by i-A-1, i-B-3=assigned-B i-A-1=assigned-A"
    ]
    after = scene.group_records()[-1]
    assert after.state_timestamp_ms == before.state_timestamp_ms
    assert after.members[0] == (
        "i-B-3",
        "i-B",
        "B",  # the client id stays, too
        "/127.0.0.1",
        7_000,
        8_000,
        subscribed("other")[0][1],
        b"assigned-B",
    )
    assert a.heartbeat() == 0


def test_leader_replaced_in_stable(scene: Scene) -> None:
    """The record has its new id as the leader."""
    scene.stable_group("A", "B", static=True)
    scene.written()
    scene.member("A2", instance="i-A").join()
    assert scene.written() == [
        "g: 2 'consumer' range led by i-A-3, i-B-2=assigned-B i-A-3=assigned-A"
    ]


def test_replacement_that_changes_the_protocol(scene: Scene) -> None:
    """A replacement that changes the protocol writes nothing until the leader syncs."""
    two = [("range", b"1"), ("roundrobin", b"2")]
    a, _ = scene.stable_group("A", "B", static=True, protocols=two)
    scene.written()
    back = scene.member("B2", instance="i-B", protocols=two[1:])
    back.join()
    a.join()
    assert scene.written() == NOTHING
    a.sync(assign(a, back))
    assert scene.written() == [
        "g: 3 'consumer' roundrobin led by i-A-1, i-B-3=assigned-B2 i-A-1=assigned-A"
    ]


def test_replacement_in_rebalances(scene: Scene) -> None:
    """A replacement in CompletingRebalance or PreparingRebalance writes nothing."""
    a, _ = scene.stable_group("A", "B", static=True, sync=False)
    scene.written()
    scene.member("B2", instance="i-B").join()
    assert scene.state() == "PreparingRebalance"
    last = scene.member("B3", instance="i-B")
    last.join()
    a.join()
    assert scene.written() == NOTHING
    a.sync(assign(a, last))
    assert scene.written() == [
        "g: 3 'consumer' range led by i-A-1, i-B-4=assigned-B3 i-A-1=assigned-A"
    ]


# -- offsets


def test_commit_of_a_member(scene: Scene) -> None:
    """A commit writes a record per offset; one with too long metadata has none."""
    (a,) = scene.stable_group("A")
    scene.written()
    long = "x" * 5_000
    result = scene.commit(
        [("t", 0, 7, -1, ""), ("t", 1, 8, -1, long), ("u", 0, 9, -1, None)],
        generation_id=a.generation_id,
        member_id=a.member_id,
    )
    assert result.codes == [0, 12, 0]
    assert scene.written() == ["g t/0: 7", "g u/0: 9"]


def test_commit_of_a_simple_consumer(scene: Scene) -> None:
    """A simple consumer's commit writes offsets only, not the group."""
    scene.commit([("t", 0, 7, -1, "")])
    assert scene.state() == "Empty"
    assert scene.written() == ["g t/0: 7"]


def test_commit_with_retention(scene: Scene) -> None:
    """An old version's retention is written as a time; the next commit drops it."""
    scene.commit([("t", 0, 1, -1, "")], retention_ms=12_345)
    scene.commit([("t", 0, 2, -1, "")])
    until = int(scene.now * 1000) + 12_345
    assert scene.written() == [f"g t/0: 1 until {until}", "g t/0: 2"]


def test_commit_in_a_transaction(scene: Scene) -> None:
    """One per offset, with the producer; its end writes none but the marker."""
    scene.commit_pending(7, ("t", 1), ("u", 2))
    assert scene.written() == ["7: g t/0: 1", "7: g u/0: 2"]
    scene.commit([("u", 0, 3, -1, "")])
    scene.end_transaction(7)
    assert scene.written() == ["g u/0: 3", "7: committed"]
    scene.commit_pending(7, ("t", 4))
    scene.end_transaction(7, is_commit=False)
    assert scene.written() == ["7: g t/0: 4", "7: aborted"]


def test_deleted_pending_offsets(scene: Scene) -> None:
    """They have tombstones outside of the transaction, one per partition."""
    scene.commit([("t", 0, 1, -1, "")])
    scene.commit_pending(7, ("t", 2), ("u", 2))
    scene.written()
    scene.delete_offsets(("u", [0]))
    assert scene.written() == ["g u/0: gone"]
    scene.delete()
    assert scene.written() == ["g t/0: gone", "g: gone"]


def test_offset_delete(scene: Scene) -> None:
    """OffsetDelete writes tombstones of existing offsets; the group stays."""
    scene.commit([("t", 0, 1, -1, ""), ("t", 1, 1, -1, "")])
    scene.written()
    scene.delete_offsets(("t", [0]))
    assert scene.written() == ["g t/0: gone"]
    scene.delete_offsets(("t", [0, 0]))
    assert scene.written() == NOTHING
    scene.delete_offsets(("t", [1]))
    assert scene.written() == ["g t/1: gone"]
    assert [row[0] for row in scene.list_groups().groups] == ["g"]


def test_offsets_expire(scene: Scene) -> None:
    """The last offset of an Empty group takes the group with it."""
    scene.commit([("t", 0, 1, -1, "")])
    scene.sleep(30_000)
    scene.commit([("u", 0, 1, -1, "")])
    scene.written()
    scene.sleep(30_000)
    assert scene.written() == ["g t/0: gone"]
    scene.sleep(30_000)
    assert scene.written() == ["g u/0: gone", "g: gone"]


def test_groups_without_anything(scene: Scene) -> None:
    """The check deletes groups without offsets, whatever they had before."""
    (a,) = scene.stable_group("A", group="left")
    a.leave()
    scene.commit([("t", 0, 1, -1, "")], group="deleted")
    scene.delete_offsets(("t", [0]), group="deleted")
    scene.member("B", group="pending").join()
    scene.written()
    scene.sleep(1_000)
    assert scene.written() == ["left: gone", "deleted: gone", "pending: gone"]


# -- deletion


def test_delete_groups_without_offsets(scene: Scene) -> None:
    """Also with pending members only, and without a record of the group."""
    scene.member("A").join()
    scene.written()
    scene.delete()
    assert scene.written() == ["g: gone"]
    scene.commit([("t", 0, 1, -1, "")])
    scene.written()
    scene.delete()
    assert scene.written() == ["g t/0: gone", "g: gone"]
