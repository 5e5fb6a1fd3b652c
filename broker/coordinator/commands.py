"""Parts of the commands of tests that groups of all protocols share."""

from __future__ import annotations

from typing import Final

from kohort.broker.coordinator.events import Command, LimitGroup
from kohort.broker.coordinator.notices import commanded
from kohort.broker.coordinator.room import Groups
from kohort.broker.coordinator.turn import Turn
from kohort.broker.runtime.effects import CommandResult

DONE: Final = CommandResult()


def refuse(turn: Turn, event: Command, why: str) -> None:
    """Answers a command that cannot be performed."""
    turn.reply(event.token, CommandResult(why))


def set_limit(turn: Turn, groups: Groups, event: LimitGroup) -> bool:
    """Sets or removes the limit of a group; returns False if it was refused."""
    limits, max_size = turn.lasting.max_sizes, event.max_size
    if max_size is not None and max_size < 1:
        refuse(turn, event, f"a limit of {max_size} members: it must be at least 1")
        return False
    commanded(turn, groups, event, "limit", max_size=max_size)
    if max_size is None:
        limits.pop(event.group_id, None)
    else:
        limits[event.group_id] = max_size
    return True
