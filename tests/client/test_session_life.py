"""A member and its signs of life: standstills, lost answers, slow listeners."""

from __future__ import annotations

from tests.client.session_world import COOPERATIVE, Client, World, offers

from kohort.client.membership import (
    ENDED,
    PREPARING_REBALANCE,
    STABLE,
    Answered,
    Arm,
    AssignmentMade,
    Call,
    CallKind,
    CommitRefused,
    Effect,
    Event,
    Expired,
    Failed,
    ListenerDone,
    MakeAssignment,
    PollBegan,
    PollEnded,
    RebalanceEnforced,
    Send,
    SessionSettings,
    Subscribed,
)
from kohort.client.session import Session
from kohort.protocol.apis.k11_join_group import JoinGroupResponse
from kohort.protocol.apis.k12_heartbeat import HeartbeatResponse
from kohort.protocol.apis.k14_sync_group import SyncGroupResponse
from kohort.protocol.consumer import Assignment, TopicPartitions, encode
from kohort.protocol.errors import ErrorCode

ASSIGNED, LOST = CallKind.ASSIGNED, CallKind.LOST
SETTINGS = SessionSettings("g", offers(COOPERATIVE))
SESSION_S = SETTINGS.session_timeout_ms / 1000
INTERVAL_S = SETTINGS.heartbeat_interval_ms / 1000


class Alone:
    """A session that is told everything by hand; requests are kept by their API."""

    def __init__(self) -> None:
        self.session = Session(SETTINGS)
        self.sent: dict[str, Send] = {}
        self.timers: dict[str, float] = {}
        self.calls: list[Call] = []
        self.effects: list[Effect] = []

    def tell(self, event: Event, now: float) -> None:
        """Hands over an event."""
        self.effects = self.session.handle(event, now)
        for effect in self.effects:
            if isinstance(effect, Send):
                self.sent[effect.api] = effect
            elif isinstance(effect, Arm):
                self.timers[effect.key] = effect.deadline
            elif isinstance(effect, Call):
                self.calls.append(effect)
                self.tell(ListenerDone(effect.token), now)
            elif isinstance(effect, MakeAssignment):
                self.tell(AssignmentMade(effect.token, {}, {"t": 1}), now)

    def answer(self, response: object, now: float) -> None:
        """Answers the request of the response's API."""
        api = type(response).__name__.removesuffix("Response")
        self.tell(Answered(self.sent.pop(api).token, response), now)

    def join(self, now: float) -> None:
        """Becomes the leader, with one partition, and sends its first heartbeat."""
        self.tell(PollBegan(), now)
        self.tell(Subscribed(["t"]), now)
        joined = JoinGroupResponse(0, 0, 1, "consumer", COOPERATIVE, "m", False, "m")
        self.answer(joined, now)
        mine = encode(Assignment([TopicPartitions("t", [0])]))
        self.answer(SyncGroupResponse(0, 0, "consumer", COOPERATIVE, mine), now)
        assert self.session.state is STABLE
        self.tell(Expired("heartbeat"), now)

    def kinds(self) -> list[CallKind]:
        """What its listener was called for."""
        return [call.kind for call in self.calls]


def times_to_learn(interval_ms: int) -> list[float]:
    """How long a member does not know that another one joins, by its interval.

    The other one comes at ten moments of the time between two heartbeats.
    """
    step_ms = interval_ms / 100
    shares = []
    for tenth in range(10):
        world = World()
        a = world.client("a", heartbeat_interval_ms=interval_ms)
        a.subscribe("t")
        world.run(5_000 + tenth * interval_ms / 10)
        joins = len(a.of_kind("JoinGroup"))
        world.client("b").subscribe("t")
        steps = 0
        while len(a.of_kind("JoinGroup")) == joins:
            world.run(step_ms)
            steps += 1
        shares.append(steps / 100)
    return shares


def test_what_a_member_learns_of_a_rebalance_comes_by_its_heartbeats() -> None:
    """So the time until it does follows heartbeat.interval.ms."""
    for interval_ms in (100, 1_000, 3_000):
        shares = times_to_learn(interval_ms)
        assert 0.85 <= max(shares) <= 1.05, "at most from one heartbeat to the next"
        assert min(shares) <= 0.15
        assert len({round(share, 1) for share in shares}) >= 9, "by the moment alone"


def test_an_answer_that_came_while_the_process_stood_still_counts() -> None:
    """The timer of the session is seen first; the answer is read a moment later."""
    alone = Alone()
    alone.join(0.0)
    alone.tell(Expired("session"), SESSION_S + 20)
    assert alone.kinds() == [ASSIGNED]
    alone.answer(HeartbeatResponse(), SESSION_S + 20.1)
    alone.tell(Expired("heartbeat"), SESSION_S + 20.2)
    alone.answer(HeartbeatResponse(), SESSION_S + 20.3)
    alone.tell(Expired("session"), alone.timers["session"])
    assert alone.kinds() == [ASSIGNED]


def test_who_stood_still_asks_whether_it_was_missed() -> None:
    """It sends a heartbeat at once; the broker says that the member is unknown."""
    alone = Alone()
    alone.join(0.0)
    alone.answer(HeartbeatResponse(), 0.1)
    alone.tell(Expired("session"), 500.0)
    assert alone.kinds() == [ASSIGNED]
    alone.answer(HeartbeatResponse(0, ErrorCode.UNKNOWN_MEMBER_ID), 500.1)
    assert alone.kinds() == [ASSIGNED, LOST]


def test_who_stood_still_and_hears_nothing_waits_no_longer_than_a_heartbeat() -> None:
    """Then the partitions are lost all the same; there is no second grace."""
    alone = Alone()
    alone.join(0.0)
    alone.tell(Expired("session"), 500.0)
    assert alone.timers["session"] == 500.0 + INTERVAL_S
    alone.tell(Expired("session"), 500.0 + INTERVAL_S + 1)
    assert alone.kinds() == [ASSIGNED, LOST]


def test_a_session_that_ends_on_time_has_no_grace() -> None:
    """The process was there all the time: nobody has answered."""
    alone = Alone()
    alone.join(0.0)
    alone.tell(Expired("session"), alone.timers["session"])
    assert alone.kinds() == [ASSIGNED, LOST]


def test_a_lost_answer_to_a_heartbeat_does_not_cost_the_session() -> None:
    """It is given up in time for another one, on another connection."""
    alone = Alone()
    alone.join(0.0)
    send = alone.sent["Heartbeat"]
    assert 2 * send.timeout_ms <= SETTINGS.session_timeout_ms
    assert send.timeout_ms <= SETTINGS.request_timeout_ms
    now = send.timeout_ms / 1000
    alone.tell(Failed(send.token, TimeoutError("no answer")), now)
    alone.tell(Expired("heartbeat"), alone.timers["heartbeat"])
    assert alone.sent["Heartbeat"].token != send.token
    alone.answer(HeartbeatResponse(), now + 1)
    alone.tell(Expired("session"), SESSION_S + 0.01)
    assert alone.kinds() == [ASSIGNED]


def test_a_join_that_has_waited_is_a_sign_of_life_until_its_connection_breaks() -> None:
    """Others take their time to join, then the coordinator's node goes: no loss."""
    alone = Alone()
    alone.join(0.0)
    alone.answer(HeartbeatResponse(), 0.1)
    alone.tell(RebalanceEnforced("again"), 1.0)
    assert alone.session.state is PREPARING_REBALANCE
    now = 3 * SESSION_S
    alone.tell(Expired("session"), alone.timers["session"])
    broken = Failed(alone.sent["JoinGroup"].token, OSError("reset"), was_waiting=True)
    alone.tell(broken, now)
    assert alone.timers["session"] >= now
    alone.tell(Expired("session"), now + 1)
    assert alone.kinds() == [ASSIGNED]
    # The next ones find nobody: from then on time counts.
    alone.tell(Expired("retry"), now + 2)
    alone.tell(Failed(alone.sent["JoinGroup"].token, OSError("refused")), now + 2)
    alone.tell(Expired("session"), now + SESSION_S)
    assert alone.kinds() == [ASSIGNED, LOST]


# -- max.poll.interval.ms


def leaves(client: Client) -> list[str | None]:
    """The reasons that it has left for."""
    return [request.members[0].reason for request in client.of_kind("LeaveGroup")]


def test_a_listener_that_hangs_ends_the_membership() -> None:
    """KIP-62: heartbeats alone would keep its partitions from everybody for ever."""
    world = World()
    a, b = world.group("a", "b")
    world.is_strict = False  # its listener outlasts the membership
    a.listener_ms = 100_000
    a.tell(RebalanceEnforced("again"))
    world.run(28_000)
    assert not leaves(a)
    world.run(5_000)
    assert leaves(a) == [
        "the listener took longer than max.poll.interval.ms (30000 ms)"
    ]
    world.run(10_000)
    assert len(b.session.owned) == 6
    a.listener_ms = 0
    world.run(100_000)
    assert [kind for kind, _ in a.calls][-3:-1] == [LOST, ASSIGNED]
    world.check_settled()


def test_a_listener_that_outlasts_its_poll_has_the_time_of_both() -> None:
    """The poll is given up while it runs, and begun again: time starts anew."""
    world = World()
    a, _ = world.group("a", "b")
    a.listener_ms = 50_000
    a.tell(RebalanceEnforced("again"))
    world.run(20_000)
    a.tell(PollEnded())
    world.run(20_000)
    a.tell(PollBegan())
    a.listener_ms = 0
    world.run(25_000)
    assert not leaves(a)
    assert LOST not in [kind for kind, _ in a.calls]
    world.check_settled()


# -- what a commit tells


def refused(code: int, generation_id: int = 1) -> Alone:
    """A member of generation 1, one of whose commits was refused."""
    alone = Alone()
    alone.join(0.0)
    alone.tell(CommitRefused(generation_id, code), 1.0)
    return alone


def test_a_commit_tells_that_the_member_is_unknown() -> None:
    """Sooner than the next heartbeat; it joins at once, as a new one."""
    alone = refused(ErrorCode.UNKNOWN_MEMBER_ID)
    assert alone.kinds() == [ASSIGNED, LOST]
    assert alone.sent["JoinGroup"].request.member_id == ""


def test_a_commit_tells_that_the_group_is_in_another_generation() -> None:
    """The partitions are lost; the id stays."""
    alone = refused(ErrorCode.ILLEGAL_GENERATION)
    assert alone.kinds() == [ASSIGNED, LOST]
    assert alone.sent["JoinGroup"].request.member_id == "m"


def test_a_commit_tells_that_the_group_rebalances() -> None:
    """The member joins, and gives nothing up for it."""
    alone = refused(ErrorCode.REBALANCE_IN_PROGRESS)
    assert alone.kinds() == [ASSIGNED]
    assert alone.session.state is PREPARING_REBALANCE


def test_a_commit_tells_that_the_member_is_fenced() -> None:
    """Somebody else has its instance id: it ends (KIP-345)."""
    alone = refused(ErrorCode.FENCED_INSTANCE_ID)
    assert alone.kinds() == [ASSIGNED, LOST]
    assert alone.session.state is ENDED


def test_a_commit_of_the_past_tells_nothing() -> None:
    """Its generation is over, and the member has joined since."""
    alone = refused(ErrorCode.ILLEGAL_GENERATION, generation_id=0)
    assert alone.kinds() == [ASSIGNED]
    assert alone.session.state is STABLE
