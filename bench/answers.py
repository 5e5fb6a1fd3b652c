"""Checks the answers that docs/reference/groups.md gives against a broker.

The same scenes as in tests/groups, in real time, each cell with a group of its
own. The broker has to have an initial rebalance delay of 1000 ms:

    python -m bench.answers --bootstrap 127.0.0.1:9092
    python -m bench.answers --bootstrap 127.0.0.1:9092 --max-size

The second one plays the row about `group.max.size`, which has to be 3.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import selectors
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, TypeVar

from tests.conformance.play import probe
from tests.coordinator.context import Context
from tests.coordinator.driver import Pending
from tests.groups.states import PLAYS, STATES, Scene
from tests.groups.test_documented_tables import ANSWERS
from tests.wire import frames

import kohort.protocol.apis.k08_offset_commit as k08
import kohort.protocol.apis.k11_join_group as k11
import kohort.protocol.apis.k13_leave_group as k13
import kohort.protocol.apis.k14_sync_group as k14
import kohort.protocol.apis.k47_offset_delete as k47
from kohort.broker.coordinator import effects, events
from kohort.protocol.apis.k09_offset_fetch import OffsetFetchRequest
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.apis.k15_describe_groups import DescribeGroupsRequest
from kohort.protocol.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.apis.k42_delete_groups import DeleteGroupsRequest

R = TypeVar("R")

AT_ONCE_S = 0.5
"""A join or a sync that is not answered so soon waits."""
ANSWER_S = 15.0
WINDOWS_S = 3.5
"""The initial windows of three members: two of 1 s, and a margin."""

_local = threading.local()


def request_of(event: Any, group: str) -> tuple[str, int, object]:
    """The API, its version and the request that bring an event to a broker."""
    return _REQUESTS[type(event)](event, group)


def _join(e: events.Join, group: str) -> tuple[str, int, object]:
    version = 9 if e.member_id_required or e.group_instance_id is not None else 3
    protocols = [k11.JoinGroupRequestProtocol(*each) for each in e.protocols]
    request = k11.JoinGroupRequest(
        group,
        e.session_timeout_ms,
        e.rebalance_timeout_ms,
        e.member_id,
        e.group_instance_id,
        e.protocol_type,
        protocols,
    )
    return "JoinGroup", version, request


def _sync(e: events.Sync, group: str) -> tuple[str, int, object]:
    assigned = [k14.SyncGroupRequestAssignment(*each) for each in e.assignments]
    request = k14.SyncGroupRequest(
        group, e.generation_id, e.member_id, e.group_instance_id, None, None, assigned
    )
    return "SyncGroup", 4, request


def _heartbeat(e: events.Heartbeat, group: str) -> tuple[str, int, object]:
    request = HeartbeatRequest(group, e.generation_id, e.member_id, e.group_instance_id)
    return "Heartbeat", 4, request


def _leave(e: events.Leave, group: str) -> tuple[str, int, object]:
    members = [k13.MemberIdentity(m.member_id, m.group_instance_id) for m in e.members]
    return "LeaveGroup", 4, k13.LeaveGroupRequest(group, "", members)


def _commit(e: events.CommitOffsets, group: str) -> tuple[str, int, object]:
    topics = [
        k08.OffsetCommitRequestTopic(
            topic,
            partitions=[k08.OffsetCommitRequestPartition(partition, offset)],
        )
        for topic, partition, offset, *_ in e.offsets.rows()
    ]
    version = 8 if e.unknown_group_is_illegal_generation else 9
    request = k08.OffsetCommitRequest(
        group, e.generation_id, e.member_id, e.group_instance_id, -1, topics
    )
    return "OffsetCommit", version, request


def _delete_offsets(e: events.DeleteOffsets, group: str) -> tuple[str, int, object]:
    topics = [
        k47.OffsetDeleteRequestTopic(
            topic, [k47.OffsetDeleteRequestPartition(each) for each in partitions]
        )
        for topic, partitions in e.topics
    ]
    return "OffsetDelete", 0, k47.OffsetDeleteRequest(group, topics)


_REQUESTS: dict[type, Callable[[Any, str], tuple[str, int, object]]] = {
    events.Join: _join,
    events.Sync: _sync,
    events.Heartbeat: _heartbeat,
    events.Leave: _leave,
    events.CommitOffsets: _commit,
    events.FetchOffsets: lambda _, g: ("OffsetFetch", 7, OffsetFetchRequest(g, None)),
    events.DescribeGroup: lambda _, g: (
        "DescribeGroups",
        5,
        DescribeGroupsRequest([g]),
    ),
    events.DeleteGroup: lambda _, g: ("DeleteGroups", 2, DeleteGroupsRequest([g])),
    events.DeleteOffsets: _delete_offsets,
}

RESULTS: dict[type, Callable[[Any], effects.Result]] = {
    events.Join: lambda r: effects.JoinResult(
        r.error_code, r.member_id, r.generation_id, leader=r.leader
    ),
    events.Sync: lambda r: effects.SyncResult(r.error_code, assignment=r.assignment),
    events.Heartbeat: lambda r: effects.HeartbeatResult(r.error_code),
    events.Leave: lambda r: effects.LeaveResult(
        r.error_code,
        [(m.member_id, m.group_instance_id, m.error_code) for m in r.members],
    ),
    events.CommitOffsets: lambda r: effects.CommitResult(
        0, [p.error_code for t in r.topics for p in t.partitions]
    ),
    events.FetchOffsets: lambda r: effects.FetchOffsetsResult(r.error_code),
    events.DescribeGroup: lambda r: effects.DescribeGroupResult(
        r.groups[0].error_code, r.groups[0].group_id, r.groups[0].group_state
    ),
    events.DeleteGroup: lambda r: effects.DeleteGroupResult(r.results[0].error_code),
    events.DeleteOffsets: lambda r: effects.DeleteOffsetsResult(
        r.error_code,
        [
            (t.name, [(p.partition_index, p.error_code) for p in t.partitions])
            for t in r.topics
        ],
    ),
}
"""As much of the results as the scenes look at."""


class BrokerContext(Context):
    """A group of a broker, with the verbs of `Context`; time is real.

    Every request has its own connection, so that one that waits holds up no other.
    """

    address: ClassVar[tuple[str, int]]

    def __init__(self, **_: int) -> None:
        super().__init__()
        self._group = f"answers-{uuid.uuid4().hex[:10]}"
        self._open = selectors.DefaultSelector()
        self._sockets: list[socket.socket] = []
        _local.contexts = [*getattr(_local, "contexts", []), self]

    def close(self) -> None:
        """Closes all connections."""
        self._open.close()
        for each in self._sockets:
            each.close()

    def ask(self, event: Any, pending: Pending[R]) -> Pending[R]:
        """Sends the request on a new connection."""
        name, version, message = request_of(event, self._group)
        connection = connect(self.address)
        self._sockets.append(connection)
        send(connection, name, version, message)
        asked = (event, pending, name, version)
        self._open.register(connection, selectors.EVENT_READ, asked)
        may_wait = isinstance(event, events.Join | events.Sync)
        deadline = time.monotonic() + (AT_ONCE_S if may_wait else ANSWER_S)
        while not pending.answered and time.monotonic() < deadline:
            self._listen(deadline - time.monotonic())
        self._listen(0)
        return pending

    def sleep(self, ms: float) -> None:
        """Lets real time pass, as much as the windows take."""
        time.sleep(min(ms / 1000, WINDOWS_S))
        self._listen(0)

    def _listen(self, seconds: float) -> None:
        """Takes answers that come; those to other members' requests, too."""
        for key, _ in self._open.select(seconds):
            event, pending, name, version = key.data
            self._open.unregister(key.fileobj)
            for connection in self._sockets:
                if connection.fileno() == key.fd:
                    response = receive(connection, name, version)
                    pending.answer(RESULTS[type(event)](response))


def connect(address: tuple[str, int]) -> socket.socket:
    """A connection to a broker."""
    return socket.create_connection(address, ANSWER_S)


def send(connection: socket.socket, name: str, version: int, message: object) -> None:
    """Sends a request."""
    connection.sendall(frames.request(name, version, message))


def receive(connection: socket.socket, name: str, version: int) -> Any:
    """The response to the one request of a connection."""
    with connection.makefile("rb") as stream:
        return frames.response(
            name, version, stream.read(frames.size_of(stream.read(4)))
        )


def _create_topics(address: tuple[str, int]) -> None:
    """Offsets are committed for topics that exist."""
    topics = [CreatableTopic(name, 1, 1, (), ()) for name in ("orders", "other")]
    with connect(address) as connection:
        send(connection, "CreateTopics", 7, CreateTopicsRequest(topics))
        receive(connection, "CreateTopics", 7)


def _play(cell: tuple[str, str]) -> str:
    """The broker's answer in one cell of the table."""
    request, state = cell
    try:
        return PLAYS[request](state)
    except AssertionError as error:
        return f"the scene does not come about: {error}"
    finally:
        for context in _local.contexts:
            context.close()
        _local.contexts = []


def main() -> None:
    """Plays all cells, and prints those that differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bootstrap", required=True, help="host:port")
    parser.add_argument("--max-size", action="store_true", help="only that row")
    asked = parser.parse_args()
    host, _, port = asked.bootstrap.rpartition(":")
    BrokerContext.address = (host, int(port))
    Scene.context_class = BrokerContext
    # A Kafka that has just started refuses the first requests for a group.
    asyncio.run(probe(*BrokerContext.address))
    _create_topics(BrokerContext.address)
    requests = [each for each in PLAYS if ("max.size" in each) == asked.max_size]
    cells = list(itertools.product(requests, STATES))
    differing = 0
    with ThreadPoolExecutor(16) as pool:
        for (request, state), answer in zip(cells, pool.map(_play, cells), strict=True):
            documented = ANSWERS[request][STATES.index(state)]
            if answer != documented:
                differing += 1
                print(f"{request} | {state}: {documented} documented, {answer} played")
    print(f"{len(cells)} cells, {differing} differ")
    sys.exit(bool(differing))


if __name__ == "__main__":
    main()
