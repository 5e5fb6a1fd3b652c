"""From the coordinator to the stream, and from there to the log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.coordinator.driver import Pending
from tests.coordinator.member import protocols
from tests.group_log import NoLog
from tests.manual_clock import ManualClock

from kohort.broker import telemetry
from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import JoinResult
from kohort.broker.coordinator.events import CommitOffsets, Join, Offsets
from kohort.broker.coordinator.load import Loading
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.events.bus import Events
from kohort.broker.events.lines import write_line
from kohort.broker.notice import Client
from kohort.broker.shards.group_driver import GroupDriver


class Scene:
    """A driven coordinator whose events go to the log, and whose disk may be full."""

    def __init__(self, **settings: int) -> None:
        self.log = NoLog()
        self.lost = 0
        self.clock = ManualClock()
        self.events = Events()
        self.events.begin("r")
        self.events.listen(write_line)
        chosen: dict[str, Any] = {"initial_rebalance_delay_ms": 0, **settings}
        coordinator = Coordinator(GroupSettings(**chosen), "{}-1".format)
        self.driver = GroupDriver(
            coordinator,
            self.clock,
            self.log,
            self._lose,
            self.events.of(1).publish,
            linger_ms=0,
        )

    def _lose(self) -> None:
        self.lost += 1

    def join(self, reason: str | None = None) -> None:
        """A member of an old client, which need not come twice; its window ends."""
        pending: Pending[JoinResult] = Pending("join")
        offers = protocols("range")
        client = ("", None, Client("c", "/h"), 30_000, 30_000)
        join = Join(pending, "g", *client, "consumer", offers, reason, False, False)
        self.driver.submit(join)
        self.clock.fire(self.clock.now())

    def commit(self, *groups: str) -> None:
        """Two offsets of each of these groups, by a simple consumer."""
        for group in groups:
            pending: Pending[Any] = Pending("commit")
            offsets = Offsets.of(("t", p, 1, -1, "", None) for p in (0, 1))
            simple = (-1, "", None, Client("c", "/h"))
            commit = CommitOffsets(pending, group, *simple, False, offsets)
            self.driver.submit(commit)


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[str], list[Any]]]:
    """Sets a level, and gives the lines since then."""

    def lines(level: str) -> list[Any]:
        said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        telemetry.configure("json", level)  # type: ignore[arg-type]  # a level
        return said

    yield lines
    telemetry.configure("auto", "warning")


def test_a_commit_that_is_not_written_has_no_event() -> None:
    """The driver reports that the log cannot be written; there is no event."""
    scene = Scene()
    scene.log.is_full = True
    scene.commit("g")
    assert scene.lost == 1
    assert scene.events.recent() == []


def test_lines_of_a_rebalance(log: Callable[[str], list[Any]]) -> None:
    """The main lines are at info, all lines at debug; lists are counted."""
    log("info")
    Scene().join("starting")
    started, completed = log("debug")
    assert (started["event"], started["cause"]) == (
        "rebalance_started",
        "member_joined",
    )
    assert (started["group"], started["member_id"]) == ("g", "c-1")
    assert (started["reason"], started["members"]) == ("starting", 1)
    assert (completed["event"], completed["generation"]) == ("join_completed", 1)
    assert not {"run", "sequence", "time_ns", "schema"} & started.keys()
    scene = Scene()
    scene.join()
    told = [line["event"] for line in log("warning")]
    assert told == [event["kind"] for event in scene.events.recent()]
    Scene().join()
    assert log("warning") == []


def test_offsets_that_expire_are_one_line_in_kafkas_words(
    log: Callable[[str], list[Any]],
) -> None:
    """One line covers all groups; each group has its event."""
    scene = Scene(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=5_000)
    scene.driver.start(Loading())
    scene.commit("g", "h")
    log("info")
    scene.clock.skip(6)
    (line,) = [each for each in log("warning") if "Removed" in each["event"]]
    assert line["event"] == "Removed 4 expired offsets in 0 milliseconds."
    kinds = [event["kind"] for event in scene.events.recent()]
    assert kinds.count("offsets_expired") == 2
