"""Findings about rebalances: where they show, and where they do not."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.events.build import Stream, recorded
from tests.events.findings import findings, quiet
from tests.events.plays.scene import assign_too_much

from kohort.control.why import history

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


def trickle(gap_s: float, count: int, late_s: float = 0.3) -> Stream:
    """Members that come one by one, each at the cost of a rebalance.

    The first one joins late each time, and the others wait for it.
    """
    stream = Stream()
    for number in range(count):
        if number:
            stream.wait(gap_s - (late_s if number > 1 else 0))
        stream.comes(f"m{number}")
        joins = {**{f"m{each}": 0.0 for each in range(1, number)}, "m0": late_s}
        owned = {f"m{each}": [each] for each in range(number + 1)}
        stream.rebalance(
            "member_joined",
            f"m{number}",
            joins=joins if number else None,
            owned=owned,
        )
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


def test_a_start_that_costs_nothing() -> None:
    """A test without a delay starts members one by one, in milliseconds."""
    assert "many-initial-rebalances" not in findings(trickle(2.5, 4, late_s=0.01))


def test_a_start_that_is_quick_enough() -> None:
    """Without a delay a start takes two rebalances."""
    assert "many-initial-rebalances" not in findings(trickle(1, 2))


def test_members_that_are_added_later_are_no_start() -> None:
    """Scaling up by hand has nothing to do with the initial delay."""
    assert "many-initial-rebalances" not in findings(trickle(60, 5))


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
