"""Profiles: the settings of both brokers, and the sequences that they get."""

from __future__ import annotations

from dataclasses import dataclass

from tests.conformance import profiles


@dataclass(frozen=True)
class Profile:
    """What is played against brokers with these settings.

    Attributes:
        settings: of both brokers, with Kafka's keys.
        makes: the kind of sequences: "groups", or "log" for produce and fetch.
        sessions_ms: session timeouts of members; one of them is refused.
        delay_ms: `group.initial.rebalance.delay.ms`.
        quick: the share of sequences in which timers run out.
    """

    settings: dict[str, str]
    makes: str = "groups"
    sessions_ms: tuple[int, ...] = (30_000, 30_000, 30_000, 25_000, 1)
    delay_ms: int = 0
    quick: float = 0.2


TIMER_MS = 1500
"""Timeouts that run out while a sequence is played. All of them are this long, so that
a burst of steps fits between two waits on a machine that has other work."""
DELAY_MS = 1500

PROFILES = {
    "default": Profile(profiles.PROFILES["default"]),
    "sessions": Profile(
        profiles.PROFILES["sessions"],
        sessions_ms=(TIMER_MS, TIMER_MS, TIMER_MS, 30_000, 99),
        quick=1.0,
    ),
    "delay": Profile(
        profiles.PROFILES["default"]
        | {"group.initial.rebalance.delay.ms": str(DELAY_MS)},
        delay_ms=DELAY_MS,
        quick=1.0,
    ),
    "max2": Profile(profiles.PROFILES["max2"]),
    # The cache of fetch sessions never fills up, and the cleaner never runs: the time
    # at which they do is not compared.
    "log": Profile(
        profiles.PROFILES["default"]
        | {
            "max.incremental.fetch.session.cache.slots": "1000000",
            "log.cleaner.backoff.ms": "3600000",
        },
        makes="log",
    ),
}
