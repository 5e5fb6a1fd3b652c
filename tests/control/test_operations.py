"""Operations: each is declared once, and is in the OpenAPI document."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from jsonschema import Draft202012Validator
from tests.broker.test_misdirected_clients import client_hello
from tests.control.asking import TOKEN, asking
from tests.wire import frames
from tests.wire.client import connected
from tests.wire.requests import commit_offsets

from kohort.control.http import cluster_routes, group_routes
from kohort.control.http.group_types import GroupPath
from kohort.control.http.long_polls import LongPolls
from kohort.control.http.openapi import describing
from kohort.protocol.apis.k18_api_versions import ApiVersionsRequest


async def document(**options: Any) -> Any:
    """The OpenAPI document of a broker."""
    async with asking(**options) as client:
        status, found = await client.get("/v1/openapi.json")
        assert status == 200
        return found


def operations(found: Any) -> dict[str, Any]:
    """The operations of a document by method and path."""
    return {
        f"{method.upper()} {path}": operation
        for path, methods in found["paths"].items()
        for method, operation in methods.items()
    }


async def test_the_document_is_made_once() -> None:
    """To make it takes 27 ms, in which no other request is served."""
    operation = describing([], has_token=False)
    first = dict(await operation.handler())
    second = await operation.handler()
    assert first["paths"] is second["paths"]


async def test_the_document_has_each_route() -> None:
    """Only routes without JSON are missing: the page, streams and metrics."""
    async with asking() as client:
        _, found = await client.get("/v1/openapi.json")
        routes = {
            f"{route.method} {route.resource.canonical}"
            for route in client.control.app.router.routes()
            if route.method != "HEAD" and route.resource is not None
        }
    assert routes - operations(found).keys() == {
        "GET /",
        "GET /events",
        "GET /events.json",
        "GET /metrics",
        "GET /metrics.json",
        "GET /timeline",
    }
    assert operations(found).keys() <= routes


async def test_the_page_has_each_operation() -> None:
    """With a curl, which names it without its parameters."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "control.md").read_text()
    curls = [line for line in page.splitlines() if line.startswith("$ curl ")]
    for operation in operations(await document()):
        method, path = operation.split()
        if path.startswith("/v1/") and path != "/v1/openapi.json":
            assert f"| `{operation}` |" in page
            pattern = re.sub(r"\\\{\w+\\\}", "[^/ ]+", re.escape(path))
            shown = [line for line in curls if re.search(rf"{pattern}([?\" ]|$)", line)]
            sends = {"GET": r'^\$ curl ["$]', "POST": "--json|-X POST"}
            sign = sends.get(method, f"-X {method}")
            assert any(re.search(sign, line) for line in shown), operation


async def test_the_document_explains_itself() -> None:
    """Operations have unique names and a summary; references resolve."""
    found = await document()
    assert found["openapi"] == "3.1.0"
    of = operations(found)
    assert len({each["operationId"] for each in of.values()}) == len(of)
    for name, each in of.items():
        assert each["summary"].endswith("."), name
        for parameter in each["parameters"]:
            assert parameter["description"], (name, parameter)
    for name, schema in found["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert schema["description"], name
    text = json.dumps(found)
    for kind in ("schemas", "responses"):
        for name in found["components"][kind]:
            assert f'"#/components/{kind}/{name}"' in text
    starts = text.split('"$ref": "#/components/')[1:]
    for reference in (start.partition('"')[0] for start in starts):
        kind, name = reference.split("/")
        assert name in found["components"][kind]


async def test_the_token_is_in_the_document() -> None:
    """Only if there is one, and only for operations that change something."""
    plain = await document()
    assert "securitySchemes" not in plain["components"]
    found = await document(token=TOKEN)
    assert found["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    for name, each in operations(found).items():
        assert ("security" in each) == (not name.startswith("GET ")), name
        assert ("401" in each["responses"]) == ("security" in each)


WRONG_QUERIES = [
    ("", "the query needs group; its fields are: group, full"),
    ("?group=a&group=b", "the query has 'group' twice"),
    ("?group=a&full=maybe", "full must be true or false"),
    (
        "?group=a&ful=true",
        "the query has no field 'ful'; its fields are: group, full",
    ),
]


async def test_a_wrong_query_is_400() -> None:
    """The sentence names the parameter and lists the known ones."""
    async with asking() as client:
        for query, sentence in WRONG_QUERIES:
            refused = 400, {"error": sentence}
            assert await client.get(f"/why.json{query}") == refused


async def test_a_long_name_is_not_repeated() -> None:
    """An answer is one line, whatever a request is made of."""
    async with asking() as client:
        sentence = await client.refusal("/v1/nodes/1/stop", {"x" * 60_000: 1}, 400)
    assert len(sentence) < 300


async def test_a_whole_number_may_have_a_point() -> None:
    """2.0 is an integer to JSON Schema, and so to many a client."""
    async with asking(nodes=2) as client:
        client.broker.cluster.create_topic("orders", 1, 1)
        path = "/v1/partitions/orders/0/move"
        for number in (b"2.0", b"1e0"):
            status, answer = await client.post(path, b'{"node": %s}' % number)
            assert (status, answer["node"]) == (200, client.leader("orders", 0))


async def test_a_post_without_a_body_needs_no_content_type() -> None:
    """As `curl -X POST` sends it; a browser calls itself Mozilla."""
    async with (
        asking(nodes=2) as client,
        aiohttp.ClientSession(
            client.control.url, skip_auto_headers=["Content-Type"]
        ) as session,
    ):
        for headers, status in (
            ({"Origin": "http://x"}, 403),
            ({"Origin": "null"}, 403),
            ({"User-Agent": "Mozilla/5.0 (X11; rv:68.0) Firefox/68.0"}, 415),
            ({}, 200),
        ):
            async with session.post("/v1/nodes/2/stop", headers=headers) as answer:
                assert answer.status == status
                assert client.is_running(2) == (status != 200)


async def test_the_start_leads_to_the_page() -> None:
    """A browser gets /timeline; curl prints a few more paths, which all exist."""
    async with asking() as client, aiohttp.ClientSession(client.control.url) as session:
        async with session.get("/") as answer:
            assert answer.url.path == "/timeline"
            assert answer.content_type == "text/html"
        async with session.get("/", allow_redirects=False) as answer:
            assert answer.status == 302
            paths = [line.split()[0] for line in (await answer.text()).splitlines()]
        for path in paths:
            async with session.get(path) as answer:
                assert answer.status == 200, path


async def test_other_protocols_are_named_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Kafka's and TLS: a line for each host, however often it connects."""
    kafka = frames.request("ApiVersions", 3, ApiVersionsRequest("tests", "1"), 1)
    async with asking() as client:
        for sent in (kafka, client_hello()):
            for _ in range(2):
                assert await client.raw(sent) == 400
        address = client.broker.bootstrap_servers
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["reason"] for line in lines] == [
        f"Kafka's protocol on the HTTP port; set bootstrap.servers={address}",
        "TLS on the HTTP port; use http://",
    ]


async def test_requests_that_are_no_http(capsys: pytest.CaptureFixture[str]) -> None:
    """They are their client's fault, and no lines in the broker's log."""
    async with asking() as client:
        wrong = b"GET /v1/cluster HTTP/1.1\r\nHost: \x00\r\n\r\n"
        assert await client.raw(wrong) == 400
    assert "Traceback" not in capsys.readouterr().err


async def test_answers_about_many_partitions_are_made_in_turns() -> None:
    """Others have theirs meanwhile: each piece is a thousand partitions."""
    turns: list[str] = []

    async def others() -> None:
        while True:
            await asyncio.sleep(0)
            turns.append("one")

    async with asking() as client, connected(client.broker) as member:
        client.broker.cluster.create_topic("large", 3000, 1)
        rows = [(index, 0, -1, "") for index in range(3000)]
        request = commit_offsets("large", *rows)
        await member.call("OffsetCommit", 8, request)
        cluster = cluster_routes.operations(client.broker)[0].handler
        group = next(iter(client.broker.cluster.shards.groups())).group_id
        offsets = group_routes.operations(client.broker, LongPolls())[2].handler
        async with asyncio.TaskGroup() as tasks:
            meanwhile = tasks.create_task(others())
            for answer in (
                cluster(),
                offsets(GroupPath(group=group)),
            ):
                turns.clear()
                assert len(str(await answer)) > 3000
                assert len(turns) >= 2
            meanwhile.cancel()
