"""``kohort top``: rates from snapshots, and the layout of the screen."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console
from tests.broker.test_cluster import heartbeat, offsets, stable
from tests.commands import KOHORT, Serving, environment, serving
from tests.control.shell import Shell
from tests.patience import PATIENCE_S
from tests.wire.client import connected, connected_to

from kohort.broker.server import Broker
from kohort.control.commands.top import Pauses, top
from kohort.control.http.server import Control
from kohort.control.metrics.metrics import Metrics
from kohort.control.top.rates import frame, quantile
from kohort.control.top.screen import (
    API_COLUMNS,
    FEWEST_GROUPS,
    FIXED_LINES,
    GROUP_COLUMNS,
    MOST_APIS,
    picture,
)

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


def shown(
    found: Any, size: tuple[int, int] | None = None, trouble: str | None = None
) -> str:
    """A frame as text."""
    out = io.StringIO()
    width, height = size or (None, None)
    console = Console(file=out, width=width or 1000, markup=False, emoji=False)
    console.print(picture(found, width, height, trouble))
    return out.getvalue()


async def test_rates_are_between_two_snapshots() -> None:
    """Counts of two seconds, halved; the latest rebalance comes first."""
    found = frame(*(await snapshots()))
    assert found.cpu == pytest.approx(0.25)
    groups = {row.name: row for row in found.groups}
    assert found.groups[0].name == "b"
    assert [groups[g].new_rebalances for g in ("a", "b", "simple")] == [0, 1, 0]
    assert [groups[g].rebalances for g in ("a", "b", "simple")] == [1, 1, 0]
    assert groups["simple"].commits_per_s == 2
    assert groups["b"].causes == {"member_joined": 1}
    assert found.causes == {"member_joined": 2}
    apis = {row.name: row for row in found.apis}
    assert found.apis[0].name == "Heartbeat"
    assert (apis["Heartbeat"].per_s, apis["Heartbeat"].errors_per_s) == (5.5, 0.5)
    assert apis["JoinGroup"].per_s == 1
    assert apis["Heartbeat"].errors == {"UNKNOWN_MEMBER_ID": 1}


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


async def test_the_last_cause_comes_first() -> None:
    """And then the most frequent ones; refusals of joins and of commits are one."""
    before, now = await snapshots()
    (row,) = [row for row in now["groups"] if row["group"] == "b"]
    row["rebalances"] = {"member_joined": 2, "member_left": 5, "session_expired": 1}
    row["last_cause"] = "session_expired"
    row["refusals"] = {"GROUP_MAX_SIZE_REACHED": 2, "UNKNOWN_MEMBER_ID": 1}
    row["commit_refusals"] = {"UNKNOWN_MEMBER_ID": 3}
    found = frame(before, now)
    (b,) = [row for row in found.groups if row.name == "b"]
    causes = ["session_expired", "member_left", "member_joined"]
    assert [*b.causes] == causes
    assert [*b.refusals.items()] == [
        ("UNKNOWN_MEMBER_ID", 4),
        ("GROUP_MAX_SIZE_REACHED", 2),
    ]
    text = shown(found)
    assert "1 session expired, 5 member left, 2 member joined" in text
    assert "refused: 4 UNKNOWN_MEMBER_ID, 2 GROUP_MAX_SIZE_REACHED" in text


async def test_what_is_shown() -> None:
    """The broker, its groups and APIs, in words and numbers that one can read."""
    text = shown(frame(*(await snapshots())))
    assert " · 1 of 1 node · 1 connection · " in text
    assert "groups: 1 Empty, 2 Stable\n" in text
    assert "CPU 25%" in text
    assert "case=top" in text
    assert "rebalances: 2 member joined · refused: none\n" in text
    (row,) = [line.split() for line in text.splitlines() if line.startswith("b ")]
    assert row[:6] == ["b", "Stable", "1", "1", "0", "0"]
    assert row[6:8] == ["1", "(+1)"]
    (row,) = [
        line.split() for line in text.splitlines() if line.startswith("Heartbeat")
    ]
    assert row[1:3] == ["5.5", "0.5"]
    assert row[-2:] == ["1", "UNKNOWN_MEMBER_ID"]


async def test_who_comes_first() -> None:
    """Rebalancing groups first, then recent ones, lag, members, and the rest."""
    _, before = await snapshots()
    (row,) = [row for row in before["groups"] if row["group"] == "a"]

    def group(name: str, **fields: object) -> dict[str, Any]:
        return {**row, "group": name, "lag": {"t": 5}, **fields}

    before["groups"] = [group("3-new", rebalances={})]
    now = copy.deepcopy(before)
    now["groups"] = [
        group("7-gone", state=None),
        group("6-empty", state="Empty", members=0, lag={}),
        group("5-members", lag={}),
        group("4-behind", state="Empty", members=0),
        group("3-new", lag={}, rebalances={"member_left": 2}),
        group("2-sync", state="CompletingRebalance", lag={}, rebalances={}),
        group("1-join", state="PreparingRebalance", rebalances={}),
    ]
    before["groups"] += [{**each} for each in now["groups"] if each["group"] != "3-new"]
    names = [each.name for each in frame(before, now).groups]
    assert names == sorted(names)


async def test_a_terminal_is_not_overfull() -> None:
    """Groups without room are counted; without a terminal all have room."""
    _, now = await snapshots()
    (row, *_) = now["groups"]
    now["groups"] = [{**row, "group": f"g{n:03}"} for n in range(90)]
    found = frame(None, now)
    for height in (10, 24, 60):
        text = shown(found, (160, height))
        lines = text.splitlines()
        groups = [line for line in lines if line.startswith("g0")]
        assert f"and {90 - len(groups)} more" in text
        assert len(groups) >= max(FEWEST_GROUPS, (height - FIXED_LINES) // 2)
        assert len(lines) <= max(height, FEWEST_GROUPS + FIXED_LINES + MOST_APIS)
    assert "more" not in shown(found)


@pytest.mark.parametrize("width", [40, 80, 120, 200])
async def test_a_narrow_terminal_has_fewer_columns(width: int) -> None:
    """No line is longer than it is wide, or broken; the state is always there."""
    before, now = await snapshots()
    now["groups"][0]["group"] = "a-service-with-a-very-long-name-" * 5
    lines = shown(frame(before, now), (width, 30)).splitlines()
    assert all(cell_len(line) <= width for line in lines)
    assert len(lines) == FIXED_LINES - 1 + 3 + len(now["apis"])
    (heads,) = [line.split() for line in lines if line.startswith("GROUP")]
    assert heads[:2] == ["GROUP", "STATE"]
    assert ("REBALANCES" in heads) == (width >= 80)
    assert ("CAUSES" in heads) == (width >= 120)
    assert ("PAUSED" in heads) == (width >= 200)
    assert any("…" in line and "Stable" in line for line in lines)


async def test_names_do_nothing_to_the_terminal() -> None:
    """Control and bidirectional characters in names are spelt out."""
    _, now = await snapshots()
    now["groups"][0]["group"] = "\x1b[2Jgone\n\t\u202eback[bold]"
    now["labels"] = {"l": "\x1b]0;title\x07"}
    for size in (None, (200, 30)):
        text = shown(frame(None, now), size)
        assert "\\x1b[2Jgone\\n\\t\\u202eback[bold] " in text
        assert all(c.isprintable() for c in text.replace("\n", ""))


async def test_what_is_old_is_told_to_be() -> None:
    """While the broker does not answer, the last that it said stays."""
    found = frame(*(await snapshots()))
    text = shown(found, (80, 24), "as it was: no broker answers at x")
    assert text.startswith("as it was: no broker answers at x")
    assert text.splitlines()[1:] == shown(found, (80, 24)).splitlines()[1:]


def test_the_documented_options_are_those_that_there_are() -> None:
    """And its columns."""
    text = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text()
    options = re.findall(r"^\| `(--[a-z]+)", text, re.MULTILINE)
    assert {*options} == {max(each.opts, key=len) for each in top.params}
    titles = [each.title for each in GROUP_COLUMNS]
    titles += [each.title for each in API_COLUMNS]
    assert [title for title in titles if title not in text] == []


def test_the_command_where_there_is_no_terminal(shell: Shell) -> None:
    """One look: as text, or as the JSON that /metrics.json answers."""

    async def joined(server: Serving) -> None:
        async with connected_to(server.host, server.port) as client:
            await stable(client, "a group")

    with serving("--http=0", FAST) as server:
        assert server.http is not None
        asyncio.run(joined(server))
        text = shell.done("top", "--http", server.http)
        assert "a group" in text
        assert "JoinGroup" in text
        arguments = ("top", "--http", server.http, "--once", "--json")
        (line,) = shell.done(*arguments).splitlines()
        assert [row["group"] for row in json.loads(line)["groups"]] == ["a group"]
        # A scheme, a port alone: as all commands take them.
        shell.done("top", "--http", server.http.rpartition(":")[2])


def test_the_command_without_a_broker(shell: Shell) -> None:
    """One line that says what to start."""
    line = shell.refused("top", "--http", "127.0.0.1:1", "--once", code=1)
    assert line.startswith("no broker answers at http://127.0.0.1:1 ")
    assert shell.refused("top", "--http", "a b", code=2).startswith("--http ")


class Terminal:
    """``kohort top`` on a terminal.

    Attributes:
        process: the command.
        seen: its output so far.
    """

    def __init__(self, process: asyncio.subprocess.Process, mine: int) -> None:
        self.process = process
        self.seen = b""
        self._mine = mine

    async def sees(self, text: bytes, times: int = 1) -> None:
        """Waits until it writes a text this many times from now on."""
        self.seen = b""
        while self.seen.count(text) < times:
            self.seen += await asyncio.to_thread(os.read, self._mine, 65536)
            assert b"Traceback" not in self.seen


@contextlib.asynccontextmanager
async def terminal(url: str) -> AsyncIterator[Terminal]:
    """The command on a terminal of 120 columns and 30 lines."""
    mine, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(*KOHORT, "top", "--http", url, "--interval", "0.1"),
        env=environment(TERM="xterm", COLUMNS="120", LINES="30"),
        stdout=theirs,
        stderr=theirs,
        stdin=theirs,
    )
    os.close(theirs)
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield Terminal(process, mine)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        os.close(mine)


BACK = b"\x1b[?1049l"
"""Restores the previous screen of a terminal."""
CURSOR = b"\x1b[?25h"
"""Has it show its cursor."""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 128 + signal.SIGTERM)]
)
async def test_the_command_on_a_terminal(number: signal.Signals, code: int) -> None:
    """It draws until a signal ends it, and restores the terminal."""
    async with (
        Broker({"group.initial.rebalance.delay.ms": 0}) as broker,
        Control(broker) as control,
        connected(broker) as client,
    ):
        await stable(client, "watched")
        async with terminal(control.url) as found:
            await found.sees(b"watched", times=3)
            found.process.send_signal(number)
            await found.sees(BACK)
            assert await found.process.wait() == code
            assert CURSOR in found.seen


@pytest.mark.parametrize(
    ("number", "raised"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)],
)
def test_a_signal_that_strikes_in_a_finalizer(
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    raised: type[BaseException],
) -> None:
    """The error is lost there; the next pause does not begin, however long."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)

    class Closed:
        def __del__(self) -> None:
            signal.raise_signal(number)

    before = signal.getsignal(number)
    with Pauses(3600) as pauses:
        Closed()
        with pytest.raises(raised):
            pauses.pause()
    assert signal.getsignal(number) is before


async def test_a_broker_that_goes_and_comes_back() -> None:
    """The last numbers stay, with a line about the lost broker; then it goes on."""
    async with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        control = Control(broker)
        await control.start()
        async with terminal(control.url) as found, connected(broker) as client:
            await stable(client, "watched")
            await found.sees(b"watched")
            await control.stop()
            await found.sees(b"as it was: no broker answers at ")
            await found.sees(b"watched")
            async with Control(broker, port=control.port):
                await stable(client, "another")
                await found.sees(b"another")


def test_who_reads_only_a_part_of_it() -> None:
    """`kohort top --json | head -1` prints no error about the broken pipe."""
    with serving("--http=0", FAST) as server:
        assert server.http is not None
        command = (*KOHORT, "top", "--http", server.http, "--json", "--interval", "0.1")
        process = subprocess.Popen(
            command,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert json.loads(process.stdout.readline())["groups"] == []
            process.stdout.close()
            assert process.stderr.read() == ""
            process.wait(PATIENCE_S)
