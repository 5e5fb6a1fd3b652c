"""Reconciliation (KIP-848): what a member revokes, owns and acknowledges."""

from __future__ import annotations

import pytest
from tests.client.group.consumer_scene import INTERVAL_MS, Scene, T, U, owned

from kohort.client.group.consumer.state import RECONCILING, STABLE
from kohort.client.group.effects import CallKind
from kohort.client.group.events import Closed
from kohort.protocol.errors import ErrorCode

ASSIGNED, REVOKED, LOST = CallKind.ASSIGNED, CallKind.REVOKED, CallKind.LOST
NEW = b"n" * 16
"""The id of another topic."""


def rows(*numbers: int, topic: str = "t") -> list[tuple[str, int]]:
    """Partitions of a topic."""
    return [(topic, number) for number in numbers]


def test_the_first_assignment_is_owned_and_acknowledged() -> None:
    """The acknowledgement follows at once, and says what the member owns."""
    scene = Scene()
    scene.subscribe("t")
    scene.answer(1, {T: [2, 0, 1]})
    assert scene.calls == [(ASSIGNED, rows(0, 1, 2))]
    assert scene.member.owned == set(rows(0, 1, 2))
    assert scene.last.member_epoch == 1
    assert owned(scene.last) == {T: [0, 1, 2]}
    assert scene.last.subscribed_topic_names is None
    assert scene.member.state is STABLE
    scene.answer(1)
    assert scene.wait_for_beat().topic_partitions is None


def test_an_empty_assignment_is_acknowledged_too() -> None:
    """The listener is called without partitions, as in the Java client."""
    scene = Scene()
    scene.subscribe("t")
    scene.answer(1, {})
    assert scene.calls == [(ASSIGNED, [])]
    assert owned(scene.last) == {}
    assert len(scene.sent) == 2


def test_only_what_moves_is_revoked() -> None:
    """The rest is consumed meanwhile; one acknowledgement follows both calls."""
    scene = Scene().stable()
    scene.wait_for_beat()
    scene.answer(2, {T: [1, 3]})
    assert scene.calls == [(REVOKED, rows(0, 2)), (ASSIGNED, rows(3))]
    assert scene.member.owned == set(rows(1, 3))
    assert owned(scene.last) == {T: [1, 3]}
    assert scene.last.member_epoch == 2


def test_a_revocation_alone_calls_assigned_with_nothing() -> None:
    """As after any reconciliation."""
    scene = Scene().stable()
    scene.wait_for_beat()
    scene.answer(2, {T: [0]})
    assert scene.calls == [(REVOKED, rows(1, 2)), (ASSIGNED, [])]


def test_nothing_is_acknowledged_before_the_listener_returns() -> None:
    """The revocation is awaited; heartbeats continue without the partitions."""
    scene = Scene().stable()
    scene.is_slow = True
    scene.wait_for_beat()
    scene.answer(1, {T: [0]})
    assert scene.calls == [(REVOKED, rows(1, 2))]
    assert scene.member.owned == set(rows(0, 1, 2)), "they can still be committed"
    for _ in range(3):
        assert scene.wait_for_beat().topic_partitions is None
        scene.answer(1)
    assert scene.member.state is RECONCILING
    count = len(scene.sent)
    scene.listener_returns()
    assert scene.calls[-1] == (ASSIGNED, [])
    assert scene.member.owned == set(rows(0))
    assert len(scene.sent) == count
    scene.listener_returns()
    assert owned(scene.last) == {T: [0]}
    assert len(scene.sent) == count + 1


def test_the_same_assignment_again_changes_nothing() -> None:
    """A response to a complete heartbeat repeats it."""
    scene = Scene().stable()
    scene.wait_for_beat()
    count = len(scene.sent)
    scene.answer(2, {T: [0, 1, 2]})
    assert not scene.calls
    assert len(scene.sent) == count


def test_an_assignment_that_comes_during_another_one_replaces_it() -> None:
    """After the listener's call, the member goes on with the latest."""
    scene = Scene().stable()
    scene.is_slow = True
    scene.wait_for_beat()
    scene.answer(2, {T: [0]})
    scene.wait_for_beat()
    scene.answer(3, {T: [0, 5]})
    assert scene.calls == [(REVOKED, rows(1, 2))]
    scene.listener_returns()
    assert scene.calls[-1] == (ASSIGNED, rows(5))
    scene.listener_returns()
    assert owned(scene.last) == {T: [0, 5]}
    assert scene.last.member_epoch == 3


def test_partitions_that_come_back_during_their_revocation_are_assigned_again() -> None:
    """The listener has given them up, so it gets them anew."""
    scene = Scene().stable()
    scene.is_slow = True
    scene.wait_for_beat()
    scene.answer(2, {T: [0]})
    scene.wait_for_beat()
    scene.answer(3, {T: [0, 1, 2]})
    scene.listener_returns()
    assert scene.calls == [(REVOKED, rows(1, 2)), (ASSIGNED, rows(1, 2))]
    scene.listener_returns()
    assert owned(scene.last) == {T: [0, 1, 2]}
    assert scene.member.state is STABLE


def test_an_assignment_that_comes_while_it_is_assigned_waits() -> None:
    """Calls of the listener are one after the other."""
    scene = Scene()
    scene.is_slow = True
    scene.subscribe("t")
    scene.answer(1, {T: [0]})
    scene.wait_for_beat()
    scene.answer(2, {T: [0, 1]})
    assert scene.calls == [(ASSIGNED, rows(0))]
    scene.listener_returns()
    assert scene.calls[-1] == (ASSIGNED, rows(1))
    scene.listener_returns()
    assert owned(scene.last) == {T: [0, 1]}


def test_an_acknowledgement_waits_for_the_heartbeat_under_way() -> None:
    """It follows the response immediately."""
    scene = Scene().stable()
    scene.is_slow = True
    scene.wait_for_beat()
    scene.answer(2, {T: [0, 1, 2, 3]})
    scene.wait_for_beat()
    count = len(scene.sent)
    scene.listener_returns()
    assert len(scene.sent) == count
    scene.answer(2)
    assert len(scene.sent) == count + 1
    assert owned(scene.last) == {T: [0, 1, 2, 3]}
    assert scene.member.state is STABLE


def test_a_lost_acknowledgement_is_repeated() -> None:
    """The next heartbeat is complete."""
    scene = Scene()
    scene.subscribe("t")
    scene.answer(1, {T: [0]})
    scene.lose_request()
    scene.wait(0.2)
    assert owned(scene.last) == {T: [0]}
    scene.answer(1, {T: [0]})
    assert scene.calls == [(ASSIGNED, rows(0))]


def test_a_complete_heartbeat_during_a_revocation_claims_the_partitions() -> None:
    """The listener still has them."""
    scene = Scene().stable()
    scene.is_slow = True
    scene.wait_for_beat()
    scene.answer(2, {T: [0]})
    scene.wait_for_beat()
    scene.lose_request()
    scene.wait(0.2)
    assert owned(scene.last) == {T: [0, 1, 2]}
    scene.answer(2, {T: [0]})
    scene.listener_returns()
    scene.listener_returns()
    assert owned(scene.last) == {T: [0]}


def test_several_topics_are_reported_by_id() -> None:
    """Each of them once."""
    scene = Scene()
    scene.subscribe("t", "u")
    scene.answer(1, {T: [1], U: [0, 2]})
    assert scene.calls == [(ASSIGNED, [*rows(1), *rows(0, 2, topic="u")])]
    assert owned(scene.last) == {T: [1], U: [0, 2]}


# -- the names of topics


def test_known_topics_are_not_looked_up_again() -> None:
    """Only the first assignment of a topic needs it."""
    scene = Scene().stable()
    assert [[*each.topic_ids] for each in scene.lookups] == [[T]]
    scene.wait_for_beat()
    scene.answer(2, {T: [0], U: [0]})
    assert [[*each.topic_ids] for each in scene.lookups] == [[T], [U]]


def test_an_unknown_topic_waits_for_the_metadata() -> None:
    """It is looked up until it is found, and the listener does not hear of it."""
    scene = Scene()
    del scene.topics[T]
    scene.subscribe("t")
    scene.answer(1, {T: [0, 1]})
    assert scene.calls == [(ASSIGNED, [])], "the part that is known"
    assert owned(scene.last) == {}
    scene.answer(1)
    scene.wait(3)
    assert len(scene.lookups) > 3
    scene.topics[T] = "t"
    scene.wait(1.1)
    assert scene.calls[-1] == (ASSIGNED, rows(0, 1))
    assert owned(scene.last) == {T: [0, 1]}
    scene.answer(1)
    looked_up = len(scene.lookups)
    scene.wait_for_beat()
    assert len(scene.lookups) == looked_up


def test_look_ups_back_off() -> None:
    """From retry.backoff.ms to retry.backoff.max.ms."""
    scene = Scene(retry_backoff_ms=100, retry_backoff_max_ms=1_000)
    del scene.topics[T]
    scene.subscribe("t")
    scene.answer(1, {T: [0]})
    scene.answer(1)
    counts = []
    for _ in range(4):
        scene.wait(1)
        counts.append(len(scene.lookups))
    assert counts[0] in (4, 5)
    assert counts[3] <= 8


def test_another_assignment_does_not_wait_for_a_back_off() -> None:
    """Its topics may be known."""
    scene = Scene(retry_backoff_ms=4_000, retry_backoff_max_ms=4_000)
    del scene.topics[T]
    scene.subscribe("t", "u")
    scene.answer(1, {T: [0]})
    scene.answer(2, {T: [0], U: [0]})
    assert scene.calls[-1] == (ASSIGNED, rows(0, topic="u"))


def test_what_is_known_is_taken_while_the_rest_waits() -> None:
    """Acknowledged in part, then in full."""
    scene = Scene()
    del scene.topics[U]
    scene.subscribe("t", "u")
    scene.answer(1, {T: [0], U: [0]})
    assert scene.calls == [(ASSIGNED, rows(0))]
    assert owned(scene.last) == {T: [0]}
    assert scene.member.state is RECONCILING
    scene.answer(1)
    count = len(scene.sent)
    scene.wait(INTERVAL_MS / 1000 - 0.5)
    assert len(scene.sent) == count, "it is acknowledged once"
    scene.topics[U] = "u"
    scene.wait(INTERVAL_MS / 1000)
    assert scene.calls[-1] == (ASSIGNED, rows(0, topic="u"))
    assert scene.member.state is STABLE


def test_an_unknown_topic_that_is_unassigned_is_forgotten() -> None:
    """It was deleted before the metadata had it."""
    scene = Scene()
    del scene.topics[T]
    scene.subscribe("t")
    scene.answer(1, {T: [0]})
    scene.answer(2, {})
    looked_up = len(scene.lookups)
    scene.answer(2)
    scene.wait_for_beat()
    assert len(scene.lookups) == looked_up
    assert scene.member.state is STABLE


def test_revocation_does_not_wait_for_an_unknown_topic() -> None:
    """Other members wait for the partitions."""
    scene = Scene().stable()
    del scene.topics[U]
    scene.wait_for_beat()
    scene.answer(2, {T: [0], U: [0]})
    assert scene.calls == [(REVOKED, rows(1, 2)), (ASSIGNED, [])]
    assert owned(scene.last) == {T: [0]}


def test_a_topic_that_was_made_again_has_another_id() -> None:
    """The member reports that one; its partitions have the same names."""
    scene = Scene().stable()
    scene.topics[NEW] = "t"
    scene.wait_for_beat()
    scene.answer(2, {NEW: [0, 1, 2]})
    assert scene.calls == [(ASSIGNED, [])]
    assert owned(scene.last) == {NEW: [0, 1, 2]}


def test_names_of_topics_that_are_gone_are_dropped() -> None:
    """A member may live for years."""
    scene = Scene().stable()
    scene.wait_for_beat()
    scene.answer(2, {U: [0]})
    assert scene.member.names == {U: "u"}


# -- the end in the middle


def test_close_during_a_revocation_revokes_the_rest() -> None:
    """Nothing is assigned any more."""
    scene = Scene().stable()
    scene.is_slow = True
    scene.wait_for_beat()
    scene.answer(2, {T: [0, 9]})
    scene.submit(Closed())
    scene.listener_returns()
    assert scene.calls == [(REVOKED, rows(1, 2)), (REVOKED, rows(0))]
    scene.listener_returns()
    assert scene.last.member_epoch == -1


@pytest.mark.parametrize("code", [0, ErrorCode.UNKNOWN_MEMBER_ID])
def test_close_while_a_topic_is_unknown(code: int) -> None:
    """The look-up does not keep it."""
    scene = Scene()
    del scene.topics[T]
    scene.subscribe("t")
    scene.answer(1, {T: [0]})
    scene.submit(Closed())
    scene.answer(-1, code=code)
    assert scene.has_ended


def test_a_fenced_member_forgets_its_assignment() -> None:
    """The same assignment in its next life is a new one."""
    scene = Scene().stable()
    scene.wait_for_beat()
    scene.answer(code=ErrorCode.FENCED_MEMBER_EPOCH)
    scene.answer(5, {T: [0, 1, 2]})
    assert scene.calls == [(LOST, rows(0, 1, 2)), (ASSIGNED, rows(0, 1, 2))]
    assert owned(scene.last) == {T: [0, 1, 2]}
