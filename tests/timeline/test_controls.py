"""Keyboard, mouse, touch, filters and settings of the page."""

from __future__ import annotations

import pytest
from tests.timeline import streams
from tests.timeline.browser_page import Show

pytestmark = pytest.mark.interop


DARK = {"color_scheme": "dark"}


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
    assert "was refused: group.max.size, or" in shown.focused
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
    assert first < streams.when(events, "rebalance_started", generation=1) < last


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
