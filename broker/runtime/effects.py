"""Effects of all coordinators, performed in order. `Notice` is in `broker.notice`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kohort.broker.runtime.events import TimerKey
from kohort.protocol.errors import ErrorCode
from kohort.protocol.slotted import slotted

Effect = Any
"""An effect of any coordinator: each has some of its own."""


class Reply(NamedTuple):
    """Answer the request that brought this token; at most once per token."""

    token: object
    result: Any


@slotted
class Arm:
    """Submit `Expired(key)` at `deadline`; replaces an earlier timer of the key."""

    key: TimerKey
    deadline: float
    """Seconds since the epoch, on the driver's clock."""


@slotted
class Disarm:
    """The timer of this key is no longer needed."""

    key: TimerKey


@slotted
class Append:
    """Write these records, after all earlier appends.

    `Appended` or `AppendFailed` follows. An append is written or refused as a whole.
    """

    records: Sequence[Any]
    append_id: int
    """Ids ascend."""
    is_atomic: bool = True
    """All records have to fit into one batch."""
    opens_window: bool = False
    """Requests that arrive before it is written may change its consequences, or find
    its id busy. For other appends it makes no difference whether requests come before
    or after."""


@slotted
class CommandResult:
    """The answer to a command of a test or an operator."""

    refusal: str | None = None
    """Why the command cannot be performed, in one sentence; None if it was."""


def failed(reply: Reply, error: int) -> Reply:
    """Turns a reply into an error: the records that it waited for are not written."""
    token, result = reply
    if type(result) is CommandResult:
        why = f"it could not be written: {ErrorCode(error).name}"
        return Reply(token, CommandResult(why))
    return Reply(token, type(result)(error))
