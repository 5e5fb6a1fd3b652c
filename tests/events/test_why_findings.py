"""A finding per known ill: where it shows, and where it does not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.coordinator.context import Context
from tests.events.build import Stream, recorded
from tests.events.findings import findings, quiet
from tests.events.plays import assign_too_much

from kohort.control.why import history


def restart(
    stream: Stream, name: str, away_s: float, reason: str | None = None
) -> None:
    """A member leaves, and comes back as a newcomer: two rebalances."""
    stream.leaves(name, reason)
    stream.rebalance("member_left", name)
    stream.wait(away_s)
    stream.comes(name)
    stream.rebalance("member_joined", name)


def test_a_quiet_group_has_no_findings() -> None:
    """One start, and nothing else."""
    assert findings(quiet("ana", "ben", "cleo")) == {}


# -- restarts


def test_a_rolling_restart() -> None:
    """Members that go and come one by one: static membership, and for how long."""
    stream = quiet("ana", "ben", "cleo")
    for name, away_s in (("ana", 8), ("ben", 12.4), ("cleo", 5)):
        restart(stream, name, away_s)
        stream.wait(30)
    found = findings(stream)["rolling-restart"]
    assert found.title.startswith("3 members restarted")
    assert "caused 6 rebalances" in found.title
    assert "group.instance.id" in found.advice
    assert "up to 12.4 s" in found.advice
    assert "above 14 s" in found.advice
    assert len(found.evidence) == 6


def test_two_rolling_restarts() -> None:
    """A deployment a day is one finding, not one a day."""
    stream = quiet("ana", "ben")
    for _ in range(2):
        for name in ("ana", "ben"):
            restart(stream, name, 8)
        stream.wait(86_400)
    (found,) = history(stream.events, "g").findings
    assert found.title.startswith(
        "4 members restarted one after the other, in 2 rolling restarts, "
        "and caused 8 rebalances;"
    )


def test_one_restart_is_no_roll() -> None:
    """One restarted member is no reason for advice."""
    stream = quiet("ana", "ben", "cleo")
    restart(stream, "ana", 8)
    assert "rolling-restart" not in findings(stream)


def test_a_stop_of_all_is_no_roll() -> None:
    """No member was left to rebalance."""
    stream = quiet("ana", "ben")
    for name in ("ana", "ben"):
        stream.leaves(name)
        stream.rebalance("member_left", name)
    for name in ("ana", "ben"):
        stream.wait(1)
        stream.comes(name)
        stream.rebalance("member_joined", name)
    assert "rolling-restart" not in findings(stream)


def test_restarts_of_members_that_look_the_same() -> None:
    """Some may have gone, and others come: perhaps."""
    stream = quiet("ana", "ben", "cleo")
    alike = {"client_id": "rdkafka", "host": "/h"}
    stream.events = [
        {**event, **alike} if event["member_id"] else event for event in stream.events
    ]
    before = len(stream.events)
    for name in ("ana", "ben"):
        restart(stream, name, 8)
    stream.events[before:] = [
        {**event, **alike} if event["member_id"] else event
        for event in stream.events[before:]
    ]
    found = findings(stream)["rolling-restart"]
    assert not found.is_sure
    assert found.title.startswith("2 members perhaps restarted")


def test_restarts_far_apart_are_no_roll() -> None:
    """Two deployments a day are none."""
    stream = quiet("ana", "ben")
    restart(stream, "ana", 8)
    stream.wait(3600)
    restart(stream, "ben", 8)
    assert "rolling-restart" not in findings(stream)


def test_static_members_that_expire_in_a_restart() -> None:
    """The session timeout has to be longer than the restart."""
    stream = quiet("ana", "ben", static=True)
    stream.expires("ana", 45)
    stream.rebalance("session_expired", "ana")
    stream.wait(20)
    stream.comes("ana", "i-ana")
    stream.rebalance("member_joined", "ana")
    found = findings(stream)["static-member-expired"]
    assert "above 65000 (it was 45000)" in found.advice


def test_static_members_that_leave() -> None:
    """Leaving gives the place away at once."""
    stream = quiet("ana", "ben", static=True)
    stream.leaves("ana", "the consumer is being closed")
    stream.rebalance("member_left", "ana")
    (evidence,) = findings(stream)["static-member-left"].evidence
    assert evidence.text == 'i-ana left (reason: "the consumer is being closed")'


def comes_and_goes(times: int = 3, *, dies: bool = False, errs: bool = False) -> Stream:
    """A member is there for 50 s, again and again; `errs`: it commits afterwards."""
    stream = quiet("ana", "ben")
    for _ in range(times):
        stream.comes("dora")
        stream.rebalance("member_joined", "dora")
        stream.wait(50)
        (stream.expires if dies else stream.leaves)("dora")
        if errs:
            refused = {"error": "UNKNOWN_MEMBER_ID", "offsets": []}
            stream.say("commit_refused", "dora", **refused)
        stream.rebalance("session_expired" if dies else "member_left", "dora")
        stream.wait(10)
    return stream


@pytest.mark.parametrize("lives", [2, 3])
def test_a_crash_loop(lives: int) -> None:
    """Three short lives in a row are one, and no rolling restart."""
    found = findings(comes_and_goes(lives, dies=True))
    assert "rolling-restart" not in found
    if lives == 2:
        assert "crash-loop" not in found
    else:
        title = found["crash-loop"].title
        assert title.startswith("dora came and went 3 times and caused 6 rebalances")
        assert "Find out why it dies" in found["crash-loop"].advice


def test_somebody_who_leaves_again_and_again() -> None:
    """No crash is claimed: a slow poller may leave without a reason."""
    found = findings(comes_and_goes())["crash-loop"]
    assert not found.is_sure
    assert found.title.startswith("Perhaps no crash: dora came and went 3 times")
    assert "max.poll.interval.ms" in found.advice
    assert "dies" not in found.advice


# -- max.poll.interval.ms


@pytest.mark.parametrize(
    "reason",
    [
        "consumer poll timeout has expired.",
        "no poll within max.poll.interval.ms (300000 ms)",
        "the listener took longer than max.poll.interval.ms (300000 ms)",
    ],
)
def test_a_member_that_did_not_poll(reason: str) -> None:
    """It says so itself: kafka-clients by its words, kohort by its own."""
    stream = quiet("ana", "ben")
    stream.leaves("ana", reason)
    stream.rebalance("member_left", "ana", joins={"ben": 2.0})
    found = findings(stream)["max-poll-interval"]
    assert found.is_sure
    assert "1 time; partitions had no reader for 8.0 partition-seconds" in found.title
    (evidence,) = found.evidence
    assert evidence.text == (
        f'ana left (reason: "{reason}"); it did not process its 4 partitions for '
        "5 min before it left"
    )


@pytest.mark.parametrize("reason", [None, "the consumer is being closed"])
def test_a_member_that_left_is_not_accused(reason: str | None) -> None:
    """Without its own words no cause is guessed."""
    stream = quiet("ana", "ben")
    stream.leaves("ana", reason)
    stream.rebalance("member_left", "ana")
    assert "max-poll-interval" not in findings(stream)


def test_a_member_that_left_and_still_worked() -> None:
    """No reason given, and a commit after that: perhaps."""
    stream = quiet("ana", "ben")
    stream.leaves("ana")
    stream.rebalance("member_left", "ana")
    stream.wait(20)
    stream.say("commit_refused", "ana", error="UNKNOWN_MEMBER_ID", offsets=[])
    found = findings(stream)
    assert not found["max-poll-interval"].is_sure
    assert "perhaps" in found["max-poll-interval"].title
    (late,) = found["commit-too-late"].evidence
    assert late.text == (
        "ana committed: UNKNOWN_MEMBER_ID, 20.0 s after it left (client ana, host /ana)"
    )


def on(connection: int) -> dict[str, Any]:
    """A client's connection, and no member id: librdkafka forgets it when it leaves."""
    client = {"client_id": "app", "host": "/h", "member_id": None}
    return {**client, "connection": connection}


def slow_poller(commits: bool) -> Stream:
    """Ana's process leaves, and rejoins on its old connection; ben is another one."""
    stream = Stream()
    for name, connection in (("ana", 7), ("ben", 8)):
        stream.comes(name, client_id="app", host="/h", connection=connection)
    stream.rebalance("member_joined", "ana", joins={})
    stream.wait(600)
    stream.leaves("ana")
    stream.rebalance("member_left", "ana")
    stream.wait(4)
    if commits:
        stream.say("commit_refused", error="UNKNOWN_MEMBER_ID", offsets=[], **on(7))
    stream.wait(1)
    stream.comes("ana", client_id="app", host="/h", connection=7)
    stream.rebalance("member_joined", "ana")
    return stream


@pytest.mark.parametrize("commits", [True, False])
def test_a_slow_poller_is_known_by_its_connection(commits: bool) -> None:
    """No stranger commits, and no process was restarted; its commit makes it sure."""
    found = findings(slow_poller(commits))
    assert found["max-poll-interval"].is_sure is commits
    (evidence,) = found["max-poll-interval"].evidence
    what = "its commit 4.0 s later on the same connection was refused"
    if not commits:
        what = "it rejoined 5.0 s later on the same connection"
    assert evidence.text.endswith(f"left, no reason given, and {what}")
    assert found.keys() == {"max-poll-interval", *(["commit-too-late"] * commits)}
    if commits:
        (late,) = found["commit-too-late"].evidence
        assert late.text.endswith("(client app, host /h, connection 7)")


def test_a_stranger_on_a_connection_of_its_own() -> None:
    """It commits right behind a LeaveGroup, and is not taken for the one that left."""
    stream = quiet("ana", "ben")
    stream.leaves("ana")
    stream.say("commit_refused", error="UNKNOWN_MEMBER_ID", offsets=[], **on(9))
    stream.rebalance("member_left", "ana")
    found = findings(stream)
    assert found.keys() == {"commit-from-outside"}
    (evidence,) = found["commit-from-outside"].evidence
    assert evidence.text == "client app, host /h, connection 9: UNKNOWN_MEMBER_ID"


def test_a_crash() -> None:
    """The member, its silence, and the cost; a blocked loop is no crash."""
    stream = quiet("ana", "ben", "cleo", connected=True)
    stream.wait(100)
    stream.expires("ben", 10)
    stream.rebalance("session_expired", "ben", joins={"ana": 0.7, "cleo": 0.0})
    stream.wait(100)
    stream.expires("cleo", 10)
    stream.rebalance("session_expired", "cleo")
    stream.comes("cleo", connection=3)
    stream.rebalance("member_joined", "cleo")
    found = findings(stream)
    (crash,) = found["crashed"].evidence
    assert crash.text == (
        "ben's session expired 10.0 s after it was last heard of; partitions had no "
        "reader for 42.8 partition-seconds"
    )
    assert "(up to 10.0 s here)" in found["crashed"].advice
    (alive,) = found["session-too-short"].evidence
    assert alive.text == (
        "cleo's session expired, and it rejoined 0 ms later on the same connection"
    )
    assert found["session-too-short"].title == (
        "Sessions of live members expired: 1 time; "
        "partitions had no reader for 40.0 partition-seconds"
    )


def test_who_did_not_poll_is_in_no_crash_loop() -> None:
    """One finding for the same departures, also where it is a guess."""
    found = findings(comes_and_goes(errs=True))
    assert "crash-loop" not in found
    assert len(found["max-poll-interval"].evidence) == 3


# -- starts


def test_a_start_of_two_cooperative_members() -> None:
    """The second half of a rebalance is none that a delay would have saved."""
    stream = Stream(protocol="cooperative-sticky")
    stream.comes("ana")
    stream.rebalance("member_joined", "ana", owned={"ana": range(4)})
    stream.comes("ben")
    owned = {"ana": range(2), "ben": []}
    stream.rebalance("member_joined", "ben", owned=owned)
    owned = {"ana": range(2), "ben": [2, 3]}
    stream.rebalance("leader_rejoined", "ana", owned=owned)
    assert findings(stream) == {}


def test_members_that_come_and_go_side_by_side_are_no_loop() -> None:
    """Short tests of several consumers that look the same, all closed."""
    stream = Stream()
    alike = {"client_id": "rdkafka", "host": "/h"}
    for name in ("ana", "ben", "cleo"):
        stream.comes(name, **alike)
    stream.rebalance("member_joined", "ana", joins={})
    stream.wait(10)
    for name in ("ana", "ben", "cleo"):
        stream.leaves(name)
        stream.rebalance("member_left", name)
    assert "crash-loop" not in findings(stream)


def trickle(gap_s: float, count: int) -> Stream:
    """Members that come one by one, each at the cost of a rebalance."""
    stream = Stream()
    for number in range(count):
        if number:
            stream.wait(gap_s)
        stream.comes(f"m{number}")
        stream.rebalance("member_joined", f"m{number}")
        stream.state = "Stable"
    return stream


def test_many_initial_rebalances() -> None:
    """The delay has to be longer than the longest pause between two arrivals."""
    found = findings(trickle(2.5, 4))["many-initial-rebalances"]
    assert found.title.startswith(
        "4 members started within 7.5 s and caused 4 rebalances"
    )
    assert "to at least 3000: the longest time between two joins was 2.5 s" in (
        found.advice
    )


def test_a_start_that_is_quick_enough() -> None:
    """Without a delay a start takes two rebalances."""
    assert "many-initial-rebalances" not in findings(trickle(1, 2))


def test_members_that_are_added_later_are_no_start() -> None:
    """Scaling up by hand has nothing to do with the initial delay."""
    assert "many-initial-rebalances" not in findings(trickle(60, 5))


# -- sessions


def test_a_session_that_is_too_short() -> None:
    """A member whose session expired commits: it was alive."""
    stream = quiet("ana", "ben")
    stream.expires("ana")
    stream.rebalance("session_expired", "ana")
    stream.wait(2)
    stream.say("commit_refused", "ana", error="UNKNOWN_MEMBER_ID", offsets=[])
    (evidence,) = findings(stream)["session-too-short"].evidence
    assert evidence.text == "ana's session expired, and it committed 2.0 s later"


def test_a_session_that_is_too_long() -> None:
    """Members that had crashed were there when their successors came."""
    stream = quiet("ana", "ben", "cleo")
    for name in ("ana", "ben"):
        ghost = stream.ids[name]
        stream.wait(30)
        stream.comes(name)
        stream.members.remove(name)
        stream.rebalance("member_joined", name, joins={"cleo": 1})
        stream.wait(10)
        fields = {"silent_ns": 45 * 10**9, "member_id": ghost, "host": f"/{name}"}
        stream.say("member_expired", name, **fields)
        stream.members.append(name)
        stream.rebalance("session_expired", name)
    found = findings(stream)["session-too-long"]
    assert not found.is_sure
    assert len(found.evidence) == 2


# -- waits


def test_a_member_that_is_slow_to_rejoin() -> None:
    """Two rebalances that waited for the same member."""
    stream = quiet("ana", "ben", "cleo")
    for _ in range(2):
        joins = {"cleo": 0.5, "ben": 9.0}
        stream.rebalance("leader_rejoined", "ana", joins=joins)
        stream.wait(1000)
    found = findings(stream)["slow-to-rejoin"]
    assert found.title == "ben held up 2 rebalances for 5.0 s or longer each"


def test_a_member_that_missed_the_rebalance_timeout(context: Context) -> None:
    """As the coordinator has it: it was taken out."""
    ana, ben = context.stable_group("ana", "ben", rebalance_ms=10_000)
    ana.join()
    context.sleep(10_000)
    assert ben.heartbeat() == 25
    found = {f.code: f for f in history(recorded(context), "g").findings}
    (evidence,) = found["missed-rebalance-timeout"].evidence
    assert evidence.text == "Generation 3 waited 10.0 s: ben did not rejoin"


def test_a_member_that_does_not_sync(context: Context) -> None:
    """As the coordinator has it: it is named, and the rest rebalances."""
    context.stable_group("ana", "ben", sync=False, rebalance_ms=10_000)
    context.sleep(10_000)
    found = {f.code: f for f in history(recorded(context), "g").findings}
    text = found["sync-timeout"].evidence[0].text
    assert "ana and ben did not send SyncGroup in time" in text


def test_records_that_the_log_refuses(context: Context) -> None:
    """The group's record is too large, again and again; and a commit."""
    members = context.stable_group("ana", "ben", sync=False)
    assign_too_much(context, *members)
    stream = recorded(context)
    (found,) = history(stream, "g").findings
    assert found.code == "records-too-large"
    assert found.title == (
        "The log refused 1 assignment of the group: larger than max.message.bytes of "
        "__consumer_offsets"
    )
    assert [each.text for each in found.evidence] == [
        "the group's record of 1,048,589 bytes was refused; 1,048,588 fit"
    ]


def test_a_commit_that_the_log_refuses() -> None:
    """The client gets UNKNOWN_SERVER_ERROR, without a reason."""
    stream = quiet("ana")
    stream.say("commit_refused", "ana", error="UNKNOWN_SERVER_ERROR", offsets=[])
    (found,) = findings(stream).values()
    assert found.code == "records-too-large"
    assert [each.text for each in found.evidence] == ["a commit was refused"]


# -- rebalances for nothing


def moving(protocol: str) -> Stream:
    """Three rebalances after which most is where it was."""
    stream = quiet("ana", "ben", "cleo", protocol=protocol)
    for _ in range(3):
        joins = {"ben": 1.0, "cleo": 2.0}
        owned = {"ana": range(4), "ben": range(4, 8), "cleo": range(8, 12)}
        stream.rebalance("leader_rejoined", "ana", joins=joins, owned=owned)
        stream.wait(1000)
    return stream


def test_eager_members_that_get_back_what_they_had() -> None:
    """They revoked all of it, and paused."""
    found = findings(moving("range"))["eager-for-nothing"]
    assert found.title == (
        "In 3 eager rebalances 36 of 36 partitions returned to the members that had "
        "revoked them; processing paused for 15.0 member-seconds and partitions had no "
        "reader for 60.0 partition-seconds"
    )
    assert "cooperative-sticky" in found.advice


def test_cooperative_members_let_go_of_nothing() -> None:
    """The same rebalances cost them nothing."""
    assert "eager-for-nothing" not in findings(moving("cooperative-sticky"))


@pytest.mark.parametrize(
    ("reason", "is_sure"), [("cached metadata has changed", True), (None, False)]
)
def test_a_leader_that_rejoins(reason: str | None, is_sure: bool) -> None:
    """Three times in ten minutes; its words say whether topics are the cause."""
    stream = quiet("ana", "ben")
    for _ in range(3):
        stream.rebalance("leader_rejoined", "ana", reason=reason)
        stream.wait(120)
    found = findings(stream)["leader-rejoins"]
    assert found.is_sure is is_sure
    assert len(found.evidence) == 3


def test_the_second_half_of_a_cooperative_rebalance_is_no_ill() -> None:
    """A leader that has given up partitions joins again: that is how it is done."""
    stream = quiet("ana", "ben", protocol="cooperative-sticky")
    for _ in range(3):
        owned = {"ana": range(2), "ben": range(4, 8)}
        stream.rebalance("metadata_changed", "ben", owned=owned)
        stream.rebalance("leader_rejoined", "ana", owned={"ana": range(4)})
        stream.wait(60)
    found = findings(stream)
    assert "leader-rejoins" not in found
    assert "changing-subscriptions" in found


def test_members_with_other_subscriptions() -> None:
    """Two sets of topics in one generation."""
    stream = Stream()
    stream.comes("ana", topics=["orders"])
    stream.comes("ben", topics=["orders", "payments"])
    stream.rebalance("member_joined", "ana", joins={})
    found = findings(stream)["differing-subscriptions"]
    assert [each.text for each in found.evidence] == [
        "ana: orders",
        "ben: orders, payments",
    ]


def test_a_group_that_is_never_quiet() -> None:
    """A good part of its time is spent on rebalances."""
    stream = Stream()
    stream.comes("ana")
    stream.comes("ben")
    stream.rebalance("member_joined", "ana", joins={})
    for _ in range(6):
        stream.wait(5)
        stream.rebalance("leader_rejoined", "ana", joins={"ben": 20})
    found = findings(stream)["never-quiet"]
    assert found.title.endswith("in 7 rebalances; no processing paused")
    first, second = found.evidence
    assert first.text == "leader_rejoined: 6 rebalances from here on"
    assert second.text == "member_joined: 1 rebalance"
    assert (second.generation, first.generation) == (1, 2)
    assert second.at_ns < first.at_ns


# -- others


def test_ids_that_nobody_uses() -> None:
    """Clients that ask for an id and go."""
    stream = quiet("ana", "ben")
    for number in range(3):
        member_id = f"probe-{number}"
        stream.say("member_id_given", member_id=member_id, client_id="probe")
        stream.wait(10)
        stream.say("pending_member_expired", member_id=member_id, client_id="probe")
    assert findings(stream).keys() == {"ids-not-used"}


def test_members_without_partitions() -> None:
    """More members than partitions."""
    stream = Stream()
    for name in ("ana", "ben", "cleo"):
        stream.comes(name)
    owned = {"ana": [0], "ben": [1], "cleo": []}
    stream.rebalance("member_joined", "ana", joins={}, owned=owned)
    found = findings(stream)["idle-members"]
    assert found.title == ("1 of 3 members are idle: there are 2 partitions")
    assert found.evidence[0].text == "no partitions: cleo"


def test_a_finding_is_json() -> None:
    """Programs get all of it."""
    stream = quiet("ana", "ben")
    stream.say("commit_refused", error="UNKNOWN_MEMBER_ID", offsets=[])
    (told,) = history(stream.events, "g").as_json()["findings"]
    assert told["code"] == "commit-from-outside"
    assert told["is_sure"] is True
    assert told["evidence"] == [
        {
            "time_ns": stream.now,
            "text": "a client: UNKNOWN_MEMBER_ID",
            "sequence": len(stream.events),
            "generation": 1,
        }
    ]


def test_every_finding_is_documented() -> None:
    """docs/reference/why.md lists exactly the codes of the rules."""
    root = Path(__file__).parent.parent.parent
    rules = (root / "control" / "why" / "rules").glob("*.py")
    codes = {
        code
        for path in rules
        for code in re.findall(r'Finding\(\s*"([a-z-]+)"', path.read_text())
    }
    table = (root / "docs" / "reference" / "why.md").read_text().split("## Findings")[1]
    assert {*re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)} == codes
