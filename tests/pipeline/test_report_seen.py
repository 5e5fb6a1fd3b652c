"""Opens the report in headless Chromium and checks its looks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.chromium import CONTRAST, ENOUGH, chromium
from tests.pipeline import report_builds
from tests.pipeline.test_report_compare import page_of_shares

from kohort.pipeline.report.page import page as page_of
from kohort.pipeline.report.queries import Answers

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = [pytest.mark.spark, pytest.mark.interop]

DRAWN_MS = 60_000.0

# Lowest contrast between a text and its background, charts included.
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
    """An open report.

    Attributes:
        page: the Playwright page.
        asked: URLs of its requests, except its own file.
        said: console messages and page errors.
    """

    page: Page
    asked: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def goto(self, file: Path) -> None:
        """Opens a report; aborts and records every request except for the file."""

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
        """Width of the page in pixels; if wider than the window, it scrolls."""
        return int(self.page.evaluate("document.documentElement.scrollWidth"))


Show = Callable[..., Open]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests of this module."""
    with chromium() as started:
        yield started


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Opens a report, or a page; fails if it makes a request or logs an error."""
    opened: list[Open] = []

    def shown(what: Answers | str, **settings: Any) -> Open:
        file = tmp_path / "report.html"
        if not isinstance(what, str):
            what = page_of(what, about=report_builds.ABOUT)
        file.write_text(what, encoding="utf-8")
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
    """Users' names are plain text in chart marks and their descriptions."""
    shown = show(bad)
    charts = shown.page.locator("figure .chart")
    drawn = shown.page.locator("figure .chart .main-svg:first-child")
    assert charts.count() == drawn.count() == 8
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
    """A click leads to the heading of the query."""
    shown = show(bad)
    shown.page.locator("#short a.n").first.click()
    assert shown.page.evaluate("location.hash") == "#q-summary"
    assert shown.page.locator("h3:target").inner_text() == "summary"
    shown.page.locator("#chart-timeline").scroll_into_view_if_needed()
    point = shown.page.locator("#chart-timeline .points path").last
    point.hover(force=True)
    # Plotly hovers at most every 50 ms, and emits no click without a hovered mark.
    shown.page.wait_for_selector("#chart-timeline .hovertext")
    point.click(force=True)
    shown.page.wait_for_function("() => location.hash === '#q-timeline'")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read(bad: Answers, show: Show, scheme: str) -> None:
    """All text has enough measured contrast, charts included."""
    found = show(bad, color_scheme=scheme).page.evaluate(SEEN)
    assert len(found) > 300
    assert [each for each in found if each[0] < ENOUGH] == []


def test_colours_change_with_the_system(bad: Answers, show: Show) -> None:
    """An open report redraws its charts."""
    shown = show(bad, color_scheme="light")
    ink = "getComputedStyle(document.querySelector('#chart-timeline .ytick text')).fill"
    assert shown.page.evaluate(ink) == "rgb(26, 31, 38)"
    shown.page.emulate_media(color_scheme="dark")
    shown.page.wait_for_function(
        f"() => {ink} === 'rgb(232, 236, 241)'", timeout=DRAWN_MS
    )


def test_on_a_telephone_nothing_is_cut_off(bad: Answers, show: Show) -> None:
    """At 400 pixels the page does not scroll sideways; wide tables do."""
    shown = show(bad, viewport={"width": 400, "height": 800})
    assert shown.width == 400
    assert shown.page.locator("figure .chart").first.bounding_box()["width"] <= 400  # type: ignore[index]


def test_without_a_mouse_and_without_eyes(bad: Answers, show: Show) -> None:
    """Headings are in order, controls have names, and Tab reaches them."""
    shown = show(bad)
    levels = shown.page.evaluate(
        "[...document.querySelectorAll('h1,h2,h3,h4')].map((e) => Number(e.tagName[1]))"
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
        sum(name.startswith("Chart: ") for role, name in seen if role == "group") == 8
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
    """The table comes from the chart's query, for readers without the chart."""
    shown = show(bad)
    queries = shown.page.evaluate(
        "[...document.querySelectorAll('.chart')].map((e) => e.dataset.query)"
    )
    for query in queries:
        source = shown.page.locator(f"caption a[href='#q-{query}']")
        assert source.count() >= 1, query


def test_two_hundred_runs_can_be_looked_at(large: Answers, show: Show) -> None:
    """A report of 200 runs has charts of the worst only."""
    shown = show(large)
    assert shown.page.locator("#chart-durations .ytick").count() == 15
    assert shown.page.locator("#chart-timeline .ytick").count() == 12
    assert shown.width == 1200


def test_a_link_to_a_closed_part_opens_it(large: Answers, show: Show) -> None:
    """The part's charts are drawn as it opens."""
    shown = show(large)
    chart = shown.page.locator("#chart-members-3 .main-svg").first
    assert chart.count() == 0
    shown.page.locator("#short a[href='#g-3']").first.click()
    chart.wait_for(timeout=DRAWN_MS)
    assert shown.page.locator("details.group[open]").count() == 4


def test_on_paper_all_parts_are_open_and_nothing_is_cut_off(
    large: Answers, show: Show
) -> None:
    """A sheet is 1,030 pixels wide, and white; afterwards all is as before."""
    shown = show(large, viewport={"width": 1030, "height": 700}, color_scheme="dark")
    shown.page.emulate_media(media="print")
    shown.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert shown.page.locator("details.group:not([open])").count() == 0
    drawn = shown.page.locator("figure .chart .main-svg:first-child")
    assert drawn.count() == shown.page.locator("figure .chart").count()
    assert shown.width == 1030
    ground = "getComputedStyle(document.body).backgroundColor"
    assert shown.page.evaluate(ground) == "rgb(255, 255, 255)"
    # The number of left out rows stays with its table, not with the next chart.
    breaks = "getComputedStyle(document.querySelector('.more')).breakBefore"
    assert shown.page.evaluate(breaks) == "avoid"
    shown.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert shown.page.locator("details.group[open]").count() == 3
    sheets = shown.page.pdf(prefer_css_page_size=True)
    assert sheets.count(b"/Type /Page\n") >= 12


def test_a_comparison_fits_a_telephone_and_its_first_sheet(show: Show) -> None:
    """Titles of axes are whole; on paper the sentences follow the title of the page."""
    text = page_of_shares()
    shown = show(text, viewport={"width": 400, "height": 800})
    assert shown.width == 400
    titles = shown.page.locator(".chart .xtitle")
    assert titles.count() == 4
    for title in titles.all():
        box = title.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 400
    paper = show(text, viewport={"width": 1030, "height": 700})
    assert paper.page.pdf(prefer_css_page_size=True).count(b"/Type /Page\n") == 5
