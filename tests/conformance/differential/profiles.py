"""Profiles: the settings of both brokers, and their sequences."""

from __future__ import annotations

from dataclasses import dataclass

from tests.conformance import profiles


@dataclass(frozen=True)
class Profile:
    """The sequences for brokers with these settings.

    Attributes:
        settings: of both brokers, with Kafka's keys.
        makes: the kind of sequences: "groups" of the classic protocol, "consumers" for
            groups of KIP-848, "mixed" for groups of both, "log" for produce and fetch,
            or "transactions".
        sessions_ms: session timeouts of members; one of them is refused. Nobody keeps a
            member id alive that has not joined yet: longer than all waits of a sequence
            on a busy machine.
        delay_ms: `group.initial.rebalance.delay.ms`.
        quick: the share of sequences in which timers fire.
    """

    settings: dict[str, str]
    makes: str = "groups"
    sessions_ms: tuple[int, ...] = (300_000, 300_000, 300_000, 250_000, 1)
    delay_ms: int = 0
    quick: float = 0.2


TIMER_MS = 1500
"""Timeouts that fire while a sequence is played. All of them are this long, so that a
burst of steps fits between two waits on a busy machine."""
DELAY_MS = 1500

_ONE = {
    **profiles.PROFILES["sessions"],
    # Sequences whose consumers' sessions end have groups with a shorter timeout.
    "group.consumer.session.timeout.ms": "60000",
    # Kafka matches patterns in the order of the heartbeats that ask for it.
    "group.coordinator.background.threads": "1",
    # The cache of fetch sessions never fills up, and the cleaner never runs: their
    # timing is not compared.
    "max.incremental.fetch.session.cache.slots": "1000000",
    "log.cleaner.backoff.ms": "3600000",
    # All groups are in one partition, as requests of transactions and responses name
    # it. Few partitions of transactions are soon loaded.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "4",
}
"""Settings for most profiles, so that they can be played on the same brokers."""
_MAX2 = _ONE | {"group.max.size": "2", "group.consumer.max.size": "2"}

PROFILES = {
    "default": Profile(_ONE),
    "sessions": Profile(
        _ONE, sessions_ms=(TIMER_MS, TIMER_MS, TIMER_MS, 300_000, 99), quick=1.0
    ),
    "delay": Profile(
        _ONE | {"group.initial.rebalance.delay.ms": str(DELAY_MS)},
        delay_ms=DELAY_MS,
        quick=1.0,
    ),
    "max2": Profile(_MAX2),
    "consumers": Profile(_ONE, makes="consumers"),
    "mixed": Profile(_ONE, makes="mixed"),
    "mixed-max2": Profile(_MAX2, makes="mixed"),
    "log": Profile(_ONE, makes="log"),
    # Transactions never time out while a sequence is played.
    "transactions": Profile(_ONE, makes="transactions"),
}
