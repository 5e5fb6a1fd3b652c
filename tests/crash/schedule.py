"""When a broker is killed: which moments, in which order."""

from __future__ import annotations

import enum
import random
from itertools import cycle, islice


class Moment(enum.Enum):
    """What a broker is doing when it is killed."""

    SERVING = "serving"  # from the moment that it accepts connections, uniformly
    STABLE = "stable"  # every group is Stable, and commits
    REBALANCE = (
        "rebalance"  # a group is in mid-rebalance, or a static member comes back
    )
    START_UP = "start-up"  # it recovers its logs, or loads
    TOPICS = "topics"  # a topic is being deleted, created, truncated, or grows
    QUICK = "quick succession"  # as at start-up, three times in a row
    FULL_DISK = "full disk"  # its writes fail from a moment on


_MIX = [
    Moment.STABLE,
    Moment.SERVING,
    Moment.REBALANCE,
    Moment.START_UP,
    Moment.TOPICS,
    Moment.QUICK,
    Moment.FULL_DISK,
    Moment.TOPICS,
    Moment.STABLE,
    Moment.SERVING,
    Moment.TOPICS,
    Moment.STABLE,
    Moment.TOPICS,
    Moment.REBALANCE,
    Moment.START_UP,
    Moment.STABLE,
    Moment.TOPICS,
    Moment.SERVING,
    Moment.TOPICS,
    Moment.STABLE,
]
"""A quarter of the kills hits Stable groups, 30 % a change of topics."""


def moments(kills: int, draw: random.Random) -> list[Moment]:
    """As many as there are to be kills, in an order that `draw` decides.

    The first one finds a broker that runs, so it is not its start-up.
    """
    found = list(islice(cycle(_MIX), kills))
    draw.shuffle(found)
    starting = {Moment.START_UP, Moment.QUICK}
    first = next(i for i, each in enumerate(found) if each not in starting)
    found[0], found[first] = found[first], found[0]
    return found
