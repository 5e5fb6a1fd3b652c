"""Signs of life: heartbeats, and polls."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.client.consuming import (
    Recorder,
    Stage,
    crash,
    is_shared,
    poll_until,
    shares,
)
from tests.client.sent import Sent

from kohort.client.errors import CommitFailedError
from kohort.protocol.errors import ErrorCode


@pytest.mark.parametrize("interval_ms", [100, 1_000])
async def test_a_member_learns_of_a_rebalance_by_its_heartbeat(
    stage: Stage, sent: Sent, interval_ms: int
) -> None:
    """Before its partitions are revoked, a heartbeat has told it.

    That the time until then follows heartbeat.interval.ms is shown on virtual time,
    in `test_session_life`.
    """
    await stage.fill([1, 1])
    listener = Recorder()
    async with stage.consumer(heartbeat_interval_ms=interval_ms) as a:
        a.subscribe([stage.topic], listener=listener)
        await poll_until(lambda: shares(a) == [2], a)
        member_id = sent.answered("SyncGroup", stage.group)[-1].request.member_id

        def told() -> list[int]:
            answered = sent.answered("Heartbeat", stage.group, member_id)
            return [each.response.error_code for each in answered]

        at_revocation: list[int] = []

        async def note(kind: str) -> None:
            if kind == "revoked" and not at_revocation:
                at_revocation.extend(told())

        listener.inside = note
        async with stage.member() as b:
            await poll_until(lambda: bool(at_revocation), a, b)
    assert at_revocation[-1] == ErrorCode.REBALANCE_IN_PROGRESS
    # A busy machine may bring another one before the listener's turn.
    assert set(at_revocation[:-1]) <= {0, ErrorCode.REBALANCE_IN_PROGRESS}


async def test_heartbeats_go_on_while_the_application_works(stage: Stage) -> None:
    """Without a poll for longer than the session timeout the member stays.

    Another one, with the same session timeout, is silent from then on: its group
    has put it out when the scene looks.
    """
    await stage.fill([1])
    silent_group = stage.name("silent")
    listener = Recorder()
    async with stage.consumer(session_timeout_ms=2_000) as a:
        a.subscribe([stage.topic], listener=listener)
        await poll_until(lambda: shares(a) == [1], a)
        silent = stage.member(group_id=silent_group, session_timeout_ms=2_000)
        await silent.start()
        await poll_until(lambda: shares(silent) == [1], silent)
        await stage.until_members(1, silent_group)
        await crash(silent)
        await stage.until_members(0, silent_group)
        await stage.until_members(1)
        await a.getmany()
        assert listener.kinds() == ["assigned"]


async def test_who_does_not_poll_leaves(
    stage: Stage, sent: Sent, caplog: pytest.LogCaptureFixture
) -> None:
    """max.poll.interval.ms (KIP-62): long before its session ends, and it says why.

    The others take what it had. It hears that it lost that when it polls again.
    """
    await stage.fill([1, 1])
    listener = Recorder()
    async with stage.consumer(
        max_poll_interval_ms=1_000, enable_auto_commit=False
    ) as a:
        a.subscribe([stage.topic], listener=listener)
        async with stage.member() as b:
            await poll_until(lambda: is_shared(2, a, b), a, b)
            had = a.assignment()
            listener.calls.clear()
            with caplog.at_level(logging.WARNING, "kohort.client"):
                await poll_until(lambda: shares(b) == [2], b)
            why = "no poll within max.poll.interval.ms (1000 ms)"
            (leave,) = sent.answered("LeaveGroup", stage.group)
            assert leave.request.members[0].reason == why
            assert leave.response.error_code == 0
            (warning,) = caplog.records
            assert why in warning.getMessage()
            assert stage.group in warning.getMessage()
            assert not listener.calls
            with pytest.raises(CommitFailedError) as caught:
                await a.commit(dict.fromkeys(had, 1))
            assert not caught.value.retriable
            await poll_until(lambda: is_shared(2, a, b), a, b)
            assert listener.calls[0] == ("lost", had)
            assert listener.kinds() == ["lost", "assigned"]


async def test_a_static_member_that_does_not_poll_falls_silent(
    stage: Stage, sent: Sent
) -> None:
    """KIP-345: it says nothing, and its place is kept until its session ends."""
    await stage.fill([1])
    settings = {"max_poll_interval_ms": 500, "session_timeout_ms": 2_000}
    async with stage.member(group_instance_id="i", **settings) as a:
        await poll_until(lambda: shares(a) == [1], a)
        # It polls until it was seen: from then on it is not a member for long.
        seen = asyncio.create_task(stage.until_members(1))
        await poll_until(seen.done, a)
        await seen
        await stage.until_members(0)
        assert not sent.of("LeaveGroup", stage.group)
        await poll_until(lambda: shares(a) == [1], a)
