"""The page beside a broker that runs, with consumers that come and go."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest
from tests.timeline.browser_page import Show, Shown
from tests.timeline.live_broker import Running

MEMBER = """(name) => [...kohort.model.groups.values()]
  .flatMap((group) => group.lanes).find((lane) => lane.name === name)"""
STATE = f"([name, state]) => STATES[({MEMBER})(name)?.state] === state"


@pytest.fixture
def broker() -> Iterator[Running]:
    """A broker with a topic of six partitions."""
    with Running() as running:
        yield running


def with_ana(broker: Running, visit: Show) -> Shown:
    """Ana has joined, and the page that is opened then shows it."""
    broker.join("ana")
    shown = visit(broker.url)
    shown.until(STATE, ["ana", "stable"])
    return shown


def test_the_page_is_served_with_its_policy(broker: Running) -> None:
    """The policy is in a header, too: a framed page could be clicked unawares."""
    with urllib.request.urlopen(broker.url) as answer:
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        policy = answer.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy
        assert "connect-src 'self'" in policy
        assert answer.headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.interop
def test_what_happens_is_seen(broker: Running, visit: Show) -> None:
    """Events from before the page was opened, and new ones."""
    shown = with_ana(broker, visit)
    assert "owns orders 0-5" in shown.rows[-1]
    broker.leave("ana")
    shown.until(STATE, ["ana", "gone"])
    broker.join("ben")
    shown.until(STATE, ["ben", "stable"])
    mark = shown.mark("ana left")
    mark.wait_for()
    accounts = "kohort.model.groups.get('billing').rebalances.map((r) => r.account)"
    shown.until(f"() => {accounts}.filter(Boolean).length === 3")
    assert shown.page.locator("#status").inner_text() == "live"
    assert shown.page.locator("#follow").get_attribute("aria-pressed") == "true"


@pytest.mark.interop
def test_a_page_that_is_opened_late(broker: Running, visit: Show) -> None:
    """A group that is quiet is not forgotten, however much others do."""
    broker.join("ana")
    broker.others_do_much()
    shown = visit(broker.url)
    shown.until(STATE, ["ana", "stable"])
    rows = "\n".join(shown.rows)
    assert "Group billing: Stable, generation 1, 1 member, 1 rebalance" in rows
    assert "stable, leader, owns orders 0-5" in rows
    assert shown.evaluate("() => kohort.model.gaps.length") == 0


@pytest.mark.interop
def test_kohort_why_explains_what_is_live(broker: Running, visit: Show) -> None:
    """The explanation has the broker's own words, as `kohort why` prints them."""
    shown = with_ana(broker, visit)
    found = shown.page.locator("#tab-findings .count")
    assert found.inner_text() == ""
    shown.mark("ana joined.").click()
    told = shown.panel.locator(".advice p")
    told.first.wait_for()
    assert "ana" in told.first.inner_text()
    shown.page.locator("#tab-findings").click()
    shown.page.get_by_text("No known problem in these events").wait_for()
    shown.until(
        "() => document.querySelector('#tab-findings .count').innerText === '0'"
    )


@pytest.mark.interop
def test_the_last_sign_of_life_is_seen(broker: Running, visit: Show) -> None:
    """Heartbeats are no events here, and the page knows them all the same."""
    shown = with_ana(broker, visit)
    heard = shown.evaluate(f"() => ({MEMBER})('ana').heard")
    shown.until(f"(before) => ({MEMBER})('ana').heard > before", heard)
    assert shown.evaluate(f"() => ({MEMBER})('ana').beats.length") == 0


@pytest.mark.interop
def test_a_lost_connection_is_taken_up_again(broker: Running, visit: Show) -> None:
    """The page says so, goes on where it was, and has nothing twice."""
    shown = with_ana(broker, visit)
    with broker.without_http():
        shown.page.wait_for_selector("#status[data-status=lost]")
        broker.leave("ana")
    shown.until(STATE, ["ana", "gone"])
    shown.page.wait_for_selector("#status[data-status=live]")
    assert shown.evaluate("() => kohort.model.rebalances") == 2
    shown.expect_no_answers()


@pytest.mark.interop
def test_a_broker_that_is_started_anew(broker: Running, visit: Show) -> None:
    """The page stays open: old members are gone, and the new run is shown."""
    shown = with_ana(broker, visit)
    broker.leave("ana")
    broker.restart()
    shown.until("() => kohort.model.runs.size === 2")
    broker.join("ben", group="others")
    shown.until(STATE, ["ben", "stable"])
    assert shown.evaluate(f"() => STATES[({MEMBER})('ana').state]") == "gone"
    started = "() => kohort.model.marks.filter((e) => e.event.kind === 'node_started')"
    assert shown.evaluate(f"{started}.length") == 2
    shown.expect_no_answers()


@pytest.mark.interop
def test_a_group_moves_to_another_node(visit: Show) -> None:
    """Its coordinator stops: it is read by another node, and its members stay."""
    with Running(nodes=2) as broker:
        broker.join("ana")
        broker.join("ben")
        shown = visit(broker.url)
        shown.until(STATE, ["ben", "stable"])
        before = next(row for row in shown.rows if row.startswith("Group"))
        assert before.rpartition(", ")[2] in {"node 1", "node 2"}
        broker.stop_coordinator("billing")
        shown.until("() => kohort.model.groups.get('billing').marks.length === 3")
        shown.until(STATE, ["ana", "stable"])
        after = next(row for row in shown.rows if row.startswith("Group"))
        assert {before.rpartition(", ")[2], after.rpartition(", ")[2]} == {
            "node 1",
            "node 2",
        }
        assert "2 members, 2 rebalances" in after
        marks = shown.evaluate(
            "() => kohort.model.groups.get('billing').marks.map(titleOf)"
        )
        assert "loaded the group from its log: Stable, 2 members" in marks[-1]


@pytest.mark.interop
def test_the_chart_follows_until_one_looks_back(broker: Running, visit: Show) -> None:
    """The present stays in view, until the user moves in time."""
    shown = with_ana(broker, visit)
    shown.evaluate("() => kohort.chart.view(kohort.chart.now - 500, kohort.chart.now)")
    first = shown.span[1]
    shown.until("(before) => kohort.chart.to > before", first)
    shown.evaluate("() => kohort.chart.goToRow(0)")
    shown.press("Shift+ArrowLeft")
    follow = shown.page.locator("#follow")
    assert follow.get_attribute("aria-pressed") == "false"
    follow.click()
    assert follow.get_attribute("aria-pressed") == "true"
    shown.until("() => kohort.chart.now <= kohort.chart.to")
