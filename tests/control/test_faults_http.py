"""Faults and recorded requests over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.broker.test_cluster import heartbeat, stable
from tests.control.asking import TOKEN, Asking, asking
from tests.wire.client import connected

from kohort.broker.faults.rule import FaultError, Rule
from kohort.control.http import fault_routes
from kohort.control.http.fault_types import KEYS, RULE

FAIL = {"api": "Heartbeat", "error": "NOT_COORDINATOR", "times": 2}


async def added(client: Asking, **keys: Any) -> Any:
    """A rule that was added."""
    status, rule = await client.post("/v1/faults", keys)
    assert status == 201, rule
    return rule


async def test_a_fault_strikes_and_is_removed() -> None:
    """Its strikes are counted; when it is removed the answer has the last count."""
    async with asking() as client, connected(client.broker) as member:
        member_id = await stable(member)
        rule = await added(client, name="elsewhere", **FAIL)
        assert rule == FAIL | {
            "id": 1,
            "name": "elsewhere",
            "matches": 0,
            "strikes": 0,
            "is_over": False,
            "notes": [],
        }
        assert [await heartbeat(member, member_id) for _ in range(3)] == [16, 16, 0]
        struck = rule | {"matches": 3, "strikes": 2}
        assert await client.get("/v1/faults/1") == (200, struck)
        assert await client.get("/v1/faults") == (200, {"seed": 0, "faults": [struck]})
        assert await client.delete("/v1/faults/1") == (200, struck)
        status, answer = await client.get("/v1/faults/1")
        assert (status, answer) == (
            404,
            {"error": "there is no fault 1; there are no faults"},
        )


async def test_all_faults_are_removed() -> None:
    """Requests are answered as usual."""
    async with asking() as client, connected(client.broker) as member:
        member_id = await stable(member)
        await added(client, api="Heartbeat", error="NOT_COORDINATOR")
        await added(client, api="Heartbeat", delay_ms=86_400_000)
        _, plan = await client.delete("/v1/faults")
        assert [rule["id"] for rule in plan["faults"]] == [1, 2]
        assert await client.get("/v1/faults") == (200, {"seed": 0, "faults": []})
        assert await heartbeat(member, member_id) == 0


async def test_a_fault_says_what_kafka_never_does() -> None:
    """The rule works, and its notes tell."""
    async with asking() as client:
        rule = await added(client, api="Heartbeat", error="OFFSET_OUT_OF_RANGE")
        (note,) = rule["notes"]
        assert "never" in note


async def test_only_so_many_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them costs with every request."""
    monkeypatch.setattr(fault_routes, "MOST_FAULTS", 1)
    async with asking() as client:
        await added(client, **FAIL)
        sentence = await client.refusal("/v1/faults", FAIL, 409)
        assert sentence == "there are already 1 faults"


async def test_faults_need_the_token() -> None:
    """To add and to remove them; a DELETE has no body to declare as JSON."""
    async with asking(token=TOKEN) as client:
        client.broker.faults.add(FAIL)
        assert (await client.post("/v1/faults", FAIL))[0] == 401
        for path in ("/v1/faults/1", "/v1/faults"):
            assert (await client.delete(path))[0] == 401
        assert len(client.broker.faults.rules) == 1
        right = {"Authorization": f"Bearer {TOKEN}"}
        assert (await client.post("/v1/faults", FAIL, **right))[0] == 201
        assert (await client.delete("/v1/faults/2", **right))[0] == 200
        assert (await client.get("/v1/faults"))[0] == 200


WRONG: list[dict[str, Any]] = [
    {},
    {"api": "Heartbeat"},
    {"error": "NOT_COORDINATOR", "swallow": True},
    {"error": "NOT_COORDINATR"},
    {"error": "NONE"},
    {"api": "Hartbeat", "swallow": True},
    {"api": [], "swallow": True},
    {"swallow": False},
    {"swallow": True, "once": True, "nth": 2},
    {"swallow": True, "nth": 0},
    {"swallow": True, "probability": 1.5},
    {"swallow": True, "probability": 0},
    {"swallow": True, "state": "Happy"},
    {"swallow": True, "node": -1},
    {"swallow": True, "grup": "g"},
    {"throttle_ms": 2**31},
    {"throttle_ms": 1.5},
    {"delay_ms": 0},
    {"delay_ms": 10**9},
    {"disconnect": "later"},
    {"black_hole": True, "api": "Heartbeat"},
    {"jitter_ms": 5, "once": True},
]
RIGHT: list[dict[str, Any]] = [
    {"swallow": True},
    {"api": ["Heartbeat", "JoinGroup"], "disconnect": "after", "every": 3},
    {"error": "UNKNOWN_SERVER_ERROR", "probability": 1, "seed": 3, "for_seconds": 0.5},
    {"throttle_ms": 86_400_000, "partition": 0, "topic": "t"},
    {"black_hole": True, "node": 1, "client_id": "a", "for_seconds": 5},
    {"jitter_ms": 0.5, "seed": 1, "software": "librdkafka"},
]


@pytest.mark.parametrize("keys", WRONG)
def test_a_wrong_fault_is_wrong_in_the_document(keys: dict[str, Any]) -> None:
    """The document knows what the broker refuses."""
    assert not Draft202012Validator({"type": "object", **RULE}).is_valid(keys)
    with pytest.raises(FaultError):
        Rule.from_dict(keys)


@pytest.mark.parametrize("keys", RIGHT)
def test_a_right_fault_is_right_in_the_document(keys: dict[str, Any]) -> None:
    """And is shown as it was given."""
    assert Draft202012Validator({"type": "object", **RULE}).is_valid(keys)
    assert Rule.from_dict(keys).to_dict() == keys


async def test_a_wrong_fault_is_400() -> None:
    """The answer is one sentence, also for null; no rule is added."""
    async with asking() as client:
        for keys in ({}, {"error": "NONE"}, {"swallow": True, "group": None}):
            sentence = await client.refusal("/v1/faults", keys, 400)
            assert "\n" not in sentence
        assert client.broker.faults.rules == []


def test_the_document_has_each_key() -> None:
    """A key that a rule learns must be described."""
    with pytest.raises(FaultError):
        Rule.from_dict(dict.fromkeys(["unknown"], 1))
    assert KEYS.keys() == {
        name for name, each in Rule.__dataclass_fields__.items() if each.init
    }


async def test_requests_are_recorded() -> None:
    """While that is wanted; with the error of the answer."""
    async with asking() as client, connected(client.broker) as member:
        member_id = await stable(member)
        assert await client.get("/v1/requests") == (
            200,
            {"on": False, "total": 0, "requests": []},
        )
        path = "/v1/requests/recording"
        assert await client.post(path) == (200, {"on": True})
        await added(client, api="Heartbeat", error="NOT_COORDINATOR", nth=2)
        for _ in range(3):
            await heartbeat(member, member_id)
        assert await client.post(path, {"on": False}) == (200, {"on": False})
        await heartbeat(member, member_id)
        _, found = await client.get("/v1/requests?api=Heartbeat&group=g")
        assert (found["on"], found["total"]) == (False, 3)
        errors = ["NONE", "NOT_COORDINATOR", "NONE"]
        assert [row["error"] for row in found["requests"]] == errors
        assert [row["fault"] for row in found["requests"]] == [None, "fault 1", None]
        _, latest = await client.get("/v1/requests?api=Heartbeat&limit=1")
        assert (latest["total"], latest["requests"]) == (3, found["requests"][-1:])
        assert (await client.get("/v1/requests?api=Hartbeat"))[0] == 400
        for query, count in (("error=NONE", 2), ("client_id=x", 0), ("node=1", 3)):
            _, found = await client.get(f"/v1/requests?{query}")
            assert found["total"] == count, query
