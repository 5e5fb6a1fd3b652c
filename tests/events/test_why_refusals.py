"""Findings about refused requests: where they show, and where they do not."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import protocols
from tests.events.build import Stream, recorded
from tests.events.findings import findings, quiet

from kohort.control.why import history


def refuse(stream: Stream, name: str, cause: str, error: str, **fields: object) -> None:
    """A JoinGroup is refused."""
    stream.say("member_refused", name, cause=cause, error=error, **fields)


def test_a_static_member_that_is_refused_on_restart() -> None:
    """Its place was taken while it was away."""
    stream = quiet("ana", "ben", static=True)
    stream.expires("ana")
    stream.rebalance("session_expired", "ana")
    stream.comes("dora")
    stream.rebalance("member_joined", "dora")
    stream.wait(20)
    refuse(stream, "ana", "full", "GROUP_MAX_SIZE_REACHED", member_id=None)
    found = findings(stream)
    (evidence,) = found["static-member-refused"].evidence
    assert evidence.text == (
        "i-ana sent no heartbeat for its session timeout, and was refused 20.0 s later"
    )
    assert "group.max.size" in found["static-member-refused"].advice


def test_a_full_group_that_refuses_its_own(context: Context) -> None:
    """The coordinator keeps the place, and no other member may take it."""
    context.configure(max_size=2)
    _, ben = context.stable_group("ana", "ben", static=True)
    again = context.member("ben", instance="i-ben")
    assert again.join().result.error_code == 81
    found = {each.code: each for each in history(recorded(context), "g").findings}
    assert "group-full" not in found
    (evidence,) = found["static-member-refused"].evidence
    assert evidence.text == (
        "i-ben was refused while the group still had its old member id"
    )
    assert (
        "group.max.size to at least the number of members"
        in found["static-member-refused"].advice
    )
    context.sleep(ben.session_ms)
    again.enter()
    codes = {each.code for each in history(recorded(context), "g").findings}
    assert "static-member-expired" not in codes


@pytest.mark.parametrize("asks", [4, 5])
def test_a_full_group(asks: int) -> None:
    """A client that asks five times does not know that the error is fatal."""
    stream = quiet("ana", "ben")
    for _ in range(asks):
        refuse(stream, "dora", "full", "GROUP_MAX_SIZE_REACHED")
        stream.wait(1)
    found = findings(stream)
    assert found["group-full"].title == (
        f"The group was full and refused {asks} JoinGroups of 1 client"
    )
    assert ("asks-full-group-again" in found) is (asks == 5)


def test_an_assignor_that_the_group_does_not_share(context: Context) -> None:
    """As the coordinator has it: the group's is named."""
    context.stable_group("ana")
    context.member("ben", protocols=protocols("roundrobin")).join()
    found = {f.code: f for f in history(recorded(context), "g").findings}
    title = found["inconsistent-protocols"].title
    assert title.endswith("1 time; the group uses range")


def test_two_processes_with_one_instance_id(context: Context) -> None:
    """As the coordinator has it: the old one still lives, and is fenced."""
    ana, _ = context.stable_group("ana", "ben", static=True)
    context.member("ana", instance="i-ana").enter()
    ana.join()
    found = {f.code: f for f in history(recorded(context), "g").findings}
    assert [each.text for each in found["instance-id-twice"].evidence] == [
        "another process joined as i-ana",
        "i-ana was fenced: FENCED_INSTANCE_ID",
    ]


def test_commits_of_a_generation_that_is_over() -> None:
    """The work took longer than the generation lasted."""
    stream = quiet("ana", "ben")
    stream.rebalance("leader_rejoined", "ana")
    stream.say("commit_refused", "ben", error="ILLEGAL_GENERATION", offsets=[])
    stream.say("commit_refused", "ben", error="REBALANCE_IN_PROGRESS", offsets=[])
    stream.wait(100)
    stream.leaves("ben")  # later: that was not why
    found = findings(stream)["commit-too-late"]
    assert [each.text for each in found.evidence] == [
        "ben committed: ILLEGAL_GENERATION (client ben, host /ben)"
    ]


def test_commits_of_nobody() -> None:
    """A tool that sets offsets while the group is at work."""
    stream = quiet("ana", "ben")
    stream.say("commit_refused", error="UNKNOWN_MEMBER_ID", offsets=[])
    assert findings(stream).keys() == {"commit-from-outside"}
