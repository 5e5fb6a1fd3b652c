"""Features of Apache Kafka and their finalized levels (KIP-584).

Clients read and change the levels. Only `GROUP_VERSION`, `TRANSACTION_VERSION` and
`ELIGIBLE_LEADER_REPLICAS` change how kohort works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

METADATA_VERSION: Final = "metadata.version"
ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"
"""Above 0, min.insync.replicas is set for all brokers at once (KIP-966)."""

GROUP_VERSION: Final = "group.version"
"""Above 0, there are consumer groups (KIP-848)."""

TRANSACTION_VERSION: Final = "transaction.version"
"""From 2 on, each end of a transaction raises the producer's epoch (KIP-890)."""

SUPPORTED: Final[Mapping[str, Mapping[str, tuple[int, int]]]] = {
    "2.8": {},
    "3.9": {"kraft.version": (0, 1), METADATA_VERSION: (1, 21)},
    "4.0": {
        GROUP_VERSION: (0, 1),
        "kraft.version": (0, 1),
        METADATA_VERSION: (7, 25),
        TRANSACTION_VERSION: (0, 2),
        ELIGIBLE_LEADER_REPLICAS: (0, 1),
    },
    "4.3": {
        GROUP_VERSION: (0, 1),
        "kraft.version": (0, 1),
        METADATA_VERSION: (7, 30),
        "share.version": (0, 1),
        "streams.version": (0, 1),
        TRANSACTION_VERSION: (0, 2),
        ELIGIBLE_LEADER_REPLICAS: (0, 1),
    },
}
"""The least and the highest level of each feature, by the version of Kafka."""

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""Types of changes."""


class FeatureError(Exception):
    """A level cannot be changed; the message says why."""


class Features:
    """The finalized levels.

    Args:
        save: saves the levels.
        version: the version of Kafka, a key of `SUPPORTED`.

    Attributes:
        supported: the least and the highest level of each feature.
        levels: by feature; those at 0 are not finalized.
    """

    def __init__(self, save: Callable[[], object], version: str) -> None:
        self._save = save
        self.supported = SUPPORTED[version]
        # A new cluster has the highest levels, with these exceptions.
        omitted = {"kraft.version"}
        if version == "4.0":
            omitted.add(ELIGIBLE_LEADER_REPLICAS)
        self.levels = {
            name: most
            for name, (_, most) in self.supported.items()
            if name not in omitted
        }

    def level(self, name: str) -> int:
        """The level of a feature; 0 if it is not finalized."""
        return self.levels.get(name, 0)

    def restore(self, levels: Mapping[str, int]) -> None:
        """Takes saved levels, as far as this version of Kafka has them."""
        for name, level in levels.items():
            if name in self.supported:
                least, most = self.supported[name]
                self.levels[name] = min(max(level, least), most)

    def update(
        self, changes: Mapping[str, tuple[int, int]], *, validate_only: bool
    ) -> None:
        """Changes levels, all of them or none.

        Args:
            changes: the new level and the type of the change, by feature.
            validate_only: check only, change nothing.

        Raises:
            FeatureError: a change is invalid.
            StorageError: the new levels apply, but could not be saved.
        """
        for name, (level, kind) in changes.items():
            why = self._why_not(name, level, kind)
            if why is not None:
                raise FeatureError(f"{name} cannot have level {level}: {why}")
        if changes and not validate_only:
            self.levels.update((name, level) for name, (level, _) in changes.items())
            self._save()

    def _why_not(self, name: str, level: int, kind: int) -> str | None:
        """The reason why a level is invalid; None if it is valid."""
        if name not in self.supported:
            return "the feature is unknown"
        current = self.levels.get(name, 0)
        least, most = self.supported[name]
        if kind not in {UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE}:
            return f"there is no type of change {kind}"
        if not least <= level <= most:
            return f"the levels are {least} to {most}"
        if level < current and kind == UPGRADE:
            return f"it has {current}, and the change is an upgrade"
        if level > current and kind != UPGRADE:
            return f"it has {current}, and the change is a downgrade"
        if level < current and name in {METADATA_VERSION, "kraft.version"}:
            return "it cannot be lowered"
        return None
