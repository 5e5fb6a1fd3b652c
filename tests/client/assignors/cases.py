"""The cases of tests/data/assignments: groups, and assignments of kafka-clients."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kohort.client.assignors import ASSIGNORS, cooperative, sticky
from kohort.client.assignors.claims import settle
from kohort.client.assignors.contract import (
    Assignment,
    MemberSubscription,
    PartitionRacks,
    TopicPartition,
)

DATA = Path(__file__).parents[2] / "data" / "assignments"
REMEMBER = {
    "sticky": sticky.remember,
    "cooperative-sticky": cooperative.remember,
}


@dataclass(frozen=True)
class Case:
    """A group, and the assignment of the Java client; None if it threw."""

    name: str
    assignor: str
    cluster: dict[str, list[PartitionRacks]]
    subscriptions: dict[str, MemberSubscription]
    java: Assignment | None

    def assign(self) -> Assignment:
        """The assignment of kohort."""
        return ASSIGNORS[self.assignor].assign(self.cluster, self.subscriptions)

    @property
    def is_equal(self) -> bool:
        """True if all members have the same topics."""
        return len({frozenset(s.topics) for s in self.subscriptions.values()}) == 1

    @property
    def has_lost_interest(self) -> bool:
        """True if a member has missed a rebalance, and has changed its topics since.

        The Java client assigns partitions of its old topics to it (or throws, if it
        has excluded that member): the only difference between the two.
        """
        if self.is_equal or self.assignor not in REMEMBER:
            return False
        existing = {
            (t, p.partition) for t, infos in self.cluster.items() for p in infos
        }
        claims = settle(self.subscriptions, existing, REMEMBER[self.assignor])
        return any(
            partition[0] not in self.subscriptions[member].topics
            for partition, member in claims.outdated.items()
        )


def partitions(text: str) -> list[TopicPartition]:
    """Parses "t:0,1 u:3" into partitions."""
    found: list[TopicPartition] = []
    for run in text.split():
        topic, _, numbers = run.rpartition(":")
        found += [(topic, int(number)) for number in numbers.split(",")]
    return found


def _infos(value: int | str) -> list[PartitionRacks]:
    if isinstance(value, int):
        return [PartitionRacks(number) for number in range(value)]
    racks = ([None if r == "-" else r for r in word] for word in value.split())
    return [PartitionRacks(number, each) for number, each in enumerate(racks)]


def _member(value: dict[str, Any]) -> MemberSubscription:
    data = value.get("data")
    return MemberSubscription(
        value["topics"].split(),
        None if data is None else bytes.fromhex(data),
        partitions(value.get("owned", "")),
        value.get("generation", -1),
        value.get("instance"),
        value.get("rack"),
    )


def read(lines: Iterable[str]) -> list[Case]:
    """The cases printed by Assignments.java."""
    return [
        Case(
            raw["name"],
            raw["assignor"],
            {topic: _infos(value) for topic, value in raw["topics"].items()},
            {member: _member(value) for member, value in raw["members"].items()},
            None
            if "error" in raw
            else {member: partitions(given) for member, given in raw["given"].items()},
        )
        for raw in map(json.loads, lines)
    ]
