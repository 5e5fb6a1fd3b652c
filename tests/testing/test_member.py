"""The scripted member: requests one by one, parked joins, wrong fields."""

from __future__ import annotations

import pytest

from kohort.client.errors import KohortError
from kohort.testing import Kohort, ScriptedMember
from kohort.testing.member import NotAnsweredError


def joined(kohort: Kohort, client_id: str = "ben") -> ScriptedMember:
    """A member that leads a Stable group of one."""
    member = kohort.member("billing", topics=["orders"], client_id=client_id)
    assert member.join().error == "NONE"
    assert member.sync().error == "NONE"
    return member


class TestBlocking:
    """A blocking test: each call has its answer when it returns."""

    def test_a_life(self, kohort: Kohort) -> None:
        """It joins, syncs, is heard from, commits and leaves."""
        kohort.topic("orders", partitions=2)
        ben = joined(kohort)
        assert ben.member_id.startswith("ben-")
        assert ben.is_leader
        assert ben.assignment == {"orders": [0, 1]}
        assert ben.heartbeat().error == "NONE"
        assert ben.commit({("orders", 0): 5, ("orders", 1): 7}).error == "NONE"
        assert ben.leave(reason="done").error == "NONE"
        assert ben.heartbeat().error == "UNKNOWN_MEMBER_ID"

    def test_a_join_that_parks(self, kohort: Kohort) -> None:
        """A second member waits for the first, which a heartbeat tells."""
        kohort.topic("orders", partitions=2)
        ben = joined(kohort)
        eve = kohort.member("billing", topics=["orders"], client_id="eve")
        joining = eve.join(wait=False)
        kohort.group("billing").until(state="PreparingRebalance")
        assert ben.heartbeat().error == "REBALANCE_IN_PROGRESS"
        assert not joining.is_done
        with pytest.raises(NotAnsweredError, match="JoinGroup is not answered yet"):
            _ = joining.error
        ben.join()
        assert joining.result().error == "NONE"
        syncing = eve.sync(wait=False)
        ben.sync({ben.member_id: {"orders": [1]}, eve.member_id: {"orders": [0]}})
        assert syncing.result().error == "NONE"
        assert (ben.assignment, eve.assignment) == ({"orders": [1]}, {"orders": [0]})
        assert ben.generation == eve.generation == 2

    def test_fields_of_the_test(self, kohort: Kohort) -> None:
        """Any field of a request can be another one."""
        kohort.topic("orders")
        ben = joined(kohort)
        assert ben.heartbeat(generation_id=7).error == "ILLEGAL_GENERATION"
        stale = ben.commit({("orders", 0): 5}, generation_id=7)
        assert stale.error == "ILLEGAL_GENERATION"
        assert ben.sync(member_id="nobody").error == "UNKNOWN_MEMBER_ID"
        eve = kohort.member("billing", topics=["orders"])
        assert eve.join(member_id="").error == "MEMBER_ID_REQUIRED"
        assert eve.join(protocol_type="connect").error == "INCONSISTENT_GROUP_PROTOCOL"

    def test_old_versions(self, kohort: Kohort) -> None:
        """Before KIP-394 the first join is the only one; before KIP-345 one leaves."""
        ben = kohort.member("billing", version=2)
        assert ben.join(rebalance_timeout_ms=1000).error == "NONE"
        assert ben.sync(version=1).error == "NONE"
        assert ben.heartbeat(version=0).error == "NONE"
        assert ben.leave(version=1).error == "NONE"

    def test_no_answer(self, kohort: Kohort) -> None:
        """A wait has an end, and says whose it was."""
        joined(kohort)
        eve = kohort.member("billing", client_id="eve")
        with pytest.raises(
            NotAnsweredError, match=r"'eve'.*JoinGroup was not answered"
        ):
            eve.join(timeout=0.05)

    def test_a_connection_that_ends(self, kohort: Kohort) -> None:
        """A parked join fails; the next request opens another connection."""
        ben = joined(kohort)
        eve = kohort.member("billing", client_id="eve")
        joining = eve.join(wait=False)
        kohort.group("billing").until(state="PreparingRebalance")
        eve.disconnect()
        with pytest.raises(KohortError, match="closed"):
            joining.result()
        assert ben.heartbeat().error == "REBALANCE_IN_PROGRESS"
        assert eve.heartbeat().error == "ILLEGAL_GENERATION"  # it knows of none

    @pytest.mark.kohort(nodes=3, config={"group.max.size": 1})
    def test_a_full_group(self, kohort: Kohort) -> None:
        """The error's name is the same, whatever number it had on the wire."""
        joined(kohort)
        eve = kohort.member("billing", client_id="eve")
        assert eve.join().error == "GROUP_MAX_SIZE_REACHED"

    def test_a_static_member(self, kohort: Kohort) -> None:
        """It comes back under its instance id, and the older one is fenced."""
        ben = kohort.member("billing", instance_id="i-1", topics=["orders"])
        ben.join()
        ben.sync()
        again = kohort.member("billing", instance_id="i-1", topics=["orders"])
        assert again.join().error == "NONE"
        assert ben.heartbeat().error == "FENCED_INSTANCE_ID"


class TestAsync:
    """An async test: each call is awaited."""

    async def test_a_life(self, kohort: Kohort) -> None:
        """The same calls, awaited."""
        kohort.topic("orders", partitions=2)
        ben = kohort.member("billing", topics=["orders"])
        assert (await ben.join()).error == "NONE"
        assert (await ben.sync()).error == "NONE"
        assert ben.assignment == {"orders": [0, 1]}
        eve = kohort.member("billing", topics=["orders"])
        joining = eve.join(wait=False)
        await kohort.group("billing").until(state="PreparingRebalance")
        assert (await ben.leave()).error == "NONE"
        assert (await joining).error == "NONE"
        assert eve.is_leader
