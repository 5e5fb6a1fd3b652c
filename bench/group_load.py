"""A fixed amount of load on one group, over the wire: the same requests every time.

The load generator of the benchmark runs for a given time; this one repeats its
requests a given number of times, so that a broker has the same work in every run, on a
fast or a slow machine.
"""

from __future__ import annotations

import itertools
import socket
import struct
from collections.abc import Iterable
from typing import Any

from tests.wire import frames

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
}
"""API versions: those of the load generator for groups and topics."""

PARTITIONS = 10
"""Partitions of a commit."""
DEPTH = 8
"""Heartbeats or commits under way on a connection."""
BUSY = 64
"""Members that send those."""

ANSWER_S = 300.0
"""Time limit of an answer; none takes that long even fifty times slower than usual."""
_TOPIC = "loadgen"


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
        """Closes it."""
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
    """

    def __init__(
        self, address: tuple[str, int], members: int, group: str = "g"
    ) -> None:
        self._group = group
        self._connections = [Connection(address) for _ in range(members)]
        self._ids = [""] * members
        self._numbers = itertools.count()
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
            number = next(self._numbers)
            self._join(range(len(self._ids)), struct.pack("<H", number))
            self._divide()
        return times * len(self._ids)

    def heartbeat(self, times: int) -> int:
        """All members send several heartbeats at once; `times` times.

        Returns:
            How many heartbeats that was.
        """
        frames = [
            DEPTH
            * frame_of(
                "Heartbeat", HeartbeatRequest(self._group, self._generation, member_id)
            )
            for member_id in self._ids[:BUSY]
        ]
        for _ in range(times):
            self._pipelined("Heartbeat", frames)
        return times * DEPTH * len(frames)

    def commit(self, times: int) -> int:
        """All members commit some partitions, several times at once; `times` times.

        Returns:
            How many commits that was.
        """
        for _ in range(times):
            frames = []
            for member_id in self._ids[:BUSY]:
                self._offset += 1
                rows = [
                    OffsetCommitRequestPartition(p, self._offset)
                    for p in range(PARTITIONS)
                ]
                topics = [OffsetCommitRequestTopic(_TOPIC, partitions=rows)]
                commit = OffsetCommitRequest(
                    self._group, self._generation, member_id, topics=topics
                )
                frames.append(DEPTH * frame_of("OffsetCommit", commit))
            self._pipelined("OffsetCommit", frames)
        return times * DEPTH * min(BUSY, len(self._ids))

    def _pipelined(self, name: str, frames: list[bytes]) -> None:
        busy = self._connections[: len(frames)]
        for connection, frame in zip(busy, frames, strict=True):
            connection.send(frame)
        clean: set[bytes] = set()
        for connection in busy:
            for _ in range(DEPTH):
                answer = connection.receive()
                if answer not in clean:
                    message = message_of(name, answer)
                    rows = (
                        [p for t in message.topics for p in t.partitions]
                        if name == "OffsetCommit"
                        else [message]
                    )
                    assert {row.error_code for row in rows} == {ErrorCode.NONE}
                    clean.add(answer)
