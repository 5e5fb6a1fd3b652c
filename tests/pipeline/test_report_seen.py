"""Opens the report in headless Chromium and checks its looks."""

from __future__ import annotations

import itertools
import re
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
  const found = texts("script, style").map((element) => {{
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


def opened(shown: Open) -> Open:
    """Opens all parts, and waits for their charts."""
    shown.page.evaluate(
        "for (const part of document.querySelectorAll('details')) part.open = true"
    )
    shown.page.wait_for_function(
        "() => [...document.querySelectorAll('.chart')]"
        ".every((each) => each.querySelector('.main-svg'))",
        timeout=DRAWN_MS,
    )
    return shown


def test_a_group_s_chart_is_drawn_as_its_part_opens(bad: Answers, show: Show) -> None:
    """At first there is one chart; users' names are plain text in all of them."""
    shown = show(bad)
    drawn = shown.page.locator("figure .chart .main-svg:first-child")
    assert drawn.count() == 1
    texts = shown.page.locator("#chart-unread").text_content() or ""
    assert "<img src=x onerror='w" in texts
    assert "</script><script>wind" in texts
    assert "⟨U+202E⟩" in texts
    charts = opened(shown).page.locator("figure .chart")
    assert drawn.count() == charts.count() == 2
    points = shown.page.locator(".chart .points path")
    for place in range(points.count()):
        points.nth(place).hover(force=True)
    assert shown.page.locator("figure a, figure img").count() == 0
    assert shown.page.evaluate("() => window.hit ?? null") is None


def test_a_dead_member_is_dotted_until_its_session_expires(
    ten: Answers, show: Show
) -> None:
    """A crashed member's line ends at its last sign of life, as on the timeline."""
    chart = opened(show(ten)).page.locator("#chart-0")
    ends: dict[bool, list[list[str]]] = {True: [], False: []}
    for line in chart.locator(".lines path").all():
        dash = line.evaluate("(line) => getComputedStyle(line).strokeDasharray")
        points = re.findall(r"[\d.]+,[\d.]+", line.get_attribute("d") or "")
        ends[dash != "none"].append(points)
    expired = chart.locator(".scatterlayer .points path").count()
    assert len(ends[True]) == expired == ten["groups"].rows[0]["expired"] == 4
    assert len(ends[False]) == 6
    last = {points[-1] for points in ends[False]}
    assert {points[0] for points in ends[True]} <= last


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read(bad: Answers, show: Show, scheme: str) -> None:
    """All text has enough measured contrast, charts included."""
    found = opened(show(bad, color_scheme=scheme)).page.evaluate(SEEN)
    assert len(found) > 300
    assert [each for each in found if each[0] < ENOUGH] == []


def test_colours_change_with_the_system(bad: Answers, show: Show) -> None:
    """An open report redraws its charts."""
    shown = show(bad, color_scheme="light")
    ink = "getComputedStyle(document.querySelector('#chart-unread .ytick text')).fill"
    assert shown.page.evaluate(ink) == "rgb(26, 31, 38)"
    shown.page.emulate_media(color_scheme="dark")
    shown.page.wait_for_function(
        f"() => {ink} === 'rgb(232, 236, 241)'", timeout=DRAWN_MS
    )


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_cut_off_and_nothing_overlaps(
    ten: Answers, bad: Answers, show: Show, width: int
) -> None:
    """The page does not scroll sideways, and charts end above the next text."""
    for answers in (ten, bad):
        shown = opened(show(answers, viewport={"width": width, "height": 844}))
        assert shown.width == width
        for figure in shown.page.locator("figure").all():
            box = figure.bounding_box()
            drawing = figure.locator(".main-svg").first.bounding_box()
            assert box is not None
            assert drawing is not None
            assert drawing["x"] + drawing["width"] <= width
            assert drawing["y"] + drawing["height"] <= box["y"] + box["height"] + 1


def test_the_first_screen_has_sentence_settings_and_chart(
    ten: Answers, show: Show
) -> None:
    """Nobody scrolls for them, or sees more than two tables before a click."""
    shown = show(ten, viewport={"width": 1280, "height": 900})
    for part in (".verdict", "table >> nth=0", "#chart-unread"):
        box = shown.page.locator(part).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 900
    assert shown.page.locator("table").filter(visible=True).count() == 2
    assert shown.page.locator("a").count() < 10


def test_without_a_mouse_and_without_eyes(bad: Answers, show: Show) -> None:
    """Headings are in order, controls have names, and Tab reaches them."""
    shown = opened(show(bad))
    levels = shown.page.evaluate(
        "[...document.querySelectorAll('h1,h2,h3')].map((e) => Number(e.tagName[1]))"
    )
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    session = shown.page.context.new_cdp_session(shown.page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    seen = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored") and "role" in node
    ]
    used = {"link", "button", "table", "region", "image", "heading"}
    assert [role for role, name in seen if role in used and not name] == []
    assert (
        sum(name.startswith("Chart: ") for role, name in seen if role == "group") == 2
    )
    for _ in range(12):
        shown.page.keyboard.press("Tab")
        ring = shown.page.evaluate(
            "getComputedStyle(document.activeElement).outlineStyle"
        )
        assert ring != "none"


def test_a_link_to_a_closed_part_opens_it(ten: Answers, show: Show) -> None:
    """The part's chart is drawn as it opens."""
    shown = show(ten)
    shown.page.locator("section.first a[href='#g-0']").click()
    shown.page.locator("#chart-0 .main-svg").first.wait_for(timeout=DRAWN_MS)
    assert shown.page.locator("details.group[open]").count() == 1


def test_ten_groups_are_five_pages_on_paper(ten: Answers, show: Show) -> None:
    """Closed parts are not printed; with all of them open, each has its chart."""
    shown = show(ten, color_scheme="dark")
    sheets = shown.page.pdf(prefer_css_page_size=True)
    assert 1 <= sheets.count(b"/Type /Page\n") <= 5
    opened(shown).page.emulate_media(media="print")
    shown.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert shown.page.evaluate(ground) == "rgb(255, 255, 255)"
    ink = "getComputedStyle(document.querySelector('.ytick text')).fill"
    assert shown.page.evaluate(ink) == "rgb(26, 31, 38)"


def test_a_comparison_fits_a_telephone_and_two_sheets(show: Show) -> None:
    """Titles of axes are whole."""
    text = page_of_shares()
    shown = show(text, viewport={"width": 390, "height": 800})
    assert shown.width == 390
    titles = shown.page.locator(".chart .xtitle")
    assert titles.count() == 3
    for title in titles.all():
        box = title.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    assert shown.page.pdf(prefer_css_page_size=True).count(b"/Type /Page\n") <= 2
