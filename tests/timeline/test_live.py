"""The page beside a broker that runs, with consumers that come and go."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator

import pytest
from tests.timeline.running import PATIENCE_S, Running
from tests.timeline.shown import Shown

Visit = Callable[..., Shown]

MEMBER = """(name) => [...kohort.model.groups.values()]
  .flatMap((group) => group.lanes).find((lane) => lane.name === name)"""
STATE = f"([name, state]) => STATES[({MEMBER})(name)?.state] === state"


@pytest.fixture
def broker() -> Iterator[Running]:
    """A broker with a topic of six partitions."""
    with Running() as running:
        yield running


def until(shown: Shown, condition: str, argument: object = None) -> None:
    """Waits until this is so in the page."""
    shown.page.wait_for_function(condition, arg=argument, timeout=PATIENCE_S * 1000)


def test_the_page_is_served_with_its_policy(broker: Running) -> None:
    """The policy is in a header, too: what is framed cannot be clicked unawares."""
    with urllib.request.urlopen(broker.url) as answer:
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        policy = answer.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy
        assert "connect-src 'self'" in policy
        assert answer.headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.interop
def test_what_happens_is_seen(broker: Running, visit: Visit) -> None:
    """What was before the page was opened, and what happens while it is open."""
    broker.join("ana")
    shown = visit(broker.url)
    until(shown, STATE, ["ana", "stable"])
    assert "owns orders 0-5" in shown.rows[-1]
    broker.leave("ana")
    until(shown, STATE, ["ana", "gone"])
    broker.join("ben")
    until(shown, STATE, ["ben", "stable"])
    mark = shown.mark("ana left the group")
    mark.wait_for()
    assert shown.page.locator("#status").inner_text() == "live"
    assert shown.page.locator("#follow").get_attribute("aria-pressed") == "true"


@pytest.mark.interop
def test_a_page_that_is_opened_late(broker: Running, visit: Visit) -> None:
    """A group that is quiet is not forgotten, however much others do."""
    broker.join("ana")
    broker.others_do_much()
    shown = visit(broker.url)
    until(shown, STATE, ["ana", "stable"])
    rows = "\n".join(shown.rows)
    assert "Group billing: Stable, generation 1, 1 member, 1 rebalance" in rows
    assert "stable, leader, owns orders 0-5" in rows
    assert shown.evaluate("() => kohort.model.gaps.length") == 0


@pytest.mark.interop
def test_kohort_why_explains_what_is_live(broker: Running, visit: Visit) -> None:
    """The explanation has the broker's own words, as `kohort why` prints them."""
    broker.join("ana")
    shown = visit(broker.url)
    until(shown, STATE, ["ana", "stable"])
    shown.mark("ana joined the group").click()
    told = shown.panel.locator(".advice p")
    told.first.wait_for()
    assert "ana" in told.first.inner_text()


@pytest.mark.interop
def test_the_last_sign_of_life_is_seen(broker: Running, visit: Visit) -> None:
    """Heartbeats are no events here, and the page knows them all the same."""
    broker.join("ana")
    shown = visit(broker.url)
    until(shown, STATE, ["ana", "stable"])
    heard = shown.evaluate(f"() => ({MEMBER})('ana').heard")
    until(shown, f"(before) => ({MEMBER})('ana').heard > before", heard)
    assert shown.evaluate(f"() => ({MEMBER})('ana').beats.length") == 0


@pytest.mark.interop
def test_a_lost_connection_is_taken_up_again(broker: Running, visit: Visit) -> None:
    """The page says so, goes on where it was, and has nothing twice."""
    broker.join("ana")
    shown = visit(broker.url)
    until(shown, STATE, ["ana", "stable"])
    with broker.without_http():
        shown.page.wait_for_selector("#status[data-status=lost]")
        broker.leave("ana")
    until(shown, STATE, ["ana", "gone"])
    shown.page.wait_for_selector("#status[data-status=live]")
    assert shown.evaluate("() => kohort.model.rebalances") == 2
    # A browser says on the console, whatever a page does, that nobody answered.
    shown.complaints = [each for each in shown.complaints if "net::ERR_" not in each]


@pytest.mark.interop
def test_a_broker_that_is_started_anew(broker: Running, visit: Visit) -> None:
    """The page stays open: who was there is gone, and the new run is seen."""
    broker.join("ana")
    shown = visit(broker.url)
    until(shown, STATE, ["ana", "stable"])
    broker.leave("ana")
    broker.restart()
    until(shown, "() => kohort.model.runs.size === 2")
    broker.join("ben", group="others")
    until(shown, STATE, ["ben", "stable"])
    assert shown.evaluate(f"() => STATES[({MEMBER})('ana').state]") == "gone"
    started = "() => kohort.model.marks.filter((e) => e.event.kind === 'node_started')"
    assert shown.evaluate(f"{started}.length") == 2
    shown.complaints = [each for each in shown.complaints if "net::ERR_" not in each]


@pytest.mark.interop
def test_a_group_moves_to_another_node(visit: Visit) -> None:
    """Its coordinator stops: it is read by another node, and its members stay."""
    with Running(nodes=2) as broker:
        broker.join("ana")
        broker.join("ben")
        shown = visit(broker.url)
        until(shown, STATE, ["ben", "stable"])
        before = next(row for row in shown.rows if row.startswith("Group"))
        assert before.rpartition(", ")[2] in {"node 1", "node 2"}
        broker.stop_coordinator("billing")
        until(shown, "() => kohort.model.groups.get('billing').marks.length === 3")
        until(shown, STATE, ["ana", "stable"])
        after = next(row for row in shown.rows if row.startswith("Group"))
        assert {before.rpartition(", ")[2], after.rpartition(", ")[2]} == {
            "node 1",
            "node 2",
        }
        assert "2 members, 2 rebalances" in after
        marks = shown.evaluate(
            "() => kohort.model.groups.get('billing').marks.map(titleOf)"
        )
        assert "read the group from its log: Stable, 2 members" in marks[-1]


@pytest.mark.interop
def test_the_chart_follows_until_one_looks_back(broker: Running, visit: Visit) -> None:
    """Now stays in view; who moves in time stays where that leads."""
    broker.join("ana")
    shown = visit(broker.url)
    until(shown, STATE, ["ana", "stable"])
    shown.evaluate("() => kohort.chart.view(kohort.chart.now - 500, kohort.chart.now)")
    first = shown.span[1]
    until(shown, "(before) => kohort.chart.to > before", first)
    shown.evaluate("() => kohort.chart.goToRow(0)")
    shown.press("Shift+ArrowLeft")
    follow = shown.page.locator("#follow")
    assert follow.get_attribute("aria-pressed") == "false"
    follow.click()
    assert follow.get_attribute("aria-pressed") == "true"
    until(shown, "() => kohort.chart.now <= kohort.chart.to")
