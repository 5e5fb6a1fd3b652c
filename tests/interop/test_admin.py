"""Admin clients of Python libraries elect leaders, reassign, describe, add users."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, admin
from confluent_kafka.admin import AdminClient
from tests.broker.test_cluster import cluster
from tests.patience import PATIENCE_S

from kohort.broker.server import Broker

WORKER = Path(__file__).with_name("kafka_python_admin.py")


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """Three nodes, with a topic on the first two."""
    async with cluster() as broker:
        broker.cluster.create_topic("t", 0, replicas=[[2, 1]])
        yield broker


async def test_confluent_kafka_elects_leaders(broker: Broker) -> None:
    """Electing the preferred leader makes it lead again."""
    await broker.stop_node(2)
    await broker.start_node(2)

    def elect() -> Any:
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        return client.elect_leaders(ElectionType.PREFERRED, None).result(PATIENCE_S)

    results = await asyncio.to_thread(elect)
    rows = [(p.topic, p.partition, error) for p, error in results.items()]
    assert rows == [("t", 0, None)]
    assert broker.cluster.topics.by_name["t"].leaders == [2]


async def test_confluent_kafka_adds_a_user(broker: Broker) -> None:
    """A credential is set and described; a missing one cannot be removed."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    names: Any = admin
    sha = names.ScramMechanism.SCRAM_SHA_256

    def alter(*changes: Any) -> dict[str, Any]:
        futures: Any = client.alter_user_scram_credentials(list(changes))
        return {user: each.exception(PATIENCE_S) for user, each in futures.items()}

    def describe() -> Any:
        described: Any = client.describe_user_scram_credentials()
        return described.result(PATIENCE_S)

    info = names.ScramCredentialInfo(sha, 8192)
    put = names.UserScramCredentialUpsertion("ana", info, b"secret")
    drop = names.UserScramCredentialDeletion("ben", sha)
    errors = await asyncio.to_thread(alter, put, drop)
    assert errors.pop("ana") is None
    assert "RESOURCE_NOT_FOUND" in str(errors.pop("ben"))
    users = await asyncio.to_thread(describe)
    (info,) = users.pop("ana").scram_credential_infos
    assert (info.mechanism, info.iterations, users) == (sha, 8192, {})


async def test_kafka_python_reassigns_and_describes(broker: Broker) -> None:
    """A reassignment that waits for a node is listed and can be cancelled."""
    await broker.stop_node(3)
    # A separate process: importing the library warns.
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "ignore", WORKER, broker.bootstrap_servers),
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await asyncio.wait_for(worker.communicate(), PATIENCE_S)
    assert json.loads(printed) == {
        "begun": [None],
        "progress": {
            "replicas": [3, 1, 2],
            "adding_replicas": [3],
            "removing_replicas": [2],
        },
        "cancelled": [None],
        "left": 0,
        "metadata.version": [30, 30],
        "topics": {"topic": ["t"]},
        "log_dirs": 2,
        "quorum": "__cluster_metadata",
    }
