"""Effects on requests that wait, and on long ones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.faults.scene import Scene
from tests.wire.requests import commit_offsets, join_group

from kohort.protocol.errors import ErrorCode


@pytest.mark.parametrize(
    ("keys", "answers", "is_closed", "has_joined"),
    [
        ({"error": "NOT_COORDINATOR"}, 1, False, False),
        ({"swallow": True}, 0, False, False),
        ({"disconnect": "before"}, 0, True, False),
        ({"disconnect": "after"}, 0, True, True),
        ({"delay_ms": 500}, 1, False, True),
        ({"throttle_ms": 500}, 1, False, True),
        ({"duplicate": True}, 1, False, True),
        ({"stale": True}, 1, False, True),
        ({"corrupt": True}, 1, False, True),
        ({"truncate": True}, 0, True, True),
        ({"trickle_ms": 1}, 1, False, True),
        ({"jitter_ms": 500}, 1, False, True),
        ({"black_hole": True, "for_seconds": 5}, 1, False, True),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
async def test_a_join_that_waits(
    scene: Scene, keys: dict[str, Any], answers: int, is_closed: bool, has_joined: bool
) -> None:
    """Each effect works on a join that waits for another member to rejoin."""
    first, second = scene.peer(), scene.peer()
    joined = await first.join()
    offered = await second.call("JoinGroup", 9, join_group("g"))
    scene.faults.add({"connection": 2, **keys})
    second.send("JoinGroup", 9, join_group("g", offered.member_id))
    await scene.after(6)
    first.send("JoinGroup", 9, join_group("g", joined.member_id))
    await scene.after(1)
    await scene.after(1)
    assert (len(second.whole) - 1, second.is_closed) == (answers, is_closed)
    (group,) = scene.cluster.shards.groups()
    assert (offered.member_id in group.members) == has_joined


async def test_a_long_request_meets_its_rule(scene: Scene) -> None:
    """It is decoded in pieces, and its response is made in pieces."""
    peer = scene.peer()
    scene.faults.fail("OffsetCommit", "NOT_COORDINATOR", partition=9_999)
    rows = [(index, 1, -1, "") for index in range(10_000)]
    peer.send("OffsetCommit", 8, commit_offsets("t", *rows))
    assert peer.whole == []
    await scene.settled()
    (answer,) = peer.answers
    codes = Counter(row.error_code for row in answer.topics[0].partitions)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {ErrorCode.NONE: 2, unknown: 9_997, ErrorCode.NOT_COORDINATOR: 1}
