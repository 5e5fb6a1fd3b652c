"""The plan of the afternoon, as data: teams of pods, and the actions on them.

Times are in minutes of an afternoon of 30; a shorter one has them all the sooner,
but for session timeouts, which stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MINUTES: Final = 30.0
"""How long the plan is."""
GROUP_MAX_SIZE: Final = 4
"""The broker's setting (KIP-389): for a while `audit` has more pods than that."""
PARTITIONS: Final = 12
"""Partitions of each group's topic."""
WRITTEN: Final = 40
"""Records per second that are written to each topic, all the while."""


@dataclass(frozen=True, slots=True)
class Team:
    """The pods of one group.

    Attributes:
        group: the group's id, and its topic's name.
        library: which client they use: a name of `bench.afternoon.pod`.
        assignor: how they divide.
        pods: how many there are, at the most.
        session_ms: their session timeout.
        heartbeat_ms: how often they are heard of, and hear of a rebalance.
        speed: records per second that one of them can process.
    """

    group: str
    library: str
    assignor: str
    pods: int
    session_ms: int
    heartbeat_ms: int
    speed: int


TEAMS: Final = (
    Team("billing", "librdkafka", "range", 4, 45_000, 3_000, 20),
    Team("shipping", "aiokafka", "roundrobin", 3, 8_000, 2_000, 25),
    Team("audit", "kohort", "cooperative-sticky", 6, 10_000, 3_000, 25),
)


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that is done.

    Attributes:
        at: in minutes of the plan.
        do: `start`; `stop` (SIGTERM); `restart` (SIGTERM, and started again once it
            is gone); `crash` (SIGKILL, and started again after `RESTART_S`); `stall`
            (SIGSTOP for `STALL_S`, then SIGCONT).
        group: whose pod.
        pod: which, from 0.
        why: the incident that it is part of.
    """

    at: float
    do: str
    group: str
    pod: int
    why: str


RESTART_S: Final = 4.0
"""After a crash: well before the session of the dead one is over."""
STALL_S: Final = 14.0
"""Longer than the session of a pod of `shipping`."""
BACKOFF_S: Final = 10.0
"""A pod that ended by itself, as one does that was refused, is started again then."""


def acts() -> Iterator[Act]:
    """All acts; a quick second rolling restart has to be a storm."""
    for pod in range(4):
        yield Act(0.1 + pod * 0.02, "start", "billing", pod, "the first start")
    for pod in range(3):
        yield Act(0.2 + pod * 0.02, "start", "shipping", pod, "the first start")
        yield Act(0.3 + pod * 0.02, "start", "audit", pod, "the first start")
    for pod in range(4):
        yield Act(4 + pod * 0.5, "restart", "billing", pod, "a rolling restart")
    for crash in range(10):
        yield Act(8 + crash * 0.5, "crash", "shipping", 2, "a crash loop")
    for pod in range(3, 6):
        at = 15 + (pod - 3) * 0.1
        yield Act(at, "start", "audit", pod, "scaled up beyond group.max.size")
        yield Act(21.0, "stop", "audit", pod, "scaled down again")
    yield Act(18.0, "stall", "shipping", 0, "a pod stands still")
    for pod in range(4):
        yield Act(24 + pod * 0.15, "restart", "billing", pod, "a hasty rolling restart")
