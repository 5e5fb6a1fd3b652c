"""The asyncio driver of a coordinator: performs its effects, and owns its timers.

1. `submit` hands an event to the coordinator (`coordinator.handle`), and performs the
   returned effects in order. Heartbeats, commits, joins and syncs mostly change little:
   the functions in `_try_now` handle these in half the time, without effects.
2. An `Arm` sets a deadline (`timers`). Timers that are due are submitted as `Expired`.
3. An `Append` becomes a batch, which is written after the effects. One that opens a
   window is written in the next turn of the event loop, and if
   ``group.coordinator.append.linger.ms`` is positive, all are collected for that time
   (`_linger`). Then comes `Appended`, or `AppendFailed` if the log refused it. If the
   log cannot be written at all, `lost` is called: the shard loads its groups again.
   Most commits are written in one step (`_commit_now`).
4. A `Reply` answers its token, which is the `Waiter` of the event; `Replies` answer
   several. A `Notice` is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, Protocol, cast

from kohort.broker import telemetry
from kohort.broker.clock import Clock, Timer
from kohort.broker.coordinator.classic.group import Group
from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import (
    Append,
    Arm,
    CommitResult,
    Disarm,
    Effect,
    Forget,
    Replies,
    Reply,
    Result,
    Written,
)
from kohort.broker.coordinator.events import (
    Appended,
    AppendFailed,
    CommitOffsets,
    Credited,
    Event,
    Expired,
    Heartbeat,
    Join,
    Offsets,
    Sync,
    TimerKey,
)
from kohort.broker.coordinator.load import Loading
from kohort.broker.coordinator.offsets import COMMITTED
from kohort.broker.log.store import StorageError
from kohort.broker.notice import Notice
from kohort.broker.shards.credit import Credit
from kohort.broker.shards.timers import Timers
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError

log = telemetry.Logger("groups")

_GONE: Final = frozenset({"member_expired", "member_left"})

MOST_ALIKE: Final = 500
"""Members of a group that are compared with one whose session expires: 20 us. If all
sessions of a group expire together, it is half that per member."""


class Waiter(Protocol):
    """A token that waits for the reply to its event."""

    def answer(self, result: Result) -> None:
        """Takes the result; called once."""

    def answer_alike(self, result: Result, value: str | bytes) -> None:
        """Takes the result, in parts, in place of `answer`: see `Replies`."""

    def forget(self, why: str) -> None:
        """Called in place of `answer` if there will be no result."""


def answer(token: object, result: Result) -> None:
    """Answers an event's token: a waiter here, and opaque to the coordinator."""
    cast("Waiter", token).answer(result)


class GroupLog(Protocol):
    """The log of a coordinator's records."""

    @property
    def largest(self) -> int:
        """Bytes of the largest batch that it accepts."""

    def encode(self, records: Sequence[Written], now: float) -> bytes:
        """Returns a batch of these records.

        Args:
            records: at least one.
            now: seconds since the epoch.

        Raises:
            WireError: a name is too long for the log.
        """

    def write(self, batch: bytes, now: float) -> None:
        """Writes a batch; when it returns, the batch is in the log.

        Args:
            batch: as `encode` has made it.
            now: seconds since the epoch.

        Raises:
            StorageError: the batch is not in the log.
        """

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


_TryNow = Callable[[Any, float], Result | Notice | Literal[True] | None]
"""Handles an event that does little. Returns its result, or its notice, or True if it
waits; None if nothing was done."""


class GroupDriver:
    """Runs one coordinator on a clock.

    Args:
        coordinator: the state machine.
        clock: the source of time and timers.
        log: its records are written there.
        lost: called if that fails: the coordinator's state is ahead of the log.
        publish: takes a notice, and its time.
        linger_ms: ``group.coordinator.append.linger.ms``: how long appends are
            collected before they are written. -1 writes them at once, except those that
            open a window and all after them, which wait for the next turn.
        credit: decides which members count as heard from while the clock is moved
            ahead.
    """

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
        self.coordinator = coordinator
        self._clock = clock
        self._log = log
        self._lost = lost
        self._linger_ms = linger_ms
        self._credit = credit or Credit({})
        # Unwritten batches, with the ids of their appends; and the appends of this turn
        # that the log refuses.
        self._batches: list[tuple[int, bytes]] = []
        self._unwritten_bytes = 0
        self._is_lingering = False
        self._refused: list[AppendFailed] = []
        self._flush_timer: Timer | None = None
        self._timers = Timers(clock, self._expire, self._credit.look)
        self._publish = publish
        # The time of this turn, and the number of offsets that it has removed.
        self._now = 0.0
        self._expired = 0
        self._try_now: dict[type, _TryNow] = {
            Heartbeat: coordinator.hear,
            CommitOffsets: self._commit_now,
            Join: coordinator.wait_to_join,
            Sync: coordinator.wait_to_sync,
        }
        self._perform: dict[type, Callable[..., None]] = {
            Append: self._append,
            Arm: self._timers.arm,
            Replies: self._answer_alike,
            Forget: _forget,
            Disarm: self._timers.disarm,
        }

    def start(self, loading: Loading) -> None:
        """Takes over the loaded groups, and arms the check for expired offsets."""
        self._now = now = self._clock.now()
        self._run(self.coordinator.take_over(loading, now))
        self._run(self.coordinator.start(now))

    def stop(self) -> None:
        """Stops all timers; batches that are not written yet are dropped."""
        self._batches.clear()
        self._cancel_flush()
        self._timers.stop()

    def submit(self, event: Event) -> None:
        """Hands an event to the coordinator and performs its effects."""
        self._now = now = self._clock.now()
        try_now = self._try_now.get(type(event))
        if try_now is not None:
            result = try_now(event, now)
            if result is not None:
                if type(result) is Notice:
                    self._publish(result, now)
                elif result is not True:
                    event.token.answer(result)  # type: ignore[union-attr]  # see `_run`
                return
        effects = self.coordinator.handle(event, now)
        if effects:
            self._run(effects)

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

    def _run(self, effects: list[Effect]) -> None:
        publish, now = self._publish, self._now
        for effect in effects:
            if type(effect) is Reply:
                if self._refused:
                    self._report_refused()
                # The driver's tokens are waiters; the coordinator never looks.
                token, result = effect
                token.answer(result)  # type: ignore[attr-defined]
            elif type(effect) is Notice:
                if effect[0] in _GONE:
                    self._look_at_connections(effect)
                publish(effect, now)
                if effect[0] == "offsets_expired":
                    self._expired += len(effect[4]["expired"])
            else:
                self._perform[type(effect)](effect)
        if self._refused:
            self._report_refused()
        if self._batches and not self._is_lingering:
            self._write()

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

    # -- the log

    def _append(self, append: Append) -> None:
        """Keeps a batch until the next flush."""
        log, append_id = self._log, append.append_id
        largest = log.largest
        try:
            batch = log.encode(append.records, self._now)
        except WireError:
            # A name may be valid on the wire, but not in the log.
            error = ErrorCode.UNKNOWN_SERVER_ERROR
            self._refused.append(AppendFailed(append_id, error, 0, largest))
            return
        size = len(batch)
        if size <= largest:
            self._batches.append((append_id, batch))
        elif append.is_atomic:
            error = ErrorCode.MESSAGE_TOO_LARGE
            self._refused.append(AppendFailed(append_id, error, size, largest))
            return
        else:
            parts = self._in_parts(append.records)
            self._batches += ((append_id, part) for part in parts)
        if self._linger_ms > 0 or append.opens_window:
            self._linger(append, size)

    def _linger(self, append: Append, size: int) -> None:
        """Decides when the batches are written: at once, unless that may matter."""
        if self._linger_ms > 0:
            self._unwritten_bytes += size
            if self._unwritten_bytes > self._log.largest:
                self._flush_in(0)
            elif not self._is_lingering:
                self._flush_in(self._linger_ms / 1000)
            self._is_lingering = True
        elif self._linger_ms and append.opens_window and not self._is_lingering:
            self._is_lingering = True
            self._flush_in(0)

    def _flush_in(self, seconds: float) -> None:
        self._cancel_flush()
        when = self._clock.now() + seconds
        self._flush_timer = self._clock.call_at(when, self.flush)

    def _in_parts(self, records: Sequence[Written]) -> Iterator[bytes]:
        """Yields batches that the log accepts; a single record always fits."""
        batch = self._log.encode(records, self._now)
        if len(records) == 1 or len(batch) <= self._log.largest:
            yield batch
            return
        half = len(records) // 2
        yield from self._in_parts(records[:half])
        yield from self._in_parts(records[half:])

    def _report_refused(self) -> None:
        """Makes the coordinator undo refused appends, before the next event."""
        while self._refused:
            refused = self._refused.pop()
            self._run(self.coordinator.handle(refused, self._now))

    def flush(self) -> None:
        """Writes the collected appends, and reports them."""
        self._cancel_flush()
        self._now = self._clock.now()
        self._write()

    def flush_all(self) -> None:
        """Writes all appends, also those of requests that follow upon the replies."""
        while self._batches:
            self.flush()

    def _write(self) -> None:
        batches, self._batches = self._batches, []
        self._unwritten_bytes = 0
        self._is_lingering = False
        for append_id, batch in batches:
            try:
                self._log.write(batch, self._now)
            except StorageError:
                self._report(append_id - 1)
                self._lost()
                return
        if batches:
            self._report(batches[-1][0])

    def _report(self, append_id: int) -> None:
        self._run(self.coordinator.handle(Appended(append_id), self._now))

    def _cancel_flush(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None

    # -- timers

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
            self.submit(Expired(key))
        finally:
            if self._expired:
                self._log_expired()

    # -- sessions, while the clock is moved ahead

    def credit_all(self, until: float) -> None:
        """Counts all members with a live connection as heard from until then."""
        for group in self.coordinator.groups.values():
            self._credit_live(group, [*group.members, *group.pending_members], until)

    def _credit_session(self, key: TimerKey) -> None:
        """The same for one member, when its session's timer fires."""
        group = self.coordinator.groups.get(key[1])
        if group is not None:
            self._credit_live(group, key[2:], self._credit.until)

    def _credit_live(
        self, group: Group, member_ids: Sequence[str], until: float
    ) -> None:
        live = [each for each in member_ids if self._is_live(group, each)]
        if live:
            self.submit(Credited(group.group_id, live, until))

    def _is_live(self, group: Group, member_id: str) -> bool:
        if member_id in group.members:
            return self._credit.is_live(group.members[member_id].client)
        pending = group.pending_members.get(member_id)
        client = None if pending is None else pending.identity.client
        return client is not None and self._credit.is_live(client)
