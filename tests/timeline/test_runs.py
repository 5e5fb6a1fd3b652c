"""Runs, nodes, clocks and gaps on the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.timeline import streams
from tests.timeline.browser_page import Show
from tests.timeline.scripted_stream import Scripted
from tests.timeline.streams import MS, START_NS, Event, Scene

pytestmark = pytest.mark.interop


ANA = "orders-consumer-1"
BEN = "orders-consumer-2"


@pytest.fixture
def script() -> Iterator[Scripted]:
    """A stream that the test writes."""
    with Scripted() as scripted:
        yield scripted


def two() -> Scene:
    """Two members come, and give signs of life."""
    scene = Scene("orders")
    scene.arrive(2)
    scene.heartbeats(2000, 1000)
    return scene


def on_node(events: list[Event], node: int, first: int = 1) -> list[Event]:
    """The same, as another node tells it."""
    return [
        {**event, "node": node, "sequence": first + number}
        for number, event in enumerate(events)
    ]


# -- several runs


def test_runs_whose_clocks_begin_anew_follow_each_other(show: Show) -> None:
    """A virtual clock repeats its times: the second run is drawn after the first.

    Its explanations have the times of its own clock.
    """
    first = two()
    events = streams.merge(first)
    again = streams.merge(two(), run="d4e5f6")
    shown = show([*events, *again])
    length = (events[-1]["time_ns"] - events[0]["time_ns"]) / MS
    about = shown.page.locator("#about").inner_text()
    assert f"{len(events) + len(again)} events" in about
    assert shown.state(ANA, length - 1) == "stable"
    assert shown.state(ANA, length + 500) == "gone"
    assert shown.state(ANA, length + 1001) == "waiting"
    shown.evaluate(
        "() => kohort.panel.open([kohort.model.groups.get('orders').marks[1]])"
    )
    started = next(each for each in again if each["kind"] == "rebalance_started")
    text = shown.panel.inner_text()
    assert shown.evaluate("(ns) => clockTime(ns)", started["time_ns"]) in text


def test_an_event_is_taken_once(show: Show) -> None:
    """A stream that was taken up again says some of it twice."""
    events = streams.merge(two())
    shown = show([*events, *events[-20:]])
    assert f"{len(events)} events" in shown.page.locator("#about").inner_text()
    assert shown.evaluate("() => kohort.model.rebalances") == 1


# -- several nodes


def test_each_group_says_which_node_has_it(show: Show) -> None:
    """With several nodes; it changes when the coordinator moves."""
    orders, payments = two(), Scene("payments", at_ms=10)
    payments.arrive()
    events = on_node(streams.merge(orders), 1) + on_node(streams.merge(payments), 2)
    shown = show(sorted(events, key=lambda event: event["time_ns"]))
    groups = [row for row in shown.rows if row.startswith("Group")]
    assert [row.rpartition(", ")[2] for row in groups] == ["node 1", "node 2"]
    assert "node" not in show(streams.merge(orders)).rows[0]


def test_a_node_that_stops_takes_its_groups_along(show: Show) -> None:
    """Until another one has read them; those of other nodes go on."""
    orders, payments = two(), Scene("payments")
    payments.arrive()
    on_1 = on_node(streams.merge(orders), 1)
    on_2 = on_node(streams.merge(payments), 2)
    now = orders.at_ms
    stopped = streams.broker_event("node_stopped", now)
    orders.restart(500)
    orders.wait(1000)
    later = [
        *on_node(streams.merge(also=[stopped]), 1, first=len(on_1) + 1),
        *on_node(streams.merge(orders), 2, first=len(on_2) + 1),
    ]
    events = sorted([*on_1, *on_2], key=lambda event: event["time_ns"])
    shown = show([*events, *later])
    at = now - (events[0]["time_ns"] - START_NS) / MS
    assert shown.state(ANA, at - 1) == "stable"
    assert shown.state(ANA, at + 250) == "gone"
    assert shown.state(ANA, at + 501) == "stable"
    assert shown.state("payments-consumer-1", at + 250) == "stable"
    assert any(row.endswith("1 rebalance, node 2") for row in shown.rows)
    assert (
        len(shown.evaluate("() => kohort.model.groups.get('orders').generations")) == 1
    )


def test_shards_that_are_taken_together_are_one_mark(show: Show) -> None:
    """A broker starts with fifty of them: fifty marks would say less."""
    loaded = [
        streams.broker_event(
            "shard_loaded", 5 + each, partition=each, groups=each % 2, duration_ns=900
        )
        for each in range(50)
    ]
    shown = show(streams.merge(two(), also=loaded))
    mark = shown.mark("Node 0 coordinates partitions 0-49")
    assert "25 groups found" in (mark.get_attribute("aria-label") or "")
    mark.click()
    assert "The first of 50 events" in shown.panel.inner_text()


# -- gaps


def test_where_events_are_missing_the_chart_says_so(show: Show) -> None:
    """Striped, from the last event before it; what state a group is in is unknown."""
    scene = two()
    before = streams.merge(scene)
    last = len(before)
    gap = streams.broker_event(
        "events_lost", scene.at_ms + 4000, first=last + 1, last=last + 50
    )
    (lost,) = streams.merge(also=[gap])
    shown = show([*before, {**lost, "sequence": last + 50}])
    assert shown.rows[1].startswith("Group orders: state unknown")
    begin = (before[-1]["time_ns"] - before[0]["time_ns"]) / MS
    end = (lost["time_ns"] - before[0]["time_ns"]) / MS
    assert shown.evaluate("() => kohort.model.gaps") == [
        {"from": pytest.approx(begin, abs=0.01), "at": pytest.approx(end, abs=0.01)}
    ]
    assert shown.state(ANA, end) == "stable"
    assert shown.reddest(begin + 100, end - 100) > 40  # otherwise it would be green


def test_who_left_while_events_were_missing_is_gone_after_it(show: Show) -> None:
    """The next generation has the members."""
    scene = two()
    before = streams.merge(scene)
    last = len(before)
    ana, ben = scene.members
    scene.wait(1000)
    scene.leave(ben)
    scene.forget()
    gap = streams.broker_event(
        "events_lost", scene.at_ms, first=last + 1, last=last + 50
    )
    scene.leave(ana)
    after = streams.merge(scene, also=[gap])
    numbered = [{**e, "sequence": last + 50 + n} for n, e in enumerate(after)]
    shown = show([*before, *numbered])
    assert any(f"{BEN} of orders: gone" in row for row in shown.rows)


# -- live


def test_a_clock_that_stands_still_is_not_pushed(script: Scripted, visit: Show) -> None:
    """If broker time is not the machine's, now is the broker's time."""
    events = streams.merge(two())
    script.say(*({**event, "wall_ns": event["wall_ns"] + 10**18} for event in events))
    shown = visit(script.url)
    shown.until("(count) => kohort.model.events === count", len(events))
    length = (events[-1]["time_ns"] - events[0]["time_ns"]) / MS
    shown.until("() => kohort.chart.now === kohort.model.end")
    assert shown.evaluate("() => kohort.chart.now") == pytest.approx(length, abs=0.01)
    moved = events[-1]["time_ns"] + 3_600_000 * MS
    (member,) = {e["member_id"] for e in events if e["client_id"] == ANA}
    script.heard(moved, ("orders", member, moved - 5 * MS))
    shown.until("(at) => kohort.chart.now > at", length + 3_599_999)
    assert shown.evaluate("() => kohort.chart.now") == pytest.approx(
        length + 3_600_000, abs=0.01
    )
    heard = shown.evaluate("() => kohort.model.groups.get('orders').lanes[0].heard")
    assert heard == pytest.approx(length + 3_599_995, abs=0.01)


def test_a_member_that_is_not_heard_of_is_silent(script: Scripted, visit: Show) -> None:
    """After half of its session timeout, before the broker has expired it."""
    events = streams.merge(two())
    script.say(*({**event, "wall_ns": event["wall_ns"] + 10**18} for event in events))
    shown = visit(script.url)
    shown.until("(count) => kohort.model.events === count", len(events))
    now = events[-1]["time_ns"] + 60_000 * MS
    ids = {e["client_id"]: e["member_id"] for e in events if e["member_id"]}
    heard = {ANA: now - 4_000 * MS, BEN: now - 6_000 * MS}  # of 10 s
    script.heard(now, *(("orders", ids[name], at) for name, at in heard.items()))
    silent = "(name) => kohort.chart.now > 60000 && document.querySelector("
    silent += "`.label[aria-label*='${name} of orders: silent']`)"
    shown.until(silent, BEN)
    assert any(f"{ANA} of orders: stable" in row for row in shown.rows)


def test_the_last_incident_is_in_view_from_the_start(
    script: Scripted, visit: Show
) -> None:
    """However long ago it was; and the tab has the number of findings."""
    later = streams.broker_event("node_started", 1_800_000)
    events = streams.merge(two(), also=[later])
    script.say(*({**event, "wall_ns": event["wall_ns"] + 10**18} for event in events))
    at = next(e["time_ns"] for e in events if e["kind"] == "rebalance_started")
    evidence = [{"sequence": None, "time_ns": at, "text": "it fell"}]
    found = {"title": "t", "advice": "a", "setting": None, "evidence": evidence}
    script.findings = [{**found, "evidence_count": 1}] * 2
    shown = visit(script.url)
    length = (events[-1]["time_ns"] - at) / MS
    shown.until("(length) => kohort.chart.to - kohort.chart.from > length", length)
    assert shown.span[0] < (at - events[0]["time_ns"]) / MS
    assert shown.evaluate("() => kohort.chart.isFollowing")
    assert shown.page.locator("#tab-findings .count").inner_text() == "2"


def test_another_run_is_seen_while_the_page_is_open(
    script: Scripted, visit: Show
) -> None:
    """All members are gone at first; a returning one gets its lane, or a new one."""
    first, second = streams.restart()
    script.say(*first, *second[:-8])
    shown = visit(script.url)
    shown.until("() => kohort.model.runs.size === 2")
    script.say(*second[-8:])
    count = len(first) + len(second)
    shown.until("(count) => kohort.model.events === count", count)
    assert sum("Member" in row for row in shown.rows) == 2


def test_a_broker_of_another_version_is_not_guessed_at(
    script: Scripted, visit: Show
) -> None:
    """The page that is open does not know its schema, says so, and what to do."""
    script.say(*streams.merge(two()))
    shown = visit(script.url)
    shown.until("() => kohort.model.rebalances === 1")
    # The page announces the rebalance within two seconds, and would do so over it.
    shown.until("() => document.getElementById('say').innerText.includes('Rebal')")
    later = {**streams.merge(two())[-1], "schema": 2, "sequence": 999}
    script.say(later)
    status = shown.page.locator("#status", has_text="1 event could not be read")
    status.wait_for()
    assert "reload the page" in status.inner_text()
    said = shown.page.get_by_role("status")
    assert "could not be read" in said.inner_text()


def test_a_page_without_events_waits_for_them(script: Scripted, visit: Show) -> None:
    """It says that there are none, and shows the first one."""
    shown = visit(script.url)
    shown.page.wait_for_selector("#status[data-status=live]")
    assert shown.page.get_by_text("No events yet.").is_visible()
    (event,) = streams.merge(also=[streams.broker_event("node_started", 0)])
    script.say(event)
    shown.mark("Node 0 accepts connections").wait_for()
    assert shown.page.get_by_text("No events yet.").is_hidden()
    shown.page.locator("#about", has_text="1 event").wait_for()
