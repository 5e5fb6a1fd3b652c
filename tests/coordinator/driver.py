"""A driver of a coordinator: the broker's clock and timers, and a log in memory.

Performs effects as the broker does, checks the invariants after every event, and
keeps records and notices. `sleep` moves the clock and fires due timers. Unlike the
broker's, it compares the short ways of events with the usual one, and holds appends.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, cast

from tests.coordinator.consumer.topics import Topics
from tests.manual_clock import ManualClock

from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import (
    Effect,
    Forget,
    GroupRecord,
    GroupTombstone,
    OffsetRecord,
    Record,
    Replies,
    completed,
)
from kohort.broker.coordinator.events import (
    CommitOffsets,
    ConsumerHeartbeat,
    Event,
    Heartbeat,
    Join,
    Sync,
)
from kohort.broker.coordinator.lasting import Lasting
from kohort.broker.coordinator.load import Loading
from kohort.broker.coordinator.offsets import COMMITTED
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.coordinator.topics import TopicsImage
from kohort.broker.events.render import render
from kohort.broker.notice import Client, Notice
from kohort.broker.runtime.effects import Append, Arm, Disarm, Reply
from kohort.broker.runtime.events import Appended, AppendFailed, Expired, TimerKey
from kohort.broker.runtime.timers import Timers
from kohort.broker.shards.group_records import Encoder
from kohort.protocol.errors import ErrorCode
from kohort.simulation.checking.coordinators import Invariants
from kohort.simulation.checking.groups import classic, consumer

R = TypeVar("R")

HOST = "/127.0.0.1"
SIMPLE = Client("simple", HOST)
"""A consumer that is not a member."""
START = 1_700_000_000.0
"""Start of every scene, seconds since the epoch."""
MOST_BYTES = 1_048_588
"""``max.message.bytes`` of the log, by default. No scene reaches it."""
MOST_AT_ONCE = 1_000
"""Timers that may fire without any time passing."""


def read_log(records: Iterable[Record]) -> Loading:
    """Reads a whole log, for a coordinator to take over."""
    loading = Loading()
    loading.feed(records)
    return loading


class Pending(Generic[R]):
    """A request: the token of its reply."""

    def __init__(self, name: str, on_result: Callable[[R], None] | None = None) -> None:
        self.name = name
        self.results: list[R] = []
        self._on_result = on_result

    def __repr__(self) -> str:
        return self.name

    def answer(self, result: R) -> None:
        """Takes the reply; there is at most one."""
        assert not self.results, f"{self} is answered twice"
        self.results.append(result)
        if self._on_result is not None:
            self._on_result(result)

    def answer_alike(self, result: Any, value: str | bytes) -> None:
        """Takes the reply in two parts."""
        self.answer(completed(result, value))  # type: ignore[arg-type]

    @property
    def answered(self) -> bool:
        """True if the reply has come."""
        return bool(self.results)

    @property
    def result(self) -> R:
        """The reply, which must have come."""
        assert self.results, f"{self} waits"
        return self.results[0]


class Driver:
    """A coordinator, its clock, its timers and its log.

    Initial delays are off unless a scene asks for them.
    """

    def __init__(self, topics: TopicsImage | None = None, /, **settings: int) -> None:
        self._settings: dict[str, Any] = {"initial_rebalance_delay_ms": 0} | settings
        self._numbers = itertools.count(1)
        # Powers in force, and topics, which outlive coordinators.
        self.lasting = Lasting()
        self.topics = Topics()
        self._image: TopicsImage = self.topics if topics is None else topics
        self._is_short = False
        self.coordinator = self._new_coordinator()
        self._clock = ManualClock(START)
        self._timers = Timers(self._clock, self._expire)
        # The first error of a timer, and the number that fired at the present time.
        self._failed: Exception | None = None
        self._fired = 0
        # The numbers of members' connections.
        self.connections = itertools.count(1)
        # True while appends wait for `flush` or `refuse`; and those appends.
        self.is_holding = False
        self.held: list[Append] = []
        # Bytes of the largest batch that the log accepts; and refused appends.
        self.largest = MOST_BYTES
        self._refused: list[AppendFailed] = []
        self.records: list[Record] = []
        self.notices: list[Notice] = []
        self._noticed_at: list[float] = []
        # Requests without an answer, with the time since when they wait.
        self.waiting: dict[Pending[Any], float] = {}
        self.answered: list[Pending[Any]] = []
        self.forgotten: list[Pending[Any]] = []
        self.invariants = Invariants()
        # Assignments that members got: group, generation, member, assignment.
        self.assigned: list[tuple[str, int, str, bytes]] = []
        # Set when group.max.size is lowered while groups are in use.
        self._is_lowered = False
        self._perform(self.coordinator.start(Loading(), self.now))

    def _new_coordinator(self) -> Coordinator:
        settings = GroupSettings(**self._settings)
        return Coordinator(
            settings,
            lambda prefix: f"{prefix}-{next(self._numbers)}",
            lasting=self.lasting,
            topics=self._image,
        )

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self._clock.now()

    @property
    def timers(self) -> dict[TimerKey, float]:
        """The deadlines of timers."""
        return self._timers.deadlines

    @property
    def groups(self) -> dict[str, ClassicGroup]:
        """The coordinator's groups by id."""
        return classic(self.coordinator.groups.values())

    @property
    def settings(self) -> GroupSettings:
        """The coordinator's settings."""
        return self.coordinator.settings

    def configure(self, **settings: int) -> None:
        """Changes settings at run time."""
        before = self.settings.max_size
        self._settings |= settings
        self.coordinator.settings = GroupSettings(**self._settings)
        self._is_lowered |= self.settings.max_size < before

    def restart(self, away_ms: int = 0, **settings: int) -> None:
        """Replaces the coordinator by one that loads the log, after some time.

        Waiting requests get no answer: their connections are gone.
        """
        before = self.settings.max_size
        self._settings |= settings
        self._is_lowered |= GroupSettings(**self._settings).max_size < before
        self.coordinator = coordinator = self._new_coordinator()
        self._timers.stop()
        self._fire(away_ms / 1000)
        self.waiting.clear()
        effects = coordinator.start(read_log(self.records), self.now)
        self.invariants.check_loaded(coordinator)
        self._perform(effects)
        self._fire()

    def move(self) -> None:
        """Unloads the coordinator; another one takes over the groups."""
        for effect in self.coordinator.unload():
            assert isinstance(effect, Reply)
            pending = cast("Pending[Any]", effect.token)
            del self.waiting[pending]
            pending.answer(effect.result)
            assert pending.result.error_code == ErrorCode.NOT_COORDINATOR
        assert not self.waiting, "unloading answers all requests that wait"
        self.restart()

    # -- the driver

    def submit(self, event: Event) -> list[Effect]:
        """Submits an event, performs its effects, and fires timers that are due."""
        heard = None
        if isinstance(event, Heartbeat | ConsumerHeartbeat):
            heard = self._hear(event)
        if isinstance(event, CommitOffsets) and event.retention_ms == -1:
            return self._commit(event)
        if isinstance(event, Join | Sync) and self._only_waits(event):
            self._fire()
            return []
        effects = self.coordinator.handle(event, self.now)
        if isinstance(event, Heartbeat | ConsumerHeartbeat) and heard is not None:
            assert effects == [Reply(event.token, heard)]
        self._perform(effects)
        self._fire()
        return effects

    def _only_waits(self, event: Join | Sync) -> bool:
        """Handles every other join or sync on the short way, if that can take it."""
        self._is_short = not self._is_short
        if not self._is_short:
            return False
        found = self.coordinator.short_ways[type(event)](event, self.now)
        if found is not None:
            self._perform([found] if isinstance(found, Notice) else [])
        return found is not None

    def _commit(self, event: CommitOffsets) -> list[Effect]:
        """Handles a commit; the short way would do the same, or nothing."""
        sessions = self._sessions()
        group = self.coordinator.prepare_commit(event, self.now)
        prepared = self._sessions()
        assert group is not None or prepared == sessions
        effects = self.coordinator.handle(event, self.now)
        if group is not None:
            assert self._sessions() == prepared
            (append,) = effects
            assert isinstance(append, Append)
        self._perform(effects)
        if group is not None and not self.is_holding:
            offsets = dict(group.offsets)
            assert self.notices[-1] == self.coordinator.finish_commit(
                group, event, int(self.now * 1000)
            )
            assert group.offsets == offsets
            assert list(event.token.results) == [COMMITTED]  # type: ignore[attr-defined]  # a `Pending`
        self._fire()
        return effects

    def _hear(self, beat: Heartbeat | ConsumerHeartbeat) -> object:
        """Sends a heartbeat on the short way, which does the same or nothing."""
        hear = self.coordinator.short_ways.get(type(beat))
        if hear is None:  # they make notices
            return None
        sessions = self._sessions()
        heard = hear(beat, self.now)
        assert heard is not None or self._sessions() == sessions
        return heard

    def _sessions(self) -> list[float]:
        groups = self.coordinator.groups.values()
        found: list[float] = []
        for classic_group in classic(groups).values():
            found += [each.deadline for each in classic_group.members.values()]
        for group in consumer(groups).values():
            found += [each.deadline for each in group.members.values()]
        return found

    def ask(self, event: Event, pending: Pending[R]) -> Pending[R]:
        """Submits a request whose reply the given token takes."""
        self.waiting[pending] = self.now
        self.submit(event)
        return pending

    def _perform(self, effects: list[Effect]) -> None:
        is_replying, written = False, 0
        for effect in effects:
            is_reply = isinstance(effect, Reply | Replies)
            assert is_reply or not is_replying, "replies come last"
            if isinstance(effect, Reply | Replies):
                is_replying = True
                self._answer(effect)
            elif isinstance(effect, Append):
                written = self._append(effect) or written
            elif not isinstance(effect, Notice):
                self._perform_silently(effect)
            else:
                self.notices.append(effect)
                self._noticed_at.append(self.now)
                if effect.fields.get("cause") == "group_over_max_size":
                    kind = effect.kind
                    assert kind == "rebalance_started" or self._is_lowered, "let in"
        while self._refused:
            failed = self._refused.pop()
            self._perform(self.coordinator.handle(failed, self.now))
        if written:
            self._perform(self.coordinator.handle(Appended(written), self.now))
        elif self.held:
            self.invariants.check_generations(self.coordinator)
        else:
            self._check()

    def _answer(self, effect: Reply | Replies) -> None:
        for reply in effect.each() if isinstance(effect, Replies) else [effect]:
            pending = cast("Pending[Any]", reply.token)
            del self.waiting[pending]
            self.answered.append(pending)
            pending.answer(reply.result)

    def _append(self, append: Append) -> int:
        """Writes an append, holds or refuses it; returns its id if it is written."""
        if self._holds(append):
            self.held.append(append)
            return 0
        size = self._size(append)
        if size > self.largest:
            self._refused.append(self._too_large(append, size))
            return 0
        self.records += append.records
        return append.append_id

    def _holds(self, append: Append) -> bool:
        """Returns whether an append waits for `flush` or `refuse`."""
        return self.is_holding

    def _size(self, append: Append) -> int:
        """The bytes of an append that has to fit into one batch, if that matters."""
        if self.largest == MOST_BYTES or not append.is_atomic:
            return 0
        return len(Encoder().encode(append.records, int(self.now * 1000)))

    def _too_large(self, append: Append, size: int) -> AppendFailed:
        error = ErrorCode.MESSAGE_TOO_LARGE
        return AppendFailed(append.append_id, error, size, self.largest)

    def _perform_silently(self, effect: Forget | Arm | Disarm) -> None:
        if isinstance(effect, Forget):
            pending = cast("Pending[Any]", effect.token)
            del self.waiting[pending]
            self.forgotten.append(pending)
        elif isinstance(effect, Arm):
            assert effect.deadline >= self.now
            self._timers.arm(effect)
        else:
            assert effect.key in self.timers
            self._timers.disarm(effect)

    def flush(self) -> None:
        """Writes the held appends."""
        held, self.held = self.held, []
        for append in held:
            self.records += append.records
            self.invariants.written_late(r.group_id for r in append.records)
        self._perform(self.coordinator.handle(Appended(held[-1].append_id), self.now))

    def refuse(self) -> None:
        """Refuses the last held append: it is too large."""
        failed = self._too_large(self.held.pop(), self.largest + 1)
        self._perform(self.coordinator.handle(failed, self.now))

    def _check(self) -> None:
        self.invariants.check(
            self.coordinator, self.timers, self.waiting.keys(), self.records
        )

    def _expire(self, key: TimerKey) -> None:
        self._fired += 1
        try:
            assert self._fired < MOST_AT_ONCE, f"{key} is armed again and again"
            self._perform(self.coordinator.handle(Expired(key), self.now))
        except Exception as error:  # noqa: BLE001 - the timers would only log it
            self._failed = self._failed or error

    def _fire(self, seconds: float = 0.0) -> None:
        """Moves the clock, and fires the timers that come due."""
        until = self.now + seconds
        self._fired = 0
        is_due = True
        while is_due:
            before = self.now
            is_due = self._clock.fire(until)
            if self._failed is not None:
                raise self._failed
            self._fired = 0 if self.now > before else self._fired

    def sleep(self, ms: float) -> None:
        """Lets time pass, and fires timers as they come due."""
        self._fire(ms / 1000)

    # -- records and notices

    def group_records(self) -> list[GroupRecord]:
        """Records of existing groups."""
        return [r for r in self.records if isinstance(r, GroupRecord)]

    def offset_records(self) -> list[OffsetRecord]:
        """Records of offsets."""
        return [r for r in self.records if isinstance(r, OffsetRecord)]

    def tombstones(self) -> list[str]:
        """Ids of groups with a tombstone."""
        return [r.group_id for r in self.records if isinstance(r, GroupTombstone)]

    def kinds(self) -> list[str]:
        """The kinds of all notices, in order."""
        return [notice.kind for notice in self.notices]

    def notice(self, kind: str) -> Notice:
        """The latest notice of a kind."""
        found: Notice = next(n for n in reversed(self.notices) if n.kind == kind)
        return found

    def events(self, since: int = 0) -> list[dict[str, Any]]:
        """All notices rendered as events, from the given number on."""
        return [render(notice, time) for notice, time in self.noticed(since)]

    def noticed(self, since: int = 0) -> list[tuple[Notice, float]]:
        """The same, raw, each with its time."""
        return [*zip(self.notices[since:], self._noticed_at[since:], strict=True)]

    def event(self, kind: str) -> dict[str, Any]:
        """The latest event of a kind."""
        return next(e for e in reversed(self.events()) if e["kind"] == kind)
