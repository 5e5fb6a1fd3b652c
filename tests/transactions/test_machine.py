"""A state machine of two producers with one id, their partitions, and the coordinator.

After every event `Context` replays the log: it has the state. A marker is written only
in PrepareCommit or PrepareAbort, agrees with it, and has its epoch; a transaction is
complete when each of its partitions has one; only the producer with the current epoch
gets anything done; and an id never stays busy.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.transactions.context import Context

from kohort.broker.log.ended_transactions import EndMarker
from kohort.broker.transactions.events import FenceProducer, TopicPartition
from kohort.broker.transactions.settings import TransactionSettings
from kohort.broker.transactions.state import PREPARE_COMMIT, PREPARED
from kohort.protocol.errors import ErrorCode

PARTITIONS = [TopicPartition("t", number) for number in range(3)]
NEAR_THE_END = 32_764

producers = st.sampled_from(["A", "B"])
partitions = st.sampled_from(PARTITIONS)
refusals = st.sampled_from([ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER])


class Watched(Context):
    """A scene that looks at each marker when it is written."""

    def marked(self, partition: TopicPartition, end: EndMarker) -> None:
        """Writes a marker of the transaction that is being ended."""
        metadata = self.transaction.metadata
        assert metadata.state in PREPARED
        assert end.is_commit is (metadata.state is PREPARE_COMMIT)
        assert end.producer_id == metadata.producer_id
        assert end.producer_epoch == metadata.producer_epoch
        assert partition in metadata.partitions


class Producers(RuleBasedStateMachine):
    """Two producers that take turns, and a coordinator that moves."""

    @initialize(
        version=st.sampled_from([1, 2]),
        is_old=st.booleans(),
        delay_ms=st.sampled_from([-1, 0, 50]),
    )
    def begin(self, version: int, is_old: bool, delay_ms: int) -> None:
        """A coordinator; perhaps its producer id has few epochs left."""
        settings = TransactionSettings(markers_delay_ms=delay_ms)
        self.scene = Watched(settings, version)
        self.known = {"A": (-1, -1), "B": (-1, -1)}
        self.initialized("A")
        if is_old:
            scene = self.scene
            before = scene.transaction.metadata
            after = before.initialized(before.producer_id, NEAR_THE_END, -1, 60_000, 1)
            scene.forge(after)
            self.known["A"] = after.producer_id, NEAR_THE_END

    def is_current(self, name: str) -> bool:
        """True if a producer has the id's current epoch."""
        metadata = self.scene.transaction.metadata
        return self.known[name] == (metadata.producer_id, metadata.producer_epoch)

    @rule(name=producers)
    def initialized(self, name: str) -> None:
        """A producer starts, and fences the other one."""
        result = self.scene.init()
        if not result.error_code:
            self.known[name] = result.producer_id, result.producer_epoch
            assert self.is_current(name)

    @rule(name=producers)
    def starts_over(self, name: str) -> None:
        """A producer asks for the next epoch with its own."""
        result = self.scene.init(*self.known[name])
        if not result.error_code:
            self.known[name] = result.producer_id, result.producer_epoch
            assert self.is_current(name)

    @rule(name=producers, partition=partitions, version=st.sampled_from([0, 2]))
    def adds(self, name: str, partition: TopicPartition, version: int) -> None:
        """A producer adds a partition."""
        producer_id, epoch = self.known[name]
        was_current = self.is_current(name)
        result = self.scene.add(
            partition, producer_id=producer_id, epoch=epoch, version=version
        )
        assert was_current or result.error_code
        if not result.error_code:
            assert partition in self.scene.transaction.metadata.partitions

    @rule(name=producers, is_commit=st.booleans(), bumps=st.booleans())
    def ends(self, name: str, is_commit: bool, bumps: bool) -> None:
        """A producer ends its transaction, perhaps for the second time."""
        producer_id, epoch = self.known[name]
        was_current, before = self.is_current(name), self.scene.transaction.metadata
        result = self.scene.end(
            is_commit=is_commit, bumps=bumps, producer_id=producer_id, epoch=epoch
        )
        if result.error_code:
            return
        # An earlier epoch only gets its answer once more.
        assert was_current or self.scene.transaction.metadata == before
        ended = "Commit" if is_commit else "Abort"
        assert self.scene.state in {f"Prepare{ended}", f"Complete{ended}"}
        if bumps:
            self.known[name] = result.producer_id, result.producer_epoch

    @rule(is_commit=st.booleans(), bumps=st.booleans())
    def comes_together(self, is_commit: bool, bumps: bool) -> None:
        """Requests of one turn: only the first one that changes something does."""
        scene, before = self.scene, len(self.scene.log())
        with scene.together():
            scene.end(is_commit=is_commit, bumps=bumps)
            is_busy = scene.transaction.is_busy
            late: list[Any] = [scene.add(PARTITIONS[0]), scene.end(is_commit=is_commit)]
            late.append(scene.init())
            changed = len(scene.log()) - before
        if is_busy:
            busy = ErrorCode.CONCURRENT_TRANSACTIONS
            assert [each.error_code for each in late] == [busy] * 3
            assert changed <= 1

    @rule(partition=partitions, error=refusals)
    def leads(self, partition: TopicPartition, error: ErrorCode) -> None:
        """A partition loses its leader, or has one again."""
        self.scene.answers[partition] = error

    @rule(seconds=st.sampled_from([0.1, 5, 45]))
    def sleeps(self, seconds: float) -> None:
        """Time passes; transactions may time out."""
        self.scene.sleep(seconds)

    @rule()
    def moves(self) -> None:
        """Another node becomes coordinator."""
        self.scene.reload()

    @rule()
    def fences(self) -> None:
        """A test fences the producers."""
        self.scene.command(FenceProducer)

    @rule()
    def refuses(self) -> None:
        """The log refuses one record: nothing has changed."""
        scene = self.scene
        before = scene.transaction.metadata
        with scene.refusing():
            assert scene.init().error_code
        assert scene.transaction.metadata == before

    @invariant()
    def is_complete_with_all_markers(self) -> None:
        """A transaction that is not being ended lacks no marker."""
        if hasattr(self, "scene"):
            transaction = self.scene.transaction
            assert transaction.pending is None
            if transaction.state not in PREPARED:
                assert not transaction.missing

    def teardown(self) -> None:
        """With all leaders back, the id is not busy any more."""
        if hasattr(self, "scene"):
            self.scene.answers.clear()
            self.scene.sleep(2)
            assert not self.scene.transaction.is_busy


TestProducers = Producers.TestCase
