"""The page without a mouse, without eyes, and with weak ones."""

from __future__ import annotations

from typing import Any

import pytest
from tests.chromium import CONTRAST, ENOUGH
from tests.timeline import streams
from tests.timeline.browser_page import Show, Shown

pytestmark = pytest.mark.interop

Node = dict[str, Any]

CONTROLS = {"button", "textbox", "searchbox", "combobox", "tab", "link", "rowheader"}

# Of all texts in view, and of those on the canvas: the lowest contrast, and where.
SEEN = f"""() => {{{CONTRAST}
  const colour = (name) => getComputedStyle(document.documentElement)
    .getPropertyValue(`--${{name}}`).trim();
  const behind = (element) => {{
    if (element.closest(".row.lane .label")) return colour("bg");
    if (element.closest(".row .label")) return colour("group");
    return ground(element, colour("bg"));
  }};
  const found = texts(".hidden, script, style").map((element) => {{
    const name = `${{element.tagName}} ${{element.className}} ${{element.textContent}}`;
    return [contrast(getComputedStyle(element).color, behind(element)), name];
  }});
  const drawn = [["stable-ink", "stable"], ["soft", "bg"], ["soft", "generation"],
    ["soft", "line"], ["soft", "group"]];
  for (const [ink, paper] of drawn)
    found.push([contrast(colour(ink), colour(paper)), `${{ink}} on ${{paper}}`]);
  return found.sort(([a], [b]) => a - b);
}}"""


def tree(shown: Shown) -> list[Node]:
    """Chromium's accessibility tree: its nodes, in reading order."""
    session = shown.page.context.new_cdp_session(shown.page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    by_id = {node["nodeId"]: node for node in nodes}
    ordered, todo = [], [nodes[0]["nodeId"]]
    while todo:
        node = by_id.get(todo.pop())
        if node is None:
            continue
        ordered.append(node)
        todo += reversed(node.get("childIds", []))
    return [node for node in ordered if not node.get("ignored")]


def role(node: Node) -> str:
    """A node's role."""
    return str(node.get("role", {}).get("value", ""))


def name(node: Node) -> str:
    """The accessible name of a node."""
    return str(node.get("name", {}).get("value", ""))


def said(node: Node, key: str) -> object:
    """A property of a node."""
    properties = {each["name"]: each["value"] for each in node.get("properties", [])}
    return properties.get(key, {}).get("value")


def test_a_screen_reader_hears_the_rows_as_they_are_seen(show: Show) -> None:
    """A treegrid: rows in order, with their levels, also after scrolling."""
    shown = show(streams.deployment(200), viewport={"width": 1000, "height": 500})
    for key in ("Home", "End", "PageUp"):
        shown.evaluate("() => kohort.chart.goToRow(kohort.chart.active)")
        shown.press(key)
        shown.settle()
        nodes = tree(shown)
        (grid,) = [node for node in nodes if role(node) == "treegrid"]
        assert name(grid) == "Members over time"
        heads = [name(node) for node in nodes if role(node) == "rowheader"]
        assert heads == shown.rows
        rows = [node for node in nodes if role(node) == "row"]
        assert [said(row, "level") for row in rows] == [
            1 if head.startswith("Group") else 2 for head in heads
        ]


def test_everything_that_can_be_used_has_a_name(show: Show) -> None:
    """In each view, and in the explanation."""
    shown = show(streams.story())
    for view in ("chart", "findings", "delivery", "rebalances", "members", "marks"):
        shown.page.locator(f"#tab-{view}").click()
        if view == "chart":
            shown.mark("The leader, orders-consumer-1").click()
        found = [node for node in tree(shown) if role(node) in CONTROLS]
        assert len(found) > 15
        assert [node for node in found if not name(node)] == []
    selected = [node for node in tree(shown) if role(node) == "tab"]
    assert [said(node, "selected") for node in selected] == [False] * 5 + [True]


def test_the_keyboard_goes_through_the_page_and_is_seen(show: Show) -> None:
    """In reading order; where it is has an outline or a ring."""
    shown = show(streams.story())
    order = []
    for _ in range(13):
        shown.press("Tab")
        order.append(shown.focused.strip())
        ring = shown.evaluate(
            """() => {
              const { outlineStyle, outlineWidth, boxShadow } =
                getComputedStyle(document.activeElement);
              return (outlineStyle !== "none" && parseFloat(outlineWidth) >= 1)
                || boxShadow !== "none";
            }"""
        )
        assert ring, order
    assert order == [
        "Skip to the chart",
        "Group",
        "Member",
        "Colours: as the system",
        "Timeline",
        "Hide gone",
        "Zoom in",
        "Zoom out",
        "All",
        "Smaller rows",
        "Larger rows",
        "Keys",
        "Broker",
    ]
    shown.page.locator("a.skip").focus()
    shown.press("Enter")
    assert shown.focused == "Broker"
    shown.press("ArrowDown", "ArrowRight")
    assert "orders-consumer-1 joined." in shown.focused


def test_what_has_been_loaded_is_said(show: Show) -> None:
    """A live region announces the loaded events."""
    events = streams.story()
    shown = show(events)
    (status,) = [node for node in tree(shown) if role(node) == "status"]
    assert said(status, "live") == "polite"
    said_so = f"{len(events)} events of 2 groups are shown."
    assert shown.page.get_by_role("status").inner_text() == said_so


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read(show: Show, scheme: str) -> None:
    """Contrast as measured, of all that is written, on the canvas, too."""
    shown = show(streams.story(), color_scheme=scheme)
    for view in ("chart", "findings", "delivery", "rebalances", "members", "marks"):
        shown.page.locator(f"#tab-{view}").click()
        if view == "chart":
            shown.mark("The leader, orders-consumer-1").click()
        found = shown.evaluate(SEEN)
        assert len(found) > 40
        assert [each for each in found if each[0] < ENOUGH] == []
