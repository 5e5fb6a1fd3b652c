"""The stream: numbers without gaps, buffers with bounds, readers at their own pace."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Mapping

import pytest

from kohort.broker.events.bus import Events, NodeEvents
from kohort.broker.events.remembered import ROWS_PER_EVENT
from kohort.broker.events.types import Event
from kohort.broker.notice import Client, Notice, Who

NOW = 1_700_000_000.0


def stream(**options: int) -> Events:
    """A stream of a run, on a machine whose clock counts."""
    ticks = itertools.count(1)
    events = Events({"seed": "7"}, wall=lambda: next(ticks), **options)
    events.begin("r")
    return events


def happen(node: NodeEvents, *groups: str, weight: int = 1) -> None:
    """An id expires in each of these groups."""
    for group in groups:
        who = Who("m", None, Client("c", "/127.0.0.1"))
        notice = Notice("pending_member_expired", group, 3, who, {}, weight)
        node.publish(notice, NOW)


def told(events: Iterable[Mapping[str, object]]) -> list[object]:
    """The groups of events, and the gaps between them."""
    return [
        (e["first"], e["last"]) if e["kind"] == "events_lost" else e["group"]
        for e in events
    ]


def test_an_event_says_who_saw_it_when_and_about_whom() -> None:
    """All common fields are there, those that are null included."""
    events = stream()
    with events.subscribe() as reader:
        happen(events.of(2), "g")
        (event,) = reader.take()
    assert event == {
        "schema": 1,
        "run": "r",
        "labels": {"seed": "7"},
        "node": 2,
        "sequence": 1,
        "kind": "pending_member_expired",
        "time_ns": 1_700_000_000_000_000_000,
        "wall_ns": 1,
        "group": "g",
        "generation": 3,
        "member_id": "m",
        "instance_id": None,
        "client_id": "c",
        "host": "/127.0.0.1",
        "connection": None,
        "cause": None,
        "reason": None,
    }


def test_nodes_count_for_themselves() -> None:
    """Each node's events have numbers from 1, without gaps; a new run starts over."""
    events = stream()
    with events.subscribe() as reader:
        for node in (1, 2, 1, 1, 2):
            happen(events.of(node), "g")
        rows = [(e["node"], e["sequence"]) for e in reader.take()]
        assert rows == [(1, 1), (2, 1), (1, 2), (1, 3), (2, 2)]
        events.begin("s")
        happen(events.of(1), "g")
        (event,) = reader.take()
        assert (event["run"], event["sequence"]) == ("s", 1)


def test_a_reader_hears_what_comes_after_it() -> None:
    """A reader gets later events, and earlier ones only if it asks for them."""
    events = stream()
    happen(events.of(1), "a")
    with events.subscribe() as late, events.subscribe(past=True) as curious:
        happen(events.of(1), "b")
        assert told(late.take()) == ["b"]
        assert told(curious.take()) == ["a", "b"]
        assert curious.take() == []
    happen(events.of(1), "c")
    assert (late.take(), curious.take()) == ([], [])


def test_the_slow_one_learns_what_it_missed() -> None:
    """A slow reader gets one notice per node; the others miss nothing."""
    events = stream()
    with events.subscribe(size=2) as slow, events.subscribe() as quick:
        happen(events.of(1), "a", "b")
        happen(events.of(2), "c")
        happen(events.of(1), "d", "e")
        missed = slow.take()
        assert told(missed) == [(1, 2), (1, 1), "d", "e"]
        # With it the numbers of a node go on without gaps.
        assert [(e["node"], e["sequence"]) for e in missed] == [
            (1, 2),
            (2, 1),
            (1, 3),
            (1, 4),
        ]
        assert slow.lost == 3
        happen(events.of(2), "f")
        assert told(slow.take()) == ["f"]
        assert told(quick.take()) == ["a", "b", "c", "d", "e", "f"]


def test_large_events_fill_a_buffer_sooner() -> None:
    """Rows count, too: but the latest event is there, however large."""
    events = stream(remembered=2)
    with events.subscribe(size=2) as reader:
        happen(events.of(1), "a", weight=ROWS_PER_EVENT)
        happen(events.of(1), "b", weight=2 * ROWS_PER_EVENT)
        assert told(reader.take()) == [(1, 1), "b"]
        happen(events.of(1), "c", weight=100 * ROWS_PER_EVENT)
        assert told(reader.take()) == ["c"]
    assert [e["group"] for e in events.recent()] == ["c"]
    happen(events.of(1), "d", weight=2 * ROWS_PER_EVENT)
    assert [e["group"] for e in events.recent()] == ["d"]
    assert events.recent("c") == []


def test_what_is_remembered_is_bounded() -> None:
    """The latest, of all groups or of one."""
    events = stream(remembered=3)
    happen(events.of(1), "a", "b", "a", "c")
    assert [e["group"] for e in events.recent()] == ["b", "a", "c"]
    assert events.recent("z") == []


def commit(node: NodeEvents, group: str, times: int, weight: int = 2) -> None:
    """A member of a group commits an offset this many times."""
    for _ in range(times):
        fields = {"offsets": (("t",), (0,), (1,), (None,))}
        node.publish(Notice("offsets_committed", group, 3, None, fields, weight), NOW)


def test_commits_push_out_no_history() -> None:
    """Other events of a group stay, however many commits follow."""
    events = stream(remembered=10)
    node = events.of(1)
    happen(node, "a", "b", "a")
    commit(node, "a", 50)
    happen(node, "a")
    assert [e["sequence"] for e in events.recent("b")] == [2]
    told_of_a = [(e["kind"], e["sequence"]) for e in events.recent("a")]
    assert told_of_a[:3] == [
        ("pending_member_expired", 1),
        ("pending_member_expired", 3),
        ("offsets_committed", 45),
    ]
    assert told_of_a[-1] == ("pending_member_expired", 54)
    # A reader of everything gets the latest events, without gaps.
    numbers = [e["sequence"] for e in events.recent()]
    assert numbers == [*range(45, 55)]
    with events.subscribe(past=True) as reader:
        assert [e["sequence"] for e in reader.take()] == numbers


def test_large_commits_push_out_no_history() -> None:
    """They go sooner than small ones, and take nothing else of a group along."""
    events = stream(remembered=10)
    node = events.of(1)
    happen(node, "a", "b")
    commit(node, "a", 20, weight=4 * ROWS_PER_EVENT)
    happen(node, "a", weight=4 * ROWS_PER_EVENT)
    commit(node, "a", 20, weight=4 * ROWS_PER_EVENT)
    assert [e["sequence"] for e in events.recent()] == [42, 43]
    assert [e["sequence"] for e in events.recent("a")] == [1, 23, 42, 43]
    assert [e["sequence"] for e in events.recent("b")] == [2]


def test_strikes_push_out_no_other_events() -> None:
    """A rule that strikes each heartbeat does not push out earlier events."""
    events = stream(remembered=100)
    node = events.of(1)
    happen(node, *["g"] * 30)
    for number in range(1000):
        strike = Notice("fault_struck", "g", 3, None, {"fault_id": number}, 1)
        node.publish(strike, NOW)
    kept = [seen.sequence for seen in events.remembered.by_group["g"]]
    assert kept[:30] == [*range(1, 31)]
    assert kept[30:] == [*range(kept[30], 1031)]
    assert 40 < len(kept) <= 100


def test_a_busy_group_pushes_out_no_quiet_one() -> None:
    """The one with the most gives up its own oldest events."""
    events = stream(remembered=500)
    node = events.of(1)
    happen(node, "quiet", "quiet")
    for _ in range(20):
        happen(node, *["busy"] * 100)
    assert [e["sequence"] for e in events.recent("quiet")] == [1, 2]
    busy = [e["sequence"] for e in events.recent("busy")]
    assert busy == [*range(busy[0], 2003)]
    assert len(busy) == 500


def test_groups_of_large_events_are_forgotten_with_them() -> None:
    """A new group name in each large request does not fill the memory."""
    events = stream(remembered=10)
    happen(events.of(1), *"abcdefghij", weight=10 * ROWS_PER_EVENT)
    assert [*events.remembered.by_group] == ["j"]


def test_old_events_are_bounded() -> None:
    """By their number and by their rows; of many groups the latest are kept."""
    events = stream(remembered=100)
    node = events.of(1)
    for number in range(1000):
        node.publish(
            Notice("pending_member_expired", f"g{number}", 3, None, {}, 1), NOW + number
        )
    kept = [number for number in range(1000) if events.recent(f"g{number}")]
    assert kept == [*range(900, 1000)]
    assert len(events.remembered.by_group) <= 100
    for _ in range(300):
        happen(node, "large", weight=ROWS_PER_EVENT * 10)
    large = events.recent("large")
    assert len(large) == 10
    assert large[-1]["sequence"] == 1300


def test_nothing_is_made_where_nobody_listens() -> None:
    """Numbers do not go on, either."""
    events = stream()
    events.listening = False
    happen(events.of(1), "a")
    assert (events.recent(), events.of(1).sequence) == ([], 0)


async def test_iteration() -> None:
    """A reader that has read everything waits for more, until it is closed."""
    events = stream()
    reader = events.subscribe(size=2)
    heard: list[Event] = []

    async def listen() -> None:
        heard.extend([event async for event in reader])

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    happen(events.of(1), "a")
    await asyncio.sleep(0)
    happen(events.of(1), "b", "c", "d")
    reader.close()
    await listening
    assert told(heard) == [(1, 2), "c", "d"] or told(heard) == ["a", (2, 2), "c", "d"]
    reader.close()


async def test_waiting_can_be_given_up() -> None:
    """A wait that is cancelled loses nothing, and another may follow."""
    events = stream()
    with events.subscribe() as reader:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.wait(), 0.001)
        happen(events.of(1), "a")
        await reader.wait()
        assert told([await anext(reader)]) == ["a"]


def test_a_buffer_for_nothing() -> None:
    """A buffer must have room for one event."""
    with pytest.raises(ValueError, match="a buffer for 0 events"):
        stream().subscribe(size=0)


def test_a_listener_is_told_at_once() -> None:
    """It gets raw events at once, and none after it has left."""
    events = stream()
    heard: list[str | None] = []

    def listener(seen: object) -> None:
        heard.append(getattr(seen, "notice").group_id)  # noqa: B009 - any listener

    events.listen(listener)
    happen(events.of(1), "a")
    events.unlisten(listener)
    happen(events.of(1), "b")
    assert heard == ["a"]
