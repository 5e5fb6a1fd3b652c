"""A fixed amount of load on one group, over the wire: the same requests every time.

The load generator of the benchmark runs for a given time; this one repeats its
requests a given number of times, so that a broker has the same work in every run, on a
fast or a slow machine. With the broker's process id it also pauses the broker while
requests are sent, so that they arrive in the same groups.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.wire import frames

from kohort.protocol.apis.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kohort.protocol.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.apis.k11_join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.apis.k14_sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from kohort.protocol.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.consumer import Subscription, encode
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record, build_batch

VERSIONS = {
    "Produce": 9,
    "Fetch": 12,
    "Metadata": 9,
    "DescribeGroups": 5,
    "JoinGroup": 7,
    "SyncGroup": 5,
    "Heartbeat": 4,
    "OffsetCommit": 8,
    "CreateTopics": 4,
    "ConsumerGroupHeartbeat": 1,
}
"""API versions: those of the load generator for groups and topics."""

PARTITIONS = 10
"""Partitions of a commit, and those that records are produced to."""
RECORDS = 100
"""Records of a batch, of 1,000 bytes each."""
FETCHED = 10
"""Batches of a partition that a fetch returns, 1 MB."""
DEPTH = 8
"""Heartbeats or commits under way on a connection."""
BUSY = 64
"""Members that send those."""

ANSWER_S = 300.0
"""Time limit of an answer; none takes that long even fifty times slower than usual."""
_TOPIC = "loadgen"


@contextlib.contextmanager
def paused(pid: int | None) -> Iterator[None]:
    """Stops a process for the duration of the block, if there is one.

    A broker that is stopped while requests are sent finds all of them in one turn of
    its event loop: on a fast or a slow machine they arrive in the same groups.
    """
    if pid is None:
        yield
        return
    os.kill(pid, signal.SIGSTOP)
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            while (task / "stat").read_text().rpartition(")")[2].split()[0] != "T":
                time.sleep(0)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class Connection:
    """A connection of a member."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._in = self._socket.makefile("rb")

    def send(self, frames: bytes) -> None:
        """Sends requests."""
        self._socket.sendall(frames)

    def receive(self) -> bytes:
        """Returns the next response, without its size."""
        (size,) = struct.unpack(">i", self._in.read(4))
        return self._in.read(size)

    def close(self) -> None:
        """Closes the connections without LeaveGroup."""
        self._in.close()
        self._socket.close()


def frame_of(name: str, message: object) -> bytes:
    """A request of the version in VERSIONS, framed."""
    return frames.request(name, VERSIONS[name], message, client_id="bench")


def message_of(name: str, frame: bytes) -> Any:
    """Decodes the response to a request of this API."""
    return frames.response(name, VERSIONS[name], frame)


class GroupLoad:
    """The members of a group, one connection each; they are in it once it is made.

    Args:
        address: the broker's; its initial rebalance delay has to be 0.
        members: how many.
        group: its id.
        busy: members that send heartbeats and commits.
        pid: the broker's process, to be paused while requests are sent.
    """

    def __init__(
        self,
        address: tuple[str, int],
        members: int,
        group: str = "g",
        *,
        busy: int = BUSY,
        pid: int | None = None,
    ) -> None:
        self._group = group
        self._busy = min(busy, members)
        self._pid = pid
        self._connections = [Connection(address) for _ in range(members)]
        self._ids = [""] * members
        self._numbers = itertools.count()
        self._correlation_ids = itertools.count()
        self._generation = 0
        self._offset = 0
        topic = CreateTopicsRequest([CreatableTopic(_TOPIC, PARTITIONS, 1)])
        self._connections[0].send(frame_of("CreateTopics", topic))
        self._connections[0].receive()
        self._form()

    def close(self) -> None:
        """They are gone without a word."""
        for connection in self._connections:
            connection.close()

    def _join(self, who: Iterable[int], user_data: bytes) -> None:
        offer = encode(Subscription([_TOPIC], user_data))
        protocols = [JoinGroupRequestProtocol("range", offer)]
        for i in who:
            client = (
                self._group,
                300_000,
                300_000,
                self._ids[i],
                None,
                "consumer",
                protocols,
            )
            frame = frame_of("JoinGroup", JoinGroupRequest(*client))
            self._connections[i].send(frame)

    def _joined(self, i: int) -> Any:
        return message_of("JoinGroup", self._connections[i].receive())

    def _form(self) -> None:
        everybody = range(len(self._ids))
        for i in everybody:
            self._join([i], b"")
            given = self._joined(i)
            assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
            self._ids[i] = given.member_id
        # The first one is a generation by itself; then it changes its mind.
        self._join([0], b"")
        assert self._joined(0).error_code == ErrorCode.NONE
        self._join(everybody, b"again")
        self._divide()

    def _divide(self) -> None:
        """Reads the answers of all joins, and syncs; half of the members too early."""
        replies = [self._joined(i) for i in range(len(self._ids))]
        assert {reply.error_code for reply in replies} == {ErrorCode.NONE}
        (self._generation,) = {reply.generation_id for reply in replies}
        leader = self._ids.index(replies[0].leader)
        assigned = [SyncGroupRequestAssignment(each, bytes(32)) for each in self._ids]
        followers = [i for i in range(len(self._ids)) if i != leader]
        half = len(followers) // 2
        with paused(self._pid):
            for i in (*followers[:half], leader, *followers[half:]):
                made = assigned if i == leader else []
                place = (
                    self._group,
                    self._generation,
                    self._ids[i],
                    None,
                    "consumer",
                    "range",
                    made,
                )
                frame = frame_of("SyncGroup", SyncGroupRequest(*place))
                self._connections[i].send(frame)
        for connection in self._connections:
            answer = message_of("SyncGroup", connection.receive())
            assert answer.error_code == ErrorCode.NONE

    def churn(self, times: int) -> int:
        """All members rejoin with new metadata, and sync; `times` times.

        Returns:
            How many members did so, a member counted each time.
        """
        for _ in range(times):
            user_data = struct.pack("<H", next(self._numbers))
            with paused(self._pid):
                self._join(range(len(self._ids)), user_data)
            self._divide()
        return times * len(self._ids)

    def heartbeat(self, times: int) -> int:
        """All members send several heartbeats at once; `times` times.

        Returns:
            How many heartbeats that was.
        """
        place = (self._group, self._generation)
        frames = [
            DEPTH * [frame_of("Heartbeat", HeartbeatRequest(*place, member_id))]
            for member_id in self._ids[: self._busy]
        ]
        for _ in range(times):
            self._pipelined("Heartbeat", frames)
        return times * DEPTH * len(frames)

    def in_turn(self) -> int:
        """Each member sends one heartbeat, when that of the one before is answered.

        Returns:
            How many heartbeats that was.
        """
        for connection, member_id in zip(self._connections, self._ids, strict=True):
            place = (self._group, self._generation, member_id)
            connection.send(frame_of("Heartbeat", HeartbeatRequest(*place)))
            answer = message_of("Heartbeat", connection.receive())
            assert answer.error_code == ErrorCode.NONE
        return len(self._ids)

    def commit(self, times: int) -> int:
        """All members commit some partitions, several times at once; `times` times.

        Returns:
            How many commits that was.
        """
        for _ in range(times):
            self._pipelined(
                "OffsetCommit",
                [
                    [self._commit_of(member_id) for _ in range(DEPTH)]
                    for member_id in self._ids[: self._busy]
                ],
            )
        return times * DEPTH * self._busy

    def _commit_of(self, member_id: str) -> bytes:
        self._offset += 1
        rows = [
            OffsetCommitRequestPartition(p, self._offset) for p in range(PARTITIONS)
        ]
        topics = [OffsetCommitRequestTopic(_TOPIC, partitions=rows)]
        place = (self._group, self._generation, member_id)
        return frame_of("OffsetCommit", OffsetCommitRequest(*place, topics=topics))

    def produce(self, times: int) -> float:
        """Appends a batch to each partition, all at once; `times` times.

        Returns:
            How many megabytes that was.
        """
        now = time.time_ns() // 1_000_000  # retention does not delete it
        records = [Record(i, now, None, bytes(1_000)) for i in range(RECORDS)]
        batch = build_batch(records)
        frames = b""
        for partition in range(PARTITIONS):
            data = [PartitionProduceData(partition, batch)]
            topics = [TopicProduceData(_TOPIC, partition_data=data)]
            frames += frame_of("Produce", ProduceRequest(None, -1, 10_000, topics))
        connection = self._connections[0]
        for _ in range(times):
            with paused(self._pid):
                connection.send(frames)
            for _ in range(PARTITIONS):
                answer = message_of("Produce", connection.receive())
                (row,) = answer.responses[0].partition_responses
                assert row.error_code == ErrorCode.NONE
        return times * PARTITIONS * len(batch) / 1e6

    def fetch(self, times: int) -> float:
        """Fetches the first batches of each partition, one by one; `times` times.

        Each partition has to have `FETCHED` batches.

        Returns:
            How many megabytes that was.
        """
        total = 0
        for partition in times * [*range(PARTITIONS)]:
            rows = [FetchPartition(partition, partition_max_bytes=1 << 20)]
            topics = [FetchTopic(_TOPIC, partitions=rows)]
            request = FetchRequest(max_wait_ms=100, min_bytes=1, topics=topics)
            with paused(self._pid):
                self._connections[0].send(frame_of("Fetch", request))
            answer = message_of("Fetch", self._connections[0].receive())
            (row,) = answer.responses[0].partitions
            assert row.error_code == ErrorCode.NONE
            total += len(row.records)
        return total / 1e6

    def _pipelined(self, name: str, frames: list[list[bytes]]) -> None:
        """Sends each connection its requests, and reads the responses."""
        busy = self._connections[: len(frames)]
        with paused(self._pid):
            for connection, requests in zip(busy, frames, strict=True):
                connection.send(b"".join(map(self._numbered, requests)))
        clean: set[bytes] = set()
        for connection in busy:
            for _ in range(DEPTH):
                answer = connection.receive()
                if answer[4:] not in clean:
                    message = message_of(name, answer)
                    rows = (
                        [p for t in message.topics for p in t.partitions]
                        if name == "OffsetCommit"
                        else [message]
                    )
                    assert {row.error_code for row in rows} == {ErrorCode.NONE}
                    clean.add(answer[4:])

    def _numbered(self, frame: bytes) -> bytes:
        """A request with the next correlation id, as a client sends it."""
        return frame[:8] + struct.pack(">i", next(self._correlation_ids)) + frame[12:]
