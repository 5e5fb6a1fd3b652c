"""Functions that decide about requests: `Faults.on`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.faults.scene import BEAT, LOADING, ONE, QUIET, UNKNOWN, Peer, Scene

from kohort.broker.faults.functions import Intercepted
from kohort.broker.faults.rule import FaultError, UnknownFaultError
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.errors import ErrorCode
from kohort.protocol.primitives import plain

Decide = Callable[[Intercepted], object]


async def beat(peer: Peer) -> int:
    """The error code of a heartbeat of an unknown member."""
    code: int = (await peer.call("Heartbeat", 4, BEAT)).error_code
    return code


async def test_it_is_called_with_the_decoded_request(scene: Scene) -> None:
    """A request passes if the function does nothing; others are not seen."""
    seen: list[Intercepted] = []
    function = scene.faults.on("Heartbeat", seen.append)
    peer = scene.peer()
    request = HeartbeatRequest("g", 7, "m", "static")
    answer = await peer.call("Heartbeat", 4, request)
    assert answer.error_code == UNKNOWN
    await peer.call("Produce", 9, ONE)
    (asked,) = seen
    assert (asked.api, asked.version, asked.client_id) == (
        "Heartbeat",
        4,
        peer.client_id,
    )
    assert (asked.group, asked.generation, asked.member_id, asked.instance_id) == (
        "g",
        7,
        "m",
        "static",
    )
    assert asked.message == request
    assert function.calls == 1


@pytest.mark.parametrize(
    ("decide", "code"),
    [
        (lambda asked: asked.fail("COORDINATOR_LOAD_IN_PROGRESS"), LOADING),
        (lambda asked: asked.answer(HeartbeatResponse(0, 99)), 99),
        (lambda asked: asked.change(error_code=98), 98),
        (lambda asked: asked.change(lambda old: HeartbeatResponse(5, 97)), 97),
    ],
)
async def test_it_decides_about_the_response(
    scene: Scene, decide: Decide, code: int
) -> None:
    """An error, another response, or a changed one, for one client."""
    peer, other = scene.peer(), scene.peer(client_id="other")

    def some(asked: Intercepted) -> None:
        if asked.client_id == "other":
            decide(asked)

    scene.faults.on("Heartbeat", some)
    assert [await beat(other), await beat(peer)] == [code, UNKNOWN]


@pytest.mark.parametrize(
    ("decide", "cause"),
    [
        (lambda asked: asked.fail("COORDINATOR_LOAD_IN_PROGRESS"), "error"),
        (lambda asked: asked.answer(HeartbeatResponse(0, 99)), "answer"),
        (lambda asked: asked.change(error_code=98), "change"),
        (lambda asked: asked.disconnect(), "disconnect_before"),
    ],
)
async def test_a_decision_is_an_event(scene: Scene, decide: Decide, cause: str) -> None:
    """With the function's number, after that of a rule; a request that passes, none."""
    rule = scene.faults.delay("Produce", seconds=1)
    function = scene.faults.on("Heartbeat", decide)
    scene.faults.on("Metadata", lambda asked: None)
    scene.peer().beat()
    await scene.settled()
    (event,) = (e for e in scene.events.recent() if e["kind"] == "fault_struck")
    assert (event["cause"], event["api"]) == (cause, "Heartbeat")
    assert (event["fault_id"], event["fault"]) == (rule.id + 1, "on(Heartbeat)")
    assert function.id == rule.id + 1
    assert (event["error"] is not None) == (cause == "error")


async def test_a_change_gets_the_response_of_the_broker(scene: Scene) -> None:
    """The request has its effect; an answer in its place prevents it."""
    peer, seen = scene.peer(), list[Any]()

    def noted(response: Any) -> Any:
        seen.append(response)
        return response

    function = scene.faults.on(
        ["Produce", "Metadata"], lambda asked: asked.change(noted)
    )
    produced = await peer.call("Produce", 9, ONE)
    assert [*map(plain, seen)] == [plain(produced)]
    scene.faults.off(function)
    scene.faults.on("Produce", lambda asked: asked.answer(produced))
    assert plain(await peer.call("Produce", 9, ONE)) == plain(produced)
    partition, *_ = scene.cluster.topics.by_name["t"].partitions
    assert partition.log_end_offset == 1


async def test_it_delays_responses(scene: Scene) -> None:
    """Also one that it makes itself."""
    peer = scene.peer()

    def late(asked: Intercepted) -> None:
        asked.delay(2)
        asked.answer(HeartbeatResponse(0, 99))

    scene.faults.on("Heartbeat", late)
    peer.beat()
    await scene.after(1.9)
    assert peer.answers == []
    await scene.after(0.2)
    assert [answer.error_code for answer in peer.answers] == [99]


async def test_it_drops_and_disconnects(scene: Scene) -> None:
    """A dropped request is not answered, and the connection stays open."""
    dropping, cut = scene.peer(), scene.peer()
    function = scene.faults.on("Heartbeat", lambda asked: asked.drop())
    dropping.beat()
    await scene.after(60)
    assert (dropping.answers, dropping.is_closed) == ([], False)
    scene.faults.off(function)
    scene.faults.on("Heartbeat", lambda asked: asked.disconnect())
    cut.beat()
    await scene.settled()
    assert (cut.answers, cut.is_closed) == ([], True)


async def test_acks_0_gets_no_answer(scene: Scene) -> None:
    """Whatever the function answers."""
    peer, seen = scene.peer(), list[Any]()
    scene.faults.on("Produce", lambda asked: asked.change(seen.append))
    peer.send("Produce", 9, QUIET)
    assert await beat(peer) == UNKNOWN
    assert seen == []
    scene.faults.raise_errors()


@pytest.mark.parametrize(
    "decide",
    [
        lambda asked: 1 / 0,
        lambda asked: asked.change(lambda old: 1 / 0),
        lambda asked: asked.change(lambda old: None),
        lambda asked: asked.change(eror_code=3),
        lambda asked: asked.answer("NONE"),
        lambda asked: asked.fail("NO_SUCH_ERROR"),
        lambda asked: (asked.drop(), asked.disconnect()),
    ],
)
async def test_an_error_of_the_function(
    scene: Scene, decide: Decide, capsys: pytest.CaptureFixture[str]
) -> None:
    """The request gets UNKNOWN_SERVER_ERROR; the error is logged, and raised later."""
    peer = scene.peer()
    scene.faults.on("Heartbeat", decide)
    assert await beat(peer) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "fault_function_failed" in capsys.readouterr().err
    with pytest.raises(ExceptionGroup) as raised:
        scene.faults.raise_errors()
    assert len(raised.value.exceptions) == 1
    scene.faults.raise_errors()


async def test_functions_come_before_rules(scene: Scene) -> None:
    """The first one that decides ends the search; what passes reaches the rules."""
    peer = scene.peer()
    rule = scene.faults.fail("Heartbeat", "NOT_COORDINATOR")
    first = scene.faults.on("Heartbeat", lambda asked: None)
    second = scene.faults.on("Heartbeat", lambda asked: asked.change(error_code=98))
    assert await beat(peer) == 98
    assert (first.calls, second.calls, rule.strikes) == (1, 1, 0)
    scene.faults.off(second)
    assert await beat(peer) == ErrorCode.NOT_COORDINATOR
    scene.faults.clear()
    assert await beat(peer) == UNKNOWN
    assert first.calls == 2
    with pytest.raises(UnknownFaultError, match="removed before"):
        scene.faults.off(second)
    assert not scene.faults.is_active


async def test_an_unknown_api(scene: Scene) -> None:
    """The error has the names that are similar."""
    with pytest.raises(FaultError, match="did you mean: OffsetCommit"):
        scene.faults.on("OffsetComit", lambda asked: None)
