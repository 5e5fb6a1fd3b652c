"""Group coordinator settings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kohort.protocol.slotted import slotted

_NO_OVERRIDES: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType({})


@slotted
class GroupSettings:
    """Settings of the group coordinator, with Apache Kafka's defaults."""

    min_session_timeout_ms: int = 6_000
    """``group.min.session.timeout.ms``"""
    max_session_timeout_ms: int = 1_800_000
    """``group.max.session.timeout.ms``"""
    initial_rebalance_delay_ms: int = 3_000
    """``group.initial.rebalance.delay.ms`` (KIP-134)"""
    max_size: int = 2_147_483_647
    """``group.max.size``, members (KIP-389)"""
    offset_metadata_max_bytes: int = 4_096
    """``offset.metadata.max.bytes``; Kafka counts Java's characters, UTF-16 units."""
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1_000
    """``offsets.retention.minutes``, in milliseconds"""
    offsets_retention_check_interval_ms: int = 600_000
    """``offsets.retention.check.interval.ms``"""
    consumer_session_timeout_ms: int = 45_000
    """``group.consumer.session.timeout.ms`` (KIP-848)"""
    consumer_heartbeat_interval_ms: int = 5_000
    """``group.consumer.heartbeat.interval.ms``"""
    consumer_max_size: int = 2_147_483_647
    """``group.consumer.max.size``, members"""
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """``group.consumer.assignors``; the first is the default"""
    consumer_migration_policy: str = "bidirectional"
    """``group.consumer.migration.policy``: disabled, upgrade, downgrade or
    bidirectional"""
    consumer_assignment_interval_ms: int = 1_000
    """``group.consumer.assignment.interval.ms``: the shortest time between two target
    assignments"""
    consumer_regex_refresh_interval_ms: int = 600_000
    """``group.consumer.regex.refresh.interval.ms``"""
    overrides: Mapping[str, Mapping[str, int]] = _NO_OVERRIDES
    """By group id, the configurations of single groups by Kafka's names:
    ``consumer.session.timeout.ms``, ``consumer.heartbeat.interval.ms``,
    ``consumer.assignment.interval.ms``"""
    is_helpful: bool = False
    """``kohort.strictness`` is ``helpful``: requests that Kafka never answers are
    answered, and static members count for ``group.max.size``, too."""
    new_member_join_timeout_ms: int = 300_000
    """How long a join of a new member may wait before it has to join again. New members
    know no id to heartbeat with, so nothing else would notice that they are gone. A
    constant in Kafka."""

    def allows_session_timeout(self, timeout_ms: int) -> bool:
        """Returns whether a member may join with this session timeout."""
        return self.min_session_timeout_ms <= timeout_ms <= self.max_session_timeout_ms
