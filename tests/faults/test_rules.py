"""Rules: selectors, triggers, invalid rules, and plans in TOML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.faults.scene import BEAT, Peer, Scene
from tests.wire.requests import (
    commit_offsets,
    fetch,
    fetch_offsets,
    join_group,
    leave_group,
    metadata,
    produce,
)

from kohort.broker.faults.plan import load_plan
from kohort.broker.faults.rule import FaultError, Rule, UnknownFaultError
from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.apis.k15_describe_groups import DescribeGroupsRequest
from kohort.protocol.apis.k18_api_versions import ApiVersionsRequest
from kohort.protocol.apis.k20_delete_topics import DeleteTopicsRequest
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdRequest
from kohort.protocol.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kohort.protocol.apis.k26_end_txn import EndTxnRequest
from kohort.protocol.apis.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kohort.protocol.apis.k28_txn_offset_commit import TxnOffsetCommitRequest
from kohort.protocol.apis.k42_delete_groups import DeleteGroupsRequest
from kohort.protocol.apis.k65_describe_transactions import DescribeTransactionsRequest
from kohort.protocol.errors import ErrorCode

Ask = Callable[[Peer], None]


def ask(api: str, version: int, message: object) -> Ask:
    """Sends one request."""
    return lambda peer: peer.send(api, version, message)


def introduce(peer: Peer) -> None:
    """Names the client's software."""
    peer.send("ApiVersions", 3, ApiVersionsRequest("librdkafka", "2"))
    peer.beat()


STATIC = HeartbeatRequest("g", 1, "m", "i")
OF_TX = {"transactional_id": "tx"}
TOPICS = [AddPartitionsToTxnTopic("t", [1])]
ADDED = AddPartitionsToTxnRequest((), "tx", 1, 0, TOPICS)
VERIFIED = AddPartitionsToTxnRequest(
    [AddPartitionsToTxnTransaction("tx", 1, 0, True, TOPICS)]
)
MARKED = WriteTxnMarkersRequest(
    [WritableTxnMarker(1, 0, False, [WritableTxnMarkerTopic("t", [1])])]
)
SELECTED: list[tuple[dict[str, Any], Ask]] = [
    ({}, Peer.beat),
    ({"api": "Heartbeat"}, Peer.beat),
    ({"api": ["Fetch", "Heartbeat"]}, Peer.beat),
    ({"version": 4}, Peer.beat),
    ({"client_id": "c"}, Peer.beat),
    ({"connection": 1}, Peer.beat),
    ({"node": 1}, Peer.beat),
    ({"software": "librdkafka", "api": "Heartbeat"}, introduce),
    ({"group": "g", "state": "Dead"}, Peer.beat),
    ({"member_id": "m"}, Peer.beat),
    ({"member_id": "m"}, ask("LeaveGroup", 5, leave_group("g", "a", "m"))),
    ({"instance_id": "i"}, ask("Heartbeat", 4, STATIC)),
    ({"group": "g"}, ask("OffsetFetch", 8, fetch_offsets("f", "g"))),
    ({"group": "g"}, ask("DescribeGroups", 5, DescribeGroupsRequest(["f", "g"]))),
    ({"group": "g"}, ask("DeleteGroups", 2, DeleteGroupsRequest(["g"]))),
    ({"group": "g"}, ask("FindCoordinator", 3, FindCoordinatorRequest("g"))),
    (
        {"group": "g"},
        ask("FindCoordinator", 4, FindCoordinatorRequest(coordinator_keys=["f", "g"])),
    ),
    (OF_TX, ask("FindCoordinator", 3, FindCoordinatorRequest("tx", 1))),
    (OF_TX, ask("InitProducerId", 4, InitProducerIdRequest("tx", 1_000))),
    (OF_TX, ask("AddPartitionsToTxn", 3, ADDED)),
    (OF_TX, ask("AddPartitionsToTxn", 4, VERIFIED)),
    ({"topic": "t", "partition": 1}, ask("AddPartitionsToTxn", 3, ADDED)),
    ({"topic": "t", "partition": 1}, ask("AddPartitionsToTxn", 4, VERIFIED)),
    ({"topic": "t", "partition": 1}, ask("WriteTxnMarkers", 1, MARKED)),
    (
        {**OF_TX, "group": "g"},
        ask("TxnOffsetCommit", 3, TxnOffsetCommitRequest("tx", "g")),
    ),
    (OF_TX, ask("EndTxn", 5, EndTxnRequest("tx", 1, 0))),
    (OF_TX, ask("DescribeTransactions", 0, DescribeTransactionsRequest(["s", "tx"]))),
    ({"topic": "t"}, ask("Produce", 9, produce((1, b"")))),
    ({"topic": "t", "partition": 1}, ask("Produce", 9, produce((1, b"")))),
    ({"topic": "t", "partition": 1}, ask("Fetch", 11, fetch(0, 0))),
    ({"partition": 1}, ask("OffsetCommit", 8, commit_offsets("t", (1, 1, -1, "")))),
    ({"topic": "t"}, ask("Metadata", 12, metadata("s", "t", creates=False))),
    ({"topic": "t"}, ask("DeleteTopics", 5, DeleteTopicsRequest(topic_names=["t"]))),
]
PASSED: list[tuple[dict[str, Any], Ask]] = [
    ({"api": "Fetch"}, Peer.beat),
    ({"version": 3}, Peer.beat),
    ({"client_id": "d"}, Peer.beat),
    ({"connection": 2}, Peer.beat),
    ({"node": 2}, Peer.beat),
    ({"software": "kafka-python", "api": "Heartbeat"}, introduce),
    ({"group": "h"}, Peer.beat),
    ({"state": "Stable"}, Peer.beat),
    ({"state": "Dead"}, ask("Metadata", 12, metadata("t"))),
    ({"member_id": "n"}, Peer.beat),
    ({"instance_id": "i"}, Peer.beat),
    ({"group": "t"}, ask("FindCoordinator", 3, FindCoordinatorRequest("t", 1))),
    (OF_TX, ask("FindCoordinator", 3, FindCoordinatorRequest("tx", 0))),
    (OF_TX, ask("EndTxn", 5, EndTxnRequest("t", 1, 0))),
    (OF_TX, ask("Produce", 9, produce((1, b"")))),
    ({"topic": "s"}, ask("AddPartitionsToTxn", 4, VERIFIED)),
    ({"topic": "s"}, ask("Produce", 9, produce((1, b"")))),
    ({"topic": "t", "partition": 0}, ask("Produce", 9, produce((1, b"")))),
    ({"topic": "t", "partition": 2}, ask("Fetch", 11, fetch(0, 0))),
    ({"topic": "t"}, Peer.beat),
]


@pytest.mark.parametrize(("selector", "asked"), SELECTED)
async def test_selected(selector: dict[str, Any], asked: Ask) -> None:
    """The rule strikes this request."""
    scene = Scene()
    rule = scene.faults.add({"delay_ms": 1, **selector})
    asked(scene.peer())
    await scene.after(1)
    assert rule.strikes == 1


@pytest.mark.parametrize(("selector", "asked"), PASSED)
async def test_passed(selector: dict[str, Any], asked: Ask) -> None:
    """The rule does not select this request."""
    scene = Scene()
    rule = scene.faults.add({"delay_ms": 1, **selector})
    asked(scene.peer())
    await scene.settled()
    assert (rule.matches, rule.strikes) == (0, 0)


async def test_the_state_of_the_group() -> None:
    """The state is that at the moment of the request."""
    scene = Scene()
    peer = scene.peer()
    joined = await peer.join()
    rule = scene.faults.fail("Heartbeat", "NOT_COORDINATOR", state="PreparingRebalance")
    beat = HeartbeatRequest("g", joined.generation_id, joined.member_id)
    assert (await peer.call("Heartbeat", 4, beat)).error_code == 0
    second = scene.peer()
    offered = await second.call("JoinGroup", 9, join_group("g"))
    second.send("JoinGroup", 9, join_group("g", offered.member_id))
    refused = await peer.call("Heartbeat", 4, beat)
    assert refused.error_code == ErrorCode.NOT_COORDINATOR
    assert rule.strikes == 1


# -- triggers

ALWAYS = [1] * 12


@pytest.mark.parametrize(
    ("trigger", "strikes"),
    [
        ({}, ALWAYS),
        ({"once": True}, [1] + [0] * 11),
        ({"nth": 3}, [0, 0, 1] + [0] * 9),
        ({"times": 2}, [1, 1] + [0] * 10),
        ({"every": 3}, [0, 0, 1] * 4),
        ({"probability": 1}, ALWAYS),
        ({"probability": 1e-9}, [0] * 12),
    ],
)
async def test_triggers(trigger: dict[str, Any], strikes: list[int]) -> None:
    """The trigger strikes these of twelve heartbeats."""
    scene = Scene()
    peer = scene.peer()
    scene.faults.fail("Heartbeat", "NOT_COORDINATOR", **trigger)
    peer.beat(12)
    assert [int(e == ErrorCode.NOT_COORDINATOR) for e in peer.errors] == strikes


async def test_for_some_time() -> None:
    """The rule stays in the list, but has expired."""
    scene = Scene()
    peer = scene.peer()
    rule = scene.faults.fail("Heartbeat", "NOT_COORDINATOR", for_seconds=10)
    await scene.after(9)
    peer.beat()
    await scene.after(1)
    peer.beat()
    assert peer.errors == [ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_MEMBER_ID]
    assert (rule.is_over, scene.faults.rules) == (True, [rule])


async def played(seed: int, pause: float) -> list[int]:
    """The responses to fifty heartbeats with two seeded rules."""
    scene = Scene()
    scene.faults.seed = seed
    peer = scene.peer()
    scene.faults.fail("Heartbeat", "NOT_COORDINATOR", probability=0.3)
    scene.faults.fail("Heartbeat", "COORDINATOR_LOAD_IN_PROGRESS", probability=0.3)
    for _ in range(50):
        peer.beat()
        await scene.after(pause)
    return peer.errors


async def test_the_same_seed_strikes_the_same_requests() -> None:
    """The same seed strikes the same requests at any time, another seed others."""
    first = await played(1, 0)
    assert await played(1, 5) == first
    assert await played(2, 0) != first
    assert 5 < first.count(ErrorCode.NOT_COORDINATOR) < 25


async def test_a_hundred_rules() -> None:
    """The first matching rule strikes."""
    scene = Scene()
    peer = scene.peer()
    for number in range(99):
        scene.faults.fail("Heartbeat", "NOT_COORDINATOR", member_id=f"m-{number}")
    scene.faults.fail("Heartbeat", "ILLEGAL_GENERATION")
    peer.send("Heartbeat", 4, HeartbeatRequest("g", 1, "m-98"))
    peer.beat()
    assert peer.errors == [ErrorCode.NOT_COORDINATOR, ErrorCode.ILLEGAL_GENERATION]
    assert [rule.strikes for rule in scene.faults.rules] == [0] * 98 + [1, 1]


# -- the plan


async def test_a_rule_in_words() -> None:
    """Its keys are returned as given, with its id, counts and notes."""
    scene = Scene()
    keys = {"name": "slow", "api": "Heartbeat", "times": 2, "delay_ms": 5}
    rule = scene.faults.add(keys)
    scene.peer().send("Heartbeat", 4, BEAT)
    assert rule.to_dict() == keys
    assert Rule.from_dict(rule.to_dict()).to_dict() == keys
    counts = {"id": 1, "matches": 1, "strikes": 1, "is_over": False, "notes": []}
    assert rule.describe() == {**keys, **counts}


async def test_ids_are_never_given_twice() -> None:
    """An unknown rule is an error that lists the existing ones."""
    scene = Scene()
    first = scene.faults.swallow("Fetch", name="lost")
    second = scene.faults.swallow("Fetch")
    scene.faults.remove(second.id)
    assert scene.faults.swallow("Fetch").id == 3
    assert scene.faults.get(1) is first
    with pytest.raises(UnknownFaultError, match=r"no fault 2; .* 1 \(lost\), 3 \(f"):
        scene.faults.remove(2)
    with pytest.raises(FaultError, match="has been added before"):
        scene.faults.add(first)
    scene.faults.clear()
    assert scene.faults.rules == []


@pytest.mark.parametrize(
    ("keys", "note"),
    [
        (
            {"api": "Heartbeat", "error": "OFFSET_OUT_OF_RANGE"},
            "Kafka never answers Heartbeat with OFFSET_OUT_OF_RANGE",
        ),
        (
            {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"},
            "Produce with acks=0 gets no answer: its connection is closed",
        ),
        (
            {"error": "OFFSET_METADATA_TOO_LARGE"},
            "Kafka answers only OffsetCommit, TxnOffsetCommit with it",
        ),
        (
            {"api": "SaslHandshake", "throttle_ms": 1},
            "SaslHandshake has no throttle time in any version",
        ),
    ],
)
def test_notes(keys: dict[str, Any], note: str) -> None:
    """The rule works, and notes effects that never occur in Kafka."""
    (found,) = Rule.from_dict(keys).notes
    assert found.startswith(note)


def test_an_error_that_kafka_has_needs_no_note() -> None:
    """An error of Kafka's has no note, nor has an effect that occurs in any network."""
    assert Rule(api="Heartbeat", error="REBALANCE_IN_PROGRESS").notes == ()
    assert Rule(api="Heartbeat", delay_ms=1).notes == ()


INVALID = [
    ({}, "a rule needs an effect, one of: error, "),
    ({"api": "Fetch"}, "a rule needs an effect, one of: error, "),
    ({"swallow": True, "stale": True}, "swallow and stale: a rule has one effect"),
    ({"swallow": False}, "swallow: leave it out"),
    ({"swallow": 1}, "swallow: 1 is not true"),
    ({"swallow": True, "once": True, "nth": 2}, "once and nth: a rule has one trigger"),
    ({"swallow": True, "nth": 0}, "nth: 0 is less than 1"),
    ({"swallow": True, "nth": True}, "nth: True is not a whole number"),
    ({"swallow": True, "nth": 1.5}, "nth: 1.5 is not a whole number"),
    ({"swallow": True, "probability": 2}, "probability: 2 is not above 0"),
    ({"swallow": True, "probability": "1"}, "probability: '1' is not a number"),
    ({"swallow": True, "apis": "Fetch"}, "apis: there is no 'apis'; did you mean: api"),
    (
        {"swallow": True, "api": "fetch"},
        "api: there is no 'fetch'; did you mean: Fetch",
    ),
    ({"swallow": True, "api": []}, "api: [] is not the name of an API"),
    ({"swallow": True, "api": 1}, "api: 1 is not the name of an API"),
    (
        {"swallow": True, "state": "Stabel"},
        "there is no 'Stabel'; did you mean: Stable",
    ),
    ({"swallow": True, "group": 1}, "group: 1 is not a string"),
    ({"error": "NOT_COORDINATER"}, "did you mean: NOT_COORDINATOR"),
    ({"error": "NONE"}, "error: there is no 'NONE'"),
    ({"disconnect": "now"}, "disconnect: there is no 'now'; there are: before, after"),
    ({"delay_ms": 0}, "delay_ms: 0 is not above 0"),
    ({"delay_ms": float("inf")}, "delay_ms: inf is not above 0"),
    ({"black_hole": True, "api": "Fetch"}, "api: black_hole strikes all of a"),
    ({"jitter_ms": 5, "once": True}, "once: jitter_ms strikes all of a connection"),
    ({"swallow": True, "seed": 2**63}, "seed: 9223372036854775808 is more than"),
    ({"swallow": True, "nth": 10**5000}, "nth: a number of thousands of digits is"),
    ({"swallow": True, "name": "x" * 256}, "name: is longer than 255 characters"),
]


@pytest.mark.parametrize(("keys", "message"), INVALID)
def test_invalid_rules(keys: dict[str, Any], message: str) -> None:
    """The message names the key and the valid values."""
    with pytest.raises(FaultError) as caught:
        Rule.from_dict(keys)
    assert message in str(caught.value)


PLAN = """\
seed = 5

[[fault]]
name = "loading"
api = "OffsetCommit"
group = "billing"
times = 2
error = "COORDINATOR_LOAD_IN_PROGRESS"

[[fault]]
api = ["Fetch", "Produce"]
delay_ms = 2.5
"""


async def test_a_plan_in_toml(tmp_path: Path) -> None:
    """A seed, and a table for each rule."""
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    scene = Scene()
    first, second = scene.faults.load(path)
    assert (scene.faults.seed, first.label, first.times) == (5, "loading", 2)
    assert (second.api, second.delay_ms) == (("Fetch", "Produce"), 2.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[fault]]\nswallow = true\n[[fault]]\napi = 'F'\n", "fault 2: api: there is"),
        ("fault = 1", r"fault: write \[\[fault\]\]"),
        ("fault = [1]", r"fault: write \[\[fault\]\]"),
        ("faults = 1", "faults: a plan has the keys seed and fault"),
        ("seed = 'x'", "seed: 'x' is not a whole number"),
        ("seed = ", "Invalid value"),
        pytest.param(f"seed = 1{'0' * 5000}", "Exceeds the limit", id="digits"),
        pytest.param(f"seed = {'[' * 5000}", "recursion", id="depth"),
    ],
)
def test_plans_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    """The message names the file, the table and the key."""
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(FaultError, match=rf"plan\.toml: .*{message}"):
        load_plan(path)


def test_a_plan_that_is_not_there(tmp_path: Path) -> None:
    """The message names the file."""
    with pytest.raises(FaultError, match="No such file"):
        load_plan(tmp_path / "no.toml")
