"""Fetch sessions (KIP-227): epochs, changes, eviction."""

from __future__ import annotations

import pytest

from kohort.broker.cluster import fetch_sessions
from kohort.broker.cluster.fetch_sessions import (
    EVICTABLE_AFTER,
    FetchedPartition,
    FetchSession,
    FetchSessions,
    PartitionKey,
)
from kohort.broker.ids import Ids
from kohort.protocol.errors import ErrorCode


def partition(index: int, offset: int = 0) -> FetchedPartition:
    """Partition `index` of the topic "t"."""
    return FetchedPartition("t", index, -1, offset, 1000)


def asked(*indexes: int) -> dict[PartitionKey, FetchedPartition]:
    """Partitions as in a request."""
    return {("t", index): partition(index) for index in indexes}


def session_of(sessions: FetchSessions, *indexes: int, now: float = 0) -> FetchSession:
    """A new session with these partitions."""
    made = sessions.create(False, asked(*indexes), now)
    assert made is not None
    return made


def test_epochs_count_the_requests() -> None:
    """Each request has the next epoch; any other is refused and changes nothing."""
    sessions = FetchSessions(Ids(1), 10)
    session = session_of(sessions, 0)
    assert sessions.resume(session.id, 1, False, 0) is session
    assert (
        sessions.resume(session.id, 1, False, 0)
        == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    )
    assert sessions.resume(session.id, 2, False, 0) is session


def test_the_epoch_wraps_to_one() -> None:
    """0 and -1 are reserved, so the epoch after the largest is 1."""
    sessions = FetchSessions(Ids(1), 10)
    session = session_of(sessions, 0)
    session.epoch = 2**31 - 1
    assert sessions.resume(session.id, 2**31 - 1, False, 0) is session
    assert session.epoch == 1


def test_a_session_keeps_to_names_or_to_ids() -> None:
    """A client that switches to topic ids has to start over."""
    sessions = FetchSessions(Ids(1), 10)
    session = session_of(sessions, 0)
    error = sessions.resume(session.id, 1, True, 0)
    assert error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_closed_session_is_unknown() -> None:
    """Closing a session twice is no error."""
    sessions = FetchSessions(Ids(1), 10)
    session = session_of(sessions, 0)
    sessions.close(session.id)
    sessions.close(session.id)
    error = sessions.resume(session.id, 1, False, 0)
    assert error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_requests_change_the_partitions() -> None:
    """New partitions come last, known ones change, forgotten ones are removed."""
    sessions = FetchSessions(Ids(1), 10)
    session = session_of(sessions, 0, 1)
    assert sessions.change(session, ("t", 1), partition(1, 50))
    assert sessions.change(session, ("t", 2), partition(2))
    sessions.forget(session, ("t", 0))
    sessions.forget(session, ("t", 9))
    assert [(p.partition, p.fetch_offset) for p in session.partitions.values()] == [
        (1, 50),
        (2, 0),
    ]


def test_who_has_been_served_comes_last() -> None:
    """Served partitions go last, so a limit on bytes starves none."""
    session = session_of(FetchSessions(Ids(1), 10), 0, 1, 2)
    session.serve_last([partition(0), partition(1)])
    assert [p.partition for p in session.partitions.values()] == [2, 0, 1]


def test_only_news_is_told() -> None:
    """The first row, records, watermarks, errors and the row after one are news."""
    p = partition(0)
    assert p.tells_news(0, 5, 0, 0)
    assert not p.tells_news(0, 5, 0, 0)
    assert p.tells_news(0, 5, 0, 100)
    assert p.tells_news(0, 6, 0, 0)
    assert p.tells_news(0, 6, 1, 0)
    assert p.tells_news(3, -1, -1, 0)
    assert p.tells_news(0, 6, 1, 0)


def test_a_full_cache_evicts_only_who_is_silent() -> None:
    """Without a slot the client fetches without a session."""
    sessions = FetchSessions(Ids(1), 2)
    first = session_of(sessions, 0)
    second = session_of(sessions, 0)
    assert sessions.create(False, asked(0), EVICTABLE_AFTER - 1) is None
    assert sessions.resume(first.id, 1, False, EVICTABLE_AFTER) is first
    third = session_of(sessions, 0, now=EVICTABLE_AFTER)
    gone = sessions.resume(second.id, 1, False, EVICTABLE_AFTER)
    assert gone == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.resume(third.id, 1, False, EVICTABLE_AFTER) is third
    assert len(sessions) == 2


def test_partitions_of_all_sessions_have_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An idle session makes room; without room the client fetches without one."""
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 5)
    sessions = FetchSessions(Ids(1), 10)
    first = session_of(sessions, 0, 1, 2)
    second = session_of(sessions, 0, now=1)
    assert sessions.create(False, asked(0, 1), 2) is None
    third = session_of(sessions, 0, 1, now=EVICTABLE_AFTER)
    gone = sessions.resume(first.id, 1, False, EVICTABLE_AFTER)
    assert gone == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.create(False, asked(*range(6)), 10 * EVICTABLE_AFTER) is None
    assert (len(sessions), sessions.partition_count) == (2, 3)
    sessions.close(second.id)
    sessions.forget(second, ("t", 0))
    sessions.close(third.id)
    assert sessions.partition_count == 0


def test_a_session_that_grows_too_large_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its client starts over; changes of known partitions do not count as growth."""
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 3)
    sessions = FetchSessions(Ids(1), 10)
    session = session_of(sessions, 0, 1, 2)
    assert sessions.change(session, ("t", 1), partition(1, 9))
    sessions.forget(session, ("t", 0))
    assert sessions.change(session, ("t", 7), partition(7))
    assert not sessions.change(session, ("t", 8), partition(8))
    assert not sessions.change(session, ("t", 8), partition(8))
    assert (len(sessions), sessions.partition_count) == (0, 0)


def test_no_slots_no_session() -> None:
    """Without slots there are no sessions."""
    assert FetchSessions(Ids(1), 0).create(False, asked(0), 0) is None
