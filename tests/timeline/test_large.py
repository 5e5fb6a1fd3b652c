"""Many events and many members on a page."""

from __future__ import annotations

import pytest
from tests.timeline import streams
from tests.timeline.browser_page import Show

pytestmark = pytest.mark.interop


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
