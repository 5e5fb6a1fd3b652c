"""Watches the coordinators of a cluster: checks them behind each event."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.effects import (
    CommitResult,
    Forget,
    JoinResult,
    OffsetRecord,
    Record,
    Replies,
)
from kohort.broker.coordinator.events import CommitOffsets
from kohort.broker.coordinator.group import Group
from kohort.broker.log.partition import Partition
from kohort.broker.notice import Notice
from kohort.broker.runtime.effects import Effect, Reply
from kohort.broker.runtime.machine import Loading
from kohort.broker.shards.group_driver import GroupDriver
from kohort.broker.shards.group_records import Decoder
from kohort.broker.shards.group_shard import GroupShard
from kohort.broker.shards.group_shards import GroupShards
from kohort.simulation.checking.coordinators import Invariants
from kohort.simulation.checking.groups import classic
from kohort.simulation.checking.violation import ViolationError, holds

LATE_S: Final = 0.001
"""A timer that is this late was not served."""


class Listener(Protocol):
    """Takes what the watched coordinators do."""

    def fail(self, error: Exception) -> None:
        """An invariant is violated, or a coordinator has raised an exception."""

    def committed(self, record: OffsetRecord) -> None:
        """An offset is in the log, or a tombstone of one."""


def watch(shards: GroupShards, listener: Listener) -> None:
    """Watches all coordinators of a cluster from now on.

    Args:
        shards: of a cluster in which no group was used yet.
        listener: see `Listener`.
    """
    new_driver = shards.new_driver

    def watched(
        shard: GroupShard, publish: Callable[[Notice, float], None]
    ) -> GroupDriver:
        driver = new_driver(shard, publish)
        driver.__class__ = _Driver
        assert isinstance(driver, _Driver)
        driver.begin(shard.partition, listener)
        return driver

    shards.new_driver = watched  # type: ignore[method-assign]  # of this cluster only


class _Driver(GroupDriver):
    """A driver that checks its coordinator when it has performed an event's effects."""

    def begin(self, log: Partition, listener: Listener) -> None:
        """Begins to watch, before the coordinator starts."""
        self._partition = log
        self._listener = listener
        self._invariants = Invariants()
        # Requests without an answer: the time at which they came, the event, and, of a
        # commit, whether its member may commit.
        self._asked: dict[object, tuple[float, Any, bool]] = {}
        # The longest wait of a request, by group.
        self._longest_s: dict[str, float] = {}
        self._decoder = Decoder()
        self._records: list[Record] = []
        self._read_to = log.log_start_offset
        self._depth = 0
        # Whether records were written behind other events than their own.
        self._is_late = False
        self._is_stopped = False
        for kind, way in self._try_now.items():
            self._try_now[kind] = partial(self._noted, way)

    # -- events

    def start(self, loading: Loading) -> None:
        """See `Driver.start`."""
        self._guarded(super().start, loading)

    def submit(self, event: Any) -> None:
        """See `Driver.submit`."""
        self._is_late |= self._depth > 0
        self._guarded(self._submit, event)

    def _submit(self, event: Any) -> None:
        token = getattr(event, "token", None)
        if token is not None:
            is_valid = not isinstance(event, CommitOffsets) or _may_commit(
                self.coordinator.groups.get(event.group_id), event
            )
            self._asked[token] = self._clock.now(), event, is_valid
        super().submit(event)

    def flush(self) -> None:
        """See `Driver.flush`."""
        self._is_late = True
        self._guarded(super().flush)

    def stop(self) -> None:
        """See `Driver.stop`; the coordinator refuses all requests that wait."""
        super().stop()
        self._is_stopped = True
        waiting, coordinator = {*self._asked}, self.coordinator
        unload = coordinator.unload

        def checked() -> list[Reply]:
            replies = unload()
            if {reply.token for reply in replies} != waiting:
                words = "a coordinator that moves answers all requests that wait"
                self._listener.fail(ViolationError(words))
            return replies

        coordinator.unload = checked  # type: ignore[method-assign]  # of this one only

    def _guarded(self, act: Callable[..., None], *args: object) -> None:
        """Performs an event, then checks all invariants."""
        self._depth += 1
        try:
            act(*args)
            if self._depth == 1 and not self._is_stopped:
                self._check()
        except Exception as error:  # the broker would only log it
            self._listener.fail(error)
            raise
        finally:
            self._depth -= 1

    # -- answers

    def _noted(self, way: Callable[[Any, float], Any], event: Any, now: float) -> Any:
        """Handles an event on its short way, and notes an answer."""
        result = way(event, now)
        if result is not None and result is not True and type(result) is not Notice:
            self._answered(event.token, result)
        return result

    def _run(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Reply):
                self._answered(*effect)
            elif isinstance(effect, Replies):
                for token in effect.tokens:
                    self._answered(token, None)
            elif isinstance(effect, Forget):
                self._answered(effect.token, None)
        super()._run(effects)

    def _answered(self, token: object, result: object) -> None:
        asked = self._asked.pop(token, None)
        holds(asked is not None, "a request is answered once")
        assert asked is not None
        _, event, is_valid = asked
        if isinstance(result, CommitResult):
            is_accepted = not result.error_code
            holds(
                is_valid or not is_accepted or not event.offsets,
                f"no commit of a fenced member is accepted, as that of "
                f"{event.client.id} in generation {event.generation_id}",
            )
        elif isinstance(result, JoinResult) and result.member_id == result.leader != "":
            name = event.group_instance_id or result.member_id
            generation_id = result.generation_id
            self._invariants.check_leader(event.group_id, generation_id, name)

    # -- checks

    def _check(self) -> None:
        if self._batches:
            # Appends that wait for their window: the log is behind.
            self._invariants.check_generations(self.coordinator)
            return
        new = self._new_records()
        if self._is_late:
            self._is_late = False
            group_ids = (getattr(record, "group_id", "") for record in new)
            self._invariants.written_late(group_ids)
        timers = self._timers.deadlines
        self._invariants.check(
            self.coordinator, timers, self._asked.keys(), self._records
        )
        now = self._clock.now()
        late = min(timers.values(), default=now) + LATE_S < now
        holds(not late, "a timer fires at its time")
        self._check_waits(now)
        for record in new:
            if isinstance(record, OffsetRecord):
                self._listener.committed(record)

    def _new_records(self) -> list[Record]:
        """Reads the records of the log that are new."""
        partition, start = self._partition, self._read_to
        if partition.log_end_offset == start:
            return []
        self._read_to = partition.log_end_offset
        new = [
            record
            for batch in partition.batches(start)
            for record in self._decoder.read(batch)
        ]
        self._records += new
        return new

    def _check_waits(self, now: float) -> None:
        """Checks that no request waits for longer than two phases of a rebalance."""
        if not self._asked:
            return
        delay_s = self.coordinator.settings.initial_rebalance_delay_ms / 1000
        for group in classic(self.coordinator.groups.values()).values():
            if group.members:
                phase_s = max(m.rebalance_timeout_ms for m in group.members.values())
                longest_s = delay_s + 2 * phase_s / 1000 + LATE_S
                known_s = self._longest_s.get(group.group_id, 0.0)
                self._longest_s[group.group_id] = max(known_s, longest_s)
        for since, event, _ in self._asked.values():
            longest_s = self._longest_s.get(getattr(event, "group_id", ""), now)
            holds(now - since <= longest_s, "a request is answered by its deadline")


def _may_commit(group: Group | None, event: CommitOffsets) -> bool:
    """Returns whether a commit is one of a member of the present generation."""
    member: Any = None if group is None else group.members.get(event.member_id)
    if group is None or not group.members:
        return event.generation_id < 0
    if member is None:
        return False
    instance = event.group_instance_id
    if instance is not None and member.identity.group_instance_id != instance:
        return False
    if not isinstance(group, ConsumerGroup):
        return event.generation_id == group.generation_id
    if event.generation_id == member.epoch:
        return True
    # KIP-1251: it has had the partitions since then.
    epochs: dict[tuple[bytes, int], int] = {}
    for by_topic in (member.assigned, member.revoking):
        for topic_id, since in by_topic.items():
            epochs |= {(topic_id, each): epoch for each, epoch in since.items()}
    for topic, partition in zip(
        event.offsets.topics, event.offsets.partitions, strict=True
    ):
        image = group.topics.named(topic)
        since_epoch = epochs.get((image.topic_id if image else b"", partition))
        if since_epoch is None or not since_epoch <= event.generation_id < member.epoch:
            return False
    return True
