"""Rooms: what each group protocol adds to the coordinator.

A room is a folder beside this file. Its `Room` declares its events, timers and records;
`kohort.broker.coordinator.coordinator` puts the rooms together. Rooms do not import one
another, and the modules that all of them share import no room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from kohort.broker.coordinator.appends import GroupAppends, GroupChange
from kohort.broker.coordinator.effects import Result
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.lasting import Lasting
from kohort.broker.coordinator.load import Restore
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.coordinator.turn import Turn
from kohort.broker.notice import Notice
from kohort.broker.runtime.effects import Reply
from kohort.broker.runtime.machine import Completion, OnTimer

Groups = dict[str, Group]
"""A coordinator's groups of all protocols, by id."""


class Coordinating(Protocol):
    """A coordinator, for the short ways of frequent events."""

    settings: GroupSettings
    groups: Groups
    appends: GroupAppends
    lasting: Lasting
    listening: bool


ShortWay = Callable[[Coordinating, Any, float], Result | Notice | Literal[True] | None]
"""Handles an event that has no effect but its reply or a notice: the same as a turn, at
half the cost. Returns its result, or its notice, or True if it waits; None if nothing
was done."""


class Room(NamedTuple):
    """The part of a coordinator that handles groups of one protocol."""

    group_type: str
    """`Group.type` of its groups."""
    changes: Mapping[type, Callable[[Turn, Groups, Any], None]]
    """By type, events that may change groups."""
    questions: Mapping[type, Callable[[GroupAppends, Groups, Any], Result]]
    """By type, events that only read."""
    short_ways: Mapping[type, ShortWay]
    """By type, frequent events that may do without a turn."""
    timers: Mapping[str, OnTimer]
    """By kind, the first part of their keys, timers of a group."""
    completions: Mapping[type, Completion]
    """By type, steps that wait for an append."""
    records: Mapping[type, Restore]
    """By type, the records of a group, and the function that restores it."""
    waiting: Callable[[Any], Iterable[Reply]]
    """Refuses the requests that wait in a group: its coordinator moves."""
    undone: Callable[[Turn, Any, GroupChange, int], None]
    """Follows an undone change of a group: the log refused its records. If they were
    its first ones, it does not exist any more. Takes an error code for requests."""
