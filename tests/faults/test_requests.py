"""The recorder: a broker's requests, and their responses."""

from __future__ import annotations

import pytest
from tests.faults.scene import Scene
from tests.wire.requests import fetch, join_group, produce

from kohort.broker.connection import Connection
from kohort.broker.faults.requests import Recorded, Requests
from kohort.broker.faults.rule import FaultError


async def test_off_until_it_is_asked_for() -> None:
    """Connections are plain ones before and afterwards."""
    scene = Scene()
    requests, peer = scene.faults.requests, scene.peer()
    peer.beat()
    requests.record()
    peer.beat(2)
    requests.record(on=False)
    peer.beat()
    assert len(requests) == 2
    assert type(peer.connection) is Connection
    requests.record()
    assert len(requests) == 0


async def test_a_row() -> None:
    """A row has the request's sender and the result."""
    scene = Scene()
    scene.faults.requests.record()
    scene.faults.delay("JoinGroup", seconds=1, name="slow")
    peer = scene.peer("billing-1")
    peer.send("JoinGroup", 9, join_group("g", instance="i"))
    (row,) = scene.faults.requests.find()
    assert row.to_dict() == {
        "time_ns": 1_700_000_000_000_000_000,
        "api": "JoinGroup",
        "version": 9,
        "client_id": "billing-1",
        "software": "",
        "connection": 1,
        "node": 1,
        "group": "g",
        "transactional_id": None,
        "member_id": None,
        "instance_id": "i",
        "error": None,
        "fault": "slow",
    }
    await scene.after(1)
    assert row.error == "NONE"


async def test_errors() -> None:
    """None means no response yet, or none at all."""
    scene = Scene()
    requests, peer = scene.faults.requests, scene.peer()
    requests.record()
    peer.send("Fetch", 11, fetch(0, wait_ms=60_000))
    other = scene.peer()
    await other.call("Fetch", 11, fetch(0, 0, 0))
    scene.faults.fail("Heartbeat", "NOT_COORDINATOR", once=True)
    other.beat(2)
    scene.faults.swallow("Heartbeat")
    other.beat()
    scene.peer().send("Produce", 9, produce((0, b""), acks=0))
    assert [row.error for row in requests.find()] == [
        None,
        "UNKNOWN_TOPIC_OR_PARTITION",
        "NOT_COORDINATOR",
        "UNKNOWN_MEMBER_ID",
        None,
        None,
    ]
    faults = [row.fault for row in requests.find("Heartbeat")]
    assert faults == ["fault 1", None, "fault 2"]


async def test_find() -> None:
    """Any field can be a filter; an unknown one is an error that lists them."""
    scene = Scene()
    scene.faults.requests.record()
    for client_id in ("a", "b"):
        scene.peer(client_id).beat(2)
    find = scene.faults.requests.find
    assert len(find("Heartbeat", client_id="a", error="UNKNOWN_MEMBER_ID")) == 2
    assert find("Heartbeat", client_id="c") == find("Fetch") == []
    with pytest.raises(TypeError, match="client is no field of requests: time_ns, "):
        find(client="a")


def test_a_misspelt_name_is_an_error() -> None:
    """A misspelt API is an error: each assertion that nothing was sent would pass."""
    find = Scene().faults.requests.find
    with pytest.raises(FaultError, match="did you mean: Heartbeat"):
        find("Hartbeat")
    with pytest.raises(FaultError, match="did you mean: NOT_COORDINATOR"):
        find(error="NOT_CORDINATOR")
    assert find(error="NONE") == find(error=None) == []


def test_the_oldest_go() -> None:
    """The number of rows is limited."""
    requests = Requests(lambda: None, most=2)
    for number in range(3):
        requests.add(
            Recorded(
                time_ns=number,
                api="Fetch",
                version=4,
                client_id="",
                software="",
                connection=1,
                node=1,
                group=None,
                transactional_id=None,
                member_id=None,
                instance_id=None,
            )
        )
    assert [row.time_ns for row in requests.find()] == [1, 2]
