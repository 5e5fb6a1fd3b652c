"""``kohort top``: rates from snapshots, and what is shown where."""

from __future__ import annotations

import asyncio
import copy
import io
import json
import os
import pty
import signal
from typing import Any

from rich.console import Console
from tests.broker.test_cluster import heartbeat, offsets, stable
from tests.broker.wire_client import connected, connected_to
from tests.commands import KOHORT, PATIENCE_S, done, environment, refused, serving

from kohort.broker.server import Broker
from kohort.control.http import Control
from kohort.control.metrics.metrics import Metrics
from kohort.control.top.rates import frame, quantile
from kohort.control.top.screen import FEWEST_GROUPS, picture

FAST = "--set=group.initial.rebalance.delay.ms=0"
SECOND_NS = 1_000_000_000


async def snapshots() -> tuple[dict[str, Any], dict[str, Any]]:
    """Two of a broker, between which things happen: as if two seconds apart."""
    settings = {"group.initial.rebalance.delay.ms": 0}
    async with Broker(settings, labels={"case": "top"}) as broker:
        metrics = Metrics(broker)
        metrics.start()
        broker.cluster.create_topic("t", 1)
        async with connected(broker) as client:
            member_id = await stable(client, "a")
            before = await metrics.snapshot()
            await stable(client, "b")
            for _ in range(10):
                await heartbeat(client, member_id, "a")
            await heartbeat(client, "nobody", "a")
            for offset in range(4):
                await client.call("OffsetCommit", 8, offsets(offset, group="simple"))
            now = await metrics.snapshot()
        metrics.stop()
    now["time_ns"] = before["time_ns"] + 2 * SECOND_NS
    now["cpu_seconds"] = before["cpu_seconds"] + 0.5
    return before, now


def shown(found: Any, height: int | None = None, width: int = 160) -> str:
    """A frame as text."""
    out = io.StringIO()
    console = Console(file=out, width=width, markup=False, emoji=False)
    console.print(picture(found, height))
    return out.getvalue()


async def test_rates_are_between_two_snapshots() -> None:
    """Counts of two seconds, halved; what has just happened comes first."""
    found = frame(*(await snapshots()))
    assert found.cpu == 0.25
    groups = {row.name: row for row in found.groups}
    assert found.groups[0].name == "b"
    assert [groups[g].new_rebalances for g in ("a", "b", "simple")] == [0, 1, 0]
    assert [groups[g].rebalances for g in ("a", "b", "simple")] == [1, 1, 0]
    assert groups["simple"].commits_per_s == 2
    assert groups["b"].last_cause == "member_joined"
    apis = {row.name: row for row in found.apis}
    assert found.apis[0].name == "Heartbeat"
    assert (apis["Heartbeat"].per_s, apis["Heartbeat"].errors_per_s) == (5.5, 0.5)
    assert apis["JoinGroup"].per_s == 1


async def test_one_snapshot_is_an_average() -> None:
    """Since the port was opened; another run's snapshot says nothing about this one."""
    before, now = await snapshots()
    now["since_ns"] = now["time_ns"] - 4 * SECOND_NS
    found = frame(None, now)
    assert found.cpu is None
    assert {row.new_rebalances for row in found.groups} == {0}
    (simple,) = [row for row in found.groups if row.name == "simple"]
    assert simple.commits_per_s == 1
    assert frame({**before, "run": "another"}, now) == found


async def test_counts_that_shrank_are_no_rates() -> None:
    """A group that is gone and another one of its name."""
    before, now = await snapshots()
    smaller = copy.deepcopy(now)
    for row in smaller["groups"]:
        row["commits"], row["rebalances"] = 0, {}
    smaller["time_ns"] += SECOND_NS
    found = frame(now, smaller)
    assert all(row.commits_per_s == 0 for row in found.groups)
    assert all(row.new_rebalances == 0 for row in found.groups)
    assert before["groups"]


def test_quantiles_are_bounds_of_buckets() -> None:
    """The first bucket with enough below it; infinity for the last one."""
    bounds = (1.0, 2.0, 3.0)
    assert quantile(bounds, [0, 0, 0, 0], 0.5) is None
    assert quantile(bounds, [1, 1, 0, 0], 0.5) == 1.0
    assert quantile(bounds, [1, 2, 0, 0], 0.5) == 2.0
    assert quantile(bounds, [99, 0, 0, 1], 0.99) == 1.0
    assert quantile(bounds, [9, 0, 0, 1], 0.99) == float("inf")


async def test_what_is_shown() -> None:
    """The broker, its groups and APIs, in words and numbers that one can read."""
    text = shown(frame(*(await snapshots())))
    assert "1 of 1 node · 1 connection\n" in text
    assert "groups: 1 Empty, 2 Stable · CPU 25%" in text
    assert "case=top" in text
    (row,) = [line.split() for line in text.splitlines() if line.startswith("b ")]
    assert row[:7] == ["b", "Stable", "1", "1", "0", "0", "1"]
    assert "(+1)" in row
    assert "member joined, " in text
    (row,) = [
        line.split() for line in text.splitlines() if line.startswith("Heartbeat")
    ]
    assert row[1:3] == ["5.5", "0.5"]


async def test_a_terminal_is_not_overfull() -> None:
    """Groups that have no room are counted; on what is no terminal all have room."""
    _, now = await snapshots()
    (row, *_) = now["groups"]
    now["groups"] = [{**row, "group": f"g{n:03}"} for n in range(90)]
    found = frame(None, now)
    for height in (10, 24, 60):
        text = shown(found, height)
        lines = text.splitlines()
        groups = [line for line in lines if line.startswith("g0")]
        assert f"and {90 - len(groups)} more" in text
        assert len(groups) >= FEWEST_GROUPS
        assert len(lines) <= max(height, FEWEST_GROUPS + 5 + 8)
    assert "more" not in shown(found)


async def test_the_command_where_there_is_no_terminal() -> None:
    """One look: as text, or as the JSON that /metrics.json answers."""
    with serving("--http=0", FAST) as server:
        assert server.http is not None
        async with connected_to(server.host, server.port) as client:
            await stable(client, "a group")
        text = await asyncio.to_thread(done, "top", "--http", server.http)
        assert "a group" in text
        assert "JoinGroup" in text
        arguments = ("top", "--http", server.http, "--once", "--json")
        (line,) = (await asyncio.to_thread(done, *arguments)).splitlines()
        assert [row["group"] for row in json.loads(line)["groups"]] == ["a group"]
        # A scheme, a port alone: as all commands take them.
        await asyncio.to_thread(done, "top", "--http", server.http.rpartition(":")[2])


def test_the_command_without_a_broker() -> None:
    """One line that says what to start."""
    line = refused("top", "--http", "127.0.0.1:1", "--once", code=1)
    assert line.startswith("no broker answers at http://127.0.0.1:1 ")
    assert refused("top", "--http", "a b", code=2).startswith("--http ")


async def test_the_command_on_a_terminal() -> None:
    """It draws until Ctrl-C, and gives the terminal back as it was."""
    async with (
        Broker({"group.initial.rebalance.delay.ms": 0}) as broker,
        Control(broker) as control,
        connected(broker) as client,
        asyncio.timeout(PATIENCE_S),
    ):
        await stable(client, "watched")
        mine, theirs = pty.openpty()
        process = await asyncio.create_subprocess_exec(
            *(*KOHORT, "top", "--http", control.url, "--interval", "0.1"),
            env=environment(TERM="xterm", COLUMNS="120", LINES="30"),
            stdout=theirs,
            stderr=theirs,
            stdin=theirs,
        )
        os.close(theirs)
        seen = b""
        while seen.count(b"watched") < 3:
            seen += await asyncio.to_thread(os.read, mine, 65536)
        process.send_signal(signal.SIGINT)
        while b"\x1b[?1049l" not in seen:
            seen += await asyncio.to_thread(os.read, mine, 65536)
        assert await process.wait() == 0
        os.close(mine)
        assert b"Traceback" not in seen
