"""Faults and recorded requests in a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.broker.faults.rule import FaultError
from kohort.testing import Kohort
from kohort.testing.report import sections
from kohort.testing.starting import start


def test_a_rule_of_the_test(kohort: Kohort) -> None:
    """It strikes as often as it says, and counts."""
    rule = kohort.fail("Heartbeat", "REBALANCE_IN_PROGRESS", times=2, group="billing")
    ben = kohort.member("billing")
    ben.join()
    ben.sync()
    errors = [ben.heartbeat().error for _ in range(3)]
    assert errors == ["REBALANCE_IN_PROGRESS", "REBALANCE_IN_PROGRESS", "NONE"]
    assert (rule.strikes, kohort.faults.rules) == (2, [rule])
    kohort.faults.clear()
    assert kohort.faults.rules == []


async def test_an_async_test_adds_rules_without_await(kohort: Kohort) -> None:
    """A rule is there when the call returns."""
    kohort.disconnect("Heartbeat", once=True)
    ben = kohort.member("billing")
    assert (await ben.join()).error == "NONE"
    with pytest.raises(Exception, match="closed"):
        await ben.heartbeat()
    assert (await ben.heartbeat()).error == "NONE"


@pytest.mark.kohort(faults=[{"api": "JoinGroup", "error": "NOT_COORDINATOR"}])
def test_rules_of_the_marker(kohort: Kohort) -> None:
    """They are there before the first client."""
    assert kohort.member("billing").join().error == "NOT_COORDINATOR"


@pytest.mark.kohort(faults=[{"api": "JoinGroup", "err": "NONE"}])
def test_a_wrong_rule_is_named(request: pytest.FixtureRequest) -> None:
    """The fixture's error has the key."""
    with pytest.raises(FaultError, match="err"):
        start(request)


def test_a_plan_in_a_file(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Its path is relative to the test's file."""
    plan = tmp_path / "plan.toml"
    plan.write_text('[[fault]]\napi = "JoinGroup"\nerror = "NOT_COORDINATOR"\n')
    request.node.add_marker(pytest.mark.kohort(faults=plan))
    kohort = start(request)
    assert [rule.error for rule in kohort.faults.rules] == ["NOT_COORDINATOR"]
    kohort.close()


def test_requests_are_recorded(kohort: Kohort) -> None:
    """By API, and by any field."""
    ben = kohort.member("billing", client_id="ben")
    ben.join()
    ben.heartbeat(generation_id=7)
    assert [row.error for row in kohort.requests("JoinGroup", client_id="ben")] == [
        "MEMBER_ID_REQUIRED",
        "NONE",
    ]
    (beat,) = kohort.requests("Heartbeat")
    assert (beat.group, beat.member_id) == ("billing", ben.member_id)
    assert beat.error == "ILLEGAL_GENERATION"


def test_the_report_of_a_failed_test_counts_strikes(kohort: Kohort) -> None:
    """By the rule, its effect, and the client."""
    kohort.fail("Heartbeat", "NOT_COORDINATOR", times=2)
    member = kohort.member("billing", client_id="ben")
    member.join()
    for _ in range(3):
        member.heartbeat()
    told = dict(sections(kohort, "", None))["kohort faults"]
    assert told == "fault 1: error NOT_COORDINATOR in Heartbeat of ben, 2 times"
