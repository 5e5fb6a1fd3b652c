"""With jitter, responses are whole, in order, and the same as without it."""

from __future__ import annotations

import asyncio
import itertools

from hypothesis import given
from hypothesis import strategies as st
from tests.faults.scene import BEAT, Scene
from tests.wire.requests import commit_offsets, fetch, join_group, metadata

REQUESTS = (
    ("Heartbeat", 4, BEAT),
    ("Metadata", 12, metadata("t")),
    ("Fetch", 11, fetch(0, wait_ms=100)),
    ("JoinGroup", 9, join_group("g", "unknown")),
    ("OffsetCommit", 8, commit_offsets("t", *((i, 1, -1, "") for i in range(2000)))),
)


async def answered(chosen: list[int], cuts: list[int], jitter_ms: int) -> list[bytes]:
    """The responses to requests that arrive in pieces, cut at these places."""
    scene = Scene()
    if jitter_ms:
        scene.faults.jitter(len(chosen), jitter_ms)
    peer = scene.peer()
    data = b"".join(peer.frame(*REQUESTS[index]) for index in chosen)
    places = sorted({place % (len(data) + 1) for place in cuts} | {0, len(data)})
    for start, end in itertools.pairwise(places):
        peer.connection.data_received(data[start:end])
        await scene.after(0.001)
    for _ in range(20 * len(chosen)):
        await scene.after(0.05)
    return peer.whole


@given(
    st.lists(st.integers(0, len(REQUESTS) - 1), min_size=1, max_size=6),
    st.lists(st.integers(0, 100_000), max_size=5),
    st.integers(1, 200),
)
def test_jitter_changes_no_answer(
    chosen: list[int], cuts: list[int], jitter_ms: int
) -> None:
    """Any requests, any cuts, and any delay."""
    late = asyncio.run(answered(chosen, cuts, jitter_ms))
    assert len(late) == len(chosen)
    assert late == asyncio.run(answered(chosen, cuts, 0))
