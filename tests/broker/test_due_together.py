"""Timers of a coordinator that are due together."""

from __future__ import annotations

from tests.coordinator.context import Pending, protocols
from tests.group_log import NoLog
from tests.manual_clock import ManualClock

from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import JoinResult
from kohort.broker.coordinator.events import Client, Join
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.shards.driver import DUE_AT_ONCE, GroupDriver

MEMBERS = 1_000
SESSION_MS = 6_000


def test_sessions_that_end_together_end_in_many_turns() -> None:
    """Between two turns others are served; in the end all members are gone."""
    clock = ManualClock()
    gone: list[str] = []
    driver = GroupDriver(
        Coordinator(GroupSettings(), "{}-1".format),
        clock,
        NoLog(),
        lambda: None,
        lambda notice, when: gone.append(notice[0]),
        linger_ms=0,
    )
    for number in range(MEMBERS):
        pending: Pending[JoinResult] = Pending("join")
        client = ("", None, Client(f"c{number}", "/h"), SESSION_MS, 60_000)
        join = Join(
            pending, "g", *client, "consumer", protocols("range"), None, True, False
        )
        driver.submit(join)
    gone.clear()
    until = clock.now() + SESSION_MS / 1_000
    before = 0
    while clock.fire(until):
        assert len(gone) - before <= DUE_AT_ONCE < MEMBERS
        before = len(gone)
    assert len(gone) == MEMBERS
