"""Random consumer groups, and how kohort's assignors divide their partitions.

A group is a list of commands, which kohort (`Kohort`) and Kafka's own classes
(`assignors/src/Assignors.java`) play; both print the same results.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kohort.broker.coordinator.consumer.assignors import (
    ASSIGNORS,
    MemberSpec,
    meeting_order,
)
from kohort.broker.coordinator.consumer.topics_hash import group_hash, topic_hash
from kohort.broker.coordinator.topics import TopicImage

Json = dict[str, Any]
Assigned = Mapping[bytes, Sequence[int]]


# -- the commands


@dataclass
class _Script:
    """Makes the commands of one cluster and its group.

    Attributes:
        rng: the source of all choices.
        names: the topics' names; one may be of no topic.
        differing: how many of the members subscribe to topics of their own.
        members: the instance ids of the members, by id.
        count: the number of members so far.
    """

    rng: random.Random
    names: list[str]
    assignor: str
    differing: float
    members: dict[str, str | None] = field(default_factory=dict)
    count: int = 0

    def leave(self) -> Json:
        """A random member leaves."""
        member_id = self.rng.choice(list(self.members))
        del self.members[member_id]
        return {"do": "leave", "member": member_id}

    def assign(self) -> Json:
        """A member joins, comes back as a static member, or changes its topics."""
        rng = self.rng
        statics = [each for each in self.members.values() if each]
        what = rng.random()
        if self.members and what < 0.2:
            member_id = rng.choice(list(self.members))
            instance = self.members[member_id]
        else:
            member_id = self._member_id()
            instance = None
            if statics and what < 0.4:
                instance = rng.choice(statics)
            elif what < 0.6:
                instance = f"instance-{self.count}"
        for other_id, other in [*self.members.items()]:
            if instance is not None and other == instance:
                del self.members[other_id]
        self.members[member_id] = instance
        return {
            "do": "assign",
            "assignor": self.assignor,
            "member": member_id,
            "instance": instance,
            "rack": rng.choice([None, "a", "b"]),
            "topics": self._topics(),
        }

    def _member_id(self) -> str:
        self.count += 1
        if self.rng.random() < 0.2:
            name = self.rng.choice(["ana", "ßen", "😀", "AaBB", "BBAa"])
            return f"{name}{self.count}"
        return f"{self.rng.getrandbits(128):032x}"

    def _topics(self) -> list[str]:
        count = len(self.names)
        if self.rng.random() < self.differing:
            count = self.rng.randint(0, count)
        return self.rng.sample(self.names, count)


def _topics(rng: random.Random) -> list[Json]:
    topics = []
    for number in range(rng.choice([1, 1, 2, 3, 5, 8, 13, 20])):
        has_racks = rng.random() < 0.5
        racks = [
            sorted(rng.choices(["a", "rack-1", "rück"], k=rng.randint(0, 3)))
            if has_racks
            else []
            for _ in range(rng.choice([1, 2, 3, 7, 12, 20, 50, 130]))
        ]
        name = f"{rng.choice(['orders', 'a', 'x.y-z', 'Topic_'])}{number}"
        topics.append({"id": rng.randbytes(16).hex(), "name": name, "racks": racks})
    return topics


def commands_of(seed: int) -> Iterator[Json]:
    """Yields the commands of a random cluster and its group."""
    rng = random.Random(seed)
    topics = _topics(rng)
    names = [topic["name"] for topic in topics]
    if rng.random() < 0.3:
        names.append("missing")
    assignor = rng.choice(["uniform", "uniform", "range"])
    script = _Script(rng, names, assignor, rng.choice([0, 0, 0.3, 1]))
    yield {"do": "topics", "topics": topics}
    yield {"do": "group"}
    for _ in range(rng.choice([2, 5, 10, 40])):
        if script.members and rng.random() < 0.25:
            yield script.leave()
        if rng.random() < 0.1:
            grown = rng.choice(topics)
            more = [*grown["racks"], *[[]] * rng.randint(1, 5)]
            at = topics.index(grown)
            topics = [*topics[:at], {**grown, "racks": more}, *topics[at + 1 :]]
            yield {"do": "topics", "topics": topics}
        yield script.assign()


# -- kohort's side


@dataclass
class _Member:
    instance: str | None
    rack: str | None
    names: list[str]


class Kohort:
    """Plays commands, as Assignors.java does."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicImage] = {}
        self._begin()

    def _begin(self) -> None:
        self._members: dict[str, _Member] = {}
        self._target: dict[str, Assigned] = {}
        self._most = 0

    def play(self, commands: Iterable[Json]) -> Iterator[Any]:
        """Yields the results."""
        for command in commands:
            # Through JSON, which has lists for tuples.
            yield json.loads(json.dumps(self._play(command)))

    def _play(self, command: Json) -> Any:
        if command["do"] == "topics":
            return self._take_topics(command["topics"])
        if command["do"] == "assign":
            return self._assign(command)
        if command["do"] == "leave":
            self._members.pop(command["member"])
            self._target.pop(command["member"], None)
        else:
            self._begin()
        return True

    def _take_topics(self, topics: list[Json]) -> Json:
        self._topics = {
            each["name"]: TopicImage(
                bytes.fromhex(each["id"]), each["name"], each["racks"]
            )
            for each in topics
        }
        hashes = {name: topic_hash(topic) for name, topic in self._topics.items()}
        return {"topics": hashes, "group": group_hash(hashes)}

    def _assign(self, command: Json) -> Json:
        member_id, instance = command["member"], command["instance"]
        owners = (
            other_id
            for other_id, other in self._members.items()
            if instance is not None and other.instance == instance
        )
        replaced = next(owners, None)
        order = meeting_order(
            self._members, self._most, updated=member_id, replaced=replaced
        )
        is_other = replaced is not None and replaced != member_id
        if replaced is not None and is_other:
            del self._members[replaced]
            self._target[member_id] = self._target.pop(replaced, {})
        member = _Member(instance, command["rack"], command["topics"])
        self._members[member_id] = member
        self._most = max(self._most, len(self._members))
        result = ASSIGNORS[command["assignor"]](
            {each: self._spec(each) for each in order},
            {topic.topic_id: topic for topic in self._topics.values()},
            homogeneous=is_homogeneous(each.names for each in self._members.values()),
        )
        # A replacing member's target has no record yet, even if it is the same.
        return self._accept(result, {member_id} if is_other else set())

    def _spec(self, member_id: str) -> MemberSpec:
        member = self._members[member_id]
        found = [self._topics.get(name) for name in member.names]
        return MemberSpec(
            [each.topic_id for each in found if each is not None],
            member.instance,
            member.rack,
            self._target.get(member_id, {}),
            len(member.names),
        )

    def _accept(self, result: Mapping[str, Assigned], fresh: set[str]) -> Json:
        records = {}
        for each, assigned in result.items():
            old = None if each in fresh else self._target.get(each)
            if old is None or _sets(old) != _sets(assigned):
                self._target[each] = assigned
                records[each] = _printed(assigned)
        return _compared(
            {
                "assignment": {each: _printed(found) for each, found in result.items()},
                "records": records,
                "order": list(records),
            }
        )


def is_homogeneous(subscriptions: Iterable[list[str]]) -> bool:
    """Returns whether all members subscribe to the same names."""
    return len({frozenset(names) for names in subscriptions}) == 1


def _sets(assigned: Assigned) -> dict[bytes, set[int]]:
    return {topic_id: {*partitions} for topic_id, partitions in assigned.items()}


def _printed(assigned: Assigned) -> dict[str, list[int]]:
    return {topic_id.hex(): [*partitions] for topic_id, partitions in assigned.items()}


def compared(result: Any) -> Any:
    """A result: records are in order, the assignments of members are in none."""
    if not isinstance(result, dict) or "records" not in result:
        return result
    return _compared(result)


def _compared(result: Json) -> Json:
    return {
        "assignment": {
            each: {key: sorted(numbers) for key, numbers in assigned.items()}
            for each, assigned in result["assignment"].items()
            if assigned
        },
        "records": {
            each: [[*row] for row in found.items()]
            for each, found in result["records"].items()
        },
        "order": result["order"],
    }
