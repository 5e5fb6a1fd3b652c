"""Tables and findings in a browser."""

from __future__ import annotations

import pytest
from tests.timeline import streams
from tests.timeline.browser_page import Show

pytestmark = pytest.mark.interop


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
