"""A member's turn on an event, in every protocol: takes events, returns effects.

Pure: no clock, no socket, no randomness, no futures. Each event comes with the time,
and the driver that performs the effects adds jitter to timers. The member acts as
the Java client does.

After each event `Protocol.handle` begins the next step, so that the order is always
the same: the running call of the listener, lost partitions, leaving, a new assignment,
then the step that the protocol itself has to take, such as a join.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kohort.client.group import application
from kohort.client.group.effects import CallKind, Effect
from kohort.client.group.events import (
    Closed,
    Event,
    ListenerDone,
    PollBegan,
    PollEnded,
    Unsubscribed,
)
from kohort.client.group.member import NOTHING, Member, Partitions
from kohort.client.group.turn import Turn

M = TypeVar("M", bound=Member)

SHARED: Mapping[type, Callable[[Turn, Any, Any], None]] = {
    Unsubscribed: application.unsubscribed,
    Closed: application.closed,
    ListenerDone: application.listener_done,
    PollBegan: application.poll_began,
    PollEnded: application.poll_ended,
}
"""Events that mean the same in every protocol."""


@dataclass(frozen=True, slots=True)
class Protocol(Generic[M]):
    """The steps of a group protocol.

    Attributes:
        handlers: by type of event, also those of `SHARED`.
        leave: leaves, or takes the next step towards it.
        take_assignment: takes the next assignment, or revokes what is not in it.
        proceed: takes the next step if no other comes first.
    """

    handlers: Mapping[type, Callable[[Turn, M, Any], None]]
    leave: Callable[[Turn, M], None]
    take_assignment: Callable[[Turn, M, Partitions], None]
    proceed: Callable[[Turn, M], None]

    def handle(self, member: M, event: Event, now: float) -> list[Effect]:
        """Takes an event, then begins the next step.

        Args:
            member: the member, which changes.
            event: from the application, the coordinator or a timer.
            now: seconds on the driver's clock, never less than before.

        Returns:
            Effects, to be performed in order.
        """
        if member.has_ended:
            return []
        turn = Turn()
        turn.now, turn.effects = now, []
        self.handlers[type(event)](turn, member, event)
        if member.call is not None or member.has_ended:
            pass
        elif member.lost:
            lost, member.lost = member.lost, NOTHING
            turn.call_listener(member, CallKind.LOST, lost)
        elif member.is_leaving:
            self.leave(turn, member)
        elif member.target is not None:
            self.take_assignment(turn, member, member.target)
        else:
            self.proceed(turn, member)
        return turn.effects
