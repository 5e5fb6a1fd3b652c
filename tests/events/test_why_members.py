"""Findings about members: where they show, and where they do not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.events.build import Stream
from tests.events.findings import findings, quiet

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


# -- restarts


def test_a_rolling_restart() -> None:
    """Members that go and come one by one: static membership, and for how long."""
    stream = quiet("ana", "ben", "cleo")
    for name, away_s in (("ana", 8), ("ben", 12.4), ("cleo", 5)):
        restart(stream, name, away_s)
        stream.wait(30)
    (found,) = history(stream.events, "g").findings
    assert found.code == "rolling-restart"
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
    (found,) = history(stream.events, "g").findings
    assert found.code == "static-member-expired"
    assert "above 65000 (it was 45000)" in found.advice


def test_static_members_that_leave() -> None:
    """Leaving gives the place away at once; no session has expired."""
    stream = quiet("ana", "ben", static=True)
    stream.leaves("ana", "the consumer is being closed")
    stream.rebalance("member_left", "ana")
    stream.wait(20)
    stream.comes("ana", "i-ana")
    stream.rebalance("member_joined", "ana")
    found = findings(stream)
    assert found.keys() == {"static-member-left"}
    (evidence,) = found["static-member-left"].evidence
    assert evidence.text == 'i-ana left (reason: "the consumer is being closed")'


def comes_and_goes(times: int = 3, *, dies: bool = False, errs: bool = False) -> Stream:
    """A member is there for 50 s, again and again; `errs`: it commits afterwards."""
    stream = quiet("ana", "ben")
    for _ in range(times):
        # It lived for as long as it may work without a poll.
        stream.comes("dora", rebalance_timeout_ms=50_000 if errs else 300_000)
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


# -- crashes


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
