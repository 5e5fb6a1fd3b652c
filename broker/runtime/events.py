"""Events of all coordinators: timers, and appends that are written or refused."""

from __future__ import annotations

from kohort.protocol.slotted import slotted

TimerKey = tuple[str, ...]
"""The purpose of a timer, and the id that it is for: ``("join", group)``, ``("session",
group, member)``, ``("timeout", transactional id)`` and so on."""


@slotted
class Expired:
    """An armed timer fires."""

    key: TimerKey


@slotted
class Appended:
    """All appends up to this one are in the log."""

    append_id: int


@slotted
class AppendFailed:
    """The log refused an append; all earlier ones are `Appended`, none is later."""

    append_id: int
    error_code: int
    """The error of Kafka's log, for example MESSAGE_TOO_LARGE."""
    size_in_bytes: int
    max_size_in_bytes: int
    """The largest batch that the log accepts: ``max.message.bytes`` of the topic."""
