"""A move of the coordinator: waiting requests are answered, records stay."""

from __future__ import annotations

from tests.coordinator.context import Context

from kohort.protocol.errors import ErrorCode


def test_a_join_that_waits_is_told(context: Context) -> None:
    """A waiting join is answered NOT_COORDINATOR."""
    a, b = context.stable_group("A", "B")
    joining = b.join(protocols=[("range", b"other")])
    context.move()
    assert joining.result.error_code == ErrorCode.NOT_COORDINATOR
    assert joining.result.member_id == b.member_id
    assert a.heartbeat() == ErrorCode.NONE


def test_a_sync_that_waits_is_told(context: Context) -> None:
    """A waiting sync is answered NOT_COORDINATOR; the generation was never written."""
    leader, follower = context.stable_group("A", "B", sync=False)
    waiting = follower.sync()
    context.move()
    assert waiting.result.error_code == ErrorCode.NOT_COORDINATOR
    assert leader.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_stable_group_does_not_notice(context: Context) -> None:
    """Members, assignments and offsets stay, and the generation continues."""
    a, b = context.stable_group("A", "B")
    assert a.commit("t", 7) == ErrorCode.NONE
    context.move()
    assert (a.heartbeat(), b.heartbeat()) == (0, 0)
    assert b.sync().result.assignment == b"assigned-B"
    assert context.fetch().topics == [("t", [(0, 7, -1, "", 0)])]
