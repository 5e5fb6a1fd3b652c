"""The demo's picture, drawn of a group that is played in this process."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console
from tests.client.stage import PATIENCE

from kohort.client.consumer import Consumer
from kohort.control.demo.lines import summary
from kohort.control.demo.screen import Frame
from kohort.control.demo.script import DemoError, perform
from kohort.control.demo.state import Seen, Setup

QUICK = Setup(
    members=4,
    partitions=12,
    assignor="cooperative-sticky",
    pace=0,
    port=0,
    stays=False,
    initial_delay_ms=200,
    heartbeat_interval_ms=100,
)
STATES = {"Empty", "PreparingRebalance", "Stable"}


def drawn(seen: Seen, width: int = 80, height: int = 24) -> list[str]:
    """The lines of the picture on a terminal of this size."""
    console = Console(
        width=width, height=height, file=StringIO(), color_system=None, emoji=False
    )
    with console.capture() as captured:
        console.print(Frame(seen))
    return captured.get().splitlines()


def rows(seen: Seen, lines: list[str]) -> list[list[str]]:
    """The marks of partitions by member: numbers, dots, x where it has crashed."""
    found = [re.match(r"[a-z]+ +[a-z]+ +([.x#\d][ .x#\d]*)$", row) for row in lines]
    return [row[1].split()[: seen.setup.partitions] for row in found if row]


async def play(setup: Setup, look: Callable[[Seen], None]) -> Seen:
    """Plays the demo and draws a frame at each change."""
    seen = Seen(setup, asyncio.get_running_loop().time)

    async def show(seen: Seen) -> None:
        looked_at = None
        while True:
            # Not at each answer of the broker that says the same as the one before.
            now = seen.state, seen.scene, seen.event_count, seen.is_settled
            if now != looked_at:
                look(seen)
                looked_at = now
            await seen.change()

    async with asyncio.timeout(PATIENCE):
        await perform(seen, show)
    return seen


async def test_each_partition_has_one_owner_in_the_picture() -> None:
    """Whenever all is given out. A crash and a refusal are seen; all fits in."""
    states = set()
    pictures: set[str] = set()
    settled = 0

    def look(seen: Seen) -> None:
        nonlocal settled
        for width, height in ((80, 24), (60, 20), (140, 40)):
            lines = drawn(seen, width, height)
            assert len(lines) <= height
            assert max(map(len, lines)) <= width
            assert lines[0].startswith(" kohort demo ")
        states.add(seen.state)
        shown = drawn(seen)
        pictures.update(shown)
        if seen.scene and seen.is_settled:
            settled += 1
            owned = [mark for row in rows(seen, shown) for mark in row if mark != "."]
            assert sorted(map(int, owned)) == list(range(12)), "\n".join(shown)

    seen = await play(QUICK, look)
    assert states >= STATES
    assert settled
    assert not seen.waiting
    text = "\n".join(pictures)
    # The crashed member's partitions are marked until its session expires.
    for pattern in (
        r"^ben +crashed [ .]*x",
        r"^ben +crashed +the session expired",
        r"^finn +refused +Consumer group is already at its full capacity\.",
        r"^ana +left ",
        r"  \[Stable\]",
        r"members 4 of 4",
    ):
        assert re.search(pattern, text, re.MULTILINE), (pattern, text)


@pytest.mark.long
@pytest.mark.parametrize(
    ("members", "partitions", "assignor"),
    [(2, 1, "range"), (3, 48, "sticky"), (8, 20, "roundrobin")],
)
async def test_groups_of_other_sizes(
    members: int, partitions: int, assignor: str
) -> None:
    """Few or many, and eager: it comes to its end, within 80 columns."""
    setup = dataclasses.replace(
        QUICK, members=members, partitions=partitions, assignor=assignor
    )

    def look(seen: Seen) -> None:
        lines = drawn(seen)
        assert len(lines) <= 24
        if seen.is_settled:
            marks = "".join("".join(row) for row in rows(seen, lines))
            if partitions > 16:
                assert marks.count("#") == partitions, "\n".join(lines)
            else:
                assert re.findall(r"\d+", marks) == ["0"]

    seen = await play(setup, look)
    assert seen.counts.refused == 1
    assert len(seen.settled) == partitions


async def test_a_guest_joins_in() -> None:
    """The user's own client gets its share and is shown, until it leaves."""
    setup = dataclasses.replace(QUICK, stays=True)
    seen = Seen(setup, asyncio.get_running_loop().time)

    async def never(seen: Seen) -> None:
        await asyncio.Event().wait()

    playing = asyncio.ensure_future(perform(seen, never))
    async with asyncio.timeout(PATIENCE):
        await seen.until(lambda: seen.scene is not None and not seen.scene.where)
        guest = Consumer(
            setup.topic,
            bootstrap_servers=seen.address,
            client_id="my-client",
            group_id=setup.group,
            partition_assignment_strategy=setup.assignor,
            heartbeat_interval_ms=100,
        )

        def is_drawn() -> bool:
            rows = [line for line in drawn(seen, 100) if line.startswith("my-clie")]
            owned = {str(place.partition) for place in guest.assignment()}
            return [set(row.split()[2:]) for row in rows] == [owned | {"."}]

        async with guest:
            # The broker knows the guest's assignment before the guest does.
            while not (guest.assignment() and seen.is_settled and is_drawn()):
                await guest.getmany(timeout_ms=20)
            assert seen.guests
        await seen.until(lambda: not seen.guests)
        told = " ".join(event.text for event in seen.events)
        assert "a guest joins: my-client" in told
        assert "a guest left: my-client" in told
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
    assert "Stopped." in [*summary(seen, is_whole=False)]


async def test_a_guest_takes_a_place_that_somebody_needs() -> None:
    """The group is full one newcomer earlier, and the scenes go on."""
    seen = Seen(QUICK, asyncio.get_running_loop().time)

    async def show(seen: Seen) -> None:
        await seen.until(lambda: seen.generation >= 1)
        guest = Consumer(
            QUICK.topic,
            bootstrap_servers=seen.address,
            client_id="early",
            group_id=QUICK.group,
            partition_assignment_strategy=QUICK.assignor,
            heartbeat_interval_ms=100,
        )
        async with guest:
            while True:
                await guest.getmany(timeout_ms=20)

    async with asyncio.timeout(PATIENCE):
        await perform(seen, show)
    refused = [m.name for m in seen.members.values() if m.standing == "refused"]
    assert refused == ["eve"]


async def test_nobody_is_left_behind() -> None:
    """Also if it fails: no task, no connection."""
    before = asyncio.all_tasks()
    setup = dataclasses.replace(QUICK, assignor="no-such-assignor")
    seen = Seen(setup, asyncio.get_running_loop().time)

    async def never(seen: Seen) -> None:
        await asyncio.Event().wait()

    with pytest.raises((DemoError, ValueError), match="no-such-assignor"):
        await perform(seen, never)
    assert asyncio.all_tasks() == before
