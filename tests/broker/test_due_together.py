"""A coordinator's timers that are due together, or at once."""

from __future__ import annotations

import itertools

from tests.coordinator.driver import Pending
from tests.coordinator.member import protocols
from tests.group_log import NoLog
from tests.manual_clock import ManualClock

from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import JoinResult
from kohort.broker.coordinator.events import Join
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.notice import Client
from kohort.broker.runtime.timers import DUE_AT_ONCE
from kohort.broker.shards.group_driver import GroupDriver

MEMBERS = 1_000
SESSION_MS = 6_000


def new_driver(
    clock: ManualClock, settings: GroupSettings, seen: list[str]
) -> GroupDriver:
    """A coordinator on this clock; `seen` collects the kinds of its notices."""
    numbers = itertools.count(1)
    return GroupDriver(
        Coordinator(settings, lambda prefix: f"{prefix}-{next(numbers)}"),
        clock,
        NoLog(),
        lambda: None,
        lambda notice, when: seen.append(notice[0]),
        linger_ms=0,
    )


def join(
    driver: GroupDriver, name: str, *, requires_id: bool = False
) -> Pending[JoinResult]:
    """A new member joins, perhaps to get an id first."""
    pending: Pending[JoinResult] = Pending("join")
    client = ("", None, Client(name, "/h"), SESSION_MS, 60_000)
    driver.submit(
        Join(
            pending,
            "g",
            *client,
            "consumer",
            protocols("range"),
            None,
            requires_id,
            False,
        )
    )
    return pending


def test_joins_that_arrive_together_are_in_one_generation() -> None:
    """As in Kafka, an initial delay of 0 ends in the next turn of the loop."""
    clock = ManualClock()
    settings = GroupSettings(initial_rebalance_delay_ms=0)
    driver = new_driver(clock, settings, [])
    first, second = join(driver, "a"), join(driver, "b")
    assert not first.answered
    while clock.fire(clock.now()):
        pass
    assert len(first.result.members) == 2
    assert second.result.generation_id == first.result.generation_id == 1


def test_sessions_that_end_together_end_in_many_turns() -> None:
    """Other work runs between two turns; in the end all members are removed."""
    clock = ManualClock()
    gone: list[str] = []
    driver = new_driver(clock, GroupSettings(), gone)
    for number in range(MEMBERS):
        join(driver, f"c{number}", requires_id=True)
    gone.clear()
    until = clock.now() + SESSION_MS / 1_000
    before = 0
    while clock.fire(until):
        assert len(gone) - before <= DUE_AT_ONCE < MEMBERS
        before = len(gone)
    assert len(gone) == MEMBERS
