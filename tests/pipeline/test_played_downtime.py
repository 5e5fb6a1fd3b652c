"""Downtime of played groups: the broker's accounts against the scripts."""

from __future__ import annotations

import pytest
from bench.pipeline.lives import HEARTBEAT_S
from tests.pipeline.events import with_accounts
from tests.pipeline.played_scenes import SCRIPTS, played

NEAR = 0.06
"""Clients look every quarter of a second, so that a script knows its times to that."""
UNNOTICED = frozenset({"crash", "doomed", "hang"})


def unnoticed_s(name: str) -> float:
    """Partition-seconds by which the broker sees processes end earlier than they do.

    A crash, a hang, and the stop of a static member count from the last heartbeat.
    """
    script = SCRIPTS[name]
    silent = UNNOTICED | ({"stop"} if script.kind.is_static else set())
    times = sum(what in silent for _, what, _ in script.steps)
    # Of a crashed member's partitions others have taken some when it has a small share.
    share = script.kind.partitions / (script.kind.members - 1)
    return times * HEARTBEAT_S * (share + 1)


@pytest.mark.parametrize("name", SCRIPTS)
def test_downtime_is_that_of_the_script(name: str) -> None:
    """Accounts count the time in which no process read a partition, whatever the cause.

    Never less than that; more only by the time from a last heartbeat to a crash.
    """
    accounts = [
        event
        for event in with_accounts(played(name).events("r", "g"))
        if event["kind"] in {"rebalance_account", "unread_account"}
    ]
    downtime_s = sum(account["unread_ns"] for account in accounts) / 1e9
    truth_s = played(name).downtime_s
    assert truth_s * (1 - NEAR) <= downtime_s
    assert downtime_s <= truth_s * (1 + NEAR) + unnoticed_s(name)
