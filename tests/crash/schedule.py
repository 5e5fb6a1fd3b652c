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


_MIX = [
    Moment.STABLE,
    Moment.SERVING,
    Moment.REBALANCE,
    Moment.START_UP,
    Moment.SERVING,
    Moment.STABLE,
    Moment.STABLE,
    Moment.SERVING,
    Moment.REBALANCE,
    Moment.START_UP,
    Moment.STABLE,
    Moment.SERVING,
]
"""A third of the kills hit Stable groups, a sixth each a rebalance and a start."""


def moments(kills: int, draw: random.Random) -> list[Moment]:
    """As many as there are to be kills, in an order that `draw` decides.

    The first one finds a broker that runs, so it is not its start-up.
    """
    found = list(islice(cycle(_MIX), kills))
    draw.shuffle(found)
    first = next(i for i, each in enumerate(found) if each is not Moment.START_UP)
    found[0], found[first] = found[first], found[0]
    return found
