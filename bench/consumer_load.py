"""Costs of a group of the consumer protocol (KIP-848), for a broker of any kind.

    python -m bench.consumer_load --bootstrap 127.0.0.1:9092 --pid PID --members 200

It plays the members, one connection each, and one partition for each of them, and
prints the CPU time of the broker's process (Linux): for a heartbeat, several of which
are under way on each connection; to form the group; and for each member when one more
comes and when it leaves, until all members have their partitions. Memory is the
growth of the process by the group.

Wall-clock times share the cores with this program: it prints none.
"""

from __future__ import annotations

import argparse
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.group_load import BUSY, DEPTH, Connection, frame_of, message_of
from bench.loading import Process

from kohort.protocol.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.protocol.errors import ErrorCode

_API: Final = "ConsumerGroupHeartbeat"
_LIMIT_S: Final = 600.0
WARM: Final = 20
"""Members of a group before the measured one, and its rounds: code is loaded, and
compiled where a broker does that."""
_BETWEEN_S: Final = 0.05
"""Pause between two rounds of heartbeats: a broker may compute assignments later."""


@dataclass
class _Member:
    """A member; its partitions are those that its last heartbeat was told.

    Attributes:
        connection: its own.
        id: its member id.
        epoch: its member epoch; 0 before it joins.
        owned: its partitions.
        tells: whether the next heartbeat has to have them.
    """

    connection: Connection
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    epoch: int = 0
    owned: Sequence[TopicPartitions] = ()
    tells: bool = False


class ConsumerLoad:
    """The members of a group.

    Args:
        address: the broker's.
        members: how many there are at first.
        topic: the topic that they subscribe to; it is created.
        group: its id.
    """

    def __init__(
        self, address: tuple[str, int], members: int, topic: str, group: str
    ) -> None:
        self._address = address
        self._topic = topic
        self._group = group
        self._partitions = members
        self._members: list[_Member] = []
        first = self._one_more()
        wanted = CreateTopicsRequest([CreatableTopic(topic, members, 1)])
        first.connection.send(frame_of("CreateTopics", wanted))
        first.connection.receive()
        self._members = [first, *(self._one_more() for _ in range(members - 1))]

    def close(self) -> None:
        """They are gone without a word."""
        for member in self._members:
            member.connection.close()

    def _one_more(self) -> _Member:
        return _Member(Connection(self._address))

    def _request(self, member: _Member) -> ConsumerGroupHeartbeatRequest:
        joins = member.epoch == 0
        return ConsumerGroupHeartbeatRequest(
            self._group,
            member.id,
            member.epoch,
            rebalance_timeout_ms=300_000 if joins else -1,
            subscribed_topic_names=[self._topic] if joins else None,
            topic_partitions=member.owned if joins or member.tells else None,
        )

    def _round(self, members: Iterable[_Member]) -> bool:
        """Each sends a heartbeat; returns whether any of them was told a change."""
        sending = [*members]
        for member in sending:
            member.connection.send(frame_of(_API, self._request(member)))
            member.tells = False
        changes = False
        for member in sending:
            changes |= self._hear(member)
        return changes

    def _hear(self, member: _Member) -> bool:
        frame = member.connection.receive()
        answer: ConsumerGroupHeartbeatResponse = message_of(_API, frame)
        assert answer.error_code == ErrorCode.NONE, answer
        changes = answer.member_epoch != member.epoch
        member.epoch = answer.member_epoch
        if answer.assignment is not None:
            member.owned = answer.assignment.topic_partitions
            member.tells = changes = True
        return changes

    def settle(self) -> int:
        """Sends heartbeats until all partitions have their owner; returns how many."""
        count, deadline = 0, time.monotonic() + _LIMIT_S
        while True:
            count += len(self._members)
            changes = self._round(self._members)
            owned = [
                partition
                for member in self._members
                for rows in member.owned
                for partition in rows.partitions
            ]
            epochs = {member.epoch for member in self._members}
            is_whole = len(owned) == len({*owned}) == self._partitions
            if is_whole and len(epochs) == 1 and not changes:
                return count
            assert time.monotonic() < deadline, "the group does not settle"
            time.sleep(_BETWEEN_S)

    def form(self) -> int:
        """All members join, and get their partitions; returns the heartbeats."""
        self._round(self._members)
        return self.settle()

    def grow(self) -> int:
        """One more member joins; returns the heartbeats until it is settled."""
        self._members.append(self._one_more())
        return self.settle()

    def shrink(self) -> int:
        """The last member leaves; returns the heartbeats until it is settled."""
        last = self._members.pop()
        leaving = ConsumerGroupHeartbeatRequest(self._group, last.id, -1)
        last.connection.send(frame_of(_API, leaving))
        last.connection.receive()
        last.connection.close()
        return self.settle()

    def heartbeat(self, times: int) -> int:
        """Some members send several heartbeats at once, `times` times; how many."""
        busy = self._members[:BUSY]
        frames = [DEPTH * frame_of(_API, self._request(member)) for member in busy]
        for _ in range(times):
            for member, data in zip(busy, frames, strict=True):
                member.connection.send(data)
            for member in busy:
                for _ in range(DEPTH):
                    self._hear(member)
        return times * DEPTH * len(busy)


def main() -> None:
    """Plays the group, and prints a line for each figure."""
    first = __doc__.partition("\n")[0]
    parser = argparse.ArgumentParser("bench.consumer_load", description=first)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    parser.add_argument("--pid", required=True, type=int, help="of the broker")
    parser.add_argument("--members", default=200, type=int)
    parser.add_argument("--changes", default=5, type=int, help="one more, one less")
    parser.add_argument("--heartbeats", default=100_000, type=int)
    args = parser.parse_args()
    host, _, port = args.bootstrap.rpartition(":")
    address, broker = (host, int(port)), Process(args.pid)
    name = f"load-{uuid.uuid4().hex[:8]}"
    warm = ConsumerLoad(address, WARM, f"{name}-warm", f"{name}-warm")
    warm.form()
    warm.heartbeat(WARM)
    for _ in range(WARM):
        warm.grow()
        warm.shrink()
    load = ConsumerLoad(address, args.members, name, name)
    before_s, before_mib = broker.cpu_s(), broker.mib("VmRSS")
    count = load.form()
    formed_ms = 1e3 * (broker.cpu_s() - before_s)
    memory_kb = 1024 * (broker.mib("VmRSS") - before_mib) / args.members
    print(f"form, CPU ms                   {formed_ms:10.1f}   ({count} heartbeats)")
    print(f"memory of a member, KB         {memory_kb:10.1f}")
    before_s = broker.cpu_s()
    beats = load.heartbeat(args.heartbeats // (DEPTH * min(BUSY, args.members)))
    beat_us = 1e6 * (broker.cpu_s() - before_s) / beats
    print(f"heartbeat, CPU us              {beat_us:10.1f}   ({beats} of them)")
    before_s, count = broker.cpu_s(), 0
    for _ in range(args.changes):
        count += load.grow() + load.shrink()
    changed_s = broker.cpu_s() - before_s
    changed_us = 1e6 * changed_s / (2 * args.changes * args.members)
    print(f"rebalance of a member, CPU us  {changed_us:10.1f}   ({count} heartbeats)")
    for each in (warm, load):
        each.close()


if __name__ == "__main__":
    main()
