"""The runtime with a coordinator of its own: counters, which are added to.

It is as small as a coordinator can be: a machine, its records, and one declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest
from tests.coordinator.driver import Pending
from tests.manual_clock import ManualClock

from kohort.broker.events.bus import Events
from kohort.broker.log.partition import Partition
from kohort.broker.log.settings import LogConfig
from kohort.broker.log.store import StorageError
from kohort.broker.notice import Notice
from kohort.broker.runtime.appends import Appends
from kohort.broker.runtime.driver import Driver
from kohort.broker.runtime.effects import CommandResult
from kohort.broker.runtime.events import TimerKey
from kohort.broker.runtime.loader import Loader
from kohort.broker.runtime.machine import Completion, Machine
from kohort.broker.runtime.runtime import Runtime
from kohort.broker.runtime.shard import PartitionLog, Shard
from kohort.broker.runtime.shards import Shards
from kohort.broker.runtime.turn import MachineTurn
from kohort.broker.topics.topic import NO_NODE
from kohort.protocol import offsets_log
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer
from kohort.protocol.records import read_records
from kohort.protocol.slotted import slotted

Record = tuple[str, int]
"""A counter and its value."""


@slotted
class Add:
    """A request to add to a counter."""

    token: Any
    counter: str
    amount: int
    opens_window: bool = False


@slotted
class Reset:
    """A command: the counter is 0 again, later."""

    token: Any
    counter: str


@slotted
class Total:
    """The answer to `Add`."""

    error_code: int
    value: int = 0


@slotted
class Added:
    """The step that an append completes."""

    counter: str
    value: int


class Loading:
    """A log of counters that is being read."""

    def __init__(self) -> None:
        self.found: dict[str, int] = {}

    def feed(self, records: Iterable[Record]) -> None:
        """The latest record of a counter counts."""
        self.found.update(records)


class Counters(Machine[int, MachineTurn, Loading]):
    """The state machine."""

    def __init__(self) -> None:
        super().__init__({}, Appends())
        self._handlers |= {Add: self._in_turn(_add), Reset: self._in_turn(_reset)}
        self._timers["reset"] = _zero
        self._completions[Added] = Completion(_added, _not_added)

    def _turn(self, now: float) -> MachineTurn:
        return MachineTurn(self.appends, now, listening=self.listening)

    def _take_over(self, turn: MachineTurn, loading: Loading) -> None:
        self.states.update(loading.found)

    @property
    def _check_interval_ms(self) -> int:
        return 60_000

    def _check(self, turn: MachineTurn, unchecked: list[str]) -> list[str]:
        """Forgets counters that are 0, one in each part."""
        left = unchecked or [*self.states]
        if left and not self.states.get(left[0]):
            self.states.pop(left[0], None)
        return left[1:]


def _add(turn: MachineTurn, states: dict[str, int], event: Add) -> None:
    value = states.get(event.counter, 0) + event.amount
    turn.append_batch(
        [(event.counter, value)],
        Added(event.counter, value),
        [],
        opens_window=event.opens_window,
    )
    turn.reply_after_appends(event.token, Total(0, value))


def _reset(turn: MachineTurn, _: dict[str, int], event: Reset) -> None:
    turn.arm(("reset", event.counter), turn.now + 5)
    turn.reply(event.token, CommandResult())


def _zero(turn: MachineTurn, _: int, key: TimerKey) -> None:
    turn.append_batch([(key[1], 0)], Added(key[1], 0), [])


def _added(_: MachineTurn, states: dict[str, int], added: Added) -> None:
    states[added.counter] = added.value


def _not_added(turn: MachineTurn, _: dict[str, int], added: Added, __: int) -> None:
    notice = Notice("append_failed", added.counter, None, None, {})
    turn.notices.append(notice)


def encode(records: Sequence[Record], now_ms: int) -> bytes:
    """A batch of records."""
    framed = [
        offsets_log.frame(place, counter.encode(), str(value).encode())
        for place, (counter, value) in enumerate(records)
    ]
    return offsets_log.batch_of(b"".join(framed), len(records), now_ms, 0)


def read(batch: Buffer) -> Iterator[list[Record]]:
    """The records of a batch."""
    pairs = ((bytes(r.key or b""), bytes(r.value or b"")) for r in read_records(batch))
    yield [(key.decode(), int(value)) for key, value in pairs]


class CounterShards(Shards[Shard[Driver[Counters]]]):
    """The declaration."""

    noun = "counter"

    def new_shard(self, index: int, partition: Partition) -> Shard[Driver[Counters]]:
        """The shard of a partition."""
        return Shard(index, partition, self._runtime, self)

    def open(self, partition: Partition) -> Shard[Driver[Counters]]:
        """Begins with a topic of one partition."""
        self._shards = [self.new_shard(0, partition)]
        return self._shards[0]

    def begin(self) -> Loading:
        """No counters."""
        return Loading()

    def slices(self, shard: Shard[Driver[Counters]], read_: Loading) -> Iterator[None]:
        """Reads a shard's log."""
        return shard.feed(read_, read)

    def new_driver(
        self, shard: Shard[Driver[Counters]], publish: Callable[[Notice, float], None]
    ) -> Driver[Counters]:
        """Runs a coordinator without counters."""
        log = PartitionLog(shard.partition, encode)
        return Driver(Counters(), self._runtime.clock, log, shard.reload, publish)

    def _id_of(self, event: Add | Reset) -> str:
        return event.counter

    def _refused(self, event: Add, error: ErrorCode) -> Total:
        return Total(error)


class FullPartition(Partition):
    """A partition that can be full."""

    room = 1_000
    """Batches that it still takes."""

    def append_own(self, *args: Any, **kwargs: Any) -> int:
        """Fails if it is full."""
        if not self.room:
            raise StorageError("the disk is full")
        self.room -= 1
        return super().append_own(*args, **kwargs)


class Scene:
    """One shard, which node 1 leads."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        events = Events()
        self.kinds: list[str] = []
        events.listen(lambda seen: self.kinds.append(seen.notice.kind))
        runtime = Runtime(self.clock, Loader(self.clock), 0, events)
        self.shards = CounterShards(runtime, lambda: None, refuses_first=False)
        self.partition = FullPartition("counters-0")
        self.shard = self.shards.open(self.partition)
        self.shard.lead(1)

    def add(
        self, amount: int, counter: str = "a", *, node: int = 1, window: bool = False
    ) -> Pending[Total]:
        """Adds to a counter."""
        pending: Pending[Total] = Pending(f"add {amount}")
        self.shards.submit(node, Add(pending, counter, amount, window))
        return pending


@pytest.fixture
def scene() -> Scene:
    """Counters without values."""
    return Scene()


def test_an_answer_follows_its_record(scene: Scene) -> None:
    """The state changes when the log has the record."""
    assert scene.add(2).result == Total(0, 2)
    assert scene.add(3).result == Total(0, 5)
    assert scene.shard.states == {"a": 5}
    assert scene.partition.log_end_offset == 2


def test_appends_of_a_window_are_written_in_the_next_turn(scene: Scene) -> None:
    """Those behind one that opens a window, too; in their order."""
    first, second = scene.add(2, window=True), scene.add(3, "b")
    assert not first.answered
    assert not second.answered
    assert scene.shard.states == {}
    scene.clock.skip(0)
    assert [first.result.value, second.result.value] == [2, 3]
    assert scene.shard.states == {"a": 2, "b": 3}


def test_a_record_that_is_too_large_is_undone(scene: Scene) -> None:
    """Its request is answered with the error; those around it are not touched."""
    waiting = scene.add(1, "b", window=True)
    scene.partition.config = LogConfig(max_message_bytes=8)
    assert scene.add(2).result.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    scene.clock.skip(0)
    assert waiting.result == Total(0, 1)
    assert scene.shard.states == {"b": 1}
    assert "append_failed" in scene.kinds


def test_a_log_that_cannot_be_written_is_read_again(scene: Scene) -> None:
    """Changes that are not in the log are refused; the state is that of the log."""
    first, second = scene.add(2, window=True), scene.add(3, "b")
    scene.partition.room = 1
    scene.clock.skip(0)
    assert first.result == Total(0, 2)
    assert second.result.error_code == ErrorCode.NOT_COORDINATOR
    scene.partition.room = 1
    assert scene.shard.states == {"a": 2}
    assert scene.add(3).result == Total(0, 5)


def test_a_move(scene: Scene) -> None:
    """Waiting requests are refused; the new leader has what the log has, no timer."""
    scene.add(2)
    scene.shards.command(Reset(Pending[CommandResult]("reset"), "a"))
    waiting = scene.add(3, window=True)
    assert scene.add(1, node=2).result.error_code == ErrorCode.NOT_COORDINATOR
    scene.shards.lead(0, 2, "moved")
    assert waiting.result.error_code == ErrorCode.NOT_COORDINATOR
    assert scene.add(1).result.error_code == ErrorCode.NOT_COORDINATOR
    assert scene.add(1, node=2).result == Total(0, 3)
    scene.clock.skip(5)
    assert scene.partition.log_end_offset == 2


def test_without_a_leader(scene: Scene) -> None:
    """A command gets a sentence."""
    scene.shard.lead(NO_NODE)
    command: Pending[CommandResult] = Pending("reset")
    scene.shards.command(Reset(command, "a"))
    assert command.result.refusal == (
        "the counter has no coordinator now: its shard is unloaded"
    )


def test_timers_and_checks(scene: Scene) -> None:
    """A timer's change is written like others; the check goes on in parts."""
    scene.add(2)
    scene.add(3, "b")
    command: Pending[CommandResult] = Pending("reset")
    scene.shards.command(Reset(command, "b"))
    assert command.result == CommandResult()
    scene.clock.skip(4)
    assert scene.shard.states == {"a": 2, "b": 3}
    scene.clock.skip(1)
    assert scene.shard.states == {"a": 2, "b": 0}
    scene.clock.skip(56)
    assert scene.shard.states == {"a": 2}


def test_a_timer_of_an_id_that_is_gone(scene: Scene) -> None:
    """It has no effect."""
    command: Pending[CommandResult] = Pending("reset")
    scene.shards.command(Reset(command, "a"))
    scene.clock.skip(5)
    assert scene.partition.log_end_offset == 0
