"""Appends that are not in the log yet: the state that requests see, then and later."""

from __future__ import annotations

from typing import Any

import pytest
from tests.coordinator.context import Context
from tests.coordinator.driver import Pending
from tests.coordinator.member import assign, subscribed

from kohort.broker.coordinator.events import TopicsDeleted
from kohort.broker.runtime.machine import CHECK_KEY
from kohort.protocol.errors import ErrorCode

REBALANCE_IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN_SERVER_ERROR = ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.fixture
def context() -> Context:
    """A coordinator whose log is held."""
    return Context()


def test_an_assignment_counts_once_it_is_written(context: Context) -> None:
    """Until it is written the group is in CompletingRebalance, and all syncs wait."""
    a, b = context.stable_group("A", "B", sync=False)
    context.is_holding = True
    of_b = b.sync()
    of_a = a.sync(assign(a, b))
    assert context.state() == "CompletingRebalance"
    assert a.start_commit("t", 1).result.error_code == REBALANCE_IN_PROGRESS
    assert not of_a.answered
    context.flush()
    assert (of_a.result.assignment, of_b.result.assignment) == (
        b"assigned-A",
        b"assigned-B",
    )
    assert context.state() == "Stable"


def test_a_newcomer_makes_an_unwritten_assignment_void(context: Context) -> None:
    """The leader's sync ends with REBALANCE_IN_PROGRESS; its record changes nothing."""
    (a,) = context.stable_group("A", sync=False)
    context.is_holding = True
    of_a = a.sync(assign(a))
    joining = context.member("B", requires_id=False).join()
    assert of_a.result.error_code == REBALANCE_IN_PROGRESS
    context.flush()
    assert context.state() == "PreparingRebalance"
    a.join()
    assert joining.result.generation_id == 2


def test_a_follower_that_syncs_in_the_window_is_answered_with_all(
    context: Context,
) -> None:
    """A follower's sync after the leader's is answered with all others."""
    a, b = context.stable_group("A", "B", sync=False)
    context.is_holding = True
    a.sync(assign(a, b))
    of_b = b.sync()
    assert not of_b.answered
    context.flush()
    assert of_b.result.assignment == b"assigned-B"


def test_a_static_follower_that_restarts_in_the_window_rebalances(
    context: Context,
) -> None:
    """In CompletingRebalance a returning follower causes a rebalance, in Stable not."""
    a, b = context.stable_group("A", "B", static=True, sync=False)
    context.is_holding = True
    of_a = a.sync(assign(a, b))
    context.member("B", instance="i-B").join()
    assert of_a.result.error_code == REBALANCE_IN_PROGRESS
    assert context.state() == "PreparingRebalance"


def test_a_refused_assignment_is_the_error_of_all(context: Context) -> None:
    """A refused assignment fails all syncs; the group is PreparingRebalance again."""
    a, b = context.stable_group("A", "B", sync=False)
    context.is_holding = True
    of_b = b.sync()
    of_a = a.sync(assign(a, b))
    context.refuse()
    assert of_a.result.error_code == of_b.result.error_code == UNKNOWN_SERVER_ERROR
    assert context.state() == "PreparingRebalance"
    assert context.event("rebalance_started")["cause"] == "assignment_not_stored"
    assert context.event("append_failed")["cause"] == "group"
    context.is_holding = False
    for member in (a, b):
        member.join()
    assert a.generation_id == b.generation_id == 3
    context.sync_all([a, b])
    assert context.state() == "Stable"


def test_answers_wait_for_all_appends_before_them(context: Context) -> None:
    """Heartbeats, commits and departures wait for appends; joins and reads not."""
    (a,) = context.stable_group("A")
    (other,) = context.stable_group("B", group="h")
    context.is_holding = True
    waiting: list[Pending[Any]] = [a.start_commit("t", 1), other.start_heartbeat()]
    assert context.member("C").join().result.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert context.state("h") == "Stable"
    waiting.append(context.start_leave((other.member_id, None), group="h"))
    assert not any(each.answered for each in waiting)
    context.flush()
    assert [each.result.error_code for each in waiting] == [0, 0, 0]


def test_refusals_wait_for_nothing(context: Context) -> None:
    """Refusals depend on no record, so they are answered at once."""
    (a,) = context.stable_group("A")
    context.is_holding = True
    a.start_commit("t", 1)
    assert a.heartbeat(generation_id=9) == ErrorCode.ILLEGAL_GENERATION
    assert a.commit("t", 1, generation_id=9) == ErrorCode.ILLEGAL_GENERATION


def test_reads_see_what_the_log_has(context: Context) -> None:
    """Reads see neither an unwritten commit nor a group that only it created."""
    context.commit([("t", 0, 1, -1, "")])
    context.is_holding = True
    context.start_commit([("t", 0, 2, -1, ""), ("t", 1, 5, -1, "")])
    context.start_commit([("t", 0, 3, -1, "")])
    context.start_commit([("t", 0, 9, -1, "")], group="new")
    assert context.committed("t") == 1
    assert context.committed("t", 1) == -1
    assert context.fetch().topics == [("t", [(0, 1, -1, "", 0)])]
    assert context.state("new") == "Dead"
    assert [row[0] for row in context.list_groups().groups] == ["g"]
    context.flush()
    assert (context.committed("t"), context.committed("t", 1)) == (3, 5)
    assert context.state("new") == "Empty"


def test_a_deleted_group_is_there_until_the_log_has_it(context: Context) -> None:
    """Reads see a deleted group until the log has the deletion; commits do not."""
    context.commit([("t", 0, 1, -1, "")])
    context.is_holding = True
    deletion = context.start_delete()
    assert (context.state(), context.committed("t")) == ("Empty", 1)
    assert len(context.list_groups().groups) == 1
    context.flush()
    assert deletion.result.error_code == 0
    assert (context.state(), context.committed("t")) == ("Dead", -1)


def test_a_refused_commit_changes_nothing(context: Context) -> None:
    """A refused commit restores the previous offsets, even unwritten ones."""
    context.commit([("t", 0, 1, -1, ""), ("t", 1, 1, -1, "")], retention_ms=5_000)
    context.is_holding = True
    context.start_commit([("t", 0, 2, -1, "")])
    refused = context.start_commit([("t", 0, 3, -1, ""), ("t", 2, 3, -1, "")])
    context.refuse()
    assert refused.result.error_code == UNKNOWN_SERVER_ERROR
    assert context.event("append_failed")["cause"] == "offsets"
    context.flush()
    assert [context.committed("t", p) for p in range(3)] == [2, 1, -1]
    assert context.kinds().count("offsets_committed") == 2


def test_a_refused_commit_makes_no_group(context: Context) -> None:
    """A refused commit of a new group creates no group."""
    context.is_holding = True
    refused = context.start_commit([("t", 0, 1, -1, "")])
    context.refuse()
    assert refused.result.error_code == UNKNOWN_SERVER_ERROR
    assert not context.coordinator.groups
    assert "group_state" not in context.kinds()


def test_a_refused_deletion_keeps_the_group(context: Context) -> None:
    """A refused deletion keeps the group and its offsets; it can be deleted later."""
    context.commit([("t", 0, 1, -1, "")])
    context.is_holding = True
    refused = context.start_delete()
    context.refuse()
    assert refused.result.error_code == UNKNOWN_SERVER_ERROR
    context.is_holding = False
    assert context.committed("t") == 1
    assert context.state() == "Empty"
    assert context.delete() == 0


def test_a_refused_first_record_unmakes_the_group(context: Context) -> None:
    """A refused first record undoes the group; waiting joins fail, later do not."""
    context.configure(initial_rebalance_delay_ms=3_000)
    context.is_holding = True
    member = context.member("A", requires_id=False)
    joining = member.join()
    context.refuse()
    assert joining.result.error_code == UNKNOWN_SERVER_ERROR
    assert not context.coordinator.groups
    assert set(context.timers) == {CHECK_KEY}
    assert not context.lasting.rebalances
    context.is_holding = False
    member.enter()
    context.sleep(3_000)
    assert member.generation_id == 1


def test_a_static_member_is_back_once_it_is_written(context: Context) -> None:
    """The join of a returning static member waits for the record of its new id."""
    a, b = context.stable_group("A", "B", static=True)
    context.is_holding = True
    again = context.member("B", instance="i-B")
    joining = again.join()
    assert not joining.answered
    context.flush()
    assert joining.result.generation_id == a.generation_id
    assert again.start_heartbeat().result.error_code == 0
    assert b.start_heartbeat().result.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert a.start_heartbeat().result.error_code == 0


def test_a_static_member_that_waited_long_has_a_session(context: Context) -> None:
    """Its session begins with the answer: the first one ended during the wait."""
    leader = context.member("A", instance="i-A", session_ms=60_000)
    context.form([leader, context.member("B", instance="i-B", session_ms=6_000)])
    context.is_holding = True
    joining = context.member("B", instance="i-B", session_ms=6_000).join()
    context.sleep(7_000)
    context.flush()
    member_id = joining.result.member_id
    assert context.timers["session", "g", member_id] == context.now + 6


def test_a_static_member_whose_record_is_refused_keeps_its_old_id(
    context: Context,
) -> None:
    """The new process gets the error; the old one stays a member."""
    _, b = context.stable_group("A", "B", static=True)
    context.is_holding = True
    again = context.member("B", instance="i-B", session_ms=45_000)
    joining = again.join()
    context.refuse()
    assert joining.result.error_code == UNKNOWN_SERVER_ERROR
    assert joining.result.member_id == ""
    assert b.heartbeat() == 0
    member = context.groups["g"].members[b.member_id]
    assert member.session_timeout_ms == 30_000


def test_a_rebalance_in_the_window_takes_a_returning_static_member_along(
    context: Context,
) -> None:
    """A newcomer starts a rebalance; the append answers with the old generation."""
    a, _ = context.stable_group("A", "B", static=True)
    context.is_holding = True
    joining = context.member("B", instance="i-B").join()
    context.member("C", requires_id=False).join()
    assert context.state() == "PreparingRebalance"
    assert not joining.answered
    context.flush()
    assert joining.result.generation_id == a.generation_id


def test_a_returning_leader_waits_for_a_rebalance_that_began_in_the_window(
    context: Context,
) -> None:
    """As in Kafka, a returning leader cannot list the members of an old generation."""
    context.stable_group("A", static=True)
    context.member("P").join()  # a pending member keeps the join phase open
    context.is_holding = True
    again = context.member("A", instance="i-A")
    joining = again.join()
    context.member("C", requires_id=False).join()
    context.flush()
    assert not joining.answered
    context.is_holding = False
    context.sleep(30_000)
    assert joining.result.generation_id == 2
    assert len(joining.result.members) == 2


def test_a_move_refuses_all_that_waits(context: Context) -> None:
    """A move refuses waiting requests; unwritten records are lost."""
    (a,) = context.stable_group("A")
    context.is_holding = True
    waiting: list[Pending[Any]] = [a.start_commit("t", 1), a.start_heartbeat()]
    context.held.clear()
    context.is_holding = False
    context.move()
    codes = [each.result.error_code for each in waiting]
    assert codes == [ErrorCode.NOT_COORDINATOR] * 2
    assert context.committed("t") == -1


def test_only_deletions_of_admins_have_to_fit_into_a_batch(context: Context) -> None:
    """Expired offsets, and those of deleted topics, may take several batches."""
    context.commit([("t", p, 1, -1, "") for p in range(3)])
    context.commit([("u", 0, 1, -1, "")])
    context.is_holding = True
    context.submit(TopicsDeleted(["t"]))
    assert [append.is_atomic for append in context.held] == [False]
    context.flush()
    context.start_delete()
    assert [append.is_atomic for append in context.held] == [True]


def test_a_leader_that_syncs_twice_in_the_window_is_answered(context: Context) -> None:
    """The second record of a leader that syncs twice changes nothing."""
    (a,) = context.stable_group("A", sync=False, protocols=subscribed("t"))
    context.is_holding = True
    a.sync(assign(a))
    again = a.sync(assign(a))
    context.flush()
    assert again.result.assignment == b"assigned-A"
    assert context.state() == "Stable"
