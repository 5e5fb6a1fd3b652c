"""Settings of the coordinators, from the broker's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kohort.broker.config import Config
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.transactions.settings import TransactionSettings

_MINUTE_MS: Final = 60_000


def plays_first_use(config: Config) -> bool:
    """Returns whether the first requests are refused, as a fresh Kafka cluster does."""
    return bool(config["coordinator.first.use"] == "kafka")


def group_settings(
    config: Config, of_groups: Mapping[str, Mapping[str, int]]
) -> GroupSettings:
    """Group coordinator settings, from the configuration.

    Args:
        config: the broker's configuration.
        of_groups: that of single groups, see `ResourceConfigs.of_groups`.
    """
    return GroupSettings(
        min_session_timeout_ms=config["group.min.session.timeout.ms"],
        max_session_timeout_ms=config["group.max.session.timeout.ms"],
        initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
        max_size=config["group.max.size"],
        consumer_session_timeout_ms=config["group.consumer.session.timeout.ms"],
        consumer_heartbeat_interval_ms=config["group.consumer.heartbeat.interval.ms"],
        consumer_max_size=config["group.consumer.max.size"],
        consumer_assignors=config["group.consumer.assignors"],
        consumer_migration_policy=config["group.consumer.migration.policy"].lower(),
        consumer_assignment_interval_ms=config["group.consumer.assignment.interval.ms"],
        consumer_regex_refresh_interval_ms=config[
            "group.consumer.regex.refresh.interval.ms"
        ],
        overrides=of_groups,
        is_helpful=config["kohort.strictness"] == "helpful",
        offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
        offsets_retention_ms=config["offsets.retention.minutes"] * _MINUTE_MS,
        offsets_retention_check_interval_ms=config[
            "offsets.retention.check.interval.ms"
        ],
    )


def transaction_settings(config: Config) -> TransactionSettings:
    """Transaction coordinator settings, from the configuration."""
    return TransactionSettings(
        max_timeout_ms=config["transaction.max.timeout.ms"],
        abort_interval_ms=config[
            "transaction.abort.timed.out.transaction.cleanup.interval.ms"
        ],
        expiration_ms=config["transactional.id.expiration.ms"],
        expiration_interval_ms=config[
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        ],
        markers_delay_ms=config["transaction.markers.delay.ms"],
    )
