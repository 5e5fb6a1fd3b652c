"""The state of a connection that faults strike."""

from __future__ import annotations

from typing import Any

from kohort.broker.clock import Timer
from kohort.broker.faults.functions import Change
from kohort.broker.faults.requests import Recorded
from kohort.broker.faults.rows import Errors
from kohort.broker.faults.rule import Rule
from kohort.broker.request import Request
from kohort.protocol.fields import Buffer


class Link:
    """State of one connection, kept beside it: plain connections have no room for it.

    Attributes:
        struck: the rules that struck the current request, by kind.
        errors: those of its rows that a rule has struck; None if it is struck as a
            whole, or not at all.
        change: what a function has decided to do with the response.
        keepers: rules that will repeat its response.
        row: its row in the recorder.
        late: the waiting response: its request, and its parts.
        waits_for: the rules that it waits for, each with its seconds.
        due: when the response is sent.
        timer: for that time, or for its next byte.
        gate: when the next request may be handled (jitter).
        is_open: the next request may be handled.
        is_silent: a request was swallowed, and those behind it wait until the end.
        jitters: counts the delays of jitter.
        struck_by: ids of the rules for whole connections that struck it.
        shadows: duplicates of requests that have no response yet.
    """

    __slots__ = (
        "change",
        "due",
        "errors",
        "gate",
        "is_open",
        "is_silent",
        "jitters",
        "keepers",
        "late",
        "row",
        "shadows",
        "struck",
        "struck_by",
        "timer",
        "waits_for",
    )

    def __init__(self) -> None:
        self.struck: dict[str, Rule] = {}
        self.errors: Errors | None = None
        self.change: Change | None = None
        self.keepers: list[Rule] = []
        self.row: Recorded | None = None
        self.late: tuple[Request, list[Buffer], Rule | None] | None = None
        self.waits_for: dict[Rule, float] = {}
        self.due = 0.0
        self.timer: Timer | None = None
        self.gate: Timer | None = None
        self.is_open = False
        self.is_silent = False
        self.jitters = 0
        self.struck_by: set[int] = set()
        self.shadows: list[Any] = []

    @property
    def is_busy(self) -> bool:
        """True if something waits here."""
        return (
            self.late is not None
            or self.gate is not None
            or self.is_silent
            or self.change is not None
            or bool(self.struck or self.shadows)
        )

    def stop(self) -> None:
        """Cancels the timer of the waiting response."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def cancel(self) -> None:
        """Cancels its timers."""
        self.stop()
        if self.gate is not None:
            self.gate.cancel()
            self.gate = None
