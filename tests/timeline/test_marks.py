"""Marks in a browser, and the explanations that they open."""

from __future__ import annotations

import pytest
from tests.coordinator.migration.context import Mixed
from tests.events.build import accounted, recorded
from tests.timeline import streams
from tests.timeline.browser_page import Show

from kohort.broker.coordinator.events import HoldGroup, Kick, ReleaseGroup

pytestmark = pytest.mark.interop


def test_the_time_without_a_reader_is_shown(show: Show) -> None:
    """As partition-seconds, from when the crashed member was last heard of."""
    events = streams.story()
    shown = show(events)
    account = next(
        event
        for event in events
        if event["kind"] == "rebalance_account" and event["cause"] == "session_expired"
    )
    shown.mark("orders-consumer-4's session expired").click()
    text = shown.panel.inner_text()
    assert account["unread_ns"] > 6 * 6_000 * streams.MS
    assert f"{account['unread_ns'] / 1e9:.1f} partition-seconds in total" in text
    assert "orders-consumer-4 (expired)" in text
    shown.page.locator("#tab-rebalances").click()
    row = shown.page.locator("#view-rebalances tbody tr", has_text="expired")
    assert row.inner_text().split()[-1] == f"{account['unread_ns'] / 1e9:.1f}"


@pytest.mark.parametrize(
    "mark", [": orders-consumer-4's session expired", "the broker had heard"]
)
def test_a_crash_is_shown_with_its_finding(show: Show, mark: str) -> None:
    """At the mark of the member that expired, and at that of its rebalance."""
    shown = show(streams.story())
    shown.mark(mark).click()
    assert "Finding: Members crashed" in shown.panel.inner_text()


def test_a_rebalance_that_is_under_way_is_told_as_such(show: Show) -> None:
    """The events end before the members have joined."""
    events = streams.story()
    last = max(n for n, e in enumerate(events) if e["kind"] == "rebalance_started")
    shown = show(events[: last + 2])
    shown.mark("orders-consumer-4's session expired").click()
    assert "still in progress" in shown.panel.inner_text()
    shown.page.locator("#tab-rebalances").click()
    row = shown.page.locator("#view-rebalances tbody tr").last
    assert "under way" in row.inner_text()


def test_a_mark_opens_its_explanation(show: Show) -> None:
    """The sentence of the account, the end of the join phase, members and moves."""
    shown = show(streams.story())
    mark = shown.mark("The leader, orders-consumer-1, rejoined")
    mark.click()
    text = shown.panel.inner_text()
    assert "Rebalance of orders, to generation 4" in text
    assert "orders-consumer-3 did not rejoin in time and was removed" in text
    assert "8 of 12 partitions moved" in text
    assert "Join phase 8.00 s" in text
    assert "the longest rebalance timeout of a member was over" in text
    assert "No longer in the group: orders-consumer-3 (kicked)." in text
    assert "orders-consumer-1: it was the first to join. Assignor: range" in text
    assert shown.focused == "Rebalance of orders, to generation 4"
    shown.press("Escape")
    assert shown.panel.is_hidden()
    assert "The leader, orders-consumer-1, rejoined" in shown.focused


def test_a_restart_is_in_the_explanation(show: Show) -> None:
    """The process is back as another member; how long it was away."""
    scene = streams.Scene("orders")
    _, second = scene.arrive(2, host="/10.0.0.1")
    scene.leave(second)
    scene.wait(2000)  # else the two rebalances share one mark
    scene.arrive(1, second.name, host="/10.0.0.1")
    shown = show(streams.merge(scene))
    shown.mark(f"to generation 3: {second.name} joined").click()
    assert f"Restarted: {second.name} (away for " in shown.panel.inner_text()


def test_commands_are_marked_and_explained(show: Show) -> None:
    """A hold has a mark, and is a piece of its rebalance; a kick is a cause."""
    scene = streams.Scene("orders")
    first, second = scene.arrive(2)
    scene.context.command(HoldGroup, group="orders")
    scene.wait(2000)
    kick = (second.member_id, "for a test")
    scene.context.command(Kick, *kick, group="orders")
    first.join()
    scene.wait(3000)
    scene.context.command(ReleaseGroup, group="orders")
    shown = show(streams.merge(scene))
    shown.mark("A test holds the group in PreparingRebalance.").click()
    assert "A test holds the group" in shown.panel.inner_text()
    shown.mark(f"A test kicked {second.name}").click()
    text = shown.panel.inner_text()
    assert ": for a test;" in text
    assert f"No longer in the group: {second.name} (commanded)." in text


BLUEST = """([from, to]) => {
  const { chart } = kohort;
  chart.draw();
  const ratio = window.devicePixelRatio;
  const x = (time) => (chart.labels + (time - chart.from) * chart.scale) * ratio;
  const row = chart.shown.find((each) => each.kind === "group");
  const [width, tall] = [Math.ceil(x(to) - x(from)), 8];
  const copy = document.createElement("canvas");
  const context = copy.getContext("2d", { willReadFrequently: true });
  const y = (row.y + AXIS + 5) * ratio;
  context.drawImage(chart.painter.canvas, x(from), y, width, tall, 0, 0, width, tall);
  const { data } = context.getImageData(0, 0, width, tall);
  let most = 0;
  for (let i = 0; i < data.length; i += 4) most = Math.max(most, data[i + 2] - data[i]);
  return most;
}"""
"""The bluest point of a group's own row in a time."""


def test_a_hold_is_a_band(show: Show) -> None:
    """From the hold to its release, and over the lanes; one in force goes on."""
    scene = streams.Scene("orders")
    first, _ = scene.arrive(2)
    scene.wait(1000)
    held = scene.at_ms
    scene.context.command(HoldGroup, group="orders")
    scene.wait(2000)
    released = scene.at_ms
    scene.context.command(ReleaseGroup, group="orders")
    scene.wait(2000)
    scene.context.command(HoldGroup, group="orders")
    scene.wait(1000)
    first.join()
    events = streams.merge(scene)
    shown = show(events)
    assert "held by a test" in shown.rows[0]
    start = (events[0]["time_ns"] - streams.START_NS) / streams.MS
    held, released = held - start, released - start
    assert shown.evaluate(BLUEST, [held - 800, held - 600]) < 40
    assert shown.evaluate(BLUEST, [held + 600, held + 1400]) > 60
    assert shown.evaluate(BLUEST, [released + 600, released + 1400]) < 40
    assert shown.evaluate(BLUEST, [released + 2100, released + 2900]) > 60


def test_faults_are_marked_and_explained(show: Show) -> None:
    """Strikes are in the lane of the member, or in the row of the broker."""
    scene = streams.Scene("orders")
    (ana,) = scene.arrive(1, "ana")
    of_ana = {
        "group": "orders",
        "member_id": ana.member_id,
        "client_id": "ana",
        "api": "Heartbeat",
        "error": "NOT_COORDINATOR",
    }
    struck = [
        {"cause": "error", "fault_id": 1, "fault": "lost", **of_ana},
        {"cause": "black_hole", "fault_id": 2, "fault": "fault 2", "client_id": "ben"},
    ]
    events = [
        streams.broker_event("fault_struck", scene.at_ms + 1000, **fields)
        for fields in struck
    ]
    shown = show(streams.merge(scene, also=events))
    answered = "it was answered with NOT_COORDINATOR, and had no effect."
    shown.mark(f"Fault “lost” struck the Heartbeat of ana: {answered}").click()
    assert answered in shown.panel.inner_text()
    shown.mark("Fault 2 struck a connection of ben: nothing").click()
    assert "is read or answered." in shown.panel.inner_text()


def test_a_test_that_moves_the_clock_is_a_mark(show: Show) -> None:
    """By how much, and whether members counted as heard from."""
    scene = streams.Scene("orders")
    scene.arrive(1, "ana")
    at_ms = scene.at_ms + 1000
    until_ns = streams.START_NS + int((at_ms + 46_000) * streams.MS)
    fields = {"until_ns": until_ns, "credits_heartbeats": False}
    moved = streams.broker_event("clock_advanced", at_ms, **fields)
    shown = show(streams.merge(scene, also=[moved]))
    text = "A test moved the clock ahead by 46.0 s; no member counted as heard from"
    shown.mark(text).click()
    assert text in shown.panel.inner_text()


def transaction(
    scene: streams.Scene, name: str, *changes: tuple[float, str, str]
) -> list[streams.Event]:
    """The events of a transaction: (seconds from now, state, cause)."""
    first = scene.at_ms + changes[0][0] * 1000
    return [
        streams.broker_event(
            "transaction_state",
            scene.at_ms + seconds * 1000,
            transactional_id=name,
            client_id="app",
            producer_id=sum(map(ord, name)),
            timeout_ms=60_000,
            state=state,
            cause=cause,
            started_ns=streams.START_NS + int(first * streams.MS),
            partitions=[{"topic": "orders", "partitions": [3]}],
            group_ids=["billing"],
        )
        for seconds, state, cause in changes
    ]


def test_transactions_that_are_open_for_a_while_are_marked(show: Show) -> None:
    """In the row of the broker; quick ones are not, and bad ends are a problem."""
    scene = streams.Scene("orders")
    scene.arrive(1, "ana")
    began = (1, "Ongoing", "client_began")
    done = "CompleteCommit", "markers_written"
    aborted = "CompleteAbort", "markers_written"
    events = [
        *transaction(scene, "quick", began, (1.5, *done)),
        *transaction(
            scene, "slow", began, (9, "PrepareCommit", "client_committed"), (9, *done)
        ),
        *transaction(
            scene,
            "dead",
            (2, *began[1:]),
            (6, "PrepareAbort", "timeout"),
            (6, *aborted),
        ),
        *transaction(scene, "open", (12, "Ongoing", "client_began")),
    ]
    scene.wait(20_000)
    last = streams.broker_event("node_started", scene.at_ms)
    shown = show(streams.merge(scene, also=[*events, last]))
    titles = shown.evaluate("() => kohort.model.brokerMarks.map(titleOf)")
    slow, dead, is_open, *_ = titles
    what = "orders 3, offsets of billing"
    assert slow == (
        f"The transaction of slow (client app) with {what} was open for 8.00 s:"
        " the producer committed it."
    )
    assert dead == (
        f"The transaction of dead (client app) with {what} was aborted after 4.00 s:"
        " it was open for longer than its timeout."
    )
    assert is_open == (
        "The transaction of open (client app) is open: read_committed consumers get no"
        f" record behind it in {what}."
    )
    bad = "() => kohort.model.brokerMarks.map((mark) => signOf(mark)[1])"
    assert shown.evaluate(bad)[:3] == [False, True, False]
    shown.mark("The transaction of open").click()
    assert "transactional_id" in shown.panel.inner_text()


def test_what_a_client_said_is_in_the_explanation(show: Show) -> None:
    """The reason of a LeaveGroup (KIP-800); without one no cause is guessed."""
    shown = show(streams.story())
    shown.mark("to generation 3: orders-consumer-2 left").click()
    assert '(reason: "the consumer is being closed")' in shown.panel.inner_text()
    shown.mark("payments-3 left the group. It gave no reason.").click()
    assert "gave no reason" in shown.panel.inner_text()


def test_an_event_of_a_later_version_is_shown_by_its_name(show: Show) -> None:
    """An unknown kind of event is a mark."""
    scene = streams.Scene("orders")
    scene.arrive()
    events = streams.merge(scene)
    later = {**events[-1], "kind": "moon_rose", "cause": "a_plan"}
    later["sequence"] += 1
    shown = show([*events, {**later, "time_ns": later["time_ns"] + 10**9}])
    shown.mark("moon rose: a plan").click()
    assert "Moon rose in orders" in shown.panel.inner_text()


def test_a_gap_is_shown(show: Show) -> None:
    """Events that are missing are missing on the page, and it says so."""
    scene = streams.Scene("orders")
    scene.arrive(2)
    gap = streams.broker_event("events_lost", 1000, first=7, last=19)
    shown = show(streams.merge(scene, also=[gap]))
    shown.mark("Events 7 to 19 are missing").click()
    assert "too slow" in shown.panel.inner_text()


def test_a_group_that_moves_to_the_other_protocol(show: Show) -> None:
    """The mark has the cause, and the member."""
    scene = Mixed(2)
    scene.classic_group({"ana": [0], "ben": [1]})
    scene.sleep(5_000)
    scene.consumer("cleo", "t").join()
    scene.sleep(5_000)
    shown = show(accounted(recorded(scene)))
    shown.mark("moved to the consumer protocol by cleo").click()
    assert "an online upgrade (KIP-848)" in shown.panel.inner_text()
