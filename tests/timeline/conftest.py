"""A browser, and pages that are open in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.chromium import chromium
from tests.timeline.browser_page import LOAD_MS, Show, Shown

from kohort.control.timeline.packing import Packing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page
    from tests.timeline.streams import Event

WIDE = {"width": 1300, "height": 800}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests of a module."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def usual(browser: Browser) -> Page:
    """A page without settings, for one test after the other: a new one costs more."""
    settings: dict[str, Any] = {"viewport": WIDE}
    return browser.new_context(**settings).new_page()


@pytest.fixture
def contexts(browser: Browser) -> Iterator[list[BrowserContext]]:
    """The contexts of the pages of a test, closed in the end."""
    made: list[BrowserContext] = []
    yield made
    for context in made:
        context.close()


@pytest.fixture
def visit(
    browser: Browser, usual: Page, contexts: list[BrowserContext]
) -> Iterator[Show]:
    """Opens an address; pages may not log errors or load from other origins."""
    pages: list[Shown] = []

    def visited(url: str, **settings: Any) -> Shown:
        page = usual
        if settings or pages:
            context = browser.new_context(**{"viewport": WIDE, **settings})
            contexts.append(context)
            page = context.new_page()
        shown = Shown(page, url)
        pages.append(shown)
        return shown

    yield visited
    for shown in pages:
        shown.leave()
    for shown in pages:
        assert shown.complaints == []
        assert shown.foreign == []


@pytest.fixture
def show(visit: Show, tmp_path: Path) -> Show:
    """Shows events as `kohort timeline` does: a page in a file."""

    def shown(events: list[Event], at: str = "", **settings: Any) -> Shown:
        packing = Packing((json.dumps(event).encode(), event) for event in events)
        file = tmp_path / "page.html"
        file.write_text(packing.page("events.jsonl").html)
        found = visit(f"{file.as_uri()}{at}", **settings)
        found.page.wait_for_selector("#status[data-status=file]", timeout=LOAD_MS)
        return found

    return shown
