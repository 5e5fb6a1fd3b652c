"""Fetch sessions: a client lists its partitions once, then only changes (KIP-227).

A session is not tied to a connection. Its epoch counts its requests; a request with an
unexpected epoch means that one was lost, and the client has to start over.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from kohort.broker.ids import Ids
from kohort.protocol.errors import ErrorCode

INITIAL_EPOCH = 0
"""The epoch of a request that lists all its partitions and wants a session."""
FINAL_EPOCH = -1
"""The epoch of a request that lists all its partitions and wants no session."""
EVICTABLE_AFTER = 120.0
"""Seconds without a request after which a session makes room for a new one; Kafka's
``min.incremental.fetch.session.eviction.ms``."""

MOST_PARTITIONS = 250_000
"""Partitions in all sessions of a node: about 100 MB. Kafka limits only the number of
sessions, so a client could fill the memory with partitions that do not even exist. A
client that gets no session, or loses it, lists all its partitions in each request."""

TopicKey = str | bytes
"""A topic's name, or from Fetch v13 on its id."""

PartitionKey = tuple[TopicKey, int]
"""A topic and the index of one of its partitions."""


class FetchedPartition:
    """One partition of a fetch, and the offsets that its client last received."""

    __slots__ = (
        "fetch_offset",
        "high_watermark",
        "leader_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "topic",
    )

    def __init__(
        self,
        topic: TopicKey,
        partition: int,
        leader_epoch: int,
        fetch_offset: int,
        max_bytes: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        # Offsets in the session's last response; -1 before the first.
        self.high_watermark = -1
        self.log_start_offset = -1

    def tells_news(
        self, error_code: int, high_watermark: int, log_start_offset: int, size: int
    ) -> bool:
        """Returns whether an incremental response has to list the partition."""
        news = (
            size > 0
            or error_code != 0
            or high_watermark != self.high_watermark
            or log_start_offset != self.log_start_offset
        )
        # After an error, the next success is always news.
        self.high_watermark = -1 if error_code else high_watermark
        self.log_start_offset = log_start_offset
        return news


class FetchSession:
    """The partitions of one session, in the order in which they are served."""

    __slots__ = ("epoch", "id", "last_used", "partitions", "uses_topic_ids")

    def __init__(
        self,
        session_id: int,
        uses_topic_ids: bool,
        partitions: dict[PartitionKey, FetchedPartition],
        now: float,
    ) -> None:
        self.id = session_id
        self.epoch = 1
        self.uses_topic_ids = uses_topic_ids
        self.last_used = now
        self.partitions = partitions

    def serve_last(self, partitions: Iterable[FetchedPartition]) -> None:
        """Moves partitions that were just served behind the others."""
        for partition in partitions:
            key = partition.topic, partition.partition
            if self.partitions.pop(key, None) is not None:
                self.partitions[key] = partition


class FetchSessions:
    """The fetch sessions of a node.

    Args:
        ids: the source of session ids.
        slots: the maximum number of sessions
            (``max.incremental.fetch.session.cache.slots``).

    Attributes:
        partition_count: partitions in all sessions.
    """

    def __init__(self, ids: Ids, slots: int) -> None:
        self._ids = ids
        self._slots = slots
        # Least recently used first.
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self.partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        """Returns a session by its id, without using it."""
        return self._sessions.get(session_id)

    def create(
        self,
        uses_topic_ids: bool,
        partitions: dict[PartitionKey, FetchedPartition],
        now: float,
    ) -> FetchSession | None:
        """Returns a new session, perhaps of no partition; None if there is no room."""
        if len(partitions) > MOST_PARTITIONS:
            return None
        while (
            len(self._sessions) >= self._slots
            or self.partition_count + len(partitions) > MOST_PARTITIONS
        ):
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now - oldest.last_used < EVICTABLE_AFTER:
                return None
            self.close(oldest.id)
        session_id = self._ids.fetch_session_id()
        while session_id in self._sessions:
            session_id = self._ids.fetch_session_id()
        session = FetchSession(session_id, uses_topic_ids, partitions, now)
        self._sessions[session_id] = session
        self.partition_count += len(partitions)
        return session

    def resume(
        self, session_id: int, epoch: int, uses_topic_ids: bool, now: float
    ) -> FetchSession | ErrorCode:
        """Returns the session of an incremental request, or an error to start over."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch = 1 if epoch == 2**31 - 1 else epoch + 1
        session.last_used = now
        self._sessions.move_to_end(session_id)
        return session

    def change(
        self, session: FetchSession, key: PartitionKey, wanted: FetchedPartition
    ) -> bool:
        """Adds or updates a partition that a request lists.

        Returns:
            False if there is no room for it; the session is closed.
        """
        known = session.partitions.get(key)
        if known is not None:
            known.leader_epoch = wanted.leader_epoch
            known.fetch_offset = wanted.fetch_offset
            known.max_bytes = wanted.max_bytes
        elif (
            self.partition_count >= MOST_PARTITIONS or session.id not in self._sessions
        ):
            self.close(session.id)
            return False
        else:
            session.partitions[key] = wanted
            self.partition_count += 1
        return True

    def forget(self, session: FetchSession, key: PartitionKey) -> None:
        """Removes a partition that a request lists as forgotten."""
        if session.id in self._sessions and key in session.partitions:
            del session.partitions[key]
            self.partition_count -= 1

    def close(self, session_id: int) -> None:
        """Closes a session, if it exists."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partition_count -= len(session.partitions)
