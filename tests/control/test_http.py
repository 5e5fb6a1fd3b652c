"""HTTP beside a broker: its state, its operations, and refused clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import aiohttp
import pytest
from tests.broker.test_connection import ApiVersions
from tests.control.asking import FAST, TOKEN, asking
from tests.patience import PATIENCE_S
from tests.wire import frames

from kohort.broker.server import Broker
from kohort.control.http.guard import ControlError
from kohort.control.http.server import MAX_BODY_BYTES, Control


async def test_the_cluster_is_shown() -> None:
    """GET /v1/cluster is the broker's status: nodes, topics, coordinators."""
    async with asking(nodes=3) as client:
        client.broker.cluster.create_topic("orders", 2, 3)
        status, answer = await client.get("/v1/cluster")
        assert (status, answer) == (200, client.broker.status())
        ports = [f"{node['host']}:{node['port']}" for node in answer["nodes"]]
        assert ",".join(ports) == client.broker.bootstrap_servers
        (orders,) = [t for t in answer["topics"] if t["name"] == "orders"]
        assert [len(p["replicas"]) for p in orders["partitions"]] == [3, 3]


async def test_a_node_stops_and_starts() -> None:
    """When the answer is there, its port is closed; and then it is open again."""
    async with asking(nodes=3) as client:
        assert await client.post("/v1/nodes/2/stop") == (
            200,
            {"node": 2, "running": False},
        )
        assert [client.is_running(n) for n in (1, 2, 3)] == [True, False, True]
        assert await client.post("/v1/nodes/2/start", {}) == (
            200,
            {"node": 2, "running": True},
        )
        assert client.is_running(2)


async def test_stops_and_starts_at_once() -> None:
    """The second request waits, and is then refused or carried out."""
    async with asking(nodes=2) as client:
        answers = await asyncio.gather(
            *(client.post(f"/v1/nodes/2/{do}") for do in ("stop", "start") * 3)
        )
        # Whichever came first: a stop is in time at least once.
        assert {status for status, _ in answers} <= {200, 409}
        assert 200 in {status for status, _ in answers[::2]}
        shown = client.broker.cluster.nodes[2].is_running
        assert client.is_running(2) == shown
        done, _ = await client.post(f"/v1/nodes/2/{'stop' if shown else 'start'}")
        assert done == 200
        assert client.is_running(2) != shown


async def test_a_start_waits_for_the_stop() -> None:
    """A client that reads nothing holds the stop up for a moment, and no longer."""
    async with asking(nodes=2) as client:
        node = client.broker.cluster.nodes[2]
        reader, writer = await asyncio.open_connection(node.host, node.port, limit=1)
        writer.write(frames.request("ApiVersions", 3, ApiVersions) * 20_000)
        # Unread bytes pile up: more than sockets hold.
        assert await reader.readexactly(1)
        stop = asyncio.create_task(client.post("/v1/nodes/2/stop"))
        async with asyncio.timeout(PATIENCE_S):
            while node.is_running:
                await client.get("/v1/cluster")
            assert (await client.post("/v1/nodes/2/start"))[0] == 200
            assert (await stop)[0] == 200
        assert client.is_running(2)
        writer.close()


async def test_a_nodes_port_is_taken_meanwhile() -> None:
    """The start says so, and works once the port is free again."""
    async with asking(nodes=2) as client:
        await client.post("/v1/nodes/2/stop")
        node = client.broker.cluster.nodes[2]
        with socket.create_server((node.host, node.port)):
            sentence = await client.refusal("/v1/nodes/2/start", None, 409)
            assert str(node.port) in sentence
        assert (await client.post("/v1/nodes/2/start"))[0] == 200


async def test_a_partition_moves() -> None:
    """The node that is named leads it, and a repetition changes nothing."""
    async with asking(nodes=3) as client:
        client.broker.cluster.create_topic("orders", 3, 1)
        for node in (3, 1, 1):
            status, answer = await client.post(
                "/v1/partitions/orders/1/move", {"node": node}
            )
            moved = {"topic": "orders", "partition": 1, "node": node}
            assert (status, answer) == (200, moved)
            assert client.leader("orders", 1) == node


async def test_a_group_moves() -> None:
    """The node that is named coordinates it, whatever its name is made of."""
    async with asking(nodes=3) as client:
        client.broker.cluster.auto_create("__consumer_offsets")
        for quoted, group in (("shop", "shop"), ("a%2Fb%25%20%C3%A9", "a/b% é")):
            for node in (3, 1):
                path = f"/v1/groups/{quoted}/move"
                status, answer = await client.post(path, {"node": node})
                assert (status, answer["group"]) == (200, group)
                assert answer["coordinator"] == node
                assert client.broker.coordinator_of(group) == node


async def test_what_is_not_there_is_404() -> None:
    """The sentence lists the existing names."""
    async with asking(nodes=2) as client:
        client.broker.cluster.create_topic("orders", 1, 1)
        sentence = await client.refusal("/v1/nodes/7/stop", None, 404)
        assert "7" in sentence
        assert "1, 2" in sentence
        assert "1, 2" in await client.refusal("/v1/nodes/7/start", None, 404)
        to = {"node": 2}
        sentence = await client.refusal("/v1/partitions/order/0/move", to, 404)
        assert "'order'" in sentence
        assert "orders" in sentence
        await client.refusal("/v1/partitions/orders/1/move", to, 404)
        assert await client.refusal("/v1/nodes/one/stop", None, 404) == (
            "there is no /v1/nodes/one/stop"
        )
        assert await client.get("/v2") == (404, {"error": "there is no /v2"})


async def test_a_group_that_is_being_loaded_is_503() -> None:
    """It may exist: only once its shard is loaded, the answer is 404."""
    loading = {**FAST, "coordinator.load.delay.ms": 60_000}
    async with asking(clock="manual", config=loading) as client:
        client.broker.cluster.shards.for_id("g")
        for path in ("/v1/groups/g", "/v1/groups/g/offsets"):
            status, answer = await client.get(path)
            assert (status, answer["error"]) == (
                503,
                "the group has no coordinator now: its shard is loading",
            )
        await client.broker.clock.advance(60)
        assert (await client.get("/v1/groups/g"))[0] == 404


async def test_what_cannot_be_done_is_409() -> None:
    """A new leader must run; a node cannot stop or start twice."""
    async with asking(nodes=2) as client:
        client.broker.cluster.create_topic("orders", 1, 2)
        await client.refusal("/v1/nodes/2/start", None, 409)
        await client.refusal("/v1/partitions/orders/0/move", {"node": 7}, 409)
        await client.post("/v1/nodes/2/stop")
        await client.refusal("/v1/nodes/2/stop", None, 409)
        await client.refusal("/v1/partitions/orders/0/move", {"node": 2}, 409)
        await client.refusal("/v1/groups/shop/move", {"node": 2}, 409)


async def test_a_cluster_that_is_down_is_shown_and_started() -> None:
    """The port for HTTP is no node's."""
    async with asking(nodes=2) as client:
        client.broker.cluster.create_topic("orders", 1, 2)
        for node in (1, 2):
            await client.post(f"/v1/nodes/{node}/stop")
        _, answer = await client.get("/v1/cluster")
        assert [node["running"] for node in answer["nodes"]] == [False, False]
        (orders,) = answer["topics"]
        assert orders["partitions"][0]["leader"] == -1
        assert (await client.post("/v1/nodes/2/start"))[0] == 200
        assert client.leader("orders", 0) == 2
        assert client.is_running(2)


WRONG_BODIES: list[tuple[object, str]] = [
    (b"{", "the body is not JSON"),
    (b"\xff", "the body is not JSON"),
    (b'{"name": "\xff"}', "the body is not JSON"),
    (b"[" * 50_000, "the body is not JSON"),
    ([2], "the body must be an object"),
    (None, "the body needs node; its fields are: node"),
    ({"node": True}, "node must be a whole number"),
    ({"node": "2"}, "node must be a whole number"),
    ({"node": 2.5}, "node must be a whole number"),
    ({"node": -1}, "node must be at least 0"),
    (
        {"node": 2, "to": 2},
        "the body has no field 'to'; its fields are: node",
    ),
]


async def test_a_wrong_body_is_400() -> None:
    """Nothing is guessed, and nothing is moved."""
    async with asking(nodes=2) as client:
        client.broker.cluster.create_topic("orders", 1, 1)
        leader = client.leader("orders", 0)
        path = "/v1/partitions/orders/0/move"
        for body, sentence in WRONG_BODIES:
            assert await client.refusal(path, body, 400) == sentence
        assert client.leader("orders", 0) == leader


async def test_a_long_body_is_413() -> None:
    """No more than a few names and numbers is read."""
    async with asking() as client:
        long = b" " * (MAX_BODY_BYTES + 1)
        sentence = await client.refusal("/v1/nodes/1/stop", long, 413)
        assert str(MAX_BODY_BYTES) in sentence


async def test_methods_that_a_path_does_not_take() -> None:
    """The answer says which it takes."""
    async with asking() as client:
        assert await client.get("/v1/nodes/1/stop") == (
            405,
            {"error": "/v1/nodes/1/stop takes POST, not GET"},
        )
        sentence = await client.refusal("/v1/cluster", None, 405)
        assert sentence == "/v1/cluster takes GET, HEAD, not POST"


async def test_a_page_in_a_browser_changes_nothing() -> None:
    """Requests that browsers send for any page without a preflight are refused."""
    async with asking(nodes=2) as client:
        for kind in ("text/plain", "application/x-www-form-urlencoded"):
            headers = {"Content-Type": kind, "Origin": "http://evil.example"}
            status, answer = await client.post("/v1/nodes/2/stop", b"", **headers)
            assert status == 415, kind
            assert "application/json" in answer["error"]
        assert client.is_running(2)


async def test_json_of_another_origin_changes_nothing() -> None:
    """Some browsers once sent it without asking first. The own origin may."""
    async with asking(nodes=2) as client:
        for origin in ("http://evil.example", "http://127.0.0.1:1", "null"):
            assert await client.post("/v1/nodes/2/stop", Origin=origin) == (
                403,
                {"error": "other origins cannot change anything"},
            )
        assert client.is_running(2)
        status, _ = await client.post("/v1/nodes/2/stop", Origin=client.control.url)
        assert status == 200


async def test_hosts_that_are_not_loopback_are_refused() -> None:
    """A DNS name that points to loopback is not loopback."""
    async with asking(nodes=2) as client:
        for host in ("evil.example", "127.0.0.1.evil.example", "[", ""):
            sentence = f"the host {host!r} is not this machine's loopback"
            refused = 403, {"error": sentence}
            assert await client.get("/v1/cluster", Host=host) == refused
            assert await client.post("/v1/nodes/2/stop", Host=host) == refused
        assert client.is_running(2)


async def test_hosts_that_are_loopback_are_answered() -> None:
    """Ports are forwarded, so that the one that is named does not matter."""
    async with asking() as client:
        for host in ("localhost:1", "127.9.9.9", "[::1]:9080"):
            assert (await client.get("/v1/cluster", Host=host))[0] == 200, host


async def test_changes_need_the_token() -> None:
    """Reading does not; a wrong token, or another scheme, is no token."""
    async with asking(nodes=2, token=TOKEN) as client:
        assert (await client.get("/v1/cluster"))[0] == 200
        for sent in (
            {},
            {"Authorization": f"Basic {TOKEN}"},
            {"Authorization": "Bearer open"},
            {"Authorization": "Bearer \udcff"},
        ):
            status, answer = await client.post("/v1/nodes/2/stop", **sent)
            assert status == 401
            assert "Bearer" in answer["error"]
            assert client.is_running(2)
        right = {"Authorization": f"Bearer {TOKEN}"}
        assert (await client.post("/v1/nodes/2/stop", **right))[0] == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "broker.example"])
def test_beyond_loopback_a_token_is_demanded(host: str) -> None:
    """Any client that reaches the port could stop the broker."""
    with pytest.raises(ControlError, match="KOHORT_HTTP_TOKEN"):
        Control(Broker(), host)
    with pytest.raises(ControlError, match="empty"):
        Control(Broker(), host, token="")


async def test_beyond_loopback_any_name_is_answered() -> None:
    """The machine's other names are unknown; the token still counts."""
    async with asking(host="0.0.0.0", token=TOKEN) as client:
        host = {"Host": "broker.example"}
        assert (await client.get("/v1/cluster", **host))[0] == 200
        assert (await client.post("/v1/nodes/1/stop", **host))[0] == 401


async def test_a_port_that_is_taken() -> None:
    """It is an OSError, and the next port is found without a restart."""
    async with asking() as client:
        taken = Control(client.broker, port=client.control.port)
        with pytest.raises(OSError, match="address already in use"):
            await taken.start()
        async with Control(client.broker) as other:
            assert other.port not in {0, client.control.port}


async def test_a_fault_of_ours_is_500(capsys: pytest.CaptureFixture[str]) -> None:
    """A broker that has lost its cluster has none to show; the log has why."""
    async with (
        Broker() as broker,
        Control(broker) as control,
        aiohttp.ClientSession(control.url) as session,
    ):
        cluster = broker.cluster
        del broker.cluster
        async with session.get("/v1/cluster") as answer:
            assert answer.status == 500
            assert "log" in (await answer.json())["error"]
        broker.cluster = cluster
    lines = map(json.loads, capsys.readouterr().err.splitlines())
    # Brokers that start and stop say so, if an earlier test has made them talkative.
    (event,) = [line for line in lines if line["event"] == "request_failed"]
    assert "AttributeError" in event["exception"]


async def test_it_stops_with_clients_connected() -> None:
    """Idle connections, and requests that do not end, hold nothing up."""
    async with Broker() as broker:
        control = Control(broker)
        await control.start()
        async with aiohttp.ClientSession(control.url) as session:
            async with session.get("/v1/cluster") as answer:
                assert answer.status == 200
            reader, writer = await asyncio.open_connection("127.0.0.1", control.port)
            writer.write(b"POST /v1/nodes/1/stop HTTP/1.1\r\n")
            await control.stop()
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", control.port)
        assert broker.status()["nodes"]
