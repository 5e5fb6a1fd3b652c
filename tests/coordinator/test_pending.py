"""Offsets committed in transactions: pending until a marker ends the transaction.

The log's order decides which of several commits counts, as in Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.coordinator.context import Context

from kohort.broker.coordinator.effects import OffsetRecord
from kohort.broker.coordinator.events import TopicsDeleted

A, B = 1, 2
"""Ids of two producers."""


@pytest.fixture
def context() -> Context:
    """A coordinator without groups; offsets expire after a minute."""
    return Context(
        offsets_retention_ms=60_000, offsets_retention_check_interval_ms=10_000
    )


# -- commit and abort


def test_offset_counts_from_the_end_of_its_transaction_on(context: Context) -> None:
    """Before, readers get the old offset, or an error if they want a stable one."""
    context.commit([("t", 0, 3, -1, "")])
    assert context.commit_pending(A, ("t", 5)) == 0
    assert context.committed("t") == 3
    assert context.is_unstable("t")
    context.end_transaction(A)
    assert context.committed("t") == 5
    assert not context.is_unstable("t")


def test_aborted_offset_never_counts(context: Context) -> None:
    """After the abort the old offset is stable again."""
    context.commit([("t", 0, 3, -1, "")])
    context.commit_pending(A, ("t", 5), ("u", 6))
    context.end_transaction(A, is_commit=False)
    assert (context.committed("t"), context.committed("u")) == (3, -1)
    assert not context.is_unstable("t")


def test_only_the_partitions_of_the_transaction_are_unstable(context: Context) -> None:
    """All topics: a partition that has only a pending offset is missing."""
    context.commit([("t", 0, 3, -1, ""), ("u", 0, 4, -1, "")])
    context.commit_pending(A, ("t", 5), ("v", 6))
    found = dict(context.fetch(is_stable=True).topics)
    assert found == {"t": [(0, -1, -1, "", 88)], "u": [(0, 4, -1, "", 0)]}
    assert context.is_unstable("v")


def test_transaction_over_several_groups(context: Context) -> None:
    """One marker ends it in all of them."""
    context.commit_pending(A, ("t", 5), group="g")
    context.commit_pending(A, ("t", 6), group="h")
    context.end_transaction(A)
    assert context.committed("t") == 5
    assert context.committed("t", group="h") == 6


def test_marker_without_offsets(context: Context) -> None:
    """A transaction may end in a partition to which it has added nothing."""
    context.end_transaction(A)
    assert context.kinds() == []


# -- the order of commits


class Steps:
    """Commits, ends, deletions and restarts of one group, each with its arguments."""

    def __init__(self) -> None:
        self.context = Context()
        self._offset = 0

    def pending(self, producer_id: int, topics: list[str], is_refused: bool) -> None:
        """A commit in a transaction; the log may refuse it."""
        self._offset += 1
        offsets = [(topic, self._offset) for topic in topics]
        self._append(
            lambda: self.context.start_pending(producer_id, *offsets), is_refused
        )

    def plain(self, topics: list[str], is_refused: bool) -> None:
        """A commit outside of transactions; the log may refuse it."""
        self._offset += 1
        offsets = [(topic, 0, self._offset, -1, "") for topic in topics]
        self._append(lambda: self.context.start_commit(offsets), is_refused)

    def _append(self, commit: Callable[[], object], is_refused: bool) -> None:
        self.context.is_holding = True
        commit()
        if is_refused:
            self.context.refuse()
        else:
            self.context.flush()
        self.context.is_holding = False

    def end(self, producer_id: int, is_commit: bool) -> None:
        """A marker."""
        self.context.end_transaction(producer_id, is_commit=is_commit)

    def delete(self, topic: str | None) -> None:
        """Deletes the offset of a topic; None: the group."""
        if topic is None:
            self.context.delete()
        else:
            self.context.delete_offsets((topic, [0]))

    def restart(self) -> None:
        """Another coordinator loads the log."""
        self.context.restart()


PRODUCERS = st.sampled_from([A, B])
TOPICS = st.lists(st.sampled_from(["t", "u"]), min_size=1, max_size=2)
REFUSED = st.sampled_from([False, False, True])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pending"), PRODUCERS, TOPICS, REFUSED),
        st.tuples(st.just("plain"), TOPICS, REFUSED),
        st.tuples(st.just("end"), PRODUCERS, st.booleans()),
        st.tuples(st.just("delete"), st.sampled_from(["t", "u", None])),
        st.tuples(st.just("restart")),
    ),
    max_size=12,
)


@settings(max_examples=settings().max_examples * 20)
@given(STEPS)
def test_any_order(steps: list[tuple[Any, ...]]) -> None:
    """Stored and unstable offsets follow the order of the records, as in Kafka.

    `Context` compares it after each step.
    """
    scene = Steps()
    for name, *arguments in steps:
        getattr(scene, name)(*arguments)
    for producer_id in (A, B):
        scene.end(producer_id, True)
    assert not any(group.pending for group in scene.context.coordinator.groups.values())


# -- members


def test_members_commit(context: Context) -> None:
    """In every state, and only with the generation and the ids of a member."""
    (a,) = context.stable_group("A", static=True)
    known = {"generation_id": 1, "member_id": a.member_id, "instance": "i-A"}
    assert context.commit_pending(A, ("t", 1), **known) == 0
    assert context.commit_pending(A, ("t", 1), **known | {"generation_id": 2}) == 22
    assert context.commit_pending(A, ("t", 1), **known | {"member_id": "X"}) == 82
    unknown = known | {"member_id": "X", "instance": None}
    assert context.commit_pending(A, ("t", 1), **unknown) == 25
    assert context.commit_pending(A, ("t", 1), **known | {"instance": "i-X"}) == 25
    assert context.commit_pending(A, ("t", 1), **known | {"generation_id": -1}) == 22


def test_commit_during_the_sync_phase(context: Context) -> None:
    """It is accepted, unlike an OffsetCommit."""
    (a,) = context.stable_group("A", sync=False)
    known = {"generation_id": 1, "member_id": a.member_id}
    assert a.commit("t", 1) == 27
    assert context.commit_pending(A, ("t", 1), **known) == 0


def test_old_producers_name_no_member(context: Context) -> None:
    """Their commits are accepted, also while the group has members."""
    context.stable_group("A")
    assert context.commit_pending(A, ("t", 1)) == 0


def test_commit_is_no_sign_of_life(context: Context) -> None:
    """The session of a member whose producer commits expires."""
    (a,) = context.stable_group("A", session_ms=10_000)
    known = {"generation_id": 1, "member_id": a.member_id}
    for _ in range(3):
        context.sleep(4_000)
        context.commit_pending(A, ("t", 1))
    assert context.commit_pending(A, ("t", 1), **known) == 25


def test_unknown_group(context: Context) -> None:
    """A simple consumer's commit creates it, a member's is refused."""
    for member_id in ("M", ""):
        code = context.commit_pending(A, ("t", 1), generation_id=1, member_id=member_id)
        assert code == 22
    assert context.state() == "Dead"
    assert context.commit_pending(A, ("t", 1)) == 0
    assert context.state() == "Empty"


def test_metadata_that_is_too_long(context: Context) -> None:
    """The group is created, as in Kafka, without a record."""
    assert context.commit_pending(A, ("t", 1), metadata="m" * 5000) == 12
    assert context.records == []
    assert [*context.coordinator.groups] == ["g"]
    context.commit_pending(A, ("t", 2), metadata="m")
    context.end_transaction(A)
    assert context.fetch().topics == [("t", [(0, 2, -1, "m", 0)])]


# -- deletion and expiry


def test_group_of_pending_offsets(context: Context) -> None:
    """It exists, does not expire before the abort, and expires after it."""
    context.commit_pending(A, ("t", 5))
    context.sleep(200_000)
    assert context.state() == "Empty"
    context.end_transaction(A, is_commit=False)
    assert context.state() == "Empty"
    context.sleep(20_000)
    assert context.state() == "Dead"


def test_pending_offset_keeps_the_old_one(context: Context) -> None:
    """An offset does not expire while another one is pending for its partition."""
    context.commit([("t", 0, 3, -1, ""), ("u", 0, 4, -1, "")], retention_ms=500)
    context.commit_pending(A, ("t", 5))
    context.sleep(20_000)
    assert (context.committed("t"), context.committed("u")) == (3, -1)
    context.end_transaction(A, is_commit=False)
    context.sleep(20_000)
    assert context.committed("t") == -1


def test_offset_of_a_transaction_has_the_usual_retention(context: Context) -> None:
    """That of the offset before it ends with it."""
    context.commit([("t", 0, 3, -1, "")], retention_ms=500)
    context.commit_pending(A, ("t", 5))
    context.end_transaction(A)
    context.sleep(30_000)
    assert context.committed("t") == 5


@pytest.mark.parametrize("how", ["group", "offsets", "topic"])
def test_deletion_drops_pending_offsets(context: Context, how: str) -> None:
    """The end of their transaction does not bring them back, also after a restart."""
    context.commit([("t", 0, 3, -1, "")])
    context.commit_pending(A, ("t", 5))
    if how == "group":
        assert context.delete() == 0
    elif how == "offsets":
        assert context.delete_offsets(("t", [0])).error_code == 0
    else:
        context.submit(TopicsDeleted(["t"]))
    assert not context.is_unstable("t")
    context.restart()
    context.end_transaction(A)
    assert context.committed("t") == -1


def test_a_deleted_topic_takes_its_own_pending_offsets(context: Context) -> None:
    """Those of other topics stay, also if none was committed before."""
    context.commit_pending(A, ("t", 5), ("u", 6))
    context.submit(TopicsDeleted(["t"]))
    assert (context.is_unstable("t"), context.is_unstable("u")) == (False, True)
    context.end_transaction(A)
    assert (context.committed("t"), context.committed("u")) == (-1, 6)


def test_tombstone_of_a_pending_offset(context: Context) -> None:
    """An offset that was only pending gets one, too."""
    context.commit_pending(A, ("t", 5), ("u", 6))
    context.delete_offsets(("t", [0, 1]))
    assert context.records[-1] == OffsetRecord("g", "t", 0, None)
    context.end_transaction(A)
    assert (context.committed("t"), context.committed("u")) == (-1, 6)


# -- the log


def test_group_of_an_aborted_commit_after_a_restart(context: Context) -> None:
    """It exists as long as the log has the records."""
    context.commit_pending(A, ("t", 5))
    context.end_transaction(A, is_commit=False)
    context.restart()
    assert context.state() == "Empty"


def test_refused_append(context: Context) -> None:
    """Pending offsets are as they were, and the group that it created is gone."""
    context.commit_pending(A, ("t", 5))
    context.is_holding = True
    again = context.start_pending(A, ("t", 6), ("u", 6))
    context.refuse()
    assert again.result.error_code == -1
    new = context.start_pending(A, ("t", 6), group="new")
    context.refuse()
    assert new.result.error_code == -1
    context.end_transaction(A)
    assert (context.committed("t"), context.committed("u")) == (5, -1)
    assert context.state("new") == "Dead"


def test_reads_see_what_the_log_has(context: Context) -> None:
    """An offset is unstable as soon as its pending commit is in the log."""
    context.commit([("t", 0, 3, -1, "")])
    context.is_holding = True
    context.start_pending(A, ("t", 5))
    assert not context.is_unstable("t")
    context.flush()
    assert context.is_unstable("t")
    context.start_delete()
    assert context.is_unstable("t")
    context.flush()
    assert not context.is_unstable("t")


# -- events


def test_events_of_a_transaction(context: Context) -> None:
    """Its offsets are committed when it is; the producer and the member are named."""
    (a,) = context.stable_group("A")
    known = {"generation_id": 1, "member_id": a.member_id}
    context.commit_pending(A, ("t", 5), **known)
    context.commit_pending(B, ("t", 7), **known)
    assert "offsets_committed" not in context.kinds()
    context.end_transaction(B, is_commit=False)
    assert "offsets_committed" not in context.kinds()
    context.end_transaction(A)
    event = context.event("offsets_committed")
    assert (event["producer_id"], event["member_id"]) == (A, a.member_id)
    assert event["offsets"] == [
        {"topic": "t", "partition": 0, "offset": 5, "end_offset": 100}
    ]


def test_events_of_a_group_that_a_transaction_creates(context: Context) -> None:
    """It is Empty; after a restart the member and the log ends are unknown."""
    context.commit_pending(A, ("t", 5))
    assert context.event("group_state")["state"] == "Empty"
    context.restart()
    context.end_transaction(A)
    event = context.event("offsets_committed")
    assert (event["producer_id"], event["member_id"]) == (A, None)
    assert event["offsets"][0]["end_offset"] is None


def test_event_of_a_refused_commit(context: Context) -> None:
    """It names the error and the producer."""
    context.commit_pending(A, ("t", 5), generation_id=3)
    event = context.event("commit_refused")
    assert (event["error"], event["producer_id"]) == ("ILLEGAL_GENERATION", A)
