"""Hints about unknown settings: typing errors, and settings of clients and topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort.broker.config_keys import TOPIC_KEYS

_TABLE: Final = """
consumer allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs
consumer client.rack enable.auto.commit exclude.internal.topics fetch.max.wait.ms
consumer fetch.min.bytes group.id group.instance.id group.protocol heartbeat.interval.ms
consumer group.remote.assignor isolation.level key.deserializer max.poll.interval.ms
consumer max.partition.fetch.bytes max.poll.records partition.assignment.strategy
consumer session.timeout.ms value.deserializer
producer acks batch.size buffer.memory delivery.timeout.ms enable.idempotence linger.ms
producer key.serializer max.block.ms max.in.flight.requests.per.connection
producer max.request.size partitioner.class transaction.timeout.ms transactional.id
producer value.serializer
client bootstrap.servers client.dns.lookup client.id default.api.timeout.ms retries
client enable.metrics.push interceptor.classes metadata.max.age.ms retry.backoff.ms
client metadata.recovery.strategy receive.buffer.bytes reconnect.backoff.max.ms
client reconnect.backoff.ms retry.backoff.max.ms sasl.mechanism security.protocol
client send.buffer.bytes
"""
CLIENT_KEYS: Final = {
    key: row.split()[0] for row in _TABLE.splitlines() for key in row.split()[1:]
}
"""The client that has a setting, for those of kafka-clients 4.3 that a broker lacks."""

_INSTEAD: Final = {
    "session.timeout.ms": "the broker bounds it by group.min.session.timeout.ms and "
    "group.max.session.timeout.ms",
    "max.request.size": "the broker's limit is message.max.bytes",
    "bootstrap.servers": "the broker listens on --host and --port",
    "group.protocol": "kohort has classic groups only",
    "transaction.timeout.ms": "the broker bounds it by transaction.max.timeout.ms",
    "security.protocol": "kohort is always PLAINTEXT",
}


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The most similar name as the end of a sentence; "" if there is none."""
    import difflib

    near = difflib.get_close_matches(name, list(names), 1)
    return f"; did you mean {near[0]}?" if near else ""


def owner(name: str) -> str:
    """Names the owner of a setting: a client or a topic; "" if there is none.

    Also for names with underscores, as in Python.
    """
    key = name.replace("_", ".")
    if key in CLIENT_KEYS:
        instead = f"; {_INSTEAD[key]}" if key in _INSTEAD else ""
        return (
            f"this is a {CLIENT_KEYS[key]}'s setting: set it in your program{instead}"
        )
    if key in TOPIC_KEYS:
        parents = TOPIC_KEYS[key].parents
        default = f"; the broker's default for it is {parents[0]}" if parents else ""
        return f"this is a topic's setting{default}"
    return ""
