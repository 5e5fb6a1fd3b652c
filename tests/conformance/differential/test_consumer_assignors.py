"""Kohort's assignors of consumer groups beside those of Apache Kafka 4.3."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.workers.libraries import _build_java, _built, need

from kohort.broker.coordinator.consumer.assignors import (
    ASSIGNORS,
    MemberSpec,
    meeting_order,
)
from kohort.broker.coordinator.consumer.topics_hash import group_hash, topic_hash
from kohort.broker.coordinator.topics import TopicImage

HERE = Path(__file__).parent
SMALL = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
TIMEOUT_S = 300.0
CLUSTERS = 1000

Json = dict[str, Any]
Target = dict[str, dict[bytes, list[int]]]


@pytest.fixture(scope="module")
def class_path() -> str:
    """The program and Kafka's group coordinator, built once."""
    need("java", "mvn")
    target = _built(HERE / "assignors", _build_java) / "target"
    return f"{target / 'classes'}:{target / 'dependency' / '*'}"


@dataclass
class Member:
    """A member's subscription; its names may be of topics that do not exist."""

    instance: str | None
    rack: str | None
    names: list[str]


@dataclass
class Group:
    """Kohort's side of a group that Java plays, too."""

    rng: random.Random
    topics: dict[str, TopicImage]
    assignor: str
    differing: float
    """How many of the members subscribe to topics of their own."""
    all_names: list[str] = field(default_factory=list)
    members: dict[str, Member] = field(default_factory=dict)
    target: Target = field(default_factory=dict)
    most: int = 0
    count: int = 0

    def leave(self) -> Json:
        """A random member leaves."""
        member_id = self.rng.choice(list(self.members))
        del self.members[member_id]
        self.target.pop(member_id, None)
        return {"do": "leave", "member": member_id}

    def join(self) -> tuple[Json, Json]:
        """A member joins, comes back as a static member, or changes its topics.

        Returns:
            The command, and kohort's result.
        """
        rng = self.rng
        statics = [each.instance for each in self.members.values() if each.instance]
        what = rng.random()
        if self.members and what < 0.2:
            member_id = rng.choice(list(self.members))
            member = Member(
                self.members[member_id].instance,
                self.members[member_id].rack,
                self._names(),
            )
        else:
            member_id = self._member_id()
            instance = None
            if statics and what < 0.4:
                instance = rng.choice(statics)
            elif what < 0.6:
                instance = f"instance-{self.count}"
            rack = rng.choice([None, "a", "b"])
            member = Member(instance, rack, self._names())
        return self._assign(member_id, member)

    def _member_id(self) -> str:
        self.count += 1
        if self.rng.random() < 0.2:
            return (
                f"{self.rng.choice(['ana', 'ßen', '😀', 'AaBB', 'BBAa'])}{self.count}"
            )
        return f"{self.rng.getrandbits(128):032x}"

    def _names(self) -> list[str]:
        if self.rng.random() < self.differing:
            count = self.rng.randint(0, len(self.all_names))
            return self.rng.sample(self.all_names, count)
        return self.rng.sample(self.all_names, len(self.all_names))

    def _assign(self, member_id: str, member: Member) -> tuple[Json, Json]:
        replaced = next(
            (
                other_id
                for other_id, other in self.members.items()
                if member.instance and other.instance == member.instance
            ),
            None,
        )
        order = meeting_order(
            self.members, self.most, updated=member_id, replaced=replaced
        )
        if replaced not in (None, member_id):
            del self.members[replaced or ""]
            self.target[member_id] = self.target.pop(replaced or "", {})
        members = {**self.members, member_id: member}
        homogeneous = len({frozenset(each.names) for each in members.values()}) == 1
        specs = {each: self._spec(each, members[each]) for each in order}
        by_id = {topic.topic_id: topic for topic in self.topics.values()}
        result = ASSIGNORS[self.assignor](specs, by_id, homogeneous=homogeneous)
        command = {
            "do": "assign",
            "member": member_id,
            "assignor": self.assignor,
            "instance": member.instance,
            "rack": member.rack,
            "topics": member.names,
            "type": "HOMOGENEOUS" if homogeneous else "HETEROGENEOUS",
        }
        self.members[member_id] = member
        self.most = max(self.most, len(self.members))
        return command, self._accept(member_id, replaced, result)

    def _spec(self, member_id: str, member: Member) -> MemberSpec:
        found = [self.topics.get(name) for name in member.names]
        return MemberSpec(
            [each.topic_id for each in found if each is not None],
            member.instance,
            member.rack,
            self.target.get(member_id, {}),
            len(member.names),
        )

    def _accept(self, member_id: str, replaced: str | None, result: Any) -> Json:
        """Keeps the members' new targets; returns them as Java prints them."""
        fresh = {member_id} if replaced not in (None, member_id) else set()
        records: Json = {}
        for each, assigned in result.items():
            # A replacing member's target has no record yet, even if it is the same.
            old = None if each in fresh else self.target.get(each)
            now = {topic_id: set(numbers) for topic_id, numbers in assigned.items()}
            if old is None or now != {key: set(old[key]) for key in old}:
                self.target[each] = {key: list(assigned[key]) for key in assigned}
                records[each] = printed(assigned)
        return {
            "assignment": {
                each: {key: sorted(found) for key, found in printed(assigned).items()}
                for each, assigned in result.items()
                if assigned
            },
            "records": {each: list(found.items()) for each, found in records.items()},
            "order": list(records),
        }


def printed(assigned: Any) -> dict[str, list[int]]:
    """An assignment in JSON."""
    return {topic_id.hex(): list(numbers) for topic_id, numbers in assigned.items()}


def cluster(rng: random.Random) -> dict[str, TopicImage]:
    """Random topics, some of them with racks."""
    topics = {}
    for number in range(rng.choice([1, 1, 2, 3, 5, 8, 13, 20])):
        name = f"{rng.choice(['orders', 'a', 'x.y-z', 'Topic_'])}{number}"
        partitions = rng.choice([1, 2, 3, 7, 12, 20, 50, 130])
        has_racks = rng.random() < 0.5
        racks = [
            sorted(rng.choices(["a", "rack-1", "rück"], k=rng.randint(0, 3)))
            if has_racks
            else []
            for _ in range(partitions)
        ]
        topics[name] = TopicImage(rng.randbytes(16), name, racks)
    return topics


def described(topics: dict[str, TopicImage]) -> tuple[Json, Json]:
    """The command that gives topics to Java, and kohort's hashes of them."""
    rows = [
        {"id": topic.topic_id.hex(), "name": name, "racks": topic.racks}
        for name, topic in topics.items()
    ]
    hashes = {name: topic_hash(topic) for name, topic in topics.items()}
    return {"do": "topics", "topics": rows}, {
        "topics": hashes,
        "group": group_hash(hashes),
    }


def played(seed: int) -> Iterator[tuple[Json, Any]]:
    """The commands of a cluster, and kohort's results."""
    rng = random.Random(seed)
    topics = cluster(rng)
    group = Group(
        rng,
        topics,
        rng.choice(["uniform", "uniform", "range"]),
        rng.choice([0, 0, 0.3, 1]),
    )
    group.all_names = [*topics, *(["missing"] if rng.random() < 0.3 else [])]
    yield described(topics)
    yield {"do": "group"}, True
    for _ in range(rng.choice([2, 5, 10, 40])):
        if group.members and rng.random() < 0.25:
            yield group.leave(), True
        if rng.random() < 0.1:
            name = rng.choice(list(topics))
            old = topics[name]
            more = [*old.racks, *[[]] * rng.randint(1, 5)]
            topics[name] = TopicImage(old.topic_id, name, more)
            yield described(topics)
        yield group.join()


def as_compared(result: Any) -> Any:
    """A result of Java: the records in their order, the assignments in none."""
    if not isinstance(result, dict) or "records" not in result:
        return result
    return {
        "assignment": {
            each: {key: sorted(numbers) for key, numbers in assigned.items()}
            for each, assigned in result["assignment"].items()
            if assigned
        },
        "records": {
            each: list(found.items()) for each, found in result["records"].items()
        },
        "order": result["order"],
    }


@pytest.mark.interop
def test_random_groups_are_assigned_as_by_kafka(class_path: str) -> None:
    """Partition for partition, and record for record; the topics have equal hashes."""
    steps = [step for seed in range(CLUSTERS) for step in played(seed)]
    commands = "".join(f"{json.dumps(command)}\n" for command, _ in steps)
    done = subprocess.run(
        ["java", *SMALL, "-cp", class_path, "Assignors"],
        input=commands,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(steps) > 10 * CLUSTERS
    for (command, ours), line in zip(steps, lines, strict=True):
        # Both through JSON, which has lists for tuples.
        theirs = as_compared(json.loads(line))
        assert json.loads(json.dumps(ours)) == json.loads(json.dumps(theirs)), command
