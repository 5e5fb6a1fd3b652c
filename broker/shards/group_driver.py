"""The driver of a group coordinator.

Heartbeats, commits, joins and syncs mostly change little: the coordinator handles these
in half the time, without effects. Most commits are written in one step (`_commit_now`).
While the clock is moved ahead, members may count as heard from (`credit`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol, cast

from kohort.broker import telemetry
from kohort.broker.clock import Clock
from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import CommitResult, Forget, Replies, Result
from kohort.broker.coordinator.events import (
    CommitOffsets,
    Credited,
    Offsets,
)
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.offsets import COMMITTED
from kohort.broker.log.store import StorageError
from kohort.broker.notice import Notice
from kohort.broker.runtime import driver
from kohort.broker.runtime.driver import Driver
from kohort.broker.runtime.events import TimerKey
from kohort.broker.shards.credit import Credit
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError

log = telemetry.Logger("groups")

MOST_ALIKE: Final = 500
"""Members of a group that are compared with one whose session expires: 20 us. If all
sessions of a group expire together, it is half that per member."""


class Waiter(driver.Waiter, Protocol):
    """A token that waits for the reply to its event."""

    def answer_alike(self, result: Result, value: str | bytes) -> None:
        """Takes the result, in parts, in place of `answer`: see `Replies`."""

    def forget(self, why: str) -> None:
        """Called in place of `answer` if there will be no result."""


class GroupLog(driver.Log, Protocol):
    """The log of a group coordinator's records."""

    def write_commit(self, group_id: str, offsets: Offsets, now_ms: int) -> bool:
        """Writes a commit without a retention time.

        Args:
            group_id: the group.
            offsets: at least one.
            now_ms: the time of the commit, ms since the epoch.

        Returns:
            False if nothing was written: `encode` and `write` have to do it.

        Raises:
            WireError: a name is too long for the log.
            StorageError: the batch is not in the log.
        """


def _forget(effect: Forget) -> None:
    cast("Waiter", effect.token).forget(effect.why)


class GroupDriver(Driver[Coordinator]):
    """Runs one coordinator on a clock.

    Args:
        coordinator: the state machine.
        clock: the source of time and timers.
        log: its records are written there.
        lost: called if that fails; see `Driver`.
        publish: takes a notice, and its time.
        linger_ms: ``group.coordinator.append.linger.ms``; see `Driver`.
        credit: decides which members count as heard from while the clock is moved
            ahead.
    """

    _log: GroupLog

    def __init__(
        self,
        coordinator: Coordinator,
        clock: Clock,
        log: GroupLog,
        lost: Callable[[], None],
        publish: Callable[[Notice, float], None],
        linger_ms: int = -1,
        credit: Credit | None = None,
    ) -> None:
        self._credit = credit or Credit({})
        super().__init__(
            coordinator, clock, log, lost, publish, linger_ms, self._credit.look
        )
        # The number of offsets that this turn has removed.
        self._expired = 0
        self._try_now |= {
            CommitOffsets: self._commit_now,
            **coordinator.short_ways,
        }
        self._perform |= {Replies: self._answer_alike, Forget: _forget}
        self._watch |= {
            "member_expired": self._look_at_connections,
            "member_left": self._look_at_connections,
            "offsets_expired": self._count_expired,
        }

    def _commit_now(self, event: CommitOffsets, now: float) -> CommitResult | None:
        """Writes the records of a commit at once, unless it may have to wait."""
        if self._linger_ms > 0:
            return None
        coordinator = self.coordinator
        group = coordinator.prepare_commit(event, now)
        if group is None:
            return None
        now_ms = int(now * 1000)
        try:
            if not self._log.write_commit(event.group_id, event.offsets, now_ms):
                return None
        except WireError:
            return None
        except StorageError:
            self._lost()
            return CommitResult(ErrorCode.NOT_COORDINATOR)
        notice = coordinator.finish_commit(group, event, now_ms)
        if notice is not None:
            self._publish(notice, now)
        return COMMITTED

    def _look_at_connections(self, expired: Notice) -> None:
        """Adds to a session's end whether its client is still connected, and active.

        To a departure it adds the name of the client's library.

        Which of several members that look the same is active is unknown.
        """
        who = expired.who
        group = self.coordinator.groups.get(expired.group_id or "")
        if who is None or who.client is None or group is None:
            return
        fields = cast("dict[str, object]", expired.fields)
        if expired.kind == "member_left":
            fields["software"] = self._credit.software(who.client)
            return
        fields["is_connected"] = self._credit.is_live(who.client)
        if len(group.members) > MOST_ALIKE:
            return
        name = who.client[:2]
        alike = [m.client for m in group.members.values() if m.client[:2] == name]
        if who.client in alike:  # the connection is that of a later member now
            fields["is_connected"] = None
        if not alike:
            fields["is_active"] = self._credit.is_waiting(who.client)

    def _answer_alike(self, replies: Replies) -> None:
        if self._refused:
            self._report_refused()
        result, tokens, values = replies
        for token, value in zip(tokens, values, strict=True):
            token.answer_alike(result, value)  # type: ignore[attr-defined]  # as above

    # -- timers

    def _count_expired(self, notice: Notice) -> None:
        self._expired += len(notice.fields["expired"])

    def _log_expired(self) -> None:
        """Logs the expired offsets of all groups in one line, in Kafka's words."""
        count, self._expired = self._expired, 0
        took_ms = round((self._clock.now() - self._now) * 1000)
        line = f"Removed {count} expired offsets in {took_ms} milliseconds."
        log.info(line)

    def _expire(self, key: TimerKey) -> None:
        """Submits a timer that is due."""
        if key[0] == "session" and self._credit.is_given:
            self._credit_session(key)
        try:
            super()._expire(key)
        finally:
            if self._expired:
                self._log_expired()

    # -- sessions, while the clock is moved ahead

    def credit_all(self, until: float) -> None:
        """Counts all members with a live connection as heard from until then."""
        for group in self.coordinator.groups.values():
            self._credit_live(group, group.sessions(), until)

    def _credit_session(self, key: TimerKey) -> None:
        """The same for one member, when its session's timer fires."""
        group = self.coordinator.groups.get(key[1])
        if group is not None:
            self._credit_live(group, key[2:], self._credit.until)

    def _credit_live(
        self, group: Group, member_ids: Iterable[str], until: float
    ) -> None:
        live = [each for each in member_ids if self._is_live(group, each)]
        if live:
            self.submit(Credited(group.group_id, live, until))

    def _is_live(self, group: Group, member_id: str) -> bool:
        client = group.client_of(member_id)
        return client is not None and self._credit.is_live(client)
