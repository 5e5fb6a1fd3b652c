"""Lanes of members in a browser: their states, colours, and times without a reader."""

from __future__ import annotations

import re

import pytest
from tests.timeline import streams
from tests.timeline.browser_page import Show

pytestmark = pytest.mark.interop


def test_there_is_a_lane_for_each_member(show: Show) -> None:
    """Groups with their members below them, also for screen readers.

    A static member that rejoined with a new id has one lane, and a mark on it.
    """
    shown = show(streams.story())
    rows = shown.rows
    assert rows[0] == "Broker"
    assert re.match(r"Group orders: Stable, generation 5, 1 member, 5 reb", rows[1])
    assert [row.split(":")[0] for row in rows[2:6]] == [
        f"Member orders-consumer-{number} of orders" for number in (1, 2, 3, 4)
    ]
    assert rows[2].endswith("stable, leader, owns orders-topic 0-11")
    assert rows[3].endswith(": gone")
    assert [row.split(":")[0] for row in rows[7:]] == [
        f"Member payments-{number} of payments" for number in (1, 2, 3)
    ]
    shown.mark("The static member payments-2 rejoined").click()
    assert "fenced" in shown.panel.inner_text()


def test_a_lane_has_the_colour_of_what_its_member_does(show: Show) -> None:
    """Joining, waiting, syncing, stable: as the events have it, on the canvas, too."""
    events = streams.story()
    shown = show(events)
    began = streams.when(events, "rebalance_started", cause="leader_rejoined")
    late = "orders-consumer-3"
    for member, at, state in (
        ("orders-consumer-1", began + 2500, "waiting"),
        (late, began + 2500, "joining"),
        (late, began - 500, "stable"),
        ("orders-consumer-2", began + 2500, "gone"),
    ):
        assert shown.state(member, at) == state
        seen = shown.colour(member, at)
        assert seen in {"bg", "band"} if state == "gone" else seen == state
    joined = streams.when(events, "join_completed", group="orders", generation=1)
    shown.evaluate("(at) => kohort.chart.view(at - 20, at + 40)", joined)
    shown.settle()
    assert shown.colour("orders-consumer-1", joined + 1) == "syncing"


def test_a_silent_member_is_marked_as_silent(show: Show) -> None:
    """From when the broker last heard of it to the expiry of its session."""
    events = streams.story()
    shown = show(events)
    expired = streams.when(events, "member_expired")
    assert shown.state("orders-consumer-4", expired - 6100) == "stable"
    assert shown.state("orders-consumer-4", expired - 5900) == "silent"
    assert shown.state("orders-consumer-4", expired - 1) == "silent"
    assert shown.state("orders-consumer-4", expired + 1) == "gone"
    (ended,) = (e for e in events if e["kind"] == "member_expired")
    assert ended["silent_ns"] == 6000 * streams.MS


@pytest.mark.parametrize("same", [{"connection": 7}, {"host": "/10.0.0.3"}])
def test_a_process_that_comes_back_keeps_its_lane(
    show: Show, same: dict[str, object]
) -> None:
    """By client id and connection, or host; its member id is another one."""
    scene = streams.Scene("orders")
    scene.arrive()
    (ben,) = scene.arrive(1, "ben", **same)
    scene.leave(ben)
    (again,) = scene.arrive(1, "ben", **same)
    scene.arrive(1, "cleo", **same)
    shown = show(streams.merge(scene))
    assert sum(row.startswith("Member") for row in shown.rows) == 3
    shown.press("Tab", "Enter", "End", "ArrowUp", "Enter")
    text = shown.panel.inner_text()
    assert f"earlier ids\n{ben.member_id}" in text
    assert f"member id\n{again.member_id}" in text


def test_the_red_line_covers_the_time_without_a_reader(show: Show) -> None:
    """Times of several rows and rebalances that overlap are one, in order."""
    events = streams.story()
    rows = [
        ((row["since_ns"] - events[0]["time_ns"]) / 1e6, row)
        for event in events
        if event["kind"] == "rebalance_account" and event["group"] == "orders"
        for row in event["unread"]
        if row["cause"] != "group_empty"
    ]
    spans = show(events).evaluate("() => kohort.model.groups.get('orders').unread")
    assert 0 < len(spans) < len(rows)
    edges = [edge for span in spans for edge in (span["at"], span["end"])]
    assert edges == sorted(edges)
    for since, row in rows:
        until = since + (row["until_ns"] - row["since_ns"]) / 1e6
        assert any(
            span["at"] <= since + 0.001 and until - 0.001 <= span["end"]
            for span in spans
        )
    assert sum(span["end"] - span["at"] for span in spans) < sum(
        (row["until_ns"] - row["since_ns"]) / 1e6 for _, row in rows
    )


def test_the_axis_has_the_time_of_day(show: Show) -> None:
    """Below the time since the first event, by the broker's clock, in UTC."""
    shown = show(streams.story())
    code = "(at) => timeOfDay(kohort.model.clockAt(at), 1000)"
    assert shown.evaluate(code, 0) == "22:13:20"
    assert shown.evaluate(code, 65_000) == "22:14:25"


def test_a_bar_says_what_its_member_did_then(show: Show) -> None:
    """A click into a lane: state, partitions, the rebalance that it is in."""
    events = streams.story()
    shown = show(events)
    at = streams.when(events, "rebalance_started", cause="leader_rejoined") + 2000
    x, y = shown.evaluate(
        """(at) => {
          const { chart } = kohort;
          const row = chart.shown.find((each) => each.lane?.name.endsWith("-3"));
          const box = chart.element.getBoundingClientRect();
          return [box.left + chart.labels + (at - chart.from) * chart.scale,
                  box.top + AXIS + row.y + row.height / 2];
        }""",
        at,
    )
    shown.page.mouse.click(x, y)
    text = shown.panel.inner_text()
    assert "orders-consumer-3" in text
    assert "Joining. The group is rebalancing and waits" in text
    assert "orders-topic 1, 4, 7, 10 (4 partitions)" in text
    shown.panel.get_by_role("button", name="The leader, orders-consumer-1").click()
    assert "Rebalance of orders, to generation 4" in shown.panel.inner_text()


def test_a_broker_that_was_away_is_away_on_the_page(show: Show) -> None:
    """No members between two runs; then the members from the log, in their lanes."""
    before, after = streams.restart()
    events = before + after
    shown = show(events)
    stopped = streams.when(events, "node_stopped")
    loaded = streams.when(events, "group_loaded")
    for member in ("orders-consumer-1", "orders-consumer-2"):
        assert shown.state(member, stopped - 1) == "stable"
        assert shown.state(member, stopped + 1) == "gone"
        assert shown.state(member, loaded + 1) == "stable"
    assert sum("Member" in row for row in shown.rows) == 2
    assert shown.mark("Node 0 no longer accepts connections").is_visible()
