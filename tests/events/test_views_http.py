"""Events over HTTP: from the beginning, from where one was, and how they are framed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from tests.broker.test_cluster import heartbeat, stable
from tests.commands import serving
from tests.events.test_stream import happen
from tests.patience import PATIENCE_S
from tests.wire.client import connected

from kohort.broker.events.bus import Events
from kohort.broker.events.remembered import REMEMBERED
from kohort.broker.server import Broker
from kohort.control.http import event_stream, last_heard, server
from kohort.control.http.event_stream import MOST_STREAMS
from kohort.control.http.server import Control

FAST = {"group.initial.rebalance.delay.ms": 0}
Block = dict[str, str]


class Watching:
    """A client of a broker's HTTP port.

    Attributes:
        broker: the broker.
        control: its HTTP server.
        session: for requests of one's own.
    """

    def __init__(
        self, broker: Broker, control: Control, session: aiohttp.ClientSession
    ) -> None:
        self.broker = broker
        self.control = control
        self.session = session

    @contextlib.asynccontextmanager
    async def stream(
        self, query: str = "", **headers: str
    ) -> AsyncIterator[AsyncIterator[Block]]:
        """The blocks of a stream of server-sent events."""
        async with self.session.get(f"/events{query}", headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.content_type == "text/event-stream"
            yield blocks(answer)

    async def events(self, query: str = "", **headers: str) -> list[dict[str, Any]]:
        """The remembered events, as server-sent events."""
        async with self.stream(f"?follow=false{query}", **headers) as found:
            return [json.loads(block["data"]) async for block in found]

    async def refusal(self, path: str) -> tuple[int, str]:
        """(status, sentence) of a request that is refused."""
        async with self.session.get(path) as answer:
            return answer.status, (await answer.json())["error"]


async def blocks(answer: aiohttp.ClientResponse) -> AsyncIterator[Block]:
    """Blocks of server-sent events: their fields."""
    block: Block = {}
    async for raw in answer.content:
        line = raw.decode().rstrip("\n")
        if line:
            name, _, value = line.partition(": ")
            assert name not in block
            block[name] = value
        else:
            if block != {"retry": "1000"}:
                yield block
            block = {}
    assert not block, "the last block has no end"


@contextlib.asynccontextmanager
async def watching(
    remembered: int | None = None, nodes: int = 1
) -> AsyncIterator[Watching]:
    """A broker with HTTP, and a client that watches it."""
    broker = Broker(FAST, nodes=nodes, labels={"case": "http"})
    if remembered is not None:
        broker.events = Events(remembered=remembered)
    async with (
        broker,
        Control(broker) as control,
        aiohttp.ClientSession(
            f"http://127.0.0.1:{control.port}", read_bufsize=2**22
        ) as session,
        asyncio.timeout(PATIENCE_S),
    ):
        yield Watching(broker, control, session)


def numbers(events: list[dict[str, Any]]) -> list[Any]:
    """The sequences of events; for lost events the first and the last."""
    return [
        (e["first"], e["last"]) if e["kind"] == "events_lost" else e["sequence"]
        for e in events
    ]


async def test_the_past_first_and_then_what_happens() -> None:
    """A stream has all events in their order, and each has its id."""
    async with watching() as client, connected(client.broker) as member:
        await stable(member, "a")
        past = len(client.broker.events.recent())
        async with client.stream() as found:
            seen = [await anext(found) for _ in range(past)]
            await stable(member, "b")
            both = client.broker.events.recent()
            seen += [await anext(found) for _ in both[past:]]
        assert [json.loads(block["data"]) for block in seen] == both
        assert [block["id"] for block in seen] == [
            f"{e['run']}:{e['node']}:{e['sequence']}" for e in both
        ]


async def test_of_some_groups_only() -> None:
    """Events of others, and of no group, are left out."""
    async with watching() as client, connected(client.broker) as member:
        for group in ("a", "b", "c &?"):
            await stable(member, group)
        recent = client.broker.events.recent
        assert await client.events("&group=a") == recent("a")
        assert await client.events("&group=c+%26%3F") == recent("c &?")
        assert await client.events("&group=a&group=b") == [*recent("a"), *recent("b")]
        assert await client.events("&group=nobody") == []
        fenced = {"error": "PRODUCER_FENCED"}
        client.broker.events.of(1).tell("transaction_fenced", 0.0, **fenced)
        of_both = recent("a", transactions=True)
        assert len(of_both) == len(recent("a")) + 1
        assert await client.events("&group=a&transactions=true") == of_both


async def test_json_and_json_lines() -> None:
    """The same events as one object, and as ``--events`` writes them."""
    async with watching() as client, connected(client.broker) as member:
        for number in range(30):
            await stable(member, f"g{number}")
        events = client.broker.events
        async with client.session.get("/events.json") as answer:
            assert answer.content_type == "application/json"
            found = await answer.json()
            assert found == {
                "run": events.run,
                "labels": {"case": "http"},
                "now_ns": found["now_ns"],
                "events": events.recent(),
            }
            assert found["now_ns"] >= found["events"][-1]["time_ns"]
        async with client.session.get("/events.json?group=nobody") as answer:
            assert (await answer.json())["events"] == []
        async with client.session.get(
            "/events?follow=false&group=g7", headers={"Accept": "application/x-ndjson"}
        ) as answer:
            assert answer.content_type == "application/x-ndjson"
            lines = (await answer.text()).splitlines()
            assert [json.loads(line) for line in lines] == events.recent("g7")


async def test_going_on_where_one_was() -> None:
    """Behind the event that Last-Event-ID names, be it the last one or another's."""
    async with watching(nodes=2) as client:
        events = client.broker.events
        first, second = events.of(1), events.of(2)
        start = len(events.recent())
        for node in (first, second, second, first, second):
            happen(node, "g")
        rows = events.recent()
        for index in range(start, len(rows)):
            row = rows[index]
            last = f"{row['run']}:{row['node']}:{row['sequence']}"
            headers = {"Last-Event-ID": last}
            assert await client.events(**headers) == rows[index + 1 :]
            assert await client.events(f"&last_event_id={last}") == rows[index + 1 :]


async def test_what_is_not_remembered_is_announced() -> None:
    """A reader that has missed forgotten events gets one notice in their place."""
    async with watching(remembered=3) as client:
        node = client.broker.events.of(1)
        happen(node, *"abcdefgh")
        count, run = node.sequence, client.broker.events.run
        left = [count - 2, count - 1, count]
        assert numbers(await client.events()) == [(1, count - 3), *left]
        for last in range(1, count + 1):
            expected: list[Any] = [number for number in left if number > last]
            if last < count - 3:
                expected = [(last + 1, count - 3), *left]
            headers = {"Last-Event-ID": f"{run}:1:{last}"}
            assert numbers(await client.events(**headers)) == expected
        (gap, *_) = await client.events("&group=h", **{"Last-Event-ID": f"{run}:1:2"})
        assert gap["kind"] == "events_lost"
        assert (gap["sequence"], gap["group"]) == (count - 3, None)


async def test_a_group_is_remembered_longer() -> None:
    """Events of other groups push out none of its events and report no loss."""
    async with watching(remembered=50) as client, connected(client.broker) as member:
        # Accounts are made from here on, not from the first stream on.
        async with client.session.get("/metrics.json") as answer:
            assert answer.status == 200
        for group in ("a", "b"):
            await stable(member, group)
        happen(client.broker.events.of(1), *("busy",) * 100)
        events = client.broker.events
        of_a = events.recent("a")
        assert of_a[0]["kind"] == "group_state"
        assert not any(e["group"] == "a" for e in events.recent())
        assert await client.events("&group=a") == of_a
        assert await client.events("&group=b&group=a") == [*of_a, *events.recent("b")]
        async with client.session.get("/events.json?group=a") as answer:
            assert (await answer.json())["events"] == of_a
        async with client.stream("?group=a") as found:
            seen = [json.loads((await anext(found))["data"]) for _ in of_a]
            happen(events.of(1), "a")
            seen.append(json.loads((await anext(found))["data"]))
        assert seen == events.recent("a")
        # A page has it of all groups; a reader of everything gets a notice of the gap.
        async with client.stream("?heard=true") as found:
            told = [await anext(found) for _ in range(60)]
        page = [json.loads(each["data"]) for each in told if "event" not in each]
        assert [e for e in page if e["group"] == "a"][: len(of_a)] == of_a
        assert "events_lost" not in {e["kind"] for e in page}
        gap, *_ = await client.events()
        assert (gap["first"], gap["kind"]) == (1, "events_lost")


async def test_an_id_that_says_nothing() -> None:
    """With an id of another run or of no node, or an invalid one, all events come."""
    async with watching() as client:
        happen(client.broker.events.of(1), *"abc")
        rows, run = client.broker.events.recent(), client.broker.events.run
        for odd in (
            "r:1:2",
            f"{run}:9:1",
            f"{run}:1:99",
            f"{run}:1:x",
            "x",
            ":",
            "²:²:²",
        ):
            found = await client.events("", **{"Last-Event-ID": odd})
            assert [e for e in found if e["kind"] != "events_lost"] == rows, odd


async def test_a_slow_reader_is_told_what_it_missed() -> None:
    """It slows no other reader: events without room become one notice."""
    async with watching() as client:
        node = client.broker.events.of(1)
        async with client.stream() as found:
            await anext(found)
            # More than the broker remembers, in one turn of the loop.
            happen(node, *("g",) * (REMEMBERED + 5_000))
            seen, gaps = 1, 0
            async for block in found:
                event = json.loads(block["data"])
                if event["kind"] == "events_lost":
                    gaps += 1
                    assert event["first"] == seen + 1
                else:
                    assert event["sequence"] == seen + 1
                seen = event["sequence"]
                if seen == node.sequence:
                    break
            assert gaps == 1


async def test_who_never_reads() -> None:
    """It costs only its socket's buffer; if it reads on, it gets each gap."""
    async with watching() as client:
        node = client.broker.events.of(1)
        reader, writer = await ask_by_hand(client, "/events")
        for _ in range(6):
            happen(node, *("g" * 100,) * 5_000)
            # The stream has its turns, until there is no more room for it.
            await client.events("&group=nobody")
        happen(node, "the end")
        numbers_seen: list[int] = []
        gaps = 0
        async for raw in reader:
            if raw.startswith(b"data: "):
                event = json.loads(raw[6:])
                if event["kind"] == "events_lost":
                    gaps += 1
                    numbers_seen += range(event["first"], event["last"] + 1)
                else:
                    numbers_seen.append(event["sequence"])
                if event["group"] == "the end":
                    break
        assert numbers_seen == [*range(1, node.sequence + 1)]
        assert gaps
        writer.close()


async def ask_by_hand(
    client: Watching, path: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A request; only the first line of the answer is read."""
    port = client.control.port
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**14)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    return reader, writer


async def test_stopping_waits_for_nobody_who_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stream without a reader is cut off; requests under way may take long."""
    monkeypatch.setattr(server, "DRAIN_SECONDS", 10 * PATIENCE_S)
    async with watching() as client:
        node = client.broker.events.of(1)
        happen(node, *("g" * 1_000,) * REMEMBERED)
        stuck = [
            await ask_by_hand(client, path)
            for path in ("/events", "/events.json", "/events?follow=false")
        ]
        await client.control.stop()
        for reader, writer in stuck:
            # The end of an answer in chunks is missing.
            assert not (await reader.read()).endswith(b"0\r\n\r\n")
            writer.close()


async def test_an_interrupt_ends_all_streams() -> None:
    """Ctrl-C of the command: exit code 0, and streams that end where they should."""
    with serving("--http", "0") as server:
        assert server.http is not None
        async with aiohttp.ClientSession(server.http) as session:
            answers = [await session.get("/events") for _ in range(5)]
            for answer in answers:
                assert await answer.content.readline() == b"retry: 1000\n"
            code, _, errors = await asyncio.to_thread(server.end, signal.SIGINT)
            assert (code, errors) == (0, "")
            for answer in answers:
                assert (await answer.text()).endswith("\n\n")


async def test_streams_have_a_limit_and_end_with_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One too many is refused; stopping waits for none of them."""
    # On a busy machine a hundred streams take a while to end.
    monkeypatch.setattr(event_stream, "GRACE_S", PATIENCE_S)
    broker = Broker(FAST)
    async with broker, Control(broker) as control:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(control.url, connector=connector) as session:
            answers = [await session.get("/events") for _ in range(MOST_STREAMS)]
            async with session.get("/events") as refused:
                assert refused.status == 503
                assert "streams" in (await refused.json())["error"]
            answers.pop().close()
            loop = asyncio.get_running_loop()
            before = loop.time()
            await control.stop()
            assert loop.time() - before < PATIENCE_S
            for answer in answers:
                assert (await answer.text()).endswith("\n\n")


async def test_a_reader_that_is_gone_is_noticed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the next event its stream ends, without an error in the log."""
    async with watching() as client:
        node = client.broker.events.of(1)
        for accept in ("text/event-stream", "application/x-ndjson"):
            async with client.session.get(
                "/events", headers={"Accept": accept}
            ) as answer:
                await answer.content.readline()
                answer.close()
            happen(node, *"ab" * 100)
        # As many as may be open at once, again and again.
        for _ in range(MOST_STREAMS + 1):
            async with client.stream() as found:
                await anext(found)
            happen(node, "c")
            await client.events("&group=c")
    assert "request_failed" not in capsys.readouterr().err


NO_IDS = (
    "x\ndata: forged\n\n",
    "x\xff",
    "\udcff:1:1",
    "r" * 200 + ":1:1",
    "r:1:0",
    "r:1:1",
)


async def test_an_id_that_is_none_is_not_said_again() -> None:
    """A quiet stream sends the broker's position, never an invalid id."""
    async with watching() as client:

        async def is_quiet(last: str) -> None:
            query = {"last_event_id": last, "heard": "true", "group": "nobody"}
            async with client.session.get("/events", params=query) as answer:
                found = blocks(answer)
                where, heard = [await anext(found) for _ in range(2)]
            count = client.broker.events.of(1).sequence
            assert where == {"id": f"{client.broker.events.run}:1:{count}"}
            assert heard.keys() == {"event", "data"}

        await asyncio.gather(*map(is_quiet, NO_IDS))


async def test_a_header_that_is_no_text() -> None:
    """Whatever bytes Last-Event-ID has: the stream begins at the start."""
    async with watching() as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.control.port)
        writer.write(
            b"GET /events?heard=true&group=nobody HTTP/1.1\r\nHost: localhost\r\n"
            b"Last-Event-ID: \xff\xfe:1:1\r\n\r\n"
        )
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        # A sample, which comes behind where the stream stands.
        while (line := await reader.readline()) != b"event: heard\n":
            assert line, "it has ended"
        writer.close()


FOREIGN: list[dict[str, str]] = [
    {"Origin": "https://example.com"},
    {"Origin": "null"},
    {"Origin": "http://localhost:3000"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
    {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "iframe",
    },
]


async def test_pages_of_other_origins() -> None:
    """They hold no streams; and no answer ever allows them to read it."""
    async with watching() as client:
        get = client.session.get
        for path in ("/events", "/events.json", "/events?follow=false"):
            for headers in FOREIGN:
                async with get(path, headers=headers) as answer:
                    assert answer.status == 403
                    assert "other origins" in (await answer.json())["error"]
                    assert "Access-Control-Allow-Origin" not in answer.headers
            async with get(path, headers={"Host": "example.com"}) as answer:
                assert answer.status == 403
        for headers in (
            {"Origin": client.control.url},
            {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"},
            {"Sec-Fetch-Site": "none", "Sec-Fetch-Dest": "document"},
            {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"},
        ):
            async with get("/events?follow=false", headers=headers) as answer:
                assert answer.status == 200
                assert "Access-Control-Allow-Origin" not in answer.headers
        for method, status in (("HEAD", 405), ("OPTIONS", 405), ("POST", 405)):
            async with client.session.request(
                method, "/events", data=b"" if method == "POST" else None
            ) as answer:
                assert answer.status == status


async def test_a_reader_that_does_not_read_and_is_gone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """While a write waits for it: its place is free again, without an error."""
    async with watching() as client:
        happen(client.broker.events.of(1), *("g" * 1_000,) * REMEMBERED)
        stuck = [await ask_by_hand(client, "/events") for _ in range(MOST_STREAMS)]
        # Turns enough for all of them to be stuck; the last one says that it is.
        assert (await client.refusal("/events"))[0] == 503
        for _, writer in stuck:
            writer.transport.abort()
        status = 0
        while status != 200:
            async with client.session.get("/events?follow=false&group=x") as answer:
                status = answer.status
    assert "request_failed" not in capsys.readouterr().err


async def test_wrong_questions() -> None:
    """Unknown parameters are refused, with the list of known ones."""
    async with watching() as client:
        status, sentence = await client.refusal("/events?grup=a")
        assert status == 400
        assert sentence.startswith("unknown parameter 'grup'; the parameters are: fo")
        assert await client.refusal("/events?follow=no") == (
            400,
            "follow is true or false",
        )


async def test_when_members_were_heard_of() -> None:
    """On demand: a sample of all members, then only members with new requests."""
    async with watching() as client, connected(client.broker) as member:
        first, second = await stable(member, "a"), await stable(member, "b")
        async with client.stream("?heard=true&group=a&group=b") as found:
            samples = [b async for b in some(found, 1)]
            assert {tuple(row[:2]) for row in samples[0]["members"]} == {
                ("a", first),
                ("b", second),
            }
            await heartbeat(member, second, "b")
            # They come once a second, with or without new requests.
            sample: Any = {"members": []}
            while not sample["members"]:
                (sample,) = [s async for s in some(found, 1)]
            ((group, member_id, heard_ns),) = sample["members"]
            assert (group, member_id) == ("b", second)
            assert samples[0]["time_ns"] < heard_ns <= sample["time_ns"]


async def test_everybody_is_heard_of_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """More members than one sample has room for: those that waited longest first."""
    monkeypatch.setattr(last_heard, "MOST_ROWS", 2)
    async with watching() as client, connected(client.broker) as member:
        members = {
            (group, await stable(member, group)) for group in ("a", "b", "c", "d", "e")
        }
        samples = last_heard.LastHeard(client.broker.cluster)
        for _ in range(3):
            told: list[tuple[str, str]] = []
            for _ in range(3):
                rows = samples.sample()["members"]
                told += [row[:2] for row in rows]
                # All of them say something, again and again.
                for group, member_id in members:
                    await heartbeat(member, member_id, group)
            assert {*told} == members


async def some(found: AsyncIterator[Block], count: int) -> AsyncIterator[Any]:
    """The next samples of a stream; they have no id, which is events' alone."""
    async for block in found:
        if block.get("event") == "heard":
            assert "id" not in block
            yield json.loads(block["data"])
            count -= 1
            if not count:
                return


async def test_explanations_are_beside_them() -> None:
    """GET /why.json has a text about remembered events, and findings."""
    async with watching() as client, connected(client.broker) as member:
        await stable(member, "a")
        async with client.session.get("/why.json?group=a") as answer:
            assert answer.status == 200
            found = await answer.json()
        assert "Generation 1: " in found["text"].splitlines()[1]
        assert found["findings"] == []
        status, sentence = await client.refusal("/why.json")
        assert status == 400
        assert "the query needs group" in sentence
