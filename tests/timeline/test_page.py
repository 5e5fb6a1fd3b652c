"""The page in a browser: its content and its controls."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tests.timeline import streams
from tests.timeline.browser_page import Shown

from kohort.broker.coordinator.events import HoldGroup, Kick, ReleaseGroup

pytestmark = pytest.mark.interop

Show = Callable[..., Shown]

DARK = {"color_scheme": "dark"}


def when(events: list[streams.Event], kind: str, **fields: object) -> float:
    """The time of the first event of a kind, in ms after the first of all."""
    first = events[0]["time_ns"]
    for event in events:
        if event["kind"] == kind and fields.items() <= event.items():
            return float(event["time_ns"] - first) / 1e6
    raise LookupError(kind)


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
    began = when(events, "rebalance_started", cause="leader_rejoined")
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
    joined = when(events, "join_completed", group="orders", generation=1)
    shown.evaluate("(at) => kohort.chart.view(at - 20, at + 40)", joined)
    shown.settle()
    assert shown.colour("orders-consumer-1", joined + 1) == "syncing"


def test_a_silent_member_is_marked_as_silent(show: Show) -> None:
    """From when the broker last heard of it to the expiry of its session."""
    events = streams.story()
    shown = show(events)
    expired = when(events, "member_expired")
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
    assert (
        f"{account['unread_ns'] / 1e9:.1f} partition-seconds without a reader" in text
    )
    assert "orders-consumer-4 (expired)" in text
    shown.page.locator("#tab-rebalances").click()
    row = shown.page.locator("#view-rebalances tbody tr", has_text="expired")
    assert row.inner_text().split()[-1] == f"{account['unread_ns'] / 1e9:.1f}"


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


def test_findings_are_shown_with_their_evidence(show: Show) -> None:
    """A tab of cards; evidence leads to its rebalance, which names the finding."""
    shown = show(streams.story())
    tab = shown.page.locator("#tab-findings")
    cards = shown.page.locator("#view-findings article")
    tab.click()
    assert tab.locator(".count").inner_text() == f"{cards.count()}" != "0"
    card = cards.filter(has_text="rebalance timeout").first
    card.get_by_role("button").first.click()
    text = shown.panel.inner_text()
    assert "Rebalance of orders, to generation 4" in text
    assert f"Finding: {card.locator('h3').inner_text().rpartition(' ')[0]}" in text


@pytest.mark.parametrize(
    "mark", [": orders-consumer-4's session expired", "the broker had heard"]
)
def test_a_crash_is_shown_with_its_finding(show: Show, mark: str) -> None:
    """At the mark of the member that expired, and at that of its rebalance."""
    shown = show(streams.story())
    shown.mark(mark).click()
    assert "Finding: Members crashed" in shown.panel.inner_text()


def test_the_axis_has_the_time_of_day(show: Show) -> None:
    """Below the time since the first event, by the broker's clock, in UTC."""
    shown = show(streams.story())
    code = "(at) => timeOfDay(kohort.model.clockAt(at), 1000)"
    assert shown.evaluate(code, 0) == "22:13:20"
    assert shown.evaluate(code, 65_000) == "22:14:25"


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
    """Cause, culprit, waits with times, the end of the join phase, moves."""
    shown = show(streams.story())
    mark = shown.mark("The leader, orders-consumer-1, rejoined")
    mark.click()
    text = shown.panel.inner_text()
    assert "Rebalance of orders, to generation 4" in text
    assert "The leader, orders-consumer-1, rejoined" in text
    assert "Join phase 8.00 s" in text
    assert "the longest rebalance timeout of a member was over" in text
    assert "orders-consumer-3 did not rejoin; the other members waited 8.00 s" in text
    assert "No longer in the group: orders-consumer-3 (kicked)." in text
    assert "8 partitions moved to another member, 4 stayed." in text
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
    assert "Its reason: “for a test”." in text
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
    assert "Its reason: “the consumer is being closed”." in shown.panel.inner_text()
    shown.mark("payments-3 left the group. It gave no reason.").click()
    assert "gave no reason" in shown.panel.inner_text()


def test_a_bar_says_what_its_member_did_then(show: Show) -> None:
    """A click into a lane: state, partitions, the rebalance that it is in."""
    events = streams.story()
    shown = show(events)
    at = when(events, "rebalance_started", cause="leader_rejoined") + 2000
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


def test_everything_is_reached_with_the_keyboard(show: Show) -> None:
    """One tab stop for the chart; arrows go to rows and marks, Enter explains."""
    shown = show(streams.story())
    whole = shown.span
    shown.page.locator("#help").focus()
    shown.press("Tab")
    assert shown.focused == "Broker"
    shown.press("ArrowDown")
    assert shown.focused.startswith("Group orders")
    shown.press("ArrowRight")
    assert "orders-consumer-1 joined." in shown.focused
    shown.press("ArrowRight", "ArrowRight", "ArrowRight")
    assert "orders-consumer-2 left." in shown.focused
    shown.press("Enter")
    assert shown.focused == "Rebalance of orders, to generation 3"
    shown.press("Escape")
    assert "orders-consumer-2 left." in shown.focused
    shown.press("ArrowLeft")
    assert "was refused: group.max.size is reached" in shown.focused
    shown.press("End")
    assert shown.focused.startswith("Member payments-3")
    shown.press("Enter")
    assert shown.focused == "payments-3"
    shown.press("Escape")
    before = shown.span
    shown.press("+")
    shown.settle()
    assert shown.span[1] - shown.span[0] == pytest.approx((before[1] - before[0]) / 2)
    zoomed = shown.span
    shown.press("Shift+ArrowRight")
    shown.settle()
    assert shown.span[0] > zoomed[0]
    shown.press("0")
    shown.settle()
    assert shown.span == pytest.approx(whole)


def test_the_keyboard_goes_to_marks_out_of_view(show: Show) -> None:
    """The next mark is where it is, and the chart goes there."""
    events = streams.story()
    shown = show(events)
    shown.evaluate("() => kohort.chart.view(-100, 300)")
    shown.evaluate("() => kohort.chart.goToRow(1)")
    shown.press("ArrowRight", "ArrowRight")
    assert "orders-consumer-4 joined." in shown.focused
    first, last = shown.span
    assert first < when(events, "rebalance_started", generation=1) < last


def test_groups_open_and_close(show: Show) -> None:
    """Enter on a group's row, or a click on its name."""
    shown = show(streams.story())
    shown.evaluate("() => kohort.chart.goToRow(1)")
    shown.press("Enter")
    shown.settle()
    assert not [row for row in shown.rows if "of orders" in row]
    group = shown.page.locator(".row.group").first
    assert group.get_attribute("aria-expanded") == "false"
    group.locator(".label").click()
    shown.settle()
    assert len([row for row in shown.rows if "of orders" in row]) == 4


def test_one_group_at_a_time(show: Show) -> None:
    """The filter has all groups, keeps chart and tables to one, and is a link."""
    shown = show(streams.story())
    select = shown.page.get_by_label("Group", exact=True)
    assert select.locator("option").all_inner_texts() == [
        "all groups",
        "orders",
        "payments",
    ]
    select.select_option("payments")
    shown.settle()
    assert all("payments" in row for row in shown.rows)
    shown.page.locator("#tab-rebalances").click()
    cells = shown.page.locator("#view-rebalances tbody tr td:nth-child(2)")
    assert set(cells.all_inner_texts()) == {"payments"}
    assert shown.page.url.endswith("#group=payments")
    rows = show(streams.story(), at="#group=orders").rows
    assert all("orders" in row for row in rows)


def test_members_are_found_by_any_of_their_names(show: Show) -> None:
    """A part of the client id, the member id, the instance id or the host."""
    shown = show(streams.story())
    shown.page.get_by_label("Member", exact=True).fill("10.0.0.4")
    shown.settle()
    assert [row.split(":")[0] for row in shown.rows if "Member" in row] == [
        "Member orders-consumer-3 of orders",
        "Member payments-3 of payments",
    ]


def test_who_is_gone_can_be_left_out(show: Show) -> None:
    """In a group that many have come to and left, one sees those that are in it."""
    shown = show(streams.story())
    button = shown.page.get_by_role("button", name="Hide gone")
    button.click()
    shown.settle()
    assert [row.split()[1] for row in shown.rows if "Member" in row] == [
        "orders-consumer-1",
        "payments-1",
        "payments-2",
    ]
    button.click()
    shown.settle()
    assert sum("Member" in row for row in shown.rows) == 7


def test_dark_as_the_system_or_as_one_likes(show: Show) -> None:
    """prefers-color-scheme, and a button that goes before it; the canvas, too."""
    background = """() => {
      const copy = document.createElement("canvas").getContext("2d");
      copy.drawImage(kohort.chart.painter.canvas, 700, 2, 1, 1, 0, 0, 1, 1);
      const [r, g, b] = copy.getImageData(0, 0, 1, 1).data;
      return [getComputedStyle(document.body).backgroundColor, [r, g, b]];
    }"""
    shown = show(streams.story(), **DARK)
    shown.settle()
    body, canvas = shown.evaluate(background)
    assert body == "rgb(18, 22, 27)"
    assert canvas == [18, 22, 27]
    button = shown.page.locator("#theme")
    assert button.get_attribute("aria-label") == "Colours: as the system"
    button.click()
    assert button.get_attribute("aria-label") == "Colours: light"
    shown.settle()
    assert shown.evaluate(background) == ["rgb(255, 255, 255)", [255, 255, 255]]
    button.click()
    shown.settle()
    assert shown.evaluate(background)[0] == body


def test_nothing_glides_where_motion_is_unwelcome(show: Show) -> None:
    """prefers-reduced-motion: a zoom is there at once."""
    shown = show(streams.story(), reduced_motion="reduce")
    first, last = shown.span
    shown.page.locator("#zoom-in").click()
    assert shown.span[1] - shown.span[0] == pytest.approx((last - first) / 2)


def test_the_mouse_zooms_and_moves(show: Show) -> None:
    """Ctrl and the wheel zoom where the pointer is; dragging moves."""
    shown = show(streams.story())
    x, y = 900.0, 420.0
    under = "(x) => kohort.chart.timeAt(x)"
    shown.page.mouse.move(x, y)
    before, moment = shown.span, shown.evaluate(under, x)
    shown.page.keyboard.down("Control")
    shown.page.mouse.wheel(0, -200)
    shown.page.keyboard.up("Control")
    shown.page.wait_for_function(
        "(was) => kohort.chart.to - kohort.chart.from < was * 0.99",
        arg=before[1] - before[0],
    )
    assert shown.evaluate(under, x) == pytest.approx(moment, abs=1)
    moment = shown.evaluate(under, x)
    shown.page.mouse.down()
    shown.page.mouse.move(x - 100, y, steps=4)
    shown.page.mouse.up()
    assert shown.evaluate(under, x - 100) == pytest.approx(moment, rel=1e-3)
    assert shown.panel.is_hidden()


def test_two_fingers_zoom(show: Show) -> None:
    """A pinch: each finger keeps its point of the chart below it."""
    shown = show(streams.story(), has_touch=True)
    before = shown.span
    touch = shown.page.context.new_cdp_session(shown.page)

    def fingers(kind: str, *places: float) -> None:
        points = [{"x": x, "y": 420, "id": i} for i, x in enumerate(places)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    fingers("touchStart", 700, 800)
    for apart in range(10, 110, 10):
        fingers("touchMove", 700 - apart, 800 + apart)
    fingers("touchEnd")
    shown.settle()
    zoomed = (shown.span[1] - shown.span[0]) / (before[1] - before[0])
    assert zoomed == pytest.approx(1 / 3, rel=0.1)


def test_the_tables_have_the_same_facts(show: Show) -> None:
    """Rebalances as a table with headings, whose rows open the same explanation."""
    events = streams.story()
    shown = show(events)
    shown.page.locator("#tab-rebalances").click()
    table = shown.page.get_by_role("table")
    assert "8 in total" in table.locator("caption").inner_text()
    rows = table.locator("tbody tr")
    assert rows.count() == sum(e["kind"] == "rebalance_started" for e in events)
    (late,) = [
        text for text in rows.all_inner_texts() if "rejoined to reassign" in text
    ]
    assert "orders-consumer-3: did not rejoin" in late
    assert "rebalance timeout" in late
    head = table.locator("th", has_text="Duration")
    head.get_by_role("button").click()
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert "did not rejoin" in rows.first.inner_text()
    rows.first.get_by_role("button").click()
    assert "Rebalance of orders, to generation 4" in shown.panel.inner_text()
    shown.press("Escape")
    shown.page.locator("#tab-members").focus()
    shown.page.locator("#tab-rebalances").focus()
    shown.press("ArrowRight")
    assert shown.page.locator("#view-members tbody tr").count() == 7
    shown.press("ArrowRight")
    assert "GROUP_MAX_SIZE_REACHED" in shown.page.locator("#view-marks").inner_text()


def test_a_narrow_screen_has_it_all(show: Show) -> None:
    """A telephone: nothing is too wide, names differ where cut, a tap explains."""
    shown = show(
        streams.story(), viewport={"width": 390, "height": 780}, has_touch=True
    )
    assert shown.evaluate("() => document.documentElement.scrollWidth") == 390
    names = shown.page.locator(".row.lane .name").all_inner_texts()
    assert names[0] == "orders…umer-1"
    assert len({*names}) == len(names) == 7
    shown.mark("orders-consumer-4 joined").tap()
    assert shown.panel.is_visible()
    box = shown.panel.bounding_box()
    assert box is not None
    assert box["width"] == 390


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


def test_a_broker_that_was_away_is_away_on_the_page(show: Show) -> None:
    """No members between two runs; then the members from the log, in their lanes."""
    before, after = streams.restart()
    events = before + after
    shown = show(events)
    stopped = when(events, "node_stopped")
    loaded = when(events, "group_loaded")
    for member in ("orders-consumer-1", "orders-consumer-2"):
        assert shown.state(member, stopped - 1) == "stable"
        assert shown.state(member, stopped + 1) == "gone"
        assert shown.state(member, loaded + 1) == "stable"
    assert sum("Member" in row for row in shown.rows) == 2
    assert shown.mark("Node 0 no longer accepts connections").is_visible()


def test_a_page_that_is_left_open_forgets_the_oldest(show: Show) -> None:
    """Its memory is bounded: of more events than it keeps the older half goes."""
    shown = show(streams.story())
    kept, first, groups, named = shown.evaluate(
        """() => {
          const { model, chart } = kohort;
          const base = { kind: "heartbeat", run: "a1b2c3", node: 0, error: "NONE" };
          const lane = model.groups.get("payments").lanes[0];
          const names = { group: "payments", member_id: lane.memberId };
          const from = model.origin + (model.end + 1) * 1e6;
          let sequence = 1000;
          const put = (time_ns, fields) => fold(model,
            { ...base, ...fields, sequence: sequence += 1, time_ns, wall_ns: time_ns });
          for (let i = 0; i < 320000; i += 1) {
            put(from + i * 1e6, names);
            if (i % 100) continue;
            const once = { group: `once-${i}`, member_id: `m-${i}`, cause: "new" };
            put(from + i * 1e6, { ...once, kind: "member_joined" });
            put(from + i * 1e6, { ...once, kind: "member_left", cause: "left" });
            trim(model);
          }
          chart.fit();
          chart.draw();
          const { groups } = model;
          const sum = (of) => [...groups.values()].reduce((all, g) => all + of(g), 0);
          return [lane.beats.length, model.start, groups.size,
                  sum((g) => g.known.size + g.shared.size + g.marks.length)];
        }"""
    )
    assert 100_000 < kept < 300_000
    assert first > 0
    assert 1000 < groups < 3000
    assert named < 3 * groups + 50
    assert not any("payments-3" in row for row in shown.rows)
    assert any("payments-1" in row for row in shown.rows)


def test_a_thousand_members_cost_what_is_in_view(show: Show) -> None:
    """There are elements for the rows in view only, however many members there are."""
    shown = show(streams.deployment())
    assert shown.page.locator("#rows").get_attribute("aria-rowcount") == "1021"
    assert 20 < len(shown.rows) < 60
    assert shown.page.locator("*").count() < 1000
    shown.evaluate("() => kohort.chart.goToRow(0)")
    shown.press("End")
    assert shown.focused.startswith("Member fleet-consumer-1020")
    assert 20 < len(shown.rows) < 60
    shown.page.get_by_label("Member", exact=True).fill("consumer-77")
    shown.settle()
    assert sum("consumer-77" in row for row in shown.rows) == 11


def test_a_hundred_thousand_events_stay_usable(show: Show) -> None:
    """All are taken, one sees and reaches them, and drawing needs few elements."""
    shown = show(streams.many())
    assert "100,000 events" in shown.page.locator("#about").inner_text()
    assert shown.page.locator("*").count() < 2500
    shown.page.mouse.move(800, 500)
    shown.page.keyboard.down("Control")
    for turn in range(40):
        shown.page.mouse.wheel(0, -120 if turn < 30 else 60)
    shown.page.keyboard.up("Control")
    shown.settle()
    assert shown.span[1] - shown.span[0] < 60_000
    shown.page.get_by_label("Group", exact=True).select_option("group-07")
    shown.settle()
    assert shown.rows[0].startswith("Group group-07")
    shown.page.locator("#tab-rebalances").click()
    assert shown.page.locator("#view-rebalances tbody tr").count() <= 100
