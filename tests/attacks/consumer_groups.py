"""Attacks by the consumer protocol (KIP-848); generators, see `Attack.program`.

Heartbeats of a consumer group name topics, patterns and partitions, all of any number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tests.attacks.attack import Attack, Program
from tests.attacks.target import Target, pipelined
from tests.wire import frames as wire

from kohort.protocol.apis import k68_consumer_group_heartbeat as heartbeats

SESSION_MS = 10_000
"""Members of the crowd expire after the attack."""
CROWD = 10_000
MANY = 100_000
"""Topics of a heartbeat; also the most items of a request."""
PATTERNS = 300
TOPICS = 1_000
INT32 = (-(2**31), -3, -2, -1, 0, 1, 2**31 - 1)
EXPENSIVE = "(?:a?){300}(?:.?){100}"
"""Each name costs RE2 as much as it may."""


def beat(group: str, member_id: str = "m", epoch: int = 0, **fields: Any) -> bytes:
    """A heartbeat; one that joins has all fields that it needs."""
    request = heartbeats.ConsumerGroupHeartbeatRequest(
        group,
        member_id,
        epoch,
        **{"rebalance_timeout_ms": 1_000, "topic_partitions": [], **fields},
    )
    return wire.request("ConsumerGroupHeartbeat", 1, request)


def _crowd(target: Target) -> Program:
    target.create("thin")
    yield
    joins: Iterator[bytes] = (
        beat("crowd", f"member-{number}", subscribed_topic_names=["thin"])
        for number in range(CROWD)
    )
    return f"answered: {pipelined(target.line(), joins)}"


def _epochs(target: Target) -> Program:
    target.create("thin")
    yield
    frames = []
    for epoch in INT32:
        frames.append(beat("epochs", subscribed_topic_names=["thin"]))
        frames += [
            beat("epochs", epoch=epoch, rebalance_timeout_ms=timeout)
            for timeout in INT32
        ]
        frames.append(beat("epochs", epoch=epoch, instance_id="i"))
    return f"answered: {pipelined(target.line(), frames)}"


def _patterns(target: Target) -> Program:
    for number in range(TOPICS):
        target.create(f"{number:04}{'a' * 200}")
    yield
    line = target.line()
    joins = [
        beat("patterns", f"m-{n}", subscribed_topic_regex=f"{EXPENSIVE}|{n}.*")
        for n in range(PATTERNS)
    ]
    joins += [
        beat("patterns", f"l-{n}", subscribed_topic_regex=f"{n}" + "a" * 9_000)
        for n in range(PATTERNS)
    ]
    joined = pipelined(line, joins)
    beats = (beat("patterns", f"m-{n}", 1) for n in range(PATTERNS))
    return f"answered: {joined}, {pipelined(line, beats)}"


def _topic_lists(target: Target) -> Program:
    target.create("thin")
    yield
    joins: Iterable[bytes] = (
        beat(
            "lists",
            f"m-{member}",
            subscribed_topic_names=[f"{member}-{n}" for n in range(count)],
        )
        for count in (9_900, MANY - 100)
        for member in range(20)
    )
    found = [f"{target.ask(each)}" for each in joins]
    return ", ".join(found)


def _owned(target: Target) -> Program:
    target.create("thin", 10)
    line = target.line()
    join = beat("owned", subscribed_topic_names=["thin"])
    yield
    wrong = (
        (bytes(16), [0]),
        (b"\xff" * 16, [0]),
        (b"\x01" * 16, [-1, -(2**31), 2**31 - 1]),
        (b"\x01" * 16, [1] * (MANY - 100)),
    )
    frames = []
    for topic_id, partitions in wrong:
        rows = [heartbeats.TopicPartitions(topic_id, partitions)]
        for epoch in (0, 1, 2):
            frames += [join, beat("owned", epoch=epoch, topic_partitions=rows)]
    rows = [heartbeats.TopicPartitions(bytes(16), [0])] * (MANY // 2 - 100)
    frames += [join, beat("owned", epoch=1, topic_partitions=rows)]
    return f"answered: {pipelined(line, frames)}"


CONSUMER_GROUPS = [
    Attack(
        "crowd",
        "ConsumerGroupHeartbeat of 10,000 members of a group",
        _crowd,
        config={
            "group.consumer.min.session.timeout.ms": str(SESSION_MS),
            "group.consumer.session.timeout.ms": str(SESSION_MS),
        },
        keeps_mb=100.0,
    ),
    Attack("epochs", "epochs and timeouts at the ends of int32", _epochs),
    Attack(
        "patterns",
        "600 different patterns of a group, expensive or long; 1,000 topics",
        _patterns,
    ),
    Attack(
        "topic-lists",
        "20 members that subscribe to 9,900 topics, and to 99,900",
        _topic_lists,
        keeps_mb=100.0,
    ),
    Attack(
        "owned",
        "owned partitions that are unknown, negative, or 100,000 times the same",
        _owned,
    ),
]
