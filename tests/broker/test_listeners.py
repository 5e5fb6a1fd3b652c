"""Further listeners: their clients are given other addresses of the same nodes."""

from __future__ import annotations

import signal
from typing import Any, Final

import pytest
from tests.broker.test_records_over_the_wire import batch
from tests.commands import serving
from tests.control.shell import Shell
from tests.wire.client import WireClient, connected_to
from tests.wire.requests import fetch, metadata, produce

from kohort.broker.server import Broker
from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.apis.k60_describe_cluster import DescribeClusterRequest

Address = tuple[str, int]
KIP_951: Final = {"Produce": 13, "Fetch": 17}
"""Versions whose responses name the leader."""


async def addresses(client: WireClient, wrong_leader: WireClient) -> list[Address]:
    """All addresses that a listener gives, in the responses of each API that has any.

    Args:
        client: of a node of the cluster.
        wrong_leader: of the node that does not lead the topic; its responses name the
            leader (KIP-951).
    """
    answers: list[Any] = [
        *(await client.call("Metadata", 12, metadata("t"))).brokers,
        *(await client.call("DescribeCluster", 1, DescribeClusterRequest())).brokers,
        await client.call("FindCoordinator", 3, FindCoordinatorRequest("g")),
        *(
            await client.call(
                "FindCoordinator", 4, FindCoordinatorRequest("", 0, ("g",))
            )
        ).coordinators,
    ]
    topic_id = (await client.call("Metadata", 12, metadata("t"))).topics[0].topic_id
    for name, request in (
        ("Produce", produce((0, batch(b"one")), topic_id=topic_id)),
        ("Fetch", fetch(0, topic_id=topic_id)),
    ):
        answer = await wrong_leader.call(name, KIP_951[name], request)
        (endpoint,) = answer.node_endpoints
        answers.append(endpoint)
    return [(answer.host, answer.port) for answer in answers]


async def test_each_listener_gives_its_own_addresses() -> None:
    """In every response with addresses; also after a restart, of all nodes."""
    listeners = {0: "localhost:0"}
    async with Broker(nodes=2, listeners=listeners) as broker:
        topic = broker.cluster.create_topic("t", 1, 1)
        nodes = broker.cluster.nodes
        before = [nodes[number].addresses for number in (1, 2)]
        await broker.restart_node(2)
        assert [nodes[number].addresses for number in (1, 2)] == before
        wrong = 3 - topic.leaders[0]
        for number, host in enumerate(("127.0.0.1", "localhost")):
            ports = {at: nodes[at].addresses[number][1] for at in (1, 2)}
            async with (
                connected_to("127.0.0.1", ports[1]) as client,
                connected_to("127.0.0.1", ports[wrong]) as other,
            ):
                found = await addresses(client, other)
                fault = broker.faults.fail("Metadata", "LEADER_NOT_AVAILABLE")
                answer = await client.call("Metadata", 12, metadata("t"))
                found += [(each.host, each.port) for each in answer.brokers]
                broker.faults.remove(fault.id)
            assert {*found} == {(host, port) for port in ports.values()}
        assert len({port for rows in before for _, port in rows}) == 4


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["29092=here"], "'29092=here': must be host:port, or port=host:port"),
        (["x=here:1"], "'x=here:1': must be host:port, or port=host:port"),
        (
            ["here:1", "there:2"],
            "'there:2': one address per port; write port=host:port for a further one",
        ),
    ],
)
def test_a_wrong_listener_is_named(options: list[str], why: str, shell: Shell) -> None:
    """The command ends with one line."""
    given = [f"--advertise={each}" for each in options]
    assert shell.refused("serve", *given, code=2) == f"--advertise {why}"


def test_serve_opens_a_further_port(shell: Shell) -> None:
    """The ready line has the first; a port that is taken is named."""
    with Broker() as other:
        taken = f"--advertise={other.port}=kafka:1"
        line = shell.refused("serve", "--port=0", taken, code=1)
    assert line.startswith(
        f"cannot listen on 127.0.0.1:{other.port}: the port is taken"
    )
    with serving(f"--advertise={other.port}=kafka:1") as broker:
        assert broker.address.startswith("127.0.0.1:")
        assert broker.end(signal.SIGTERM)[0] == 0
