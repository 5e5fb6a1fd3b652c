"""The effects of one event, collected while the event is handled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kohort.client.assignors.contract import TopicPartition
from kohort.client.group.effects import (
    Arm,
    Call,
    CallKind,
    Cancel,
    Effect,
    ForgetCoordinator,
    Notice,
    Send,
)
from kohort.client.group.member import Member
from kohort.protocol.errors import ErrorCode

COORDINATOR_AWAY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
"""Errors after which the coordinator is looked up again; the membership continues."""


class Turn:
    """The member's turn on one event.

    Attributes:
        now: seconds on the driver's clock.
        effects: to be performed by the driver, in order.
    """

    # `handle` sets both: a constructor would cost 20 % of a heartbeat.
    __slots__ = ("effects", "now")
    now: float
    effects: list[Effect]

    # -- requests

    def send(
        self, member: Member, api: str, request: Any, timeout_ms: int, lowest: int = 0
    ) -> int:
        """Sends a request and waits for its response; returns its token."""
        token = member.last_token = member.last_token + 1
        member.pending[token] = api
        self.effects.append(Send(token, api, request, timeout_ms, lowest))
        return token

    def cancel(self, member: Member) -> None:
        """Stops waiting for any response."""
        self.effects += map(Cancel, member.pending)
        member.pending.clear()

    def forget_coordinator(self) -> None:
        """Looks up the coordinator before the next request."""
        self.effects.append(ForgetCoordinator())

    def retry(self, member: Member, *, at_once: bool = False) -> None:
        """Tries again after a back-off; the first time immediately, if `at_once`."""
        attempts, member.attempts = member.attempts, member.attempts + 1
        if at_once and not attempts:
            return
        member.retry_at = self.now + self.backoff_s(member, attempts)
        self.arm("retry", member.retry_at)

    def backoff_s(self, member: Member, attempts: int) -> float:
        """Seconds to wait after this many earlier attempts in a row."""
        config = member.config
        backoff_ms = config.retry_backoff_ms << min(attempts, 16)
        return min(backoff_ms, config.retry_backoff_max_ms) / 1000

    # -- the application

    def call_listener(
        self, member: Member, kind: CallKind, partitions: Iterable[TopicPartition]
    ) -> None:
        """Calls a method of the listener."""
        member.call = Call(member.token(), kind, sorted(partitions))
        self.effects.append(member.call)
        if member.is_polling:
            self.restart_poll_timer(member)

    def notice(self, member: Member, kind: str, **fields: object) -> None:
        """Logs a change of the membership."""
        fields |= {"member_id": member.member_id, "generation_id": member.generation_id}
        self.effects.append(Notice(kind, fields))

    # -- timers

    def arm(self, key: str, deadline: float) -> None:
        """Sets a timer."""
        self.effects.append(Arm(key, deadline))

    def arm_heartbeat(self, after_ms: float) -> None:
        """Sends the next heartbeat after some time."""
        self.effects.append(Arm("heartbeat", self.now + after_ms / 1000))

    def restart_poll_timer(self, member: Member) -> None:
        """Restarts max.poll.interval.ms, for the application or its listener."""
        member.poll_deadline = self.now + member.config.max_poll_interval_ms / 1000
        if not member.poll_armed:
            member.poll_armed = True
            self.arm("poll", member.poll_deadline)
