"""group.initial.rebalance.delay.ms (KIP-134); 3 s here."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import Member


@pytest.fixture
def context() -> Context:
    """Kafka's default delay; sessions may be short."""
    return Context(initial_rebalance_delay_ms=3_000, min_session_timeout_ms=100)


def _stable_member(context: Context) -> Member:
    a = context.member("A", requires_id=False)
    a.join()
    context.sleep(3_000)
    context.sync_all([a])
    return a


def test_an_empty_group_delays_again(context: Context) -> None:
    """A group that became Empty is delayed again; its generation continues."""
    members = [_stable_member(context)]
    members += [context.member(name, requires_id=False) for name in "BC"]
    for member in reversed(members):
        member.join()
    context.leave(*((member.member_id, None) for member in members))
    joining = context.member("D", requires_id=False).join()
    context.sleep(2_999)
    assert not joining.answered
    context.sleep(1)
    assert joining.result.generation_id == 4


def test_heartbeats_within_the_window(context: Context) -> None:
    """As in Kafka, they belong to generation 0 and start a session, which ends."""
    a = context.member("A", session_ms=500)
    a.join()
    joining = a.join()
    assert a.heartbeat(generation_id=1) == 22
    assert a.heartbeat(generation_id=0) == 27
    context.sleep(500)
    assert joining.result.error_code == 25


def test_arrivals_that_no_window_was_left_for(context: Context) -> None:
    """As in Kafka, they count for the first window of the group's next life."""
    a = context.member("A", requires_id=False, rebalance_ms=1_000)
    b = context.member("B", requires_id=False, rebalance_ms=1_000)
    a.join()
    b.join()
    context.sleep(3_000)
    context.leave((a.member_id, None), (b.member_id, None))
    assert context.state() == "Empty"
    joining = context.member("C", requires_id=False).join()
    context.sleep(5_999)
    assert not joining.answered
    context.sleep(1)
    assert joining.answered
