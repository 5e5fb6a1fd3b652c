"""Reasons of clients for leaving or joining (KIP-800), from their sources.

Only LeaveGroup v5 and JoinGroup v8 carry a reason. Looked up in the sources of
kafka-clients (AbstractCoordinator, ConsumerCoordinator, KafkaAdminClient), librdkafka
(rdkafka_request.c), franz-go (consumer_group.go), kafka-python (coordinator/base.py),
aiokafka (group_coordinator.py) and kohort's own client (session.py).

    client          poll interval exceeded                        closed
    kafka-clients   consumer poll timeout has expired.            the consumer is being closed
    kohort          no poll within max.poll.interval.ms (N ms)    the consumer is being closed
                    the listener took longer than max.poll.interval.ms (N ms)
    franz-go        (has no such limit)                           client leaving group per normal operation
    librdkafka      LeaveGroup v0 or v1: no reason                likewise
    kafka-python    no reason                                     no reason
    aiokafka        LeaveGroup v0 or v1: no reason                likewise
"""

from __future__ import annotations

POLL_INTERVAL = ("poll timeout has expired", "max.poll.interval")
_REMOVED = (
    "member was removed by an admin",  # kafka-clients' admin
    "removed by an admin client",  # kohort's
)
_METADATA_CHANGED = (
    "cached metadata has changed",  # kafka-clients
    "topics have new partitions",  # franz-go
    "partitions on topics another member is consuming have changed",  # franz-go
)
_GAVE_UP_PARTITIONS = (
    "need to revoke partitions and re-join",
    "it has given up partitions",
    "after revoking what we lost from a rebalance",
)


WITHOUT_LIMIT = frozenset(
    {"RoundRobinAssigner", "kafkajs", "sarama", "kgo"}
    | {"@platformatic/kafka", "platformatic-kafka"}
)
"""Names of clients without a max.poll.interval.ms, and of kafkajs's only assignor, as
kafkajs does not say its name: to stop and run it again looks like a missed poll."""


def is_poll_interval(reason: str | None) -> bool:
    """Returns whether a client gives a missed max.poll.interval.ms as its reason."""
    return _is_one(reason, POLL_INTERVAL)


def is_removed(reason: str | None) -> bool:
    """Returns whether an admin gave the reason, and not the member."""
    return reason is not None and reason.startswith(_REMOVED)


def is_metadata_changed(reason: str | None) -> bool:
    """Returns whether a leader gives a change of its topics as its reason."""
    return _is_one(reason, _METADATA_CHANGED)


def is_second_half(reason: str | None) -> bool:
    """Returns whether a cooperative member rejoins so that its revoked partitions are assigned."""
    return _is_one(reason, _GAVE_UP_PARTITIONS)


def _is_one(reason: str | None, texts: tuple[str, ...]) -> bool:
    return reason is not None and any(text in reason for text in texts)
