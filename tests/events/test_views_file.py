"""``--events FILE``: its content, a full disk, and a crash."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from tests.broker.test_cluster import heartbeat, offsets, stable
from tests.commands import refused, serving
from tests.control.shell import Shell
from tests.events.test_stream import happen, stream, told
from tests.patience import PATIENCE_S
from tests.small_disk import on_a_small_disk
from tests.wire.client import WireClient, connected, connected_to

from kohort.broker.events.bus import Events
from kohort.broker.events.remembered import ROWS_PER_EVENT
from kohort.broker.events.views.jsonl import EventsFile
from kohort.broker.events.views.reading import LARGE_SLICE, SLICE, json_of, take
from kohort.broker.server import Broker
from kohort.protocol.apis.k03_metadata import MetadataRequest, MetadataRequestTopic

FAST = {"group.initial.rebalance.delay.ms": 0}


def lines(path: Path) -> list[dict[str, Any]]:
    """The events of a file, which ends with a whole line."""
    text = path.read_text()
    assert not text or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


async def written(path: Path, events: Events) -> None:
    """Writes the remembered events."""
    view = EventsFile(path, events)
    view.start()
    await view.close()


async def test_the_file_is_the_stream(tmp_path: Path) -> None:
    """A line for each event, from the broker's start to after its stop."""
    path = tmp_path / "events.jsonl"
    broker = Broker(FAST, labels={"case": "1"})
    view = EventsFile(path, broker.events)
    view.start()
    with broker.events.subscribe() as reader:
        async with broker, connected(broker) as client:
            broker.cluster.create_topic("t", 1)
            await stable(client)
            await client.call("OffsetCommit", 8, offsets(1, group="other"))
        seen = reader.take()
    await view.close()
    assert lines(path) == seen
    assert [e["sequence"] for e in seen] == [*range(1, len(seen) + 1)]
    assert {tuple(e["labels"].items()) for e in seen} == {(("case", "1"),)}
    kinds = [e["kind"] for e in seen]
    assert kinds[0] == "node_started"
    assert {"assignment_made", "offsets_committed"} < {*kinds}
    assert {kinds[-2], kinds[-1]} <= {"node_stopped", "shard_unloaded"}


async def test_it_is_appended_to(tmp_path: Path) -> None:
    """A second run goes behind the first; a line without an end is ended before."""
    path = tmp_path / "events.jsonl"
    events = stream()
    happen(events.of(1), "a")
    await written(path, events)
    with path.open("a") as file:
        file.write('{"torn":')
    other = stream()
    happen(other.of(1), "b")
    await written(path, other)
    first, torn, second = path.read_text().splitlines()
    assert (json.loads(first)["group"], torn) == ("a", '{"torn":')
    assert json.loads(second)["group"] == "b"


@pytest.mark.parametrize("length", [1, 9, 10, 11, 200, -1])
async def test_a_torn_line_is_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], length: int
) -> None:
    """A line of events that a kill cut off is no line; the log says that it is gone."""
    path = tmp_path / "events.jsonl"
    events = stream()
    # Longer than one read.
    happen(events.of(1), "a", "b" * 10_000)
    await written(path, events)
    whole = path.read_bytes()
    first, second = whole.splitlines(keepends=True)
    path.write_bytes(first + second[: length - 1 if length < 0 else length])
    await written(path, stream())
    assert path.read_bytes() == first
    assert "torn_line_removed" in capsys.readouterr().err


async def test_a_whole_line_without_its_end_is_kept(tmp_path: Path) -> None:
    """Only its end was missing."""
    path = tmp_path / "events.jsonl"
    events = stream()
    happen(events.of(1), *"ab")
    await written(path, events)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    await written(path, stream())
    assert path.read_bytes() == whole


async def test_a_file_is_one_brokers(tmp_path: Path) -> None:
    """Another one is refused while the first one writes; the file stays as it is."""
    path = tmp_path / "events.jsonl"
    events = stream()
    happen(events.of(1), "a")
    view = EventsFile(path, events)
    with pytest.raises(OSError, match="another broker writes to it; each needs"):
        EventsFile(path, stream())
    line = refused("serve", "--port=0", "--events", str(path), code=1)
    assert line == (
        f"--events: cannot write to {path}: "
        "another broker writes to it; each needs its own"
    )
    view.start()
    await view.close()
    assert told(lines(path)) == ["a"]
    await written(path, stream())


async def test_killed_again_and_again(tmp_path: Path) -> None:
    """Whole lines whatever moment it is, no gap in any run; the next one appends."""
    path = tmp_path / "events.jsonl"
    before: list[str] = []
    for number in range(4):
        with serving("--events", str(path)) as server:
            async with connected_to(server.host, server.port) as client:
                await commit_until(client, path, 4_000 * (number + 1))
            server.process.kill()
            server.process.wait()
        # Behind the last end of a line may be one that is torn.
        *found, _ = path.read_text().split("\n")
        assert found[: len(before)] == before
        before = found
        runs: dict[str, list[int]] = {}
        for event in map(json.loads, found):
            runs.setdefault(event["run"], []).append(event["sequence"])
        assert len(runs) == number + 1
        for numbers in runs.values():
            assert numbers == [*range(1, len(numbers) + 1)]


def size_of(path: Path) -> int:
    """The size of a file in bytes."""
    return path.stat().st_size


async def commit_until(client: WireClient, path: Path, grown: int) -> None:
    """Commits until a file has grown by this many bytes; commits stay unanswered."""
    topic = MetadataRequestTopic(name="t")
    await client.call("Metadata", 12, MetadataRequest([topic]))
    size = size_of(path) + grown
    for offset in itertools.count():
        await client.send("OffsetCommit", 8, offsets(offset))
        if size_of(path) >= size:
            return
        if offset >= 20:
            await client.response("OffsetCommit", 8)


async def test_many_events_are_written_in_batches(tmp_path: Path) -> None:
    """More than one write has room for: none is missing, and others get turns."""
    path = tmp_path / "events.jsonl"
    events = stream()
    view = EventsFile(path, events)
    for number in range(5_000):
        happen(events.of(1), f"{number:0500}")
    view.start()
    turns = 0
    closing = asyncio.create_task(view.close())
    while not closing.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 50
    assert [int(e["group"]) for e in lines(path)] == [*range(5_000)]


@pytest.mark.parametrize("weight", [1, 2 * ROWS_PER_EVENT])
async def test_a_view_that_falls_behind_hurries(weight: int) -> None:
    """A slice while there is room; ten times as many where half of it is taken."""
    events = stream()
    with events.subscribe(size=20 * SLICE) as reader:
        half = 10 * SLICE if weight == 1 else 5 * SLICE
        happen(events.of(1), *"g" * (half + 1), weight=weight)
        assert len(take(reader)) == min(LARGE_SLICE, half + 1)
        happen(events.of(1), *"g" * (half // 2))
        assert len(take(reader)) == SLICE


async def test_a_view_that_cannot_keep_up_announces_the_gap(tmp_path: Path) -> None:
    """The file says which events are not in it, where they would have been."""
    path = tmp_path / "events.jsonl"
    events = stream()
    view = EventsFile(path, events, size=2)
    happen(events.of(1), *"abcde")
    view.start()
    await view.close()
    assert told(lines(path)) == [(1, 3), "d", "e"]


@pytest.mark.parametrize("what", ["a folder", "a pipe", "nowhere"])
def test_what_cannot_be_written_to(tmp_path: Path, what: str, shell: Shell) -> None:
    """Is refused at once, and the broker does not start."""
    path = tmp_path / "it"
    if what == "a folder":
        path.mkdir()
    elif what == "a pipe":
        os.mkfifo(path)
    else:
        path = path / "no such folder"
    with pytest.raises(OSError, match=f"{path}|no regular file"):
        EventsFile(path, stream())
    line = shell.refused("serve", "--port=0", "--events", str(path), code=1)
    assert line.startswith(f"--events: cannot write to {path}: ")


def test_a_file_without_a_name(shell: Shell) -> None:
    """An empty variable in a script."""
    line = shell.refused("serve", "--port=0", "--events", "", code=1)
    assert line.startswith("--events: cannot write to a file without a name: ")


@pytest.mark.parametrize("name", ["plain", "n\u00e4me \u2028", "\udcff"])
def test_a_line_is_ascii(name: str) -> None:
    """Also where clients have other names, or a label is no text."""
    event = {"client_id": name, "labels": MappingProxyType({"case": name})}
    line = json_of(event)
    assert line.isascii()
    assert b"\n" not in line
    assert json.loads(line) == {"client_id": name, "labels": {"case": name}}


def test_labels_are_told_apart(shell: Shell) -> None:
    """A label without a name or a value is a wrong command."""
    for wrong in ("x", "=x", ""):
        line = shell.refused("serve", "--port=0", "--label", wrong, code=2)
        assert line == f"--label {wrong!r}: must be KEY=VALUE"
    for wrong in ("a=\udcff", "a=1\n2"):
        line = shell.refused("serve", "--port=0", "--label", wrong, code=2)
        assert line == f"--label {wrong!r}: must be printable text"


async def test_served(tmp_path: Path) -> None:
    """The command's options: the file, labels, and heartbeats if they are wanted."""
    path = tmp_path / "events.jsonl"
    options = ("--events", str(path), "--label", "a=1", "--label", "b=x=y")
    fast = "--set=group.initial.rebalance.delay.ms=0"
    with serving(*options, "--events-heartbeats", fast) as server:
        async with connected_to(server.host, server.port) as client:
            await heartbeat(client, await stable(client))
        code, _, _ = await asyncio.to_thread(server.end)
        assert code == 0
    found = lines(path)
    assert {json.dumps(e["labels"]) for e in found} == {'{"a": "1", "b": "x=y"}'}
    assert found[-1]["kind"] in {"node_stopped", "shard_unloaded"}
    assert "heartbeat" in {e["kind"] for e in found}


async def test_a_full_disk(tmp_path: Path) -> None:
    """Whole lines only, and one line in the log; when there is room it goes on."""
    path = tmp_path / "events.jsonl"
    limit = 20_000
    path.write_text("\n" * (limit - 5_000))

    async with (
        on_a_small_disk(limit, "--events", str(path)) as broker,
        connected_to("127.0.0.1", broker.port) as client,
        asyncio.timeout(PATIENCE_S),
    ):
        for number in range(20):
            await stable(client, f"g{number}")
        await broker.until_logged("events_not_written")
        size = path.stat().st_size
        assert size <= limit
        with path.open("rb") as file:
            file.seek(size - 1)
            assert file.read() == b"\n"
        broker.give_room()
        await broker.until_logged("events_written_again", without="events_not_written")
        await broker.end()
    found = [json.loads(row) for row in path.read_text().splitlines() if row]
    # Everything had room in the buffer meanwhile.
    assert [e["sequence"] for e in found] == [*range(1, len(found) + 1)]
    assert len({e["group"] for e in found} - {None}) == 20
