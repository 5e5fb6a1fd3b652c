"""A member of the consumer protocol (KIP-848): heartbeats, fencing, leaving."""

from __future__ import annotations

import pytest
from tests.client.group.consumer_scene import Scene, T, names, owned

from kohort.client.errors import UnsupportedVersionError
from kohort.client.group.consumer.state import (
    ENDED,
    FENCED,
    JOINING,
    LEAVING,
    STABLE,
    STALE,
    TRANSITIONS,
    UNSUBSCRIBED,
    MemberState,
)
from kohort.client.group.effects import CallKind
from kohort.client.group.events import (
    Answered,
    Closed,
    CommitRefused,
    MetadataChanged,
    PollBegan,
    PollEnded,
    RebalanceEnforced,
    Subscribed,
    Unsubscribed,
)
from kohort.protocol.errors import KIP_389_GROUP_MAX_SIZE_REACHED, ErrorCode

ASSIGNED, REVOKED, LOST = CallKind.ASSIGNED, CallKind.REVOKED, CallKind.LOST
MINE = [("t", 0), ("t", 1), ("t", 2)]
AWAY = [
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
]
GONE = [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID]


# -- joining


def test_the_first_heartbeat_says_everything() -> None:
    """Epoch 0, and all that the coordinator has to know."""
    scene = Scene(client_rack="r", group_remote_assignor="range")
    scene.subscribe("t", "u")
    (first,) = scene.sent
    assert (first.group_id, first.member_id, first.member_epoch) == ("g", "m", 0)
    assert (first.instance_id, first.rack_id) == (None, "r")
    assert first.rebalance_timeout_ms == 30_000
    assert names(first) == ["t", "u"]
    assert (first.subscribed_topic_regex, first.server_assignor) == (None, "range")
    assert owned(first) == {}
    assert scene.member.state is JOINING


def test_a_member_without_rack_and_assignor_leaves_them_out() -> None:
    """Then the coordinator uses its own default assignor."""
    scene = Scene()
    scene.subscribe("t")
    assert (scene.last.rack_id, scene.last.server_assignor) == (None, None)


def test_later_heartbeats_say_only_what_has_changed() -> None:
    """Nothing: null, or -1."""
    scene = Scene("i", client_rack="r", group_remote_assignor="range").stable()
    later = scene.wait_for_beat()
    assert (later.group_id, later.member_id, later.member_epoch) == ("g", "m", 1)
    assert later.instance_id == "i"
    assert later.rebalance_timeout_ms == -1
    assert later.rack_id is later.server_assignor is None
    assert later.subscribed_topic_names is later.subscribed_topic_regex is None
    assert later.topic_partitions is None


def test_the_coordinator_sets_the_interval() -> None:
    """It counts from the request, not from the response."""
    scene = Scene().stable()
    count = len(scene.sent)
    scene.wait(4.9)
    assert len(scene.sent) == count
    scene.wait(0.2)
    assert len(scene.sent) == count + 1
    scene.wait(4)
    scene.answer()
    scene.wait(0.9)
    assert len(scene.sent) == count + 1
    scene.wait(0.2)
    assert len(scene.sent) == count + 2


def test_heartbeats_have_the_latest_epoch() -> None:
    """Each response may raise it; commits have it, too."""
    scene = Scene().stable()
    scene.wait_for_beat()
    scene.answer(7)
    assert scene.member.generation_id == 7
    assert scene.wait_for_beat().member_epoch == 7


def test_an_older_coordinator_chooses_the_member_id() -> None:
    """Version 0 of the API: the id in the response counts."""
    scene = Scene()
    scene.subscribe("t")
    scene.answer(1, {}, member_id="theirs")
    assert scene.last.member_id == "theirs"
    scene.answer(1, member_id=None)
    assert scene.wait_for_beat().member_id == "theirs"


def test_no_heartbeat_is_sent_while_another_one_is_under_way() -> None:
    """The timer fires again after the response."""
    scene = Scene().stable()
    scene.wait_for_beat()
    count = len(scene.sent)
    scene.submit(Subscribed(["u"]))
    scene.submit(Subscribed(["t", "u"]))
    scene.wait(20)
    assert len(scene.sent) == count
    scene.answer()
    assert names(scene.last) == ["t", "u"]
    assert len(scene.sent) == count + 1


def test_a_join_that_is_answered_without_an_assignment_goes_on() -> None:
    """The member keeps its epoch, and waits for the next response."""
    scene = Scene()
    scene.subscribe("t")
    scene.answer(1)
    assert not scene.calls
    assert scene.wait_for_beat().member_epoch == 1
    scene.answer(1, {T: [0]})
    assert scene.calls == [(ASSIGNED, [("t", 0)])]


# -- the subscription


def test_a_changed_subscription_is_sent_at_once() -> None:
    """Alone: nothing else has changed."""
    scene = Scene().stable()
    scene.submit(Subscribed(["t", "u"]))
    assert names(scene.last) == ["t", "u"]
    assert scene.last.subscribed_topic_regex is None
    assert scene.last.topic_partitions is None
    scene.answer()
    assert scene.wait_for_beat().subscribed_topic_names is None


@pytest.mark.parametrize("topics", [["t"], ["t", "t"]])
def test_the_same_subscription_is_not_sent_again(topics: list[str]) -> None:
    """Metadata that has not changed repeats it, for a pattern of the client."""
    scene = Scene().stable()
    count = len(scene.sent)
    scene.submit(Subscribed(topics))
    assert len(scene.sent) == count


def test_a_pattern_is_resolved_by_the_coordinator() -> None:
    """It is sent with no names, and only once."""
    scene = Scene()
    scene.subscribe(pattern="t.*")
    assert names(scene.last) == []
    assert scene.last.subscribed_topic_regex == "t.*"
    scene.answer(1, {T: [0]})
    assert scene.calls == [(ASSIGNED, [("t", 0)])]
    assert scene.lowest == [1, 0], "version 0 would drop it"
    scene.answer(1)
    assert scene.wait_for_beat().subscribed_topic_regex is None


def test_another_pattern_replaces_the_first() -> None:
    """The names, none, have not changed."""
    scene = Scene()
    scene.subscribe(pattern="t.*")
    scene.answer(1, {})
    scene.answer(1)
    scene.submit(Subscribed((), "u.*"))
    assert scene.last.subscribed_topic_regex == "u.*"
    assert scene.last.subscribed_topic_names is None


def test_names_take_back_a_pattern() -> None:
    """By an empty expression, as null means that it has not changed."""
    scene = Scene()
    scene.subscribe(pattern="t.*")
    scene.answer(1, {})
    scene.answer(1)
    scene.submit(Subscribed(["t"]))
    assert scene.last.subscribed_topic_regex == ""
    assert names(scene.last) == ["t"]
    scene.lose_request()
    scene.wait(0.2)
    assert scene.last.subscribed_topic_regex == ""
    scene.answer(1)
    assert scene.wait_for_beat().subscribed_topic_regex is None


def test_the_number_of_partitions_is_not_the_members_business() -> None:
    """The coordinator notices new partitions itself."""
    scene = Scene().stable()
    count = len(scene.sent)
    scene.submit(MetadataChanged({"t": 8}))
    assert len(scene.sent) == count


def test_a_rebalance_cannot_be_enforced() -> None:
    """As in the Java client: a warning."""
    scene = Scene().stable()
    count = len(scene.sent)
    scene.submit(RebalanceEnforced("now"))
    assert len(scene.sent) == count
    assert scene.notices[-1] == "rebalance_not_enforced"


# -- errors


@pytest.mark.parametrize("code", AWAY)
def test_a_coordinator_that_is_away_is_looked_up_again(code: ErrorCode) -> None:
    """The member keeps its partitions, and says everything to the next one."""
    scene = Scene("i", client_rack="r").stable()
    scene.wait_for_beat()
    scene.answer(code=code)
    assert scene.forgotten == 1
    assert not scene.is_waiting, "there is a back-off"
    scene.wait(0.2)
    assert scene.last.member_epoch == 1
    assert names(scene.last) == ["t"]
    assert scene.last.rebalance_timeout_ms == 30_000
    assert scene.last.rack_id == "r"
    assert owned(scene.last) == {T: [0, 1, 2]}
    scene.answer()
    assert scene.wait_for_beat().subscribed_topic_names is None
    assert scene.member.owned == set(MINE)
    assert not scene.calls


def test_a_request_without_a_response_is_complete_the_next_time() -> None:
    """The coordinator may not have got it."""
    scene = Scene().stable()
    scene.submit(Subscribed(["t", "u"]))
    scene.lose_request()
    scene.wait(0.2)
    assert names(scene.last) == ["t", "u"]
    assert owned(scene.last) == {T: [0, 1, 2]}
    assert scene.forgotten == 1


def test_back_offs_grow_until_a_response() -> None:
    """From retry.backoff.ms to retry.backoff.max.ms."""
    scene = Scene(retry_backoff_ms=100, retry_backoff_max_ms=400).stable()
    scene.wait_for_beat()
    at = []
    for _ in range(5):
        scene.lose_request()
        before = scene.now
        while not scene.is_waiting:
            scene.wait(0.01)
        at.append(round(scene.now - before, 2))
    assert at == pytest.approx([0.1, 0.2, 0.4, 0.4, 0.4], abs=0.02)
    scene.answer()
    scene.wait_for_beat()
    scene.lose_request()
    scene.wait(0.11)
    assert scene.is_waiting


def test_nothing_is_sent_during_a_back_off() -> None:
    """A changed subscription waits for its end."""
    scene = Scene().stable()
    scene.wait_for_beat()
    scene.lose_request()
    scene.submit(Subscribed(["u"]))
    assert not scene.is_waiting
    scene.wait(0.2)
    assert names(scene.last) == ["u"]


def test_a_lost_join_is_repeated() -> None:
    """With epoch 0 and the same id, so the coordinator knows it again."""
    scene = Scene()
    scene.subscribe("t")
    scene.lose_request()
    scene.wait(0.2)
    first, second = scene.sent
    assert first == second


@pytest.mark.parametrize("code", GONE)
def test_a_fenced_member_loses_its_partitions_and_joins_again(code: ErrorCode) -> None:
    """With the same id, and after the listener's call."""
    scene = Scene().stable()
    scene.is_slow = True
    scene.wait_for_beat()
    count = len(scene.sent)
    scene.answer(code=code)
    assert scene.calls == [(LOST, MINE)]
    assert scene.member.state is FENCED
    assert not scene.member.owned
    assert scene.member.generation_id == -1, "commits fail"
    scene.wait(10)
    assert len(scene.sent) == count, "no heartbeat before the listener returns"
    scene.listener_returns()
    assert (scene.last.member_id, scene.last.member_epoch) == ("m", 0)
    assert names(scene.last) == ["t"]
    assert owned(scene.last) == {}
    scene.answer(9, {T: [0]})
    assert scene.calls[-1] == (ASSIGNED, [("t", 0)])


def test_a_member_that_is_fenced_again_and_again_backs_off() -> None:
    """The first join comes immediately, the next after a back-off."""
    scene = Scene().stable()
    scene.wait_for_beat()
    scene.answer(code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert scene.last.member_epoch == 0
    scene.answer(code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert not scene.is_waiting
    scene.wait(1)
    assert scene.last.member_epoch == 0
    assert scene.is_waiting


def test_partitions_that_are_being_revoked_are_not_lost_too() -> None:
    """The listener hears of each of them once."""
    scene = Scene().stable()
    scene.is_slow = True
    scene.wait_for_beat()
    scene.answer(2, {T: [0]})
    scene.wait_for_beat()
    scene.answer(code=ErrorCode.FENCED_MEMBER_EPOCH)
    assert scene.calls == [(REVOKED, [("t", 1), ("t", 2)])]
    scene.listener_returns()
    assert scene.calls[-1] == (LOST, [("t", 0)])


def test_a_late_assignment_to_a_fenced_member_is_ignored() -> None:
    """It was cancelled, and belongs to the former membership."""
    scene = Scene().stable()
    scene.is_slow = True
    scene.wait_for_beat()
    token = scene.member.last_token
    scene.answer(code=ErrorCode.FENCED_MEMBER_EPOCH)
    scene.submit(Answered(token, None))
    assert scene.member.state is FENCED


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        KIP_389_GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_other_errors_end_the_membership(code: int) -> None:
    """The partitions are lost, and no last heartbeat is sent, as in the Java client."""
    scene = Scene().stable()
    scene.wait_for_beat()
    count = len(scene.sent)
    scene.answer(code=code, message="because")
    assert scene.failure is not None
    assert scene.failure.api == "ConsumerGroupHeartbeat"
    assert (scene.failure.code, scene.failure.message) == (code, "because")
    assert scene.calls == [(LOST, MINE)]
    assert scene.has_ended
    assert scene.member.state is ENDED
    assert len(scene.sent) == count


@pytest.mark.parametrize("is_response", [True, False])
def test_a_cluster_without_the_protocol_names_the_setting(*, is_response: bool) -> None:
    """In a response, or as the broker does not have the API at all."""
    scene = Scene()
    scene.subscribe("t")
    if is_response:
        scene.answer(code=ErrorCode.UNSUPPORTED_VERSION)
    else:
        scene.lose_request(UnsupportedVersionError("no"))
    assert scene.failure is not None
    assert scene.failure.code == ErrorCode.UNSUPPORTED_VERSION
    assert "group_protocol=classic" in (scene.failure.message or "")
    assert scene.has_ended


def test_a_cluster_without_patterns_says_so() -> None:
    """The broker has version 0 of the API only."""
    scene = Scene()
    scene.subscribe(pattern="t.*")
    scene.lose_request(UnsupportedVersionError("no"))
    assert scene.failure is not None
    assert "SubscriptionPattern" in (scene.failure.message or "")


def test_an_error_that_is_not_retriable_ends_the_membership() -> None:
    """Such as wrong credentials."""
    scene = Scene().stable()
    scene.wait_for_beat()
    error = ValueError("no")
    scene.lose_request(error)
    assert scene.failure is not None
    assert scene.failure.error is error
    assert scene.has_ended


def test_a_refused_commit_asks_the_coordinator() -> None:
    """The heartbeat's response decides, not the commit's."""
    scene = Scene().stable()
    count = len(scene.sent)
    scene.submit(CommitRefused(0, ErrorCode.UNKNOWN_MEMBER_ID))
    assert len(scene.sent) == count, "of an earlier epoch"
    scene.submit(CommitRefused(1, ErrorCode.UNKNOWN_MEMBER_ID))
    assert len(scene.sent) == count + 1
    assert scene.member.owned == set(MINE)


# -- leaving


def test_close_revokes_and_leaves_with_epoch_minus_1() -> None:
    """The last heartbeat comes after the listener's call, and has no other field."""
    scene = Scene().stable()
    scene.is_slow = True
    count = len(scene.sent)
    scene.submit(Closed())
    assert scene.calls == [(REVOKED, MINE)]
    assert len(scene.sent) == count
    scene.listener_returns()
    assert (scene.last.member_id, scene.last.member_epoch) == ("m", -1)
    assert scene.last.topic_partitions is None
    assert scene.last.subscribed_topic_names is None
    assert scene.member.state is LEAVING
    assert not scene.has_ended
    scene.answer(-1)
    assert scene.has_ended


@pytest.mark.parametrize("code", [0, *AWAY, *GONE, ErrorCode.GROUP_ID_NOT_FOUND])
def test_a_member_has_left_whatever_the_response_is(code: int) -> None:
    """Its session times out, if the coordinator still knows it."""
    scene = Scene().stable()
    scene.submit(Closed())
    scene.answer(-1, code=code)
    assert scene.has_ended
    assert scene.failure is None


def test_a_member_has_left_without_a_response() -> None:
    """It does not try again."""
    scene = Scene().stable()
    scene.submit(Closed())
    scene.lose_request()
    assert scene.has_ended


@pytest.mark.parametrize(
    ("instance", "leaves", "epoch"),
    [
        (None, None, -1),
        (None, True, -1),
        (None, False, None),
        ("i", None, -2),
        ("i", True, -1),
        ("i", False, None),
    ],
)
def test_static_members_leave_for_a_while(
    instance: str | None, leaves: bool | None, epoch: int | None
) -> None:
    """Epoch -2 keeps their place (KIP-345); an application may wish otherwise."""
    scene = Scene(instance).stable()
    count = len(scene.sent)
    scene.submit(Closed(leaves))
    assert scene.calls == [(REVOKED, MINE)]
    if epoch is None:
        assert len(scene.sent) == count
    else:
        assert (scene.last.member_epoch, scene.last.instance_id) == (epoch, instance)
        scene.answer(epoch)
    assert scene.has_ended


def test_close_replaces_a_heartbeat_under_way() -> None:
    """It is cancelled: its response does not matter any more."""
    scene = Scene().stable()
    scene.wait_for_beat()
    scene.submit(Closed())
    assert scene.last.member_epoch == -1


def test_close_during_the_join_leaves() -> None:
    """The coordinator may have the member by then."""
    scene = Scene()
    scene.subscribe("t")
    scene.submit(Closed())
    assert scene.last.member_epoch == -1
    assert not scene.calls


def test_close_without_a_membership_sends_nothing() -> None:
    """It has never subscribed."""
    scene = Scene()
    scene.submit(Closed())
    assert scene.has_ended
    assert not scene.sent


def test_unsubscribe_leaves_and_may_subscribe_again() -> None:
    """With the same id, from epoch 0."""
    scene = Scene().stable()
    scene.submit(Unsubscribed())
    assert scene.calls == [(REVOKED, MINE)]
    assert scene.last.member_epoch == -1
    scene.answer(-1)
    assert scene.member.state is UNSUBSCRIBED
    assert not scene.has_ended
    scene.wait(60)
    assert scene.last.member_epoch == -1, "it stays outside"
    scene.submit(Subscribed(["u"]))
    assert (scene.last.member_id, scene.last.member_epoch) == ("m", 0)
    assert names(scene.last) == ["u"]


def test_a_subscription_while_it_leaves_joins_after_that() -> None:
    """The requests keep their order."""
    scene = Scene().stable()
    scene.submit(Unsubscribed())
    scene.submit(Subscribed(["u"]))
    assert scene.last.member_epoch == -1
    scene.answer(-1)
    assert scene.last.member_epoch == 0
    assert names(scene.last) == ["u"]


def test_close_after_being_fenced_sends_nothing() -> None:
    """The coordinator does not know the member."""
    scene = Scene().stable()
    scene.is_slow = True
    scene.wait_for_beat()
    count = len(scene.sent)
    scene.answer(code=ErrorCode.UNKNOWN_MEMBER_ID)
    scene.submit(Closed())
    scene.listener_returns()
    assert scene.has_ended
    assert scene.calls == [(LOST, MINE)]
    assert len(scene.sent) == count


# -- max.poll.interval.ms


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_a_member_that_does_not_poll_leaves_until_it_does(
    instance: str | None, epoch: int
) -> None:
    """KIP-62: its partitions are lost; the next poll joins."""
    scene = Scene(instance, max_poll_interval_ms=4_000).stable()
    scene.submit(PollEnded())
    scene.wait(4.1)
    assert scene.last.member_epoch == epoch
    assert scene.calls == [(LOST, MINE)]
    assert scene.member.state is STALE
    scene.answer(epoch)
    count = len(scene.sent)
    scene.wait(100)
    assert len(scene.sent) == count
    scene.submit(PollBegan())
    assert (scene.last.member_id, scene.last.member_epoch) == ("m", 0)


@pytest.mark.parametrize("is_answered", [True, False])
def test_it_joins_after_it_has_left(*, is_answered: bool) -> None:
    """Otherwise the late leave would remove the new member: it has the same id."""
    scene = Scene(max_poll_interval_ms=4_000).stable()
    scene.submit(PollEnded())
    scene.wait(4.1)
    scene.submit(PollBegan())
    assert scene.last.member_epoch == -1
    if is_answered:
        scene.answer(-1)
    else:
        scene.lose_request()
    assert scene.last.member_epoch == 0


def test_polls_keep_the_member_in() -> None:
    """Each of them restarts the interval."""
    scene = Scene(max_poll_interval_ms=12_000).stable()
    for _ in range(5):
        scene.submit(PollEnded())
        scene.wait_for_beat()
        scene.answer()
        scene.submit(PollBegan())
    scene.wait_for_beat()
    assert scene.member.state is STABLE


def test_a_listener_that_takes_too_long_leaves() -> None:
    """Its call goes on; what it does not revoke is lost after it."""
    scene = Scene(max_poll_interval_ms=4_000).stable()
    scene.is_slow = True
    scene.submit(Subscribed(["t", "u"]))
    scene.answer(2, {T: [0]})
    scene.wait(4.1)
    assert scene.last.member_epoch == -1
    assert scene.calls == [(REVOKED, [("t", 1), ("t", 2)])]
    scene.answer(-1)
    scene.listener_returns()
    assert scene.calls[-1] == (LOST, [("t", 0)])
    scene.listener_returns()
    assert scene.last.member_epoch == 0, "the application polls"


# -- states


def test_the_table_has_every_state_and_its_ends() -> None:
    """A transition that it does not have is a mistake."""
    assert set(TRANSITIONS) == set(MemberState)
    assert [s for s, after in TRANSITIONS.items() if not after] == [ENDED]
    with pytest.raises(AssertionError, match="no transition from unsubscribed"):
        Scene().member.transition(STABLE)
