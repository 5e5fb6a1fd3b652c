"""Fetch: reads record batches, and waits for them if there are too few.

A waiting fetch is parked with its partitions. It is answered by the first append that
brings it to ``min_bytes``, or by its timer.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from kohort.broker.clock import Timer
from kohort.broker.cluster.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchedPartition,
    FetchSession,
    PartitionKey,
    TopicKey,
)
from kohort.broker.handlers.replicas import leader_endpoints, leader_hint
from kohort.broker.log.partition import Partition
from kohort.broker.log.results import ReadResult
from kohort.broker.log.store import PIECE
from kohort.broker.long_work import Work
from kohort.broker.request import Request
from kohort.protocol.apis.k01_fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kohort.protocol.apis.leader_hints import LeaderIdAndEpoch
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import ZERO_UUID
from kohort.protocol.slotted import replace

if TYPE_CHECKING:
    from kohort.broker.fetch_watch import Fetcher

_READ_COMMITTED = 1
_FROM_FOLLOWERS = 11
"""The version from which on followers answer consumers, too (KIP-392)."""
_TELLS_LEADERS = 16
"""First version in which a node that is not the leader names the leader (KIP-951)."""
_STORAGE_ERRORS_SINCE = 6
"""First version whose clients know KAFKA_STORAGE_ERROR."""
_ABSENT = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


_MIN_BYTES_OF_ANY = 1
"""``min_bytes`` up to which any record is enough, so sizes need not be looked up."""

_ROWS = 256
"""Partitions checked at a time: less than a millisecond."""

_FEW = 4
"""Fetches that a partition's append answers at once; if there are more, each is
answered in another turn."""


def handle(request: Request) -> Work:
    """Finds the partitions, by session or by the request alone, and reads them."""
    message: FetchRequest = request.message
    node = request.node
    by_id = request.version >= 13
    asked = yield from _asked(message, by_id)
    session: FetchSession | None = None
    if message.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if message.session_id:
            node.fetch_sessions.close(message.session_id)
        if message.session_epoch == INITIAL_EPOCH:
            now = node.cluster.clock.now()
            session = node.fetch_sessions.create(by_id, asked, now)
        partitions = list(asked.values())
        fetch = _Fetch(request, partitions, session, is_incremental=False)
    else:
        found = node.fetch_sessions.resume(
            message.session_id, message.session_epoch, by_id, node.cluster.clock.now()
        )
        if isinstance(found, ErrorCode):
            request.finish(FetchResponse(0, found))
            return
        if not (yield from _update(request, found, asked)):
            request.finish(FetchResponse(0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
            return
        if not found.partitions:
            node.fetch_sessions.close(found.id)
            request.finish(FetchResponse())
            return
        fetch = _Fetch(
            request, list(found.partitions.values()), found, is_incremental=True
        )
    if node.cluster.fetch_watch is not None:
        fetch.note(asked.values())
    yield from fetch.run()


def _asked(
    message: FetchRequest, by_id: bool
) -> Generator[None, None, dict[PartitionKey, FetchedPartition]]:
    """The partitions of a request; if one is repeated, its last row counts."""
    asked: dict[PartitionKey, FetchedPartition] = {}
    count = 0
    for topic in message.topics:
        key: TopicKey = topic.topic_id if by_id else topic.topic
        count += 1
        if count % _ROWS == 0:
            yield
        for p in topic.partitions:
            count += 1
            if count % _ROWS == 0:
                yield
            asked[key, p.partition] = FetchedPartition(
                key,
                p.partition,
                # Negative means none.
                max(p.current_leader_epoch, -1),
                p.fetch_offset,
                p.partition_max_bytes,
            )
    return asked


def _update(
    request: Request,
    session: FetchSession,
    asked: dict[PartitionKey, FetchedPartition],
) -> Generator[None, None, bool]:
    """Applies a request's changes to its session; False if there is no room."""
    sessions = request.node.fetch_sessions
    count = 0
    for key, wanted in asked.items():
        count += 1
        if count % _ROWS == 0:
            yield
        if not sessions.change(session, key, wanted):
            return False
    for topic in request.message.forgotten_topics_data:
        count += 1
        if count % _ROWS == 0:
            yield
        for index in topic.partitions:
            count += 1
            if count % _ROWS == 0:
                yield
            key = topic.topic_id if session.uses_topic_ids else topic.topic, index
            sessions.forget(session, key)
    return True


class _Fetch:
    """One request until it is answered.

    1. `run` adds up the sizes of the readable records. If they are enough, or the
       request must not wait, it reads the partitions and answers.
    2. Otherwise the request is parked with a `_Waiting` for each partition, which holds
       a size and no records, and watches only its own partition.
    3. `wake` (called by the append that brings the request to ``min_bytes``, or by any
       other change of a partition) or the timer reads and answers it. In a session,
       only those partitions are read that have records or have changed meanwhile: its
       response leaves the others out.

    Attributes:
        changed: positions of these partitions in the request.
        committed: whether only committed records are read, up to the last stable
            offset.
    """

    __slots__ = (
        "_has_waited",
        "_is_awake",
        "_is_incremental",
        "_max_bytes",
        "_partitions",
        "_request",
        "_session",
        "_timer",
        "_waiting",
        "changed",
        "committed",
        "min_bytes",
        "size",
    )

    def __init__(
        self,
        request: Request,
        partitions: Sequence[FetchedPartition],
        session: FetchSession | None,
        *,
        is_incremental: bool,
    ) -> None:
        self._request = request
        self._partitions = partitions
        self._session = session
        self._is_incremental = is_incremental
        self.committed = request.message.isolation_level == _READ_COMMITTED
        self._is_awake = False
        self._has_waited = False
        self._timer: Timer | None = None
        self._waiting: list[_Waiting] = []
        self.changed: set[int] = set()
        # No response can have more bytes than this, so Kafka does not wait for more.
        limit: int = request.node.cluster.config["fetch.max.bytes"]
        quotas = request.node.cluster.quotas
        if quotas.is_used:
            # A longer one would certainly be throttled.
            limit = int(min(limit, quotas.most_bytes(request.client.id)))
        self._max_bytes: int = min(request.message.max_bytes, limit)
        self.min_bytes: int = min(request.message.min_bytes, self._max_bytes)
        self.size = 0

    def note(self, named: Iterable[FetchedPartition]) -> None:
        """Notes the positions that the request names, for the account of delivery."""
        watch = self._request.node.cluster.fetch_watch
        assert watch is not None
        watch.asked(
            cast("Fetcher", self._request.peer),
            self._found(named),
            partial(self._found, self._partitions),
            committed=self.committed,
        )

    def _found(
        self, wanted: Iterable[FetchedPartition]
    ) -> Iterator[tuple[Partition, int]]:
        for each in wanted:
            partition = self.find(each)
            if isinstance(partition, Partition):
                yield partition, each.fetch_offset

    def run(self) -> Work:
        """Answers, or parks the request."""
        message: FetchRequest = self._request.message
        if (
            message.max_wait_ms <= 0
            or not self._partitions
            or (yield from self._is_enough())
            or (yield from self._must_not_wait())
        ):
            yield from self._answer()
            return
        if sum(len(topic.partitions) for topic in message.topics) > _ROWS:
            # They may take 100 MB, and are all in `_partitions`.
            self._request.message = replace(message, topics=())
        self._has_waited = True
        clock = self._request.node.cluster.client_clock
        self._timer = clock.call_at(
            clock.now() + message.max_wait_ms / 1000, self._answer_later
        )

    def _is_enough(self) -> Generator[None, None, bool]:
        """Returns whether there are enough records, or an error."""
        size, is_any_enough = 0, self.min_bytes <= _MIN_BYTES_OF_ANY
        for number, wanted in enumerate(self._partitions, 1):
            if number % _ROWS == 0:
                yield
            partition = self.find(wanted)
            if isinstance(partition, ErrorCode):
                return True
            if wanted.fetch_offset == partition.log_end_offset:
                continue
            if is_any_enough and not self.committed:
                return True
            readable = self.readable(partition, wanted)
            if readable < 0 or wanted.max_bytes < 0 or (is_any_enough and readable):
                return True
            size += _size_of_read(partition, wanted, readable, not size)
            if size >= self.min_bytes:
                return True
        return size >= self.min_bytes

    def _must_not_wait(self) -> Generator[None, None, bool]:
        """Watches all partitions; returns whether the request is answerable now."""
        self._request.abandon = self._stop_waiting
        for number, wanted in enumerate(self._partitions, 1):
            if number % _ROWS == 0:
                yield
            partition = self.find(wanted)
            readable = -1
            if isinstance(partition, Partition):
                readable = self.readable(partition, wanted)
            if isinstance(partition, ErrorCode) or readable < 0:
                self._is_awake = True
                break
            counted = min(readable, wanted.max_bytes)
            self.size += counted
            if (
                readable
                or wanted.high_watermark != partition.high_watermark
                or wanted.log_start_offset != partition.log_start_offset
            ):
                self.changed.add(number - 1)
            waiting = _Waiting(self, wanted, number - 1, partition, readable, counted)
            self._waiting.append(waiting)
            partition.watch(waiting)
        if self._is_awake or self.size >= self.min_bytes:
            self._stop_waiting()
            return True
        return False

    def readable(self, partition: Partition, wanted: FetchedPartition) -> int:
        """Bytes that could be read; -1 if the offset is out of range."""
        return partition.readable(wanted.fetch_offset, committed=self.committed)

    def wake(self, partition: Partition) -> None:
        """Handles a partition that has grown enough, or otherwise changed."""
        if self._is_awake:
            return
        self._is_awake = True
        if self._timer is None:
            # `_must_not_wait` is running, and finds it.
            return
        if partition.woken > _FEW:
            self._answer_later()
            return
        self._stop_waiting()
        self._request.go_on(self._answer())

    def _answer_later(self) -> None:
        """Answers in another turn: a thousand fetches may answer at once."""
        self._stop_waiting()
        request = self._request
        work = request.node.cluster.long_work.queue(self._answer(), request.failed)
        request.abandon = work.stop

    def _stop_waiting(self) -> None:
        self._is_awake = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiting in self._waiting:
            waiting.partition.unwatch(waiting)
        self._waiting = []

    def find(self, wanted: FetchedPartition) -> Partition | ErrorCode:
        """The partition, or the reason why it cannot be read here."""
        topics = self._request.node.cluster.topics
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if isinstance(wanted.topic, bytes):
            topic = topics.by_id.get(wanted.topic)
            if not self._has_waited:
                unknown = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic = topics.by_name.get(wanted.topic)
        if topic is None:
            return unknown
        node_id, index = self._request.node.id, wanted.partition
        if self._request.version >= _FROM_FOLLOWERS:
            error = topic.read_error(node_id, index, wanted.leader_epoch)
        else:
            error = topic.leader_error(node_id, index, wanted.leader_epoch)
        return error or topic.partitions[index]

    def _refused(self, wanted: FetchedPartition, error: ErrorCode) -> PartitionData:
        index = wanted.partition
        if error in _ABSENT and not self._has_waited:
            # Kafka detects these before it reads a log.
            return PartitionData(index, error, -1)
        leader = LeaderIdAndEpoch()
        if error in _LEADER_ERRORS and self._request.version >= _TELLS_LEADERS:
            topics = self._request.node.cluster.topics
            if isinstance(wanted.topic, bytes):
                topic = topics.by_id[wanted.topic]
            else:
                topic = topics.by_name[wanted.topic]
            leader = leader_hint(topic, index)
        return PartitionData(
            index, error, -1, current_leader=leader, aborted_transactions=None
        )

    def _answer(self) -> Work:
        """Reads all partitions, and sends the response."""
        answer = _Answer(self._session, is_incremental=self._is_incremental)
        # Less while clients leave very much unread.
        cluster = self._request.node.cluster
        unread, watch = cluster.unread, cluster.fetch_watch
        left, size = min(self._max_bytes, unread.spare), 0
        partitions = self._partitions
        if self._is_incremental and self._has_waited:
            partitions = [partitions[position] for position in sorted(self.changed)]
        for number, wanted in enumerate(partitions, 1):
            if number % _ROWS == 0:
                yield
            partition = self.find(wanted)
            if isinstance(partition, ErrorCode):
                row = self._refused(wanted, partition)
                if partition in _ABSENT and not self._has_waited:
                    answer.defer(wanted, row)
                else:
                    answer.add(wanted, row, 0)
                    left = max(left, 0)
                continue
            limit = min(wanted.max_bytes, left)
            offset, is_first = wanted.fetch_offset, not size
            # The first records found are sent even above the limit (KIP-74).
            if limit <= PIECE:
                result = partition.read(
                    offset, limit, minimum_one=is_first, committed=self.committed
                )
            else:
                result = yield from self._read_long(partition, offset, limit, is_first)
                now = self.find(wanted)
                if now is not partition:
                    # The topic was deleted, or the leader changed, during the read.
                    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    error = now if isinstance(now, ErrorCode) else unknown
                    answer.add(wanted, self._refused(wanted, error), 0)
                    continue
            size += result.size_in_bytes
            left = max(left - result.size_in_bytes, 0)
            row = self._row(partition, wanted, result)
            if watch is not None:
                yield from watch.sent(
                    cast("Fetcher", self._request.peer), partition, offset, result
                )
            answer.add(wanted, row, result.size_in_bytes)
        yield from answer.add_absent()
        response = answer.response(self._request)
        if len(partitions) > _ROWS or size > PIECE:
            yield from self._request.finish_in_pieces(response)
        else:
            self._request.finish(response)

    def _read_long(
        self, partition: Partition, offset: int, limit: int, is_first: bool
    ) -> Generator[None, None, ReadResult]:
        """Reads more than a piece, which counts as unread meanwhile."""
        unread = self._request.node.cluster.unread
        limit = min(limit, unread.spare)
        reserved = partition.readable(offset, committed=self.committed)
        reserved = max(min(limit, reserved), 0)
        unread.size += reserved
        try:
            return (
                yield from partition.read_in_pieces(
                    offset, limit, minimum_one=is_first, committed=self.committed
                )
            )
        finally:
            unread.size -= reserved

    def _row(
        self, partition: Partition, wanted: FetchedPartition, result: ReadResult
    ) -> PartitionData:
        error = result.error_code
        if error == ErrorCode.KAFKA_STORAGE_ERROR and (
            self._request.version < _STORAGE_ERRORS_SINCE
        ):
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error:
            return PartitionData(wanted.partition, error, -1, aborted_transactions=None)
        aborted = None
        if self.committed and result.aborted is not None:
            aborted = [
                AbortedTransaction(each.producer_id, each.first_offset)
                for each in result.aborted
            ]
        return PartitionData(
            wanted.partition,
            0,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log_start_offset,
            aborted_transactions=aborted,
            records=result.buffers,
        )


class _Answer:
    """A response while its rows are made.

    Args:
        session: the request's session, if it has one.
        is_incremental: whether rows without news are left out.
    """

    __slots__ = (
        "_absent",
        "_is_incremental",
        "_leaders",
        "_served",
        "_session",
        "_topics",
    )

    def __init__(self, session: FetchSession | None, *, is_incremental: bool) -> None:
        self._session = session
        self._is_incremental = is_incremental
        self._topics: list[tuple[TopicKey, list[PartitionData]]] = []
        self._served: list[FetchedPartition] = []
        self._leaders: dict[int, None] = {}
        self._absent: dict[int, list[tuple[FetchedPartition, PartitionData]]] = {
            error: [] for error in _ABSENT
        }

    def add(self, wanted: FetchedPartition, data: PartitionData, size: int) -> None:
        """Adds the row of one partition, and the size of its records."""
        if self._session is not None:
            is_news = wanted.tells_news(
                data.error_code, data.high_watermark, data.log_start_offset, size
            )
            if self._is_incremental:
                if not is_news:
                    return
                if size:
                    self._served.append(wanted)
        if data.error_code:
            self._leaders[data.current_leader.leader_id] = None
        topics = self._topics
        if not topics or topics[-1][0] != wanted.topic:
            topics.append((wanted.topic, []))
        topics[-1][1].append(data)

    def defer(self, wanted: FetchedPartition, data: PartitionData) -> None:
        """Keeps the row of a partition that does not exist, for `add_absent`."""
        self._absent[data.error_code].append((wanted, data))

    def add_absent(self) -> Work:
        """Adds the partitions that do not exist; as in Kafka, they come last."""
        for rows in self._absent.values():
            for number, (wanted, data) in enumerate(rows, 1):
                if number % _ROWS == 0:
                    yield
                self.add(wanted, data, 0)

    def response(self, request: Request) -> FetchResponse:
        """The whole response."""
        session = self._session
        if session is not None:
            session.serve_last(self._served)
        return FetchResponse(
            0,
            0,
            session.id if session is not None else 0,
            [
                FetchableTopicResponse("", key, rows)
                if isinstance(key, bytes)
                else FetchableTopicResponse(key, ZERO_UUID, rows)
                for key, rows in self._topics
            ],
            leader_endpoints(request, self._leaders) if self._leaders else (),
        )


def _size_of_read(
    partition: Partition, wanted: FetchedPartition, readable: int, is_first: bool
) -> int:
    """The bytes of a partition that a response would contain."""
    if readable <= wanted.max_bytes:
        return readable
    if is_first:
        # The first batch is sent even above the limit (KIP-74).
        first = partition.read(wanted.fetch_offset, 0, minimum_one=True)
        return max(wanted.max_bytes, first.size_in_bytes)
    return wanted.max_bytes


class _Waiting:
    """One partition of a waiting fetch.

    Attributes:
        partition: the partition that it watches.
    """

    __slots__ = (
        "_appended_before",
        "_counted",
        "_fetch",
        "_position",
        "_readable_before",
        "_seen",
        "_wanted",
        "partition",
    )

    def __init__(
        self,
        fetch: _Fetch,
        wanted: FetchedPartition,
        position: int,
        partition: Partition,
        readable: int,
        counted: int,
    ) -> None:
        self.partition = partition
        self._position = position
        self._fetch = fetch
        self._wanted = wanted
        self._readable_before = readable
        self._appended_before = self._seen = partition.appended_bytes
        self._counted = counted

    def __call__(self) -> None:
        """Handles a change of the partition."""
        fetch, partition = self._fetch, self.partition
        fetch.changed.add(self._position)
        appended = partition.appended_bytes
        if appended == self._seen:
            if fetch.find(self._wanted) is not partition:
                fetch.wake(partition)
            return
        self._seen = appended
        if fetch.committed:
            # A marker may let through more than itself, other batches nothing.
            readable = fetch.readable(partition, self._wanted)
        else:
            readable = self._readable_before + appended - self._appended_before
        # As in Kafka, a batch above the limit counts only up to the limit, although the
        # response would contain it.
        counted = min(readable, self._wanted.max_bytes)
        fetch.size += counted - self._counted
        self._counted = counted
        if fetch.size >= fetch.min_bytes:
            fetch.wake(partition)
