"""Apache Kafka's own admin tools elect, reassign and describe in a kohort cluster."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.broker.test_cluster import cluster
from tests.java.conftest import TOOLS, Tool
from tests.wire.client import connected
from tests.wire.requests import produce

from kohort.broker.server import Broker
from kohort.protocol.records import Record, build_batch

pytestmark = pytest.mark.interop


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """Three nodes, with a topic on the first two."""
    async with cluster() as broker:
        broker.cluster.create_topic("t", 0, replicas=[[2, 1], [1, 2]])
        yield broker


async def test_preferred_leaders(broker: Broker, tool: Tool) -> None:
    """A restarted node leads again after a preferred leader election."""
    await broker.stop_node(2)
    await broker.start_node(2)
    topic = broker.cluster.topics.by_name["t"]
    assert topic.leaders == [1, 1]
    options = ["--election-type", "preferred", "--all-topic-partitions"]
    printed = await tool(f"{TOOLS}.LeaderElectionCommand", *options)
    assert "Successfully completed leader election (PREFERRED)" in printed
    assert topic.leaders == [2, 1]


async def test_reassignments(broker: Broker, tool: Tool, tmp_path: Path) -> None:
    """A reassignment is in progress while a node is down, complete when it is back."""
    moves = tmp_path / "moves.json"
    row = {"topic": "t", "partition": 0, "replicas": [3, 1]}
    moves.write_text(json.dumps({"version": 1, "partitions": [row]}))
    name = f"{TOOLS}.reassign.ReassignPartitionsCommand"
    file = ["--reassignment-json-file", str(moves)]
    await broker.stop_node(3)
    # The tool refuses stopped nodes; the admin API does not.
    topic = broker.cluster.topics.by_name["t"]
    broker.cluster.leaders.reassign(topic, 0, [3, 1])
    printed = await tool(name, "--list")
    assert "t-0: replicas: 3,1,2. adding: 3. removing: 2." in printed
    printed = await tool(name, *file, "--verify", "--preserve-throttles")
    assert "Reassignment of partition t-0 is still in progress." in printed
    await broker.start_node(3)
    printed = await tool(name, *file, "--verify")
    assert "Reassignment of partition t-0 is completed." in printed
    assert topic.replicas[0] == [3, 1]


async def test_descriptions(broker: Broker, tool: Tool) -> None:
    """The tools describe log directories, producers and the quorum."""
    records = [Record(value=b"x")]
    batch = build_batch(records, producer_id=7, producer_epoch=0, base_sequence=0)
    async with connected(broker, 2) as client:
        await client.call("Produce", 9, produce((0, batch)))
    printed = await tool(f"{TOOLS}.LogDirsCommand", "--describe")
    assert f'{{"partition":"t-0","size":{len(batch)},"offsetLag":0' in printed
    name = f"{TOOLS}.TransactionsCommand"
    options = ["describe-producers", "--topic", "t", "--partition", "0"]
    printed = await tool(name, *options)
    assert printed.splitlines()[-1].split()[0] == "7"
    printed = await tool(f"{TOOLS}.MetadataQuorumCommand", "describe", "--status")
    assert 'CurrentObservers:       [{"id": 2}, {"id": 3}]' in printed


async def test_features(broker: Broker, tool: Tool) -> None:
    """A feature level can be lowered, and is then shown."""
    name = f"{TOOLS}.FeatureCommand"
    await tool(name, "downgrade", "--feature", "group.version=0")
    assert broker.cluster.features.levels["group.version"] == 0
    lines = (await tool(name, "describe")).splitlines()
    (line,) = (line for line in lines if "group.version" in line)
    assert "FinalizedVersionLevel: 0" in line
