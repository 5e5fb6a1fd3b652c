"""CPU seconds of a leader for the assignment of a large group.

    python -m bench.assignors
    python -m bench.assignors --members 2000 --partitions 10000 --topics 10

For each assignor: members with equal and with different subscriptions, without and
with racks; a new group, the same after a tenth of its members were replaced, and one
in which a single member has had all partitions.
"""

from __future__ import annotations

import argparse
import random
import time
import uuid

from kohort.client.assignors import ASSIGNORS
from kohort.client.assignors.contract import (
    Assignment,
    Assignor,
    MemberSubscription,
    PartitionRacks,
)

RACKS = "abc"
LIMIT_S = 3.0
"""Limit for 2,000 members by 10,000 partitions."""

Group = dict[str, MemberSubscription]
Cluster = dict[str, list[PartitionRacks]]


class Scene:
    """A cluster, and members that come and go."""

    def __init__(self, arguments: argparse.Namespace, *, racks: bool) -> None:
        self._dice = random.Random(1)
        self._racks = racks
        each = arguments.partitions // arguments.topics
        self.cluster: Cluster = {
            f"topic-{topic}": [
                PartitionRacks(n, self._dice.sample(RACKS, 2) if racks else ())
                for n in range(each)
            ]
            for topic in range(arguments.topics)
        }

    def members(self, count: int, *, equal: bool) -> Group:
        """New members, with ids like those that a broker gives."""
        topics = list(self.cluster)
        return {
            f"consumer-{n}-{uuid.UUID(int=self._dice.getrandbits(128))}": (
                MemberSubscription(
                    topics
                    if equal
                    else self._dice.sample(topics, self._dice.randint(1, len(topics))),
                    rack=self._dice.choice(RACKS) if self._racks else None,
                )
            )
            for n in range(count)
        }

    def after(
        self, assignor: Assignor, group: Group, given: Assignment, *, equal: bool
    ) -> Group:
        """The same a generation later, with a tenth of the members replaced."""
        leaving = set(self._dice.sample(list(group), len(group) // 10))
        staying = {m: s for m, s in group.items() if m not in leaving}
        return remember(assignor, staying, given) | self.members(
            len(leaving), equal=equal
        )


def remember(assignor: Assignor, group: Group, given: Assignment) -> Group:
    """The members, with their previous partitions."""
    eager = assignor.name != "cooperative-sticky"
    return {
        member: MemberSubscription(
            subscription.topics,
            assignor.metadata_user_data(given[member], 1),
            () if eager else given[member],
            1,
            None,
            subscription.rack,
        )
        for member, subscription in group.items()
    }


def timed(
    assignor: Assignor, cluster: Cluster, group: Group
) -> tuple[Assignment, float]:
    """An assignment, and its CPU seconds."""
    start = time.process_time()
    given = assignor.assign(cluster, group)
    return given, time.process_time() - start


def measure(
    assignor: Assignor, arguments: argparse.Namespace, *, racks: bool, equal: bool
) -> list[float]:
    """A new group, a changed one, one that starts from a single member."""
    scene = Scene(arguments, racks=racks)
    group = scene.members(arguments.members, equal=equal)
    given, new = timed(assignor, scene.cluster, group)
    changed = scene.after(assignor, group, given, equal=equal)
    _, later = timed(assignor, scene.cluster, changed)
    hub, *_ = scene.members(1, equal=True).items()
    single = dict([hub])
    all_of_it = assignor.assign(scene.cluster, single)
    crowd = remember(assignor, single, all_of_it) | group
    _, from_one = timed(assignor, scene.cluster, crowd)
    return [new, later, from_one]


def main() -> None:
    """Prints a row for each assignor and kind of group."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=2_000)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--topics", type=int, default=10)
    arguments = parser.parse_args()
    print(
        f"{arguments.members:,} members, {arguments.partitions:,} partitions of "
        f"{arguments.topics:,} topics; CPU seconds"
    )
    print(f"{'':20}{'':7}{'':11}{'new':>7}{'changed':>9}{'from one':>10}")
    worst = 0.0
    for name, assignor in ASSIGNORS.items():
        for racks in (False, True):
            for equal in (True, False):
                row = measure(assignor, arguments, racks=racks, equal=equal)
                worst = max(worst, *row)
                kinds = "racks" if racks else "", "equal" if equal else "different"
                print(f"{name:20}{kinds[0]:7}{kinds[1]:11}", end="")
                print(f"{row[0]:7.2f}{row[1]:9.2f}{row[2]:10.2f}")
    print(f"worst: {worst:.2f} s (limit for 2,000 by 10,000: {LIMIT_S:.0f} s)")


if __name__ == "__main__":
    main()
