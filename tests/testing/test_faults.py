"""Faults and recorded requests in a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.broker.faults.rule import FaultError
from kohort.broker.server import Broker
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


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (
            {"api": "Heartbeat", "group": "billling", "nth": 3},
            "fault 1 (Heartbeat, group billling) never matched; did you mean billing?",
        ),
        (
            {"api": "Heartbeat", "client_id": "e"},
            (
                "fault 1 (Heartbeat, client_id e) never matched; "
                "the requests had client_id ben"
            ),
        ),
        (
            {"topic": "order", "name": "loss"},
            "loss (any request, topic order) never matched; did you mean orders?",
        ),
        (
            {"api": ["Fetch", "Produce"]},
            "fault 1 (Fetch, Produce) never matched; no such request was received",
        ),
        (
            {"api": "Heartbeat", "nth": 3},
            "fault 1 (Heartbeat, nth=3) matched 2 requests, and struck none",
        ),
    ],
)
def test_the_report_names_a_fault_that_struck_nothing(
    kohort: Kohort, keys: dict[str, object], line: str
) -> None:
    """With the name that was meant: an assertion about its strikes does not say it."""
    kohort.topic("orders")
    rule = kohort.faults.add({**keys, "error": "NOT_COORDINATOR"})
    member = kohort.member("billing", client_id="ben")
    member.join()
    member.heartbeat()
    member.heartbeat()
    assert dict(sections(kohort, "", None))["kohort faults"] == line
    assert rule.strikes == 0


def test_a_rule_shows_what_was_given(kohort: Kohort) -> None:
    """In the line of an assertion about it; nothing else of its 30 keys."""
    rule = kohort.fail("Heartbeat", "NOT_COORDINATOR", group="billing", nth=3)
    assert repr(rule) == (
        "Rule(api='Heartbeat', group='billing', nth=3, error='NOT_COORDINATOR',"
        " matches=0, strikes=0)"
    )


def test_a_function_that_fails_fails_the_test(request: pytest.FixtureRequest) -> None:
    """At its end, with the error of the function."""
    kohort = start(request)
    names: dict[str, str] = {}
    kohort.on("JoinGroup", lambda asked: asked.fail(names[asked.api]))
    assert kohort.member("billing").join().error == "UNKNOWN_SERVER_ERROR"
    with pytest.raises(BaseExceptionGroup) as raised:
        kohort.close()
    (group,) = raised.value.exceptions
    assert isinstance(group, BaseExceptionGroup)
    assert [type(error) for error in group.exceptions] == [KeyError]


def test_a_function_that_was_never_called_is_reported(kohort: Kohort) -> None:
    """Beside the rules that have struck nothing."""
    kohort.on(["OffsetCommit", "Heartbeat"], lambda asked: None)
    assert kohort.misses() == ["on(OffsetCommit, Heartbeat): never called"]


def test_a_function_of_a_broker_in_a_with_block() -> None:
    """The end of the block raises its errors."""
    broker = Broker()
    broker.__enter__()
    broker.call(broker.faults.on, "JoinGroup", lambda asked: 1 / 0)
    assert Kohort(broker).member("billing").join().error == "UNKNOWN_SERVER_ERROR"
    with pytest.raises(BaseExceptionGroup):
        broker.__exit__(None, None, None)
