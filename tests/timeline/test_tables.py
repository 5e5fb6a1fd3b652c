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
    caption = table.locator("caption").inner_text()
    assert "8 in total" in caption
    accounts = [e for e in events if e["kind"] == "rebalance_account"]
    unread_ns = sum(e["unread_ns"] for e in accounts if e["group"] == "orders")
    assert f"orders {unread_ns / 1e9:.0f}" in caption
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


def delivered(scene: streams.Scene) -> list[streams.Event]:
    """An account with a row of each kind, and commits that went back."""
    ana, ben = (member.member_id for member in scene.members)
    at = streams.START_NS + int(scene.at_ms * streams.MS)
    common = {"group": scene.name, "time_ns": at, "generation": 1}
    place = {"topic": "orders-topic", "partition": 2}
    again = {**place, "first": 4, "end": 10, "records": 6, "reader": ben}
    again |= {"previous_reader": ana, "reason_again": "expired"}
    skip = {**place, "first": 10, "end": 13, "records": 3, "reader": ben}
    account = {
        "kind": "delivery_account",
        "words": "16 records: 6 handled and sent again, 3 skipped",
        "again": [{**again, "is_certain": True}, {**again, "is_certain": False}],
        "skips": [{**skip, "reason_skipped": "deleted"}],
    }
    rewinds = [{**place, "offset": 5, "previous_offset": 9}]
    back = {"kind": "offsets_went_back", "rewinds": rewinds}
    own = {"cause": "commit", "member_id": ana, "client_id": "orders-consumer-1"}
    admin = {"cause": "admin", "time_ns": at + 10**9}
    return [
        {**common, **account},
        {**common, **back, **own},
        {**common, **back, **admin},
    ]


def test_the_account_of_delivery(show: Show) -> None:
    """A sentence for the group, and a row with its reason for each range."""
    scene = streams.Scene("orders")
    scene.arrive(2)
    scene.wait(1000)
    shown = show(streams.merge(scene, also=delivered(scene)))
    shown.mark("It was a commit of a member").click()
    assert "went back: orders-topic 2 from 9 to 5" in shown.panel.inner_text()
    shown.press("Escape")
    tab = shown.page.locator("#tab-delivery")
    assert tab.locator(".count").inner_text() == "5"
    tab.click()
    view = shown.page.locator("#view-delivery")
    assert "16 records: 6 handled and sent again" in view.locator("ul").inner_text()
    rows = [row.split("\t")[1:] for row in view.locator("tbody tr").all_inner_texts()]
    ana, ben = "orders-consumer-1", "orders-consumer-2"
    place = ("orders", "orders-topic 2")
    expired = ("4 to 9", "6", ana, ben, "the reader's session expired")
    assert [tuple(row) for row in rows[:3]] == [
        (*place, "handled before, sent again", *expired),
        (*place, "sent again, perhaps handled before", *expired),
        (
            *place,
            "skipped",
            "10 to 12",
            "3",
            "",
            ben,
            "they were deleted, by retention or DeleteRecords",
        ),
    ]
    assert rows[3][2:4] == ["committed offset went back", "9 to 5"]
    assert "a reset by an admin" in rows[4][-1]
    bad = shown.page.locator(".mark.bad")
    assert bad.count() == 1
