"""Patterns of topics, which members subscribe to (RE2).

1. A heartbeat with a pattern that is new to its group only checks its syntax
   (`validate`). Its topics are not known yet.
2. All patterns of the group are resolved at once, right after the heartbeat that finds
   it necessary (`schedule`): a pattern has no topics, the cluster has other topics, or
   ``group.consumer.regex.refresh.interval.ms`` is over. At most every 10 s, as in
   Kafka, which does it in a thread of its own. Here it is done in pieces, each in a
   turn: members may have many patterns, and the cluster many topics.
3. `resolve` writes the topics. If they are others than before, it starts a new group
   epoch; the members get their partitions in their next heartbeats.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kohort.broker.coordinator.consumer import regex
from kohort.broker.coordinator.consumer.cause import Cause, Refusal
from kohort.broker.coordinator.consumer.changes import Change
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.effects import RegularExpressionRecord
from kohort.broker.coordinator.room import Groups
from kohort.broker.coordinator.turn import Turn
from kohort.broker.runtime.events import TimerKey
from kohort.protocol.errors import ErrorCode

_PAUSE_MS: Final = 10_000
"""The shortest time between two resolutions; a constant in Kafka, too."""
_WORK: Final = ("patterns",)
_BREATH_S: Final = 0.001
"""Time between two pieces: timers that are due already may fire in one turn."""


def validate(pattern: str) -> Refusal | None:
    """Returns the error of an invalid pattern."""
    try:
        regex.compiled(pattern)
    except regex.InvalidRegularExpressionError as error:
        return Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error))
    return None


class Resolved(NamedTuple):
    """The patterns of a group that have topics.

    Attributes:
        number: how many there are.
        time_ms: when they were last resolved, in ms since the epoch.
    """

    number: int
    time_ms: float


def resolved(group: ConsumerGroup) -> Resolved:
    """Returns the patterns of a group that have topics."""
    for pattern in group.patterns.values():
        return Resolved(len(group.patterns), pattern.time_ms)
    return Resolved(0, float("-inf"))


def schedule(turn: Turn, group: ConsumerGroup, last: Resolved, *, is_new: bool) -> None:
    """Has the group's patterns resolved after this turn, if that is necessary.

    Args:
        turn: that of a heartbeat.
        group: the group.
        last: those resolved before the heartbeat, which may have given up a pattern.
            Kafka counts them: with one pattern less and another one more than before it
            waits for the next heartbeat.
        is_new: whether its pattern is new to the group.
    """
    if not group.subscribers or group.resolves_at is not None:
        return
    now_ms = int(turn.now * 1000)
    if now_ms <= last.time_ms + _PAUSE_MS:
        return
    if group.is_refused(_WORK, group.generation_id, turn.now):
        return
    interval_ms = turn.settings.consumer_regex_refresh_interval_ms
    if (
        is_new
        or group.has_stale_patterns
        or len(group.subscribers) != last.number
        or now_ms > last.time_ms + interval_ms
    ):
        group.resolves_at = turn.now
        turn.arm(("regex", group.group_id), turn.now)


def resolve_due(turn: Turn, group: ConsumerGroup, _: TimerKey) -> None:
    """Resolves the patterns of a group, or goes on with it."""
    if group.resolves_at is None:
        return
    topics = group.topics
    if group.resolution is None:
        group.has_stale_patterns = False
        found = regex.Resolution(group.subscribers, topics.names())
        group.resolution = found, topics.version()
    resolution, version = group.resolution
    if not resolution.go_on():
        turn.arm(("regex", group.group_id), turn.now + _BREATH_S)
        return
    group.resolves_at = group.resolution = None
    if resolution.is_too_large:
        # Members may change their patterns, and topics may be deleted.
        group.has_stale_patterns = True
        group.note_refused(_WORK, turn.now)
        return
    _write(turn, group, resolution.found, version)


def _write(
    turn: Turn, group: ConsumerGroup, found: dict[str, list[str]], version: int
) -> None:
    """Writes the topics of those patterns that the group still has."""
    if not group.subscribers:
        return
    groups: Groups = {group.group_id: group}
    change = Change(turn, groups, group)
    change.work = _WORK
    now_ms = int(turn.now * 1000)
    has_changed = False
    for pattern, names in found.items():
        if pattern not in group.subscribers:
            continue
        known = group.patterns.get(pattern)
        has_changed |= frozenset(names) != (known.topics if known else frozenset())
        change.put(
            RegularExpressionRecord(group.group_id, pattern, (names, version, now_ms))
        )
    new_hash = change.topics_hash()
    if has_changed or new_hash != group.topics_hash:
        change.bump(Cause("topics_changed"), new_hash)
    change.end()
