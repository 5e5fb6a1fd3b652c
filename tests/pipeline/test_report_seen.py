"""The report in headless Chromium, as a reader has it before them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.chromium import CONTRAST, ENOUGH, chromium
from tests.pipeline import report_builds

from kohort.pipeline.report.page import page as page_of
from kohort.pipeline.report.queries import Answers

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = [pytest.mark.spark, pytest.mark.interop]

DRAWN_MS = 60_000.0

# The contrast of all texts, charts and all, against what is behind them: the lowest.
SEEN = f"""() => {{{CONTRAST}
  const page = getComputedStyle(document.body).backgroundColor;
  const found = texts("script, style, .skip").map((element) => {{
    const style = getComputedStyle(element);
    const ink = element.closest("svg") ? style.fill : style.color;
    return [contrast(ink, ground(element, page)), element.textContent.slice(0, 60)];
  }});
  return found.sort(([a], [b]) => a - b);
}}"""


@dataclass
class Open:
    """A report that is open.

    Attributes:
        page: Playwright's.
        asked: what it asked for, besides its own file.
        said: on the console, and errors.
    """

    page: Page
    asked: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def goto(self, file: Path) -> None:
        """Opens it; whatever it asks for is refused, and remembered."""

        def answer(route: Route) -> None:
            url = route.request.url
            if url == file.as_uri():
                route.continue_()
                return
            self.asked.append(url)
            route.abort()

        self.page.route("**/*", answer)
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("html[data-drawn]", timeout=DRAWN_MS)

    @property
    def width(self) -> int:
        """Pixels that the page is wide; more than its window has, and it scrolls."""
        return int(self.page.evaluate("document.documentElement.scrollWidth"))


Show = Callable[..., Open]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests of this module."""
    with chromium() as started:
        yield started


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Opens a report; in the end it must have asked nobody, and not complained."""
    opened: list[Open] = []

    def shown(answers: Answers, **settings: Any) -> Open:
        file = tmp_path / "report.html"
        file.write_text(page_of(answers, about=report_builds.ABOUT), encoding="utf-8")
        context = browser.new_context(
            **{"viewport": {"width": 1200, "height": 800}, **settings}
        )
        found = Open(context.new_page())
        opened.append(found)
        found.goto(file)
        return found

    yield shown
    for each in opened:
        each.page.context.close()
    for each in opened:
        assert each.said == []
        assert each.asked == []


def test_all_charts_are_drawn_and_nobody_is_asked(bad: Answers, show: Show) -> None:
    """With the names of users as texts, in marks and in what is said of them."""
    shown = show(bad)
    charts = shown.page.locator("figure .chart")
    drawn = shown.page.locator("figure .chart .main-svg:first-child")
    assert charts.count() == drawn.count() == 5
    texts = shown.page.locator("#chart-timeline").text_content() or ""
    assert "<img src=x onerror='window." in texts
    assert "</script><script>window.hit" in texts
    assert "<a href='javascript:window." in texts
    assert "⟨U+202E⟩" in texts
    points = shown.page.locator("#chart-timeline .points path")
    for place in range(points.count()):
        points.nth(place).hover(force=True)
    hovered = shown.page.locator("#chart-timeline .hoverlayer").text_content() or ""
    assert hovered
    assert shown.page.locator("figure a[href^=javascript], figure img").count() == 0
    assert shown.page.evaluate("() => window.hit ?? null") is None
    assert shown.page.locator(".modebar a[href*='plotly']").count() == 0


def test_a_mark_and_a_number_lead_to_their_query(bad: Answers, show: Show) -> None:
    """The heading of the query is there, and is what was gone to."""
    shown = show(bad)
    shown.page.locator("#short a.n").first.click()
    assert shown.page.evaluate("location.hash") == "#q-summary"
    assert shown.page.locator("h3:target").inner_text() == "summary"
    shown.page.locator("#chart-timeline").scroll_into_view_if_needed()
    point = shown.page.locator("#chart-timeline .points path").last
    point.hover(force=True)
    # Plotly looks at most every 50 ms, and of a click with nothing under it says none.
    shown.page.wait_for_selector("#chart-timeline .hovertext")
    point.click(force=True)
    shown.page.wait_for_function("() => location.hash === '#q-timeline'")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read(bad: Answers, show: Show, scheme: str) -> None:
    """Contrast as measured, of all that is written, in charts, too."""
    found = show(bad, color_scheme=scheme).page.evaluate(SEEN)
    assert len(found) > 300
    assert [each for each in found if each[0] < ENOUGH] == []


def test_colours_change_with_the_system(bad: Answers, show: Show) -> None:
    """While it is open: charts are drawn anew."""
    shown = show(bad, color_scheme="light")
    ink = "getComputedStyle(document.querySelector('#chart-timeline .ytick text')).fill"
    assert shown.page.evaluate(ink) == "rgb(26, 31, 38)"
    shown.page.emulate_media(color_scheme="dark")
    shown.page.wait_for_function(
        f"() => {ink} === 'rgb(232, 236, 241)'", timeout=DRAWN_MS
    )


def test_on_a_telephone_nothing_is_cut_off(bad: Answers, show: Show) -> None:
    """400 pixels: the page does not scroll to the side, tables do by themselves."""
    shown = show(bad, viewport={"width": 400, "height": 800})
    assert shown.width == 400
    assert shown.page.locator("figure .chart").first.bounding_box()["width"] <= 400  # type: ignore[index]


def test_without_a_mouse_and_without_eyes(bad: Answers, show: Show) -> None:
    """Headings in order, all that can be used has a name, and Tab goes through."""
    shown = show(bad)
    levels = shown.page.evaluate(
        "[...document.querySelectorAll('h1,h2,h3')].map((e) => Number(e.tagName[1]))"
    )
    assert levels[0] == 1
    steps = itertools.pairwise(levels)
    assert all(after - before <= 1 for before, after in steps)
    session = shown.page.context.new_cdp_session(shown.page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    seen = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored") and "role" in node
    ]
    used = {"link", "button", "table", "region", "image", "navigation", "heading"}
    assert [role for role, name in seen if role in used and not name] == []
    assert (
        sum(name.startswith("Chart: ") for role, name in seen if role == "group") == 5
    )
    shown.page.keyboard.press("Tab")
    assert shown.page.evaluate("document.activeElement.textContent") == (
        "Skip to the report"
    )
    for _ in range(12):
        shown.page.keyboard.press("Tab")
        ring = shown.page.evaluate(
            "getComputedStyle(document.activeElement).outlineStyle"
        )
        assert ring != "none"


def test_every_chart_has_a_table_with_its_numbers(bad: Answers, show: Show) -> None:
    """Of the same query; it is what a reader without the chart has."""
    shown = show(bad)
    queries = shown.page.evaluate(
        "[...document.querySelectorAll('.chart')].map((e) => e.dataset.query)"
    )
    for query in queries:
        source = shown.page.locator(f"caption a[href='#q-{query}']")
        assert source.count() >= 1, query


def test_two_hundred_runs_can_be_looked_at(large: Answers, show: Show) -> None:
    """With charts of the worst only."""
    shown = show(large)
    assert shown.page.locator("#chart-durations .ytick").count() == 15
    assert shown.page.locator("#chart-timeline .ytick").count() == 12
    assert shown.width == 1200
