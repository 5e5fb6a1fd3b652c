"""``kohort cluster``, and ``kohort serve`` with several nodes and HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket

import pytest
from tests.commands import serving
from tests.control.shell import Shell
from tests.test_cli import answering

from kohort.control.commands.cluster_printing import show_cluster


def free_ports(count: int) -> int:
    """The first of this many free ports in a row.

    They are below the system's ephemeral ports. Each process searches its own range,
    because tests run at the same time.
    """
    start = 20_000 + os.getpid() % 1000 * 10
    for first in range(start, start + 1000, count):
        try:
            for port in range(first, first + count):
                with socket.create_server(("127.0.0.1", port)):
                    pass
        except OSError:
            continue
        return first
    raise AssertionError("no ports in a row are free")


def test_nodes_have_ports_in_a_row(shell: Shell) -> None:
    """From --port on; scripts know them before the broker starts. Each answers."""
    first = free_ports(3)
    with serving("--nodes", "3", "--port", str(first)) as broker:
        assert broker.addresses == [f"127.0.0.1:{first + i}" for i in range(3)]
        for address in broker.addresses:
            assert shell.done("ping", "--bootstrap-server", address).startswith(address)
        assert broker.end() == (0, "", "")


def test_a_port_in_the_row_is_taken(shell: Shell) -> None:
    """The line names the port, and not the first one of the row."""
    first = free_ports(2)
    with socket.create_server(("127.0.0.1", first + 1)):
        line = shell.refused("serve", "--nodes", "2", "--port", str(first), code=1)
    assert line == (
        f"cannot listen on 127.0.0.1:{first + 1}: the port is taken; "
        "--port 0 picks a free one"
    )


@pytest.mark.parametrize("option", ["--port=65534", "--advertise=kafka:65534"])
def test_the_row_has_to_end_in_time(option: str, shell: Shell) -> None:
    """Ports end at 65535, the advertised ones as well."""
    assert shell.refused("serve", "--nodes", "3", option, code=2) == (
        "--nodes 3: ports end at 65535, and the last would be 65536"
    )


def test_the_cluster_by_commands(shell: Shell) -> None:
    """Stopping, starting and moving, as its status shows it."""
    with serving("--nodes", "3", "--http", "0") as broker:
        assert broker.http is not None
        at = {"KOHORT_HTTP": broker.http}
        status = shell.done("cluster", "status", **at)
        assert len({*broker.addresses}) == 3
        assert all(address in status for address in broker.addresses)
        assert shell.done("cluster", "stop", "2", **at) == "node 2 has stopped\n"
        shown = json.loads(shell.done("cluster", "status", "--json", **at))
        running = {node["id"]: node["running"] for node in shown["nodes"]}
        assert running == {1: True, 2: False, 3: True}
        assert shell.done("cluster", "start", "2", **at) == "node 2 is running\n"
        # The address by option, as a URL and without its scheme.
        at_host = broker.http.removeprefix("http://")
        line = shell.refused("cluster", "stop", "9", "--http", at_host, code=1)
        assert "1, 2, 3" in line
        line = shell.refused(
            "cluster", "move", "orders", "0", "2", "--http", broker.http, code=1
        )
        assert "'orders'" in line
        assert broker.end(signal.SIGINT)[0] == 0


def test_changes_by_commands_need_the_token(shell: Shell) -> None:
    """It comes from the option or from the environment, there as here."""
    with serving("--nodes", "2", "--http", "0", KOHORT_HTTP_TOKEN="x y") as broker:
        assert broker.http is not None
        at = {"KOHORT_HTTP": broker.http}
        shell.done("cluster", "status", **at)
        assert "token" in shell.refused("cluster", "stop", "2", code=1, **at)
        shell.done("cluster", "stop", "2", KOHORT_HTTP_TOKEN="x y", **at)
        shell.done("cluster", "start", "2", "--http-token", "x y", **at)


def test_http_is_opened_where_it_is_said(shell: Shell) -> None:
    """A host goes before the port; beyond loopback there has to be a token."""
    with serving("--http", "localhost:0") as broker:
        assert broker.http is not None
        assert broker.http.startswith("http://localhost:")
        shell.done("cluster", "status", "--http", broker.http)
    line = shell.refused("serve", "--port", "0", "--http", "0.0.0.0:0", code=2)
    assert "--http-token or KOHORT_HTTP_TOKEN" in line
    for wrong in ("here", "", "65536", "127.0.0.1:"):
        line = shell.fails("serve", "--port", "0", "--http", wrong, code=2)
        assert line == f"--http {wrong!r}: must be a port or host:port"


def test_nobody_answers(shell: Shell) -> None:
    """The line says how to start one that does."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        line = shell.refused("cluster", "status", "--http", str(port), code=1)
    assert line.startswith(
        f"no broker answers at http://127.0.0.1:{port} (Connection refused); "
        "start one with `kohort serve --http 9080`"
    )


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n7",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\n[]",
    ],
)
def test_somebody_else_answers(shell: Shell, answer: bytes) -> None:
    """Another program's HTTP is not taken for a broker's."""
    with answering(answer) as address:
        line = shell.refused("cluster", "status", "--http", address, code=1)
    assert f"http://{address}" in line
    assert "is not a kohort broker" in line


def test_the_kafka_port_is_named_as_such(shell: Shell) -> None:
    """It closes a connection with HTTP; the line says which port is meant."""
    with answering(b"") as address:
        line = shell.refused("why", "--http", address, code=1)
    assert line.startswith(f"http://{address} is not an HTTP port; ")
    assert "`kohort serve --http`" in line


@pytest.mark.parametrize("address", ["", "here:there", "ftp://x", "x:0", "a b"])
def test_an_address_that_is_none(shell: Shell, address: str) -> None:
    """That is the command's fault, and not the broker's."""
    line = shell.refused("cluster", "status", "--http", address, code=2)
    assert line == f"--http {address!r}: must be a port, host:port or a URL"


def test_a_cluster_in_tables(capsys: pytest.CaptureFixture[str]) -> None:
    """Nodes, partitions and coordinators that have groups, each in one line."""
    partition = {
        "partition": 0,
        "replicas": [2, 1],
        "leader": -1,
        "leader_epoch": 4,
        "log_start_offset": 5,
        "log_end_offset": 1234,
    }
    offsets = [partition | {"partition": n, "leader": 1} for n in range(3)]
    shards = [
        {"partition": 0, "node": 1, "state": "active", "groups": 0},
        {"partition": 1, "node": 1, "state": "active", "groups": 7},
        {"partition": 2, "node": -1, "state": "loading", "groups": 0},
    ]
    node = {"host": "::1", "port": 9092, "running": True, "partitions_led": 3}
    show_cluster(
        {
            "cluster_id": "abc",
            "nodes": [
                node | {"id": 1, "groups": 7},
                node | {"id": 12, "groups": 0, "running": False},
            ],
            "topics": [
                {"name": "orders", "partitions": [partition]},
                {"name": "__consumer_offsets", "partitions": offsets},
            ],
            "coordinators": shards,
        }
    )
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "cluster abc",
        "",
        "NODE  ADDRESS     STATE    LEADS  GROUPS",
        "   1  [::1]:9092  running      3       7",
        "  12  [::1]:9092  stopped      3       0",
        "",
        "TOPIC   PARTITION  LEADER  REPLICAS  EPOCH  START   END",
        "orders          0    none  2,1           4      5  1234",
        "",
        "COORDINATOR           NODE  STATE    GROUPS",
        "__consumer_offsets-1     1  active        7",
        "__consumer_offsets-2  none  loading       0",
    ]
