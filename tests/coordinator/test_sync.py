"""SyncGroup: the leader sends the assignments, the others fetch theirs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import assign


def test_follower_first(context: Context) -> None:
    """A follower waits for the leader's sync."""
    a, b = context.stable_group("A", "B", sync=False)
    syncing = b.sync()
    assert not syncing.answered
    result = a.sync(assign(a, b)).result
    assert (result.protocol_type, result.protocol_name) == ("consumer", "range")
    assert result.assignment == b"assigned-A"
    assert syncing.result.assignment == b"assigned-B"


def test_leader_first(context: Context) -> None:
    """Followers that sync after the leader are answered at once, repeatedly."""
    a, b = context.stable_group("A", "B", sync=False)
    a.sync(assign(a, b))
    assert context.state() == "Stable"
    for _ in range(2):
        assert b.sync().result.assignment == b"assigned-B"


def test_who_may_assign(context: Context) -> None:
    """Assignments by followers, or for unknown members, are ignored."""
    a, b = context.stable_group("A", "B", sync=False)
    b.sync(assign(a, b))
    result = a.sync([(b.member_id, b"from A"), ("stranger", b"x")]).result
    assert (result.error_code, result.assignment) == (0, b"")
    assert b.sync().result.assignment == b"from A"


def test_assignments_stay(context: Context) -> None:
    """In Stable the leader cannot assign again."""
    a, b = context.stable_group("A", "B")
    assert a.sync([(b.member_id, b"other")]).result.assignment == b"assigned-A"
    assert b.sync().result.assignment == b"assigned-B"


def test_who_does_not_sync_is_out(context: Context) -> None:
    """Members that do not sync within the rebalance timeout are removed."""
    a, b = context.stable_group("A", "B", sync=False, rebalance_ms=2_000)
    syncing = b.sync()
    context.sleep(2_000)
    assert syncing.result.error_code == 27
    assert (a.heartbeat(), b.heartbeat()) == (25, 27)
    result = b.join().result
    assert (result.generation_id, result.leader) == (3, b.member_id)


def test_which_error_wins(context: Context) -> None:
    """Order: missing protocol, group id, member, generation, protocol, state."""
    a, b = context.stable_group("A", "B")
    assert a.sync(group="", required=True).result.error_code == 23
    assert a.sync(group="").result.error_code == 24
    assert a.sync(group="nobody's").result.error_code == 25
    assert a.sync(member_id="made-up", generation_id=7).result.error_code == 25
    assert a.sync(generation_id=7, protocol_type="x").result.error_code == 22
    a.join()
    assert b.sync(protocol_type="x").result.error_code == 23
    assert b.sync(protocol_name="x").result.error_code == 23
    assert b.sync(generation_id=1).result.error_code == 22
    assert b.sync().result.error_code == 27


@pytest.mark.parametrize("given", ["protocol_type", "protocol_name"])
def test_protocol_required(context: Context, given: str) -> None:
    """From v5 on syncs must have both protocol type and name (KIP-559)."""
    (a,) = context.stable_group("A")
    both: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": "range"}
    one = {given: both[given]}
    assert a.sync(required=True, **one).result.error_code == 23
    assert a.sync(required=True, **both).result.error_code == 0


def test_forgotten_by_the_next_leader(context: Context) -> None:
    """A member loses its assignment if the next generation gives it none."""
    a, b = context.stable_group("A", "B")
    joining = a.join()
    b.join()
    assert joining.result.generation_id == 3
    a.sync(assign(a))
    assert b.sync().result.assignment == b""
