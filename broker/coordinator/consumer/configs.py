"""The settings of a consumer group: its own configuration, else the broker's."""

from __future__ import annotations

from kohort.broker.coordinator.settings import GroupSettings


def session_timeout_ms(settings: GroupSettings, group_id: str) -> int:
    """How long a member may be silent, in ms."""
    default = settings.consumer_session_timeout_ms
    return _of(settings, group_id, "consumer.session.timeout.ms", default)


def heartbeat_interval_ms(settings: GroupSettings, group_id: str) -> int:
    """How often members send heartbeats, in ms."""
    default = settings.consumer_heartbeat_interval_ms
    return _of(settings, group_id, "consumer.heartbeat.interval.ms", default)


def assignment_interval_ms(settings: GroupSettings, group_id: str) -> int:
    """The shortest time between two target assignments, in ms."""
    default = settings.consumer_assignment_interval_ms
    return _of(settings, group_id, "consumer.assignment.interval.ms", default)


def _of(settings: GroupSettings, group_id: str, name: str, default: int) -> int:
    overrides = settings.overrides
    if not overrides:
        return default
    return overrides.get(group_id, {}).get(name, default)
