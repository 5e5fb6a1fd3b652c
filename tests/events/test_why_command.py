"""``kohort why``: from a file, and from a broker over HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from click.testing import CliRunner, Result
from tests.coordinator.context import Context
from tests.events.build import Stream, recorded
from tests.events.consumers import consumer, divide

from kohort.broker.server import Broker
from kohort.control.commands.why import why
from kohort.control.http.server import Control
from kohort.control.http.why_routes import operations
from kohort.control.why.history import histories


@pytest.fixture
def stream() -> Stream:
    """See `play`."""
    stream = Stream()
    play(stream)
    return stream


@pytest.fixture
def file(stream: Stream, tmp_path: Path) -> Path:
    """Its events, a line each."""
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in stream.events))
    return path


def written(folder: Path, *streams: Stream) -> Path:
    """A file with streams, each of its own node; see `play` for empty ones."""
    path = folder / "written.jsonl"
    with path.open("w") as file:
        for number, each in enumerate(streams):
            if not each.events:
                play(each)
            for event in each.events:
                file.write(json.dumps({**event, "node": number}) + "\n")
    return path


def play(stream: Stream) -> None:
    """Ana and ben; ben leaves, as it did not poll."""
    stream.comes("ana")
    stream.comes("ben")
    stream.rebalance("member_joined", "ana", joins={}, window_s=3)
    stream.leaves("ben", "consumer poll timeout has expired.")
    stream.rebalance("member_left", "ben")


def run(*arguments: object, text: str | None = None) -> Result:
    """Runs the command."""
    return CliRunner().invoke(why, [*map(str, arguments)], input=text)


def test_a_file(file: Path) -> None:
    """A line per rebalance, then the findings."""
    result = run("g", "--events", file)
    assert result.exit_code == 0
    lines = [line.split() for line in result.output.splitlines()]
    assert lines[0][:4] == ["group", "g:", "2", "rebalances"]
    assert 'ben left (reason: "consumer poll timeout has expired.")' in result.output
    assert "[max-poll-interval]" in result.output
    assert "1970" not in result.output


def test_what_clients_say_moves_no_cursor(tmp_path: Path) -> None:
    """Their names and reasons are shown as text, on a line."""
    stream = Stream()
    stream.comes("ana\x1b[2J")
    stream.rebalance("member_joined", "ana\x1b[2J", joins={}, reason="one\ntwo")
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in stream.events))
    result = run("g", "--events", path)
    assert r'ana\x1b[2J was the first to join (reason: "one\ntwo")' in result.output


def test_stdin(file: Path) -> None:
    """A dash is stdin."""
    result = run("g", "--events", "-", text=file.read_text())
    assert "[max-poll-interval]" in result.output


def test_json(file: Path, stream: Stream) -> None:
    """Programs get all, times in ns; --last is about rebalances only."""
    told = json.loads(run("g", "--events", file, "--json", "--last", 1).output)
    (last,) = told["rebalances"]
    assert last["cause"] == "member_left"
    assert last["words"].startswith("Generation 2: ben left")
    assert told["events"] == len(stream.events)
    assert [finding["code"] for finding in told["findings"]] == ["max-poll-interval"]


def test_last(file: Path) -> None:
    """Only the last rebalances are shown; none for 0."""
    assert "Generation 1:" not in run("g", "--events", file, "-n", 1).output
    assert "Generation 2:" in run("g", "--events", file, "-n", 1).output
    result = run("g", "--events", file, "-n", 0)
    assert "Generation 2: ben left (" not in result.output.split("[max-poll")[0]


def test_an_unknown_group(file: Path) -> None:
    """That is no success: the name is wrong, most likely."""
    result = run("other", "--events", file)
    assert (result.exit_code, result.output) == (
        1,
        "kohort: there is no event of group 'other'; the groups are: 'g'\n",
    )


def test_a_group_with_a_typing_error(tmp_path: Path) -> None:
    """The error names the nearest group."""
    path = written(tmp_path, *(Stream(name) for name in ("billing", "orders")))
    result = run("biling", "--events", path)
    assert result.exit_code == 1
    assert result.output.endswith("'biling'; did you mean 'billing'?\n")


def test_all_groups(tmp_path: Path) -> None:
    """Without a name, a line for each group with its findings."""
    path = written(tmp_path, *(Stream(name) for name in ("orders", "billing")))
    result = run("--events", path)
    assert result.exit_code == 0
    billing, orders = result.output.splitlines()
    assert billing.startswith("group billing: 2 rebalances")
    assert billing.endswith("[max-poll-interval]")
    assert orders.startswith("group orders: 2 rebalances")
    told = json.loads(run("--events", path, "--json", "-n", 1).output)
    assert [each["group"] for each in told] == ["billing", "orders"]
    assert [len(each["rebalances"]) for each in told] == [1, 1]


def test_no_group_at_all(tmp_path: Path) -> None:
    """An empty file makes the command fail, with or without a group's name."""
    path = tmp_path / "events.jsonl"
    path.touch()
    for arguments, of_group in ((["g"], "there is no event of group 'g'; "), ([], "")):
        result = run(*arguments, "--events", path)
        assert result.exit_code == 1
        assert result.output == f"kohort: {of_group}there are no groups yet\n"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """One line says so; a folder is none, either."""
    result = run("g", "--events", tmp_path / "none.jsonl")
    assert result.exit_code == 1
    assert result.output.endswith("none.jsonl: No such file or directory\n")
    assert run("g", "--events", tmp_path).exit_code == 2


def test_events_of_another_schema(file: Path, stream: Stream) -> None:
    """Their fields have no known meaning."""
    event = json.dumps({**stream.events[0], "schema": 2})
    file.write_text(event + "\n" + file.read_text())
    result = run("g", "--events", file)
    assert result.exit_code == 1
    assert "schema version 2, and this kohort reads version 1" in result.output


def test_a_file_that_is_not_in_order(tmp_path: Path, stream: Stream) -> None:
    """As a dump of the events topic may be: it is put in order."""
    path = tmp_path / "events.jsonl"
    turned = reversed(stream.events)
    path.write_text("".join(json.dumps(event) + "\n" for event in turned))
    result = run("g", "--events", path)
    assert result.exit_code == 0
    assert result.output == run("g", "--events", written(tmp_path, stream)).output


def test_a_last_line_that_is_cut_off(file: Path) -> None:
    """A killed broker leaves one: it is skipped, with a line on stderr."""
    text = file.read_text()
    file.write_text(text + text[:100])
    result = run("g", "--events", file)
    assert result.exit_code == 0
    assert "is cut off and was skipped" in result.output


@pytest.mark.parametrize("line", ["no json", "[]", '{"kind": "x"}', "7", "\xff"])
def test_a_line_that_is_no_event(file: Path, line: str) -> None:
    """The error has the line's number."""
    text = file.read_bytes()
    file.write_bytes(line.encode("latin-1") + b"\n" + text)
    result = run("g", "--events", file)
    assert result.exit_code == 1
    assert f"kohort: {file}, line 1: " in result.output


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("member_joined", "generation", "1"),
        ("member_joined", "member_id", 5),
        ("member_joined", "protocols", "range"),
        ("member_joined", "is_first", 1),
        ("rebalance_started", "members", 5),
        ("rebalance_started", "members", ["a", None]),
        ("rebalance_started", "time_ns", 2**70),
        ("rebalance_started", "labels", {"a": 1}),
        ("join_completed", "waits", [{"member_id": "a"}]),
        ("join_completed", "protocol", ["range"]),
    ],
)
def test_a_field_of_another_type(
    file: Path, stream: Stream, kind: str, field: str, value: object
) -> None:
    """The error has the line and the field; a missing field is fine."""
    events = [dict(each) for each in stream.events]
    line, event = next(row for row in enumerate(events, 1) if row[1]["kind"] == kind)
    event[field] = value
    file.write_text("".join(json.dumps(each) + "\n" for each in events))
    result = run("g", "--events", file)
    assert result.exit_code == 1
    assert f"line {line}: has a {field} that is not " in result.output
    del event[field]
    file.write_text("".join(json.dumps(each) + "\n" for each in events))
    assert "that is not " not in run("g", "--events", file).output


def test_rows_without_what_they_need_not_have(file: Path, stream: Stream) -> None:
    """An older kohort wrote offsets without the end of the log; it may be unknown."""
    row: dict[str, object] = {"topic": "t", "partition": 0, "offset": 1}
    ends: list[dict[str, object]] = [{}, {"end_offset": None}, {"end_offset": 5}]
    before = [*stream.events]
    stream.say("offsets_committed", None, offsets=[row | end for end in ends])
    file.write_text("".join(json.dumps(each) + "\n" for each in stream.events))
    assert "that is not " not in run("g", "--events", file).output
    stream.say("offsets_committed", None, offsets=[row | {"end_offset": "5"}])
    file.write_text("".join(json.dumps(each) + "\n" for each in stream.events))
    told = f"line {len(before) + 2}: has a offsets that is not [offset]"
    assert told in run("g", "--events", file).output


def test_two_sources(file: Path) -> None:
    """Events are in a file, or with a broker; a broker in the environment is no say."""
    result = run("g", "--events", file, "--http", "9080")
    assert result.exit_code == 2
    environment = {"KOHORT_HTTP": "127.0.0.1:1"}
    result = CliRunner().invoke(why, ["g", "--events", str(file)], env=environment)
    assert result.exit_code == 0


def test_a_broker_that_does_not_answer() -> None:
    """One line says so."""
    result = run("g", "--http", "127.0.0.1:1")
    assert result.exit_code == 1
    assert result.output.startswith("kohort: no broker answers at http://127.0.0.1:1")


async def test_a_server_that_is_no_kohort() -> None:
    """One line says so, whatever it answers."""

    async def text(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    async def nothing(_: web.Request) -> web.Response:
        return web.json_response({})

    app = web.Application()
    app.router.add_get("/other/events.json", text)
    app.router.add_get("/none/events.json", nothing)
    async with TestServer(app) as server:
        for path, words in (
            ("/", "is not a kohort broker: it answers 404 Not Found"),
            ("/other", "is not a kohort broker: its answer is not JSON"),
            ("/none", "has no events to show"),
        ):
            url = str(server.make_url(path))
            result = await asyncio.to_thread(run, "g", "--http", url)
            assert result.exit_code == 1
            assert words in result.output


async def test_a_broker_without_the_group() -> None:
    """Over HTTP, too, the error says that the group is unknown."""
    async with Broker() as broker, Control(broker) as control:
        result = await asyncio.to_thread(run, "g", "--http", control.url)
    assert (result.exit_code, result.output) == (
        1,
        "kohort: there is no event of group 'g'; there are no groups yet\n",
    )


async def test_explanations_over_http() -> None:
    """An unknown group has a text, and no findings."""
    app = web.Application()
    async with Broker() as broker:
        app.add_routes(each.route() for each in operations(broker))
        await answers_nothing(app)


async def answers_nothing(app: web.Application) -> None:
    """Asks about an unknown group, and about none."""
    async with TestClient(TestServer(app)) as client:
        assert (await client.get("/why.json")).status == 400
        answer = await client.get("/why.json", params={"group": "g"})
        text = "group g: no events"
        assert await answer.json() == {"text": text, "findings": []}
        answer = await client.get("/why.json", params={"group": "g", "full": "true"})
        assert (await answer.json())["summary"] == text


def test_every_group_of_a_file(stream: Stream) -> None:
    """All groups at once; a lost event is lost for all of them."""
    other = Stream("other")
    other.comes("eli")
    other.rebalance("member_joined", "eli", joins={})
    lost = {**stream.events[0], "kind": "events_lost", "group": None}
    lost |= {"first": 1, "last": 2}
    found = histories([lost, *stream.events, *other.events])
    assert {g: len(h.rebalances) for g, h in found.items()} == {"g": 2, "other": 1}
    assert all(h.facts.gaps == [(1, 2)] for h in found.values())
    assert found["other"].explain(found["other"].last).startswith("Generation 1: eli ")


def test_the_example_of_the_documents(tmp_path: Path) -> None:
    """The example matches a coordinator's events."""
    context = Context(initial_rebalance_delay_ms=3_000)
    ana, ben, cleo = (consumer(context, name) for name in ("ana", "ben", "cleo"))
    ana.enter()
    context.sleep(400)
    ben.enter()
    cleo.enter()
    context.sleep(5_620)
    divide((ana, range(4)), (ben, range(4, 8)), (cleo, range(8, 12)))
    for number in range(120):
        context.sleep(5_000)
        for member in (ana, ben, cleo) if number < 114 else (ana, cleo):
            member.heartbeat()
    context.sleep(200)
    ana.join()
    context.sleep(340)
    cleo.join()
    context.sleep(20)
    divide((ana, range(6)), (cleo, range(6, 12)))
    path = tmp_path / "events.jsonl"
    events = [{**event, "group": "billing"} for event in recorded(context)]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    page = Path(__file__).parents[2] / "docs" / "reference" / "why.md"
    assert run("billing", "--events", path).output in page.read_text()
