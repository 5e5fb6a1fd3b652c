"""A member's timeouts: suspended processes, lost responses, slow listeners."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.client.group.member_world import COOPERATIVE, Client, World

from kohort.client.config import ConsumerConfig
from kohort.client.group.classic.assignment import AssignmentMade
from kohort.client.group.classic.member import ClassicMember
from kohort.client.group.classic.membership import handle
from kohort.client.group.classic.state import (
    ENDED,
    PREPARING_REBALANCE,
    STABLE,
    MemberState,
)
from kohort.client.group.effects import (
    Arm,
    Call,
    CallKind,
    Cancel,
    Compute,
    Effect,
    Ended,
    Fail,
    ForgetCoordinator,
    Send,
)
from kohort.client.group.events import (
    Answered,
    Closed,
    CommitRefused,
    Event,
    Expired,
    Failed,
    ListenerDone,
    PollBegan,
    PollEnded,
    RebalanceEnforced,
    Subscribed,
    Unsubscribed,
)
from kohort.protocol.apis.k11_join_group import (
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from kohort.protocol.apis.k12_heartbeat import HeartbeatResponse
from kohort.protocol.apis.k13_leave_group import LeaveGroupResponse
from kohort.protocol.apis.k14_sync_group import SyncGroupResponse
from kohort.protocol.consumer import (
    Assignment,
    CooperativeStickyUserData,
    Subscription,
    TopicPartitions,
    decode_subscription,
    encode,
    encode_user_data,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError

ASSIGNED, LOST = CallKind.ASSIGNED, CallKind.LOST
CONFIG = ConsumerConfig(group_id="g", partition_assignment_strategy=COOPERATIVE)
SESSION_S = CONFIG.session_timeout_ms / 1000
INTERVAL_S = CONFIG.heartbeat_interval_ms / 1000
POLL_INTERVAL_S = CONFIG.max_poll_interval_ms / 1000


def joined(rows: Sequence[JoinGroupResponseMember] = ()) -> JoinGroupResponse:
    """The response to the leader of generation 1."""
    name = COOPERATIVE
    return JoinGroupResponse(0, 0, 1, "consumer", name, "m", False, "m", rows)


class Alone:
    """A member with scripted events; requests are kept by their API."""

    def __init__(self) -> None:
        self.member = ClassicMember(CONFIG)
        self.sent: dict[str, Send] = {}
        self.timers: dict[str, float] = {}
        self.calls: list[Call] = []
        self.effects: list[Effect] = []

    def submit(self, event: Event, now: float) -> None:
        """Submits an event."""
        effects = handle(self.member, event, now)
        self.effects += effects
        for effect in effects:
            if isinstance(effect, Send):
                self.sent[effect.api] = effect
            elif isinstance(effect, Arm):
                self.timers[effect.key] = effect.deadline
            elif isinstance(effect, Call):
                self.calls.append(effect)
                self.submit(ListenerDone(effect.token), now)
            elif isinstance(effect, Compute):
                made = AssignmentMade({}, {"t": 1})
                self.submit(Answered(effect.token, made), now)

    def answer(self, response: object, now: float) -> None:
        """Answers the request of the response's API."""
        api = type(response).__name__.removesuffix("Response")
        self.submit(Answered(self.sent.pop(api).token, response), now)

    def join(self, now: float) -> None:
        """Becomes the leader, with one partition, and sends its first heartbeat."""
        self.submit(PollBegan(), now)
        self.submit(Subscribed(["t"]), now)
        self.answer(joined(), now)
        mine = encode(Assignment([TopicPartitions("t", [0])]))
        self.answer(SyncGroupResponse(0, 0, "consumer", COOPERATIVE, mine), now)
        assert self.member.state is STABLE
        self.submit(Expired("heartbeat"), now)

    def kinds(self) -> list[CallKind]:
        """The calls of its listener."""
        return [call.kind for call in self.calls]


def test_what_a_member_learns_of_a_rebalance_comes_by_its_heartbeats() -> None:
    """So it takes up to heartbeat.interval.ms, counted from one to the next."""
    alone = Alone()
    alone.join(0.0)
    alone.answer(HeartbeatResponse(), 1.0)
    assert alone.timers["heartbeat"] == INTERVAL_S
    alone.submit(Expired("heartbeat"), INTERVAL_S)
    refused = HeartbeatResponse(0, ErrorCode.REBALANCE_IN_PROGRESS)
    alone.answer(refused, INTERVAL_S + 2 * INTERVAL_S)
    assert alone.timers["heartbeat"] == 3 * INTERVAL_S, "at once after a late response"
    assert alone.sent["JoinGroup"].request.member_id == "m"


def test_an_answer_that_came_while_the_process_stood_still_counts() -> None:
    """The session timer fires first; the response is read a moment later."""
    alone = Alone()
    alone.join(0.0)
    alone.submit(Expired("session"), SESSION_S + 20)
    assert alone.kinds() == [ASSIGNED]
    alone.answer(HeartbeatResponse(), SESSION_S + 20.1)
    alone.submit(Expired("heartbeat"), SESSION_S + 20.2)
    alone.answer(HeartbeatResponse(), SESSION_S + 20.3)
    alone.submit(Expired("session"), alone.timers["session"])
    assert alone.kinds() == [ASSIGNED]


def test_who_stood_still_asks_whether_it_was_missed() -> None:
    """It sends a heartbeat at once; the broker answers UNKNOWN_MEMBER_ID."""
    alone = Alone()
    alone.join(0.0)
    alone.answer(HeartbeatResponse(), 0.1)
    alone.submit(Expired("session"), 500.0)
    assert alone.kinds() == [ASSIGNED]
    alone.answer(HeartbeatResponse(0, ErrorCode.UNKNOWN_MEMBER_ID), 500.1)
    assert alone.kinds() == [ASSIGNED, LOST]


def test_who_stood_still_and_hears_nothing_waits_no_longer_than_a_heartbeat() -> None:
    """Then the partitions are lost anyway; there is no second grace period."""
    alone = Alone()
    alone.join(0.0)
    alone.submit(Expired("session"), 500.0)
    assert alone.timers["session"] == 500.0 + INTERVAL_S
    alone.submit(Expired("session"), 500.0 + INTERVAL_S + 1)
    assert alone.kinds() == [ASSIGNED, LOST]


def test_a_session_that_ends_on_time_has_no_grace() -> None:
    """The process was running all the time; the broker did not respond."""
    alone = Alone()
    alone.join(0.0)
    alone.submit(Expired("session"), alone.timers["session"])
    assert alone.kinds() == [ASSIGNED, LOST]
    assert Cancel(alone.sent["Heartbeat"].token) in alone.effects


def test_the_first_join_says_that_there_was_no_generation() -> None:
    """In cooperative-sticky's user data and in the subscription (KIP-792)."""
    alone = Alone()
    alone.submit(Subscribed(["t", "a"]), 0.0)
    (protocol,) = alone.sent["JoinGroup"].request.protocols
    subscription = decode_subscription(protocol.metadata)
    assert subscription.topics == ["a", "t"]
    assert subscription.user_data == encode_user_data(CooperativeStickyUserData(-1))
    assert subscription.generation_id == -1


def test_a_lost_answer_to_a_heartbeat_does_not_cost_the_session() -> None:
    """It times out early enough for another one, on another connection."""
    alone = Alone()
    alone.join(0.0)
    send = alone.sent["Heartbeat"]
    assert 2 * send.timeout_ms <= CONFIG.session_timeout_ms
    assert send.timeout_ms <= CONFIG.request_timeout_ms
    now = send.timeout_ms / 1000
    alone.submit(Failed(send.token, TimeoutError("no answer")), now)
    alone.submit(Expired("heartbeat"), alone.timers["heartbeat"])
    assert alone.sent["Heartbeat"].token != send.token
    alone.answer(HeartbeatResponse(), now + 1)
    alone.submit(Expired("session"), SESSION_S + 0.01)
    assert alone.kinds() == [ASSIGNED]


def test_a_join_that_has_waited_is_a_sign_of_life_until_its_connection_breaks() -> None:
    """Others join late, then the coordinator's node stops: nothing is lost."""
    alone = Alone()
    alone.join(0.0)
    alone.answer(HeartbeatResponse(), 0.1)
    alone.submit(RebalanceEnforced("again"), 1.0)
    assert alone.member.state is PREPARING_REBALANCE
    now = 3 * SESSION_S
    alone.submit(Expired("session"), alone.timers["session"])
    broken = Failed(alone.sent["JoinGroup"].token, OSError("reset"), was_waiting=True)
    alone.submit(broken, now)
    assert alone.timers["session"] >= now
    alone.submit(Expired("session"), now + 1)
    assert alone.kinds() == [ASSIGNED]
    # Later attempts find no broker: from then on, time counts.
    alone.submit(Expired("retry"), now + 2)
    alone.submit(Failed(alone.sent["JoinGroup"].token, OSError("refused")), now + 2)
    alone.submit(Expired("session"), now + SESSION_S)
    assert alone.kinds() == [ASSIGNED, LOST]


# -- max.poll.interval.ms


def leaves(client: Client) -> list[str | None]:
    """The reasons of its LeaveGroups."""
    return [request.members[0].reason for request in client.of_kind("LeaveGroup")]


def test_a_listener_that_hangs_ends_the_membership() -> None:
    """KIP-62: heartbeats alone would keep its partitions forever."""
    world = World()
    a, b = world.group("a", "b")
    world.is_strict = False  # its listener outlasts the membership
    a.listener_ms = 100_000
    a.submit(RebalanceEnforced("again"))
    world.run(28_000)
    assert not leaves(a)
    world.run(5_000)
    assert leaves(a) == [
        "the listener took longer than max.poll.interval.ms (30000 ms)"
    ]
    world.run(10_000)
    assert len(b.member.owned) == 6
    a.listener_ms = 0
    world.run(100_000)
    assert [kind for kind, _ in a.calls][-3:-1] == [LOST, ASSIGNED]
    world.check_settled()


def test_a_listener_that_outlasts_its_poll_has_the_time_of_both() -> None:
    """The poll is cancelled while it runs, and another begins: time starts anew."""
    world = World()
    a, _ = world.group("a", "b")
    a.listener_ms = 50_000
    a.submit(RebalanceEnforced("again"))
    world.run(20_000)
    a.submit(PollEnded())
    world.run(20_000)
    a.submit(PollBegan())
    a.listener_ms = 0
    world.run(25_000)
    assert not leaves(a)
    assert LOST not in [kind for kind, _ in a.calls]
    world.check_settled()


def test_max_poll_interval_counts_from_a_subscription_without_a_poll() -> None:
    """The first poll has to be in time, too."""
    alone = Alone()
    alone.submit(Subscribed(["t"]), 1.0)
    assert alone.timers["poll"] == 1.0 + POLL_INTERVAL_S
    polling = Alone()
    polling.submit(PollBegan(), 0.0)
    polling.submit(Subscribed(["t"]), 1.0)
    assert "poll" not in polling.timers


def test_a_poll_timer_that_fires_during_a_poll_is_armed_again_after_it() -> None:
    """The next pause of the application has the same limit."""
    alone = Alone()
    alone.join(0.0)
    alone.submit(Expired("poll"), alone.timers.pop("poll"))
    assert alone.kinds() == [ASSIGNED]
    alone.submit(PollEnded(), 1_000.0)
    assert alone.timers["poll"] == 1_000.0 + POLL_INTERVAL_S
    alone.submit(Expired("poll"), alone.timers["poll"])
    assert alone.kinds() == [ASSIGNED, LOST]


def test_max_poll_interval_does_not_count_for_a_consumer_without_topics() -> None:
    """One that is closed or unsubscribed has left, or is about to leave."""
    for event in (Closed(), Unsubscribed()):
        alone = Alone()
        alone.join(0.0)
        alone.submit(PollEnded(), 1.0)
        alone.submit(event, 2.0)
        if isinstance(event, Unsubscribed):
            alone.answer(LeaveGroupResponse(), 3.0)
        alone.effects.clear()
        alone.submit(Expired("poll"), 1.0 + POLL_INTERVAL_S)
        assert not alone.effects


# -- errors


@pytest.mark.parametrize(
    ("code", "kinds", "state", "joins_as"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, [ASSIGNED, LOST], PREPARING_REBALANCE, ""),
        (ErrorCode.ILLEGAL_GENERATION, [ASSIGNED, LOST], PREPARING_REBALANCE, "m"),
        (ErrorCode.REBALANCE_IN_PROGRESS, [ASSIGNED], PREPARING_REBALANCE, "m"),
        (ErrorCode.FENCED_INSTANCE_ID, [ASSIGNED, LOST], ENDED, None),
    ],
)
def test_a_refused_commit_is_heard_before_the_next_heartbeat(
    code: ErrorCode, kinds: list[CallKind], state: MemberState, joins_as: str | None
) -> None:
    """The member rejoins, with or without an id, or ends (KIP-345)."""
    alone = Alone()
    alone.join(0.0)
    alone.submit(CommitRefused(0, ErrorCode.ILLEGAL_GENERATION), 1.0)
    assert alone.member.state is STABLE, "that generation is over"
    alone.submit(CommitRefused(1, code), 1.0)
    assert alone.kinds() == kinds
    assert alone.member.state is state
    join = alone.sent.get("JoinGroup")
    assert (join and join.request.member_id) == joins_as


@pytest.mark.parametrize(
    ("code", "waits", "joins_as"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, False, "m"),
        (ErrorCode.NOT_COORDINATOR, True, "m"),
        (ErrorCode.UNKNOWN_MEMBER_ID, False, ""),
    ],
)
def test_a_refused_sync_joins_again(
    code: ErrorCode, waits: bool, joins_as: str
) -> None:
    """After a back-off if the coordinator has moved, which is then looked up."""
    alone = Alone()
    alone.submit(Subscribed(["t"]), 0.0)
    alone.answer(joined(), 0.0)
    alone.answer(SyncGroupResponse(error_code=code), 1.0)
    assert (ForgetCoordinator() in alone.effects) == waits
    if waits:
        assert "JoinGroup" not in alone.sent
        alone.submit(Expired("retry"), alone.timers["retry"])
    assert alone.sent["JoinGroup"].request.member_id == joins_as


@pytest.mark.parametrize(
    "code",
    [77, ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.INCONSISTENT_GROUP_PROTOCOL],
)
def test_a_refused_join_is_final(code: int) -> None:
    """A full group has two error codes (KIP-389); neither is retried."""
    alone = Alone()
    alone.submit(Subscribed(["t"]), 0.0)
    alone.answer(JoinGroupResponse(error_code=code), 1.0)
    assert Fail("JoinGroup", code, None) in alone.effects
    assert alone.effects[-1] == Ended()
    alone.effects.clear()
    alone.submit(Subscribed(["u"]), 2.0)
    assert not alone.effects


def test_answers_to_requests_that_nobody_waits_for_change_nothing() -> None:
    """Tokens of the past, and unknown ones."""
    alone = Alone()
    alone.submit(Subscribed(["t"]), 0.0)
    alone.effects.clear()
    for token in (98, 99):
        alone.submit(Answered(token, joined()), 1.0)
        alone.submit(ListenerDone(token), 1.0)
    assert not alone.effects
    assert alone.member.state is PREPARING_REBALANCE


def test_a_broker_that_keeps_asking_for_the_id_is_not_asked_without_a_pause() -> None:
    """After the second MEMBER_ID_REQUIRED there is a back-off."""
    alone = Alone()
    alone.submit(Subscribed(["t"]), 0.0)
    for _ in range(2):
        alone.answer(JoinGroupResponse(error_code=79, member_id="m"), 0.0)
    assert "JoinGroup" not in alone.sent
    assert alone.timers["retry"] > 0.0


def test_a_member_whose_metadata_cannot_be_read_gets_nothing() -> None:
    """The leader assigns to all the others, and watches their topics."""
    alone = Alone()
    alone.submit(Subscribed(["t"]), 0.0)
    data = {
        "m": encode(Subscription(["t"])),
        "bad": b"",
        "z": encode(Subscription(["u"])),
    }
    rows = [
        JoinGroupResponseMember(member, None, each) for member, each in data.items()
    ]
    alone.answer(joined(rows), 0.0)
    (made,) = [each.task for each in alone.effects if isinstance(each, Compute)]
    assert [*made.subscriptions] == ["m", "z"]
    assert made.topics == ["t", "u"]


def test_the_leader_watches_topics_of_others_when_it_subscribes_again() -> None:
    """Before that it watches its own."""
    alone = Alone()
    alone.submit(Subscribed(["t"]), 0.0)
    assert alone.member.topics == {"t"}
    data = encode(Subscription(["u"]))
    alone.answer(joined([JoinGroupResponseMember("z", None, data)]), 0.0)
    alone.submit(Subscribed(["t"]), 1.0)
    assert alone.member.topics == {"t", "u"}


def test_an_assignment_that_cannot_be_read_ends_the_member() -> None:
    """The member leaves; the error names SyncGroup."""
    alone = Alone()
    alone.submit(Subscribed(["t"]), 0.0)
    alone.answer(joined(), 0.0)
    alone.answer(SyncGroupResponse(0, 0, "consumer", COOPERATIVE, b"\xff"), 0.0)
    (failure,) = [each for each in alone.effects if isinstance(each, Fail)]
    assert failure.api == "SyncGroup"
    assert isinstance(failure.error, WireError)
    alone.answer(LeaveGroupResponse(), 0.1)
    assert alone.member.state is ENDED
