"""A scripted member: a badly behaved peer of the client under test.

It sends one request for each call and draws no conclusions: it has no heartbeat of its
own, rejoins when the test says so, and sends any field that the test asks for. Its
requests go over a connection to the group's coordinator, one after the other, and are
answered in this order.

    ben = kohort.member("billing", topics=["orders"], client_id="ben")
    ben.join()
    ben.sync()
    assert ben.heartbeat().error == "NONE"
    assert ben.commit({("orders", 0): 5}, generation_id=7).error == "ILLEGAL_GENERATION"
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kohort.client.assignors import ASSIGNORS
from kohort.client.assignors.contract import MemberSubscription, PartitionRacks
from kohort.client.assignors.serialization import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.client.config import INT32_MAX, CommonConfig
from kohort.client.errors import KohortError, error_of
from kohort.client.network.connection import Connection
from kohort.client.network.coordinators import Coordinators
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.apis.k11_join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.apis.k14_sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kohort.protocol.consumer import PROTOCOL_TYPE
from kohort.protocol.errors import ErrorCode
from kohort.protocol.slotted import replace
from kohort.testing.waiting import Handle, Waits

if TYPE_CHECKING:
    from kohort.testing.thread import BrokerThread

PATIENCE_S: Final = 60.0
"""Default timeout of an answer: no broker takes this long, on a busy machine either."""
_BY_NAME: Final = (2, 9)
"""The versions of OffsetCommit that have topics by name."""
_SEVERAL: Final = 3
"""The first version of LeaveGroup that takes several members (KIP-345)."""

Partitions = Mapping[str, Sequence[int]]
"""Partitions by topic."""


class NotAnsweredError(Exception):
    """A request has no answer yet, or had none in time."""


class Reply(Handle):
    """The answer to a request of a scripted member.

    Attributes:
        api: Kafka's name of the API, as "JoinGroup".
    """

    def __init__(self, api: str) -> None:
        self.api = api
        self._message: Any = None
        self._error = ""

    def __repr__(self) -> str:
        """The API and the error's name."""
        return f"<Reply to {self.api}: {self._error or 'not answered yet'}>"

    @property
    def error(self) -> str:
        """Kafka's name of the error, the first one in the answer; "NONE" for none.

        Raises:
            NotAnsweredError: there is no answer yet.
        """
        self._check()
        return self._error

    @property
    def message(self) -> Any:
        """The response, with Kafka's names of its fields in snake case.

        Raises:
            NotAnsweredError: there is no answer yet.
        """
        self._check()
        return self._message

    def answered(self, message: Any) -> None:
        """Takes the response."""
        code = next(filter(None, _codes(message)), 0)
        # JoinGroup's 77 is KIP-389's number.
        known = code and error_of(code, api=self.api).code
        self._error = ErrorCode(known or code).name
        self._message = message

    def _check(self) -> None:
        if not self._error:
            raise NotAnsweredError(
                f"{self.api} is not answered yet: await the reply, or call result()"
            )


class ScriptedMember:
    """A member of a group that sends only the requests of the test.

    Each of `join`, `sync`, `heartbeat`, `commit` and `leave` sends one request, and
    waits for the answer. With ``wait=False`` the call only sends, and the reply can be
    awaited later: a join that the coordinator parks. Further arguments replace fields
    of the request, by Kafka's names in snake case.

    Attributes:
        group_id: its group.
        client_id: its client.id.
        instance_id: its group.instance.id; None for a dynamic member.
        member_id: given by the coordinator; "" before.
        generation: of its last join; -1 before.
        leader: the member id of the generation's leader.
        protocol: the protocol that the coordinator has chosen.
        assignment: the partitions by topic, from its last sync.
    """

    def __init__(
        self,
        thread: BrokerThread,
        waits: Waits,
        group_id: str,
        *,
        client_id: str,
        instance_id: str | None,
        topics: Sequence[str],
        protocols: Sequence[str] | Mapping[str, bytes],
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        version: int | None,
    ) -> None:
        self.group_id = group_id
        self.client_id = client_id
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.leader = ""
        self.protocol: str | None = None
        self.assignment: dict[str, list[int]] = {}
        self._thread = thread
        self._waits = waits
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._version = version
        if not isinstance(protocols, Mapping):
            metadata = encode_subscription(MemberSubscription(topics))
            protocols = dict.fromkeys(protocols, metadata)
        self._protocols = protocols
        self._rows: Mapping[str, bytes | None] = {}
        self._config = CommonConfig(
            client_id=client_id,
            # The test decides how long it waits, and when the connection ends.
            request_timeout_ms=INT32_MAX,
            connections_max_idle_ms=-1,
        )
        self._opening = asyncio.Lock()
        self._connection: Connection | None = None

    def __repr__(self) -> str:
        """Its group, and its client.id."""
        return f"ScriptedMember({self.group_id!r}, client_id={self.client_id!r})"

    @property
    def is_leader(self) -> bool:
        """True if it leads the generation of its last join."""
        return bool(self.member_id) and self.leader == self.member_id

    # -- requests

    def join(
        self,
        *,
        wait: bool = True,
        timeout: float = PATIENCE_S,
        version: int | None = None,
        **fields: Any,
    ) -> Reply:
        """Sends JoinGroup; where the answer gives it an id only (KIP-394), once more.

        Args:
            wait: False: only sends; the reply can be awaited later.
            timeout: seconds; without a wait there is no time-out.
            version: of the request; None for the member's.
            fields: replace those of the request; with a `member_id` of the test's the
                answer MEMBER_ID_REQUIRED is the last word.

        Raises:
            NotAnsweredError: no answer within `timeout`.
            KohortError: the connection ended, or there is no coordinator.
        """
        __tracebackhide__ = True

        async def work(reply: Reply) -> None:
            response = await self._join(version, fields)
            code = response.error_code
            if code == ErrorCode.MEMBER_ID_REQUIRED and "member_id" not in fields:
                self.member_id = response.member_id
                response = await self._join(version, fields)
            if not response.error_code:
                self._joined(response)
            reply.answered(response)

        return self._begin("JoinGroup", work, wait=wait, timeout=timeout)

    async def _join(
        self, version: int | None, fields: Mapping[str, Any]
    ) -> JoinGroupResponse:
        request = JoinGroupRequest(
            self.group_id,
            self._session_timeout_ms,
            self._rebalance_timeout_ms,
            self.member_id,
            self.instance_id,
            PROTOCOL_TYPE,
            [JoinGroupRequestProtocol(*row) for row in self._protocols.items()],
        )
        response: JoinGroupResponse = await self._send(
            "JoinGroup", replace(request, **fields), version
        )
        return response

    def _joined(self, response: JoinGroupResponse) -> None:
        self.member_id = response.member_id
        self.generation = response.generation_id
        self.leader = response.leader
        self.protocol = response.protocol_name
        self._rows = {row.member_id: row.metadata for row in response.members}

    def sync(
        self,
        assignment: Mapping[str, Partitions | bytes] | None = None,
        *,
        wait: bool = True,
        timeout: float = PATIENCE_S,
        version: int | None = None,
        **fields: Any,
    ) -> Reply:
        """Sends SyncGroup, with an assignment if it leads the generation.

        Args:
            assignment: partitions by topic, or bytes, by member id; None for the
                assignment that Kafka's assignor of this name makes.
            wait: see `join`.
            timeout: see `join`.
            version: see `join`.
            fields: see `join`.

        Raises:
            NotAnsweredError: no answer within `timeout`.
            KohortError: the connection ended, or there is no coordinator.
        """
        __tracebackhide__ = True

        async def work(reply: Reply) -> None:
            made = self._assigned() if assignment is None else assignment
            request = SyncGroupRequest(
                self.group_id,
                self.generation,
                self.member_id,
                self.instance_id,
                PROTOCOL_TYPE,
                self.protocol,
                [
                    SyncGroupRequestAssignment(member_id, _assignment(each))
                    for member_id, each in made.items()
                ],
            )
            response: SyncGroupResponse = await self._send(
                reply.api, replace(request, **fields), version
            )
            reply.answered(response)
            if reply.error == "NONE":
                self.assignment = _by_topic(decode_assignment(response.assignment))

        return self._begin("SyncGroup", work, wait=wait, timeout=timeout)

    def _assigned(self) -> Mapping[str, Partitions]:
        """The assignment that Kafka's assignor makes; empty if another member leads."""
        if not self.is_leader:
            return {}
        subscriptions = {
            member_id: decode_subscription(metadata or b"")
            for member_id, metadata in self._rows.items()
        }
        topics = {
            name: [PartitionRacks(index) for index in range(len(topic.partitions))]
            for name, topic in self._thread.broker.cluster.topics.by_name.items()
        }
        made = ASSIGNORS[self.protocol or ""].assign(topics, subscriptions)
        return {member_id: _by_topic(each) for member_id, each in made.items()}

    def heartbeat(
        self,
        *,
        wait: bool = True,
        timeout: float = PATIENCE_S,
        version: int | None = None,
        **fields: Any,
    ) -> Reply:
        """Sends Heartbeat; its answer tells the member of a rebalance.

        Raises:
            NotAnsweredError: no answer within `timeout`.
            KohortError: the connection ended, or there is no coordinator.
        """
        __tracebackhide__ = True

        async def work(reply: Reply) -> None:
            request = HeartbeatRequest(
                self.group_id, self.generation, self.member_id, self.instance_id
            )
            message = replace(request, **fields)
            reply.answered(await self._send(reply.api, message, version))

        return self._begin("Heartbeat", work, wait=wait, timeout=timeout)

    def commit(
        self,
        offsets: Mapping[tuple[str, int], int],
        *,
        wait: bool = True,
        timeout: float = PATIENCE_S,
        version: int | None = None,
        **fields: Any,
    ) -> Reply:
        """Sends OffsetCommit.

        Args:
            offsets: by (topic, partition): the offset of the next record to read.
            wait: see `join`.
            timeout: see `join`.
            version: up to 9, the last one that has topics by name.
            fields: see `join`; `generation_id` stands for Kafka's
                `generation_id_or_member_epoch`.

        Raises:
            NotAnsweredError: no answer within `timeout`.
            KohortError: the connection ended, or there is no coordinator.
        """
        __tracebackhide__ = True
        if "generation_id" in fields:
            fields["generation_id_or_member_epoch"] = fields.pop("generation_id")

        async def work(reply: Reply) -> None:
            request = OffsetCommitRequest(
                self.group_id,
                self.generation,
                self.member_id,
                self.instance_id,
                topics=[*_offset_rows(offsets)],
            )
            message = replace(request, **fields)
            answer = await self._send(reply.api, message, version, _BY_NAME)
            reply.answered(answer)

        return self._begin("OffsetCommit", work, wait=wait, timeout=timeout)

    def leave(
        self,
        *,
        reason: str | None = None,
        wait: bool = True,
        timeout: float = PATIENCE_S,
        version: int | None = None,
        **fields: Any,
    ) -> Reply:
        """Sends LeaveGroup; the member may join again, with a new id.

        Raises:
            NotAnsweredError: no answer within `timeout`.
            KohortError: the connection ended, or there is no coordinator.
        """
        __tracebackhide__ = True

        async def work(reply: Reply) -> None:
            chosen = await self._chosen(reply.api, version)
            if chosen < _SEVERAL:
                request = LeaveGroupRequest(self.group_id, self.member_id)
            else:
                member = MemberIdentity(self.member_id, self.instance_id, reason)
                request = LeaveGroupRequest(self.group_id, members=[member])
            message = replace(request, **fields)
            reply.answered(await self._send(reply.api, message, chosen))
            if reply.error == "NONE":
                self.member_id, self.generation, self.assignment = "", -1, {}

        return self._begin("LeaveGroup", work, wait=wait, timeout=timeout)

    def _begin(
        self,
        api: str,
        work: Callable[[Reply], Awaitable[None]],
        *,
        wait: bool,
        timeout: float,
    ) -> Reply:
        __tracebackhide__ = True
        reply = Reply(api)

        async def in_time() -> None:
            try:
                async with asyncio.timeout(timeout if wait else None):
                    await work(reply)
            except TimeoutError:
                raise NotAnsweredError(
                    f"{self!r}: {api} was not answered within {timeout:g} s"
                ) from None

        return self._waits.begin(reply, in_time(), f"member.{api}", wait=wait)

    # -- the connection

    def disconnect(self) -> None:
        """Closes the connection without LeaveGroup, as a crash does.

        Unanswered requests fail. The next request looks the coordinator up again.
        """
        self._thread.call(self._abort)

    def _abort(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    async def _send(
        self,
        api: str,
        message: object,
        version: int | None,
        versions: tuple[int, int] | None = None,
    ) -> Any:
        chosen = await self._chosen(api, version, versions)
        connection = await self._connected()
        return await connection.send(api, chosen, message)

    async def _chosen(
        self,
        api: str,
        version: int | None,
        versions: tuple[int, int] | None = None,
    ) -> int:
        """The version of a request: the call's, the member's, or the newest."""
        if version is not None:
            return version
        if self._version is not None and api == "JoinGroup":
            return self._version
        return (await self._connected()).version(api, versions)

    async def _connected(self) -> Connection:
        """The connection to the coordinator, which the first request opens."""
        async with self._opening:
            if self._connection is None or not self._connection.is_open:
                self._connection = await self._open()
            return self._connection

    async def _open(self) -> Connection:
        nodes = self._thread.broker.cluster.nodes.values()
        node = next((node for node in nodes if node.is_running), None)
        if node is None:
            raise NotAnsweredError("no node runs")
        first = await Connection.open(self._config, node.host, node.port)
        try:

            async def connect() -> Connection:
                return first

            coordinators = Coordinators(connect)
            answer = (await coordinators.find([self.group_id]))[self.group_id]
            if isinstance(answer, KohortError):
                raise answer
            found = coordinators.nodes[answer]
        finally:
            first.close()
        return await Connection.open(self._config, found.host, found.port, answer)


def _codes(message: Any) -> Iterator[int]:
    """The error codes of a response: its own, and those of its rows."""
    yield getattr(message, "error_code", 0)
    if not isinstance(message, JoinGroupResponse):
        for row in getattr(message, "members", ()):
            yield row.error_code
    for topic in getattr(message, "topics", ()):
        for partition in topic.partitions:
            yield partition.error_code


def _offset_rows(
    offsets: Mapping[tuple[str, int], int],
) -> Iterator[OffsetCommitRequestTopic]:
    for (topic, partition), offset in offsets.items():
        row = OffsetCommitRequestPartition(partition, offset)
        yield OffsetCommitRequestTopic(topic, partitions=[row])


def _assignment(each: Partitions | bytes) -> bytes:
    if isinstance(each, bytes):
        return each
    return encode_assignment(
        [(topic, index) for topic, indexes in each.items() for index in indexes]
    )


def _by_topic(partitions: Sequence[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return found
