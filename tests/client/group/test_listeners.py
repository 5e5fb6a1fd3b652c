"""Calls of the listener: their partitions and their order."""

from __future__ import annotations

import logging

import pytest
from tests.client.sent_requests import SentRequests
from tests.client.stage import (
    Recorder,
    Stage,
    either_protocol,
    is_shared,
    poll_until,
    shares,
)

from kohort.client.errors import CommitFailedError


def counts(listener: Recorder) -> list[tuple[str, int]]:
    """Its calls, with the number of partitions."""
    return [(kind, len(places)) for kind, places in listener.calls]


@either_protocol
async def test_who_does_not_poll_leaves(
    stage: Stage, sent: SentRequests, caplog: pytest.LogCaptureFixture
) -> None:
    """max.poll.interval.ms (KIP-62): long before its session ends, with a reason.

    The others get its partitions. Its next poll calls the listener about the loss.
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
            # On a slow machine it may have left before they shared, too.
            leave = sent.leaves(stage.group)[-1]
            assert leave.response.error_code == 0
            if stage.is_classic:
                assert leave.request.members[0].reason == why
            warning = caplog.records[-1]
            assert why in warning.getMessage()
            assert stage.group in warning.getMessage()
            assert not listener.calls
            with pytest.raises(CommitFailedError) as caught:
                await a.commit(dict.fromkeys(had, 1))
            assert not caught.value.retriable
            await poll_until(lambda: is_shared(2, a, b), a, b)
            assert listener.calls[0] == ("lost", had)
            # The consumer protocol may assign nothing before others have revoked.
            assert set(listener.kinds()[1:]) == {"assigned"}
