"""The state of groups according to cluster and clients, and a topic's contents."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.crash.broker_process import BrokerError
from tests.crash.cluster_queries import ClusterQueries
from tests.crash.load import Group
from tests.librdkafka import row_of

READ_S = 120.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A Stable group: the state that a restart must not change."""

    generation: int
    protocol: str
    members: tuple[tuple[str, str | None, str, bytes, bytes], ...]


def members_of(described: Any) -> tuple[tuple[str, str | None, str, bytes, bytes], ...]:
    """The members in a DescribeGroups: their ids, subscriptions and assignments."""
    return tuple(
        sorted(
            (
                each.member_id,
                each.group_instance_id,
                each.client_id,
                bytes(each.member_metadata),
                bytes(each.member_assignment),
            )
            for each in described.members
        )
    )


def snapshot(group: Group, queries: ClusterQueries, partitions: int) -> Snapshot | None:
    """The group's state, if members and broker agree that it is settled; else None.

    DescribeGroups has no generation, so a heartbeat proves each member's.
    """
    told = [each for each in group.worker.tell() if each is not None]
    owned = sorted(place for each in told for place in each["partitions"])
    generations = {each["generation"] for each in told}
    if owned != list(range(partitions)) or len(generations) != 1:
        return None
    described = queries.describe(group.name)
    ids = sorted(each.member_id for each in described.members)
    if described.group_state != "Stable" or ids != sorted(m["member_id"] for m in told):
        return None
    (generation,) = generations
    found = Snapshot(
        generation,
        described.protocol_data,
        members_of(described),
    )
    return None if heartbeats(group.name, found, queries) else found


def heartbeats(group: str, wanted: Snapshot, queries: ClusterQueries) -> list[str]:
    """The members that the broker does not know in that generation."""
    found = []
    for member_id, instance, *_ in wanted.members:
        code = queries.heartbeat(group, wanted.generation, member_id, instance)
        if code:
            found.append(
                f"{group}: a heartbeat of {member_id} in generation "
                f"{wanted.generation} is answered with error {code}"
            )
    return found


def all_committed(
    names: Iterable[str], queries: ClusterQueries, topic: str, partitions: int
) -> dict[tuple[str, int], tuple[int, str]]:
    """Offset and metadata of each group and partition."""
    return {
        (name, place): found
        for name in names
        for place, found in queries.committed(name, topic, range(partitions)).items()
    }


def unsettle(group: Group, number: int, queries: ClusterQueries) -> None:
    """Makes a dynamic member leave and rejoin; returns once the group rebalances.

    Or has rebalanced: that may be over quickly, but not without a trace.
    """
    group.worker.until_bounced()
    before = members_of(queries.describe(group.name))
    group.worker.bounce(number)

    def unsettled() -> bool | None:
        now = queries.describe(group.name)
        is_so = now.group_state != "Stable" or members_of(now) != before
        return True if is_so else None

    queries.until(f"{group.name} rebalances", unsettled)


def _commits_of(group: Group) -> dict[str, int]:
    """The acknowledged commits of each member, by member id.

    Members without partitions have nothing to commit: with range, a leader of
    kafka-python 3.0 assigns nothing to some, if static and dynamic members are mixed.
    """
    told = [each for each in group.worker.tell() if each is not None]
    return {each["member_id"]: each["commits"] for each in told if each["partitions"]}


def until_members_commit(groups: Sequence[Group], queries: ClusterQueries) -> None:
    """Waits until each member with partitions has another acknowledged commit."""
    before = {group.name: _commits_of(group) for group in groups}
    for group in groups:

        def commit(group: Group = group) -> bool | None:
            known, now = before[group.name], _commits_of(group)
            return True if all(now[m] > known.get(m, 0) for m in now) else None

        queries.until(f"each member of {group.name} commits", commit)


def until_at_the_ends(
    names: Iterable[str], queries: ClusterQueries, topic: str, partitions: int
) -> None:
    """Waits until each of these groups has committed the end of every partition."""
    ends = queries.ends(topic)
    for name in names:

        def at_the_end(name: str = name) -> bool | None:
            committed = queries.committed(name, topic, range(partitions))
            got = [committed[place][0] for place in range(partitions)]
            return True if got == ends else None

        queries.until(f"{name} has committed {ends}", at_the_end)


def inspected(data: Path) -> dict[tuple[str, int], tuple[int, str]]:
    """Offsets and metadata by group and partition, according to `kohort inspect`.

    Raises:
        BrokerError: it finds damage.
    """
    done = subprocess.run(
        [sys.executable, "-m", "kohort", "inspect", "--json", str(data)],
        capture_output=True,
        text=True,
        timeout=READ_S,
        check=False,
    )
    if done.returncode:
        raise BrokerError(f"kohort inspect: {done.stdout[-1_000:]} {done.stderr}")
    return {
        (group["group_id"], each["partition"]): (each["offset"], each["metadata"])
        for group in json.loads(done.stdout)["groups"]
        for each in group["offsets"]
    }


def read_all(
    bootstrap: str, topic: str, ends: list[int]
) -> dict[int, list[tuple[int, bytes, bytes]]]:
    """Every record of the topic, by partition: offset, key, value."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "oracle",
            "enable.auto.commit": False,
            "check.crcs": True,
            "auto.offset.reset": "error",
        }
    )
    log: dict[int, list[tuple[int, bytes, bytes]]] = {i: [] for i in range(len(ends))}
    left = {place: end for place, end in enumerate(ends) if end}
    consumer.assign([TopicPartition(topic, place, 0) for place in left])
    deadline = time.monotonic() + READ_S
    while left:
        if time.monotonic() > deadline:
            raise BrokerError(f"not read in {READ_S:.0f} s: the partitions {left}")
        for message in consumer.consume(1_000, 1.0):
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            place, offset, key, value = row_of(message)
            log[place].append((offset, key, value))
            if offset + 1 >= left.get(place, 0):
                left.pop(place, None)
    consumer.close()
    return log
