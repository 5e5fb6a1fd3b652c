"""The broker's clock in a test: minutes pass in milliseconds."""

from __future__ import annotations

import pytest

from kohort.testing import Kohort, ScriptedMember


def joined(kohort: Kohort) -> ScriptedMember:
    """A member with Kafka's session timeout of 45 s."""
    member = kohort.member("billing")
    member.join()
    member.sync()
    return member


@pytest.mark.kohort(clock="manual")
class TestManual:
    """A clock that only the test moves."""

    def test_it_stands_still(self, kohort: Kohort) -> None:
        """And moves by as much as the test says."""
        before = kohort.clock.now()
        assert kohort.clock.now() == before
        kohort.clock.advance(hours=1, minutes=1)
        kohort.clock.advance(1)
        assert kohort.clock.now() == pytest.approx(before + 3661)

    def test_a_silent_member_expires(self, kohort: Kohort) -> None:
        """No heartbeat for 45 s: the session ends, and history says so."""
        member = joined(kohort)
        assert kohort.clock.advance(seconds=46, credit_heartbeats=False).fired
        assert member.heartbeat().error == "UNKNOWN_MEMBER_ID"
        assert kohort.group("billing").history().last.cause == "session_expired"


async def test_a_clock_that_flows_can_be_moved(kohort: Kohort) -> None:
    """`advance` is awaited in an async test."""
    before = kohort.clock.now()
    await kohort.clock.advance(days=7)
    assert kohort.clock.now() >= before + 7 * 86400
