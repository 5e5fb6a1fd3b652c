"""The moments of kills and their order."""

from __future__ import annotations

import enum
import random
from itertools import cycle, islice


class Moment(enum.Enum):
    """The activity of a broker when it is killed."""

    SERVING = "serving"  # uniformly, from the moment that it accepts connections
    STABLE = "stable"  # every group is Stable, and commits
    REBALANCE = "rebalance"  # a group is rebalancing, or a static member returns
    START_UP = "start-up"  # it recovers its logs, or loads
    TOPICS = "topics"  # a topic is being deleted, created, truncated, or grown
    QUICK = "quick succession"  # as at start-up, three times in a row
    FULL_DISK = "full disk"  # its writes begin to fail


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
    """This many moments, in a random order.

    The first one finds a running broker, so it is not its start-up.
    """
    found = list(islice(cycle(_MIX), kills))
    draw.shuffle(found)
    starting = {Moment.START_UP, Moment.QUICK}
    first = next(i for i, each in enumerate(found) if each not in starting)
    found[0], found[first] = found[first], found[0]
    return found
