"""Fetch: reads record batches, and waits for them where there are too few.

A fetch that waits is parked with its partitions; the first append that brings it
to ``min_bytes``, or its timer, has it answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kohort.broker.clock import Timer
from kohort.broker.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchedPartition,
    FetchSession,
    TopicKey,
)
from kohort.broker.handlers.placement import leaders_told
from kohort.broker.log.partition import Partition
from kohort.broker.request import Request
from kohort.protocol.apis.k01_fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import ZERO_UUID

_READ_COMMITTED = 1
_FROM_FOLLOWERS = 11
"""The version from which on followers answer consumers, too (KIP-392)."""
_TELLS_LEADERS = 16
"""The version from which on a wrong node says who is the right one (KIP-951)."""
_LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(request: Request) -> None:
    """Finds the partitions, by session or by the request alone, and reads them."""
    message: FetchRequest = request.message
    node = request.node
    by_id = request.version >= 13
    asked = _asked(message, by_id)
    session: FetchSession | None = None
    if message.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if message.session_id:
            node.fetch_sessions.close(message.session_id)
        partitions: Iterable[FetchedPartition] = list(asked)
        if message.session_epoch == INITIAL_EPOCH:
            now = node.cluster.clock.now()
            session = node.fetch_sessions.create(by_id, list(partitions), now)
        fetch = _Fetch(request, partitions, session, is_incremental=False)
    else:
        found = node.fetch_sessions.resume(
            message.session_id, message.session_epoch, by_id, node.cluster.clock.now()
        )
        if isinstance(found, ErrorCode):
            request.reply(FetchResponse(0, found))
            return
        forgotten = message.forgotten_topics_data
        found.update(
            asked,
            (
                (t.topic_id if by_id else t.topic, index)
                for t in forgotten
                for index in t.partitions
            ),
        )
        if not found.partitions:
            node.fetch_sessions.close(found.id)
            request.reply(FetchResponse())
            return
        fetch = _Fetch(
            request, list(found.partitions.values()), found, is_incremental=True
        )
    fetch.start()


def _asked(message: FetchRequest, by_id: bool) -> Iterator[FetchedPartition]:
    for topic in message.topics:
        key: TopicKey = topic.topic_id if by_id else topic.topic
        for p in topic.partitions:
            yield FetchedPartition(
                key,
                p.partition,
                p.current_leader_epoch,
                p.fetch_offset,
                p.partition_max_bytes,
            )


class _Fetch:
    """One request until it is answered."""

    __slots__ = (
        "_is_incremental",
        "_partitions",
        "_request",
        "_rows",
        "_session",
        "_timer",
        "_waited_for",
    )

    def __init__(
        self,
        request: Request,
        partitions: Iterable[FetchedPartition],
        session: FetchSession | None,
        *,
        is_incremental: bool,
    ) -> None:
        self._request = request
        self._partitions = partitions
        self._session = session
        self._is_incremental = is_incremental
        self._rows: list[tuple[FetchedPartition, PartitionData, int]] = []
        self._timer: Timer | None = None
        self._waited_for: list[Partition] = []

    def start(self) -> None:
        """Answers at once, or parks the request."""
        message: FetchRequest = self._request.message
        if self._collect() or message.max_wait_ms <= 0 or not self._partitions:
            self._answer()
            return
        for wanted in self._partitions:
            partition = self._find(wanted)
            if isinstance(partition, Partition):
                self._waited_for.append(partition)
                partition.watch(self.wake)
        clock = self._request.node.cluster.clock
        self._timer = clock.call_at(
            clock.now() + message.max_wait_ms / 1000, self._time_is_up
        )
        self._request.abandon = self._stop_waiting

    def wake(self) -> None:
        """A partition has grown, or is gone."""
        if self._collect():
            self._stop_waiting()
            self._answer()

    def _time_is_up(self) -> None:
        self._stop_waiting()
        self._collect()
        self._answer()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for partition in self._waited_for:
            partition.unwatch(self.wake)
        self._waited_for = []

    def _find(self, wanted: FetchedPartition) -> Partition | ErrorCode:
        topics = self._request.node.cluster.topics
        if isinstance(wanted.topic, bytes):
            topic = topics.by_id.get(wanted.topic)
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic = topics.by_name.get(wanted.topic)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None:
            return unknown
        node_id, index = self._request.node.id, wanted.partition
        if self._request.version >= _FROM_FOLLOWERS:
            return topic.readable_at(node_id, index, wanted.leader_epoch)
        return topic.led_by(node_id, index, wanted.leader_epoch)

    def _collect(self) -> bool:
        """Reads all partitions; whether that is enough for an answer."""
        message: FetchRequest = self._request.message
        left = min(
            message.max_bytes, self._request.node.cluster.config["fetch.max.bytes"]
        )
        total = 0
        has_error = False
        self._rows = rows = []
        for wanted in self._partitions:
            partition = self._find(wanted)
            if isinstance(partition, ErrorCode):
                data, size = self._refused(wanted, partition), 0
            else:
                # The first records found go out whatever their size (KIP-74).
                data, size = _read(partition, wanted, message, left, not total)
            total += size
            left -= size
            has_error = has_error or data.error_code != 0
            rows.append((wanted, data, size))
        return has_error or total >= message.min_bytes

    def _refused(self, wanted: FetchedPartition, error: ErrorCode) -> PartitionData:
        if error not in _LEADER_ERRORS or self._request.version < _TELLS_LEADERS:
            return PartitionData(wanted.partition, error, -1)
        topics = self._request.node.cluster.topics
        if isinstance(wanted.topic, bytes):
            topic = topics.by_id[wanted.topic]
        else:
            topic = topics.by_name[wanted.topic]
        index = wanted.partition
        epoch = topic.partitions[index].leader_epoch
        leader = LeaderIdAndEpoch(topic.leaders[index], epoch)
        return PartitionData(index, error, -1, current_leader=leader)

    def _answer(self) -> None:
        rows, session = self._rows, self._session
        if session is not None:
            news = [
                wanted.tells_news(
                    data.error_code, data.high_watermark, data.log_start_offset, size
                )
                for wanted, data, size in rows
            ]
            if self._is_incremental:
                rows = [row for row, is_news in zip(rows, news, strict=True) if is_news]
                session.serve_last(wanted for wanted, _, size in rows if size)
        topics: list[tuple[TopicKey, list[PartitionData]]] = []
        for wanted, data, _ in rows:
            if not topics or topics[-1][0] != wanted.topic:
                topics.append((wanted.topic, []))
            topics[-1][1].append(data)
        self._request.reply(
            FetchResponse(
                0,
                0,
                session.id if session is not None else 0,
                [
                    FetchableTopicResponse("", key, each)
                    if isinstance(key, bytes)
                    else FetchableTopicResponse(key, ZERO_UUID, each)
                    for key, each in topics
                ],
                [
                    NodeEndpoint(node.id, node.host, node.port)
                    for node in leaders_told(
                        self._request.node.cluster,
                        [
                            data.current_leader.leader_id
                            for _, data, _ in rows
                            if data.error_code
                        ],
                    )
                ],
            )
        )


def _read(
    partition: Partition,
    wanted: FetchedPartition,
    message: FetchRequest,
    left: int,
    minimum_one: bool,
) -> tuple[PartitionData, int]:
    """One partition's row, and the bytes of its records."""
    result = partition.read(
        wanted.fetch_offset, min(wanted.max_bytes, left), minimum_one=minimum_one
    )
    if result.error_code:
        return PartitionData(wanted.partition, result.error_code, -1), 0
    aborted = () if message.isolation_level == _READ_COMMITTED else None
    data = PartitionData(
        wanted.partition,
        0,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log_start_offset,
        aborted_transactions=aborted,
        records=result.buffers,
    )
    return data, result.size_in_bytes
