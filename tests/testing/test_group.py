"""Verbs on a group, and views of it, from a test in another thread."""

from __future__ import annotations

import pytest

from kohort.control.conditions import ConditionTimeout
from kohort.control.group import PowerError, UnknownMemberError
from kohort.testing import Kohort, ScriptedMember


@pytest.fixture
def ben(kohort: Kohort) -> ScriptedMember:
    """The one member of a Stable group, which has both partitions of a topic."""
    kohort.topic("orders", partitions=2)
    member = kohort.member("billing", topics=["orders"], client_id="ben")
    member.join()
    member.sync()
    return member


def test_a_member_is_kicked(kohort: Kohort, ben: ScriptedMember) -> None:
    """It is gone at once; history knows the reason."""
    kicked = kohort.group("billing").member("ben").kick("for a test")
    assert kicked.member_id == ben.member_id
    assert ben.heartbeat().error == "UNKNOWN_MEMBER_ID"
    last = kohort.group("billing").history().last
    assert (last.cause, last.reason) == ("member_kicked", "for a test")


def test_views(kohort: Kohort, ben: ScriptedMember) -> None:
    """State, generation and members, as rows and as JSON."""
    group = kohort.group("billing")
    assert (group.state, group.generation) == ("Stable", 1)
    (row,) = group.members
    assert (row.client_id, row.assignment) == ("ben", {"orders": [0, 1]})
    assert group.describe()["protocol"] == "range"


def test_a_function_chooses_a_member(kohort: Kohort, ben: ScriptedMember) -> None:
    """It may use the fixture itself, though it is called in the broker's thread."""
    group = kohort.group("billing")
    kicked = group.kick(lambda row: group.state == "Stable" and row.client_id == "ben")
    assert kicked.member_id == ben.member_id


def test_errors_come_to_the_test(kohort: Kohort, ben: ScriptedMember) -> None:
    """They list the existing names."""
    group = kohort.group("billing")
    with pytest.raises(UnknownMemberError, match=r"'eve'; its members are: ben-"):
        group.member("eve").kick()
    with pytest.raises(PowerError, match="not held"):
        group.release()


class TestConditions:
    """Waits for a group."""

    def test_blocking(self, kohort: Kohort) -> None:
        """A condition returns the group."""
        kohort.topic("orders", partitions=2, records=4)
        ben = kohort.member("billing", topics=["orders"], client_id="ben")
        ben.join()
        syncing = ben.sync(wait=False)
        group = kohort.group("billing").stable(members=1)
        assert syncing.result().error == "NONE"
        assert group.until_assigned("ben", partitions=2).assignment() == {
            "ben": {"orders": [0, 1]}
        }
        assert group.lag() == {("orders", 0): 2, ("orders", 1): 2}
        committing = ben.commit({("orders", 0): 2, ("orders", 1): 2}, wait=False)
        assert group.caught_up().committed() == {("orders", 0): 2, ("orders", 1): 2}
        assert committing.result().error == "NONE"

    async def test_async(self, kohort: Kohort) -> None:
        """The same, awaited; the group may come later."""
        waiting = kohort.group("billing").until(state="CompletingRebalance")
        ben = kohort.member("billing", client_id="ben")
        assert (await ben.join()).error == "NONE"
        group = await waiting
        await ben.sync()
        assert (await group.stable()).generation == 1

    def test_a_time_out_tells_the_story(self, kohort: Kohort, ben: object) -> None:
        """The message has the state, and the recent history in words."""
        with pytest.raises(ConditionTimeout) as error:
            kohort.group("billing").stable(members=2, timeout=0.01)
        assert "billing" in str(error.value)
        assert "Generation 1: ben was the first to join" in str(error.value)


async def test_verbs_are_not_awaited(kohort: Kohort) -> None:
    """In an async test they are plain calls, too."""
    member = kohort.member("billing", client_id="ben")
    await member.join()
    kohort.group("billing").kick("ben")
    assert (await member.heartbeat()).error == "UNKNOWN_MEMBER_ID"


async def test_a_forgotten_condition_is_named(kohort: Kohort) -> None:
    """By the name that the test calls, also if it is made of another condition."""
    group = kohort.group("billing")
    waiting = [group.stable(), group.until(state="Dead")]
    names = [words.partition(" at ")[0] for words in kohort.forgotten()]
    assert names == ["group.stable(...)", "group.until(...)"]
    await waiting[1]
