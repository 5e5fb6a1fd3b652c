"""One cell of the table: real clients, a disturbance, and two accounts of it.

The workers of `tests/workers` say which records their application handled: that is the
truth. The other account is the broker's. A cell

1. lets one or two members handle all records (`worked`);
2. disturbs the group;
3. writes one more record to each partition, and waits until it is handled: its reader
   has handled everything before it (`closed`);
4. compares (`wrong`).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tests.workers import libraries
from tests.workers.process import Line, Pool, Worker

from kohort.client import ConsumerGroupMetadata, Producer, TopicPartition
from kohort.control.conditions import ConditionTimeout
from kohort.control.group import Group
from kohort.protocol.records import Record, build_batch

if TYPE_CHECKING:
    from kohort.broker.events.delivery import Delivery
    from kohort.broker.server import Broker

PARTITIONS = 2
RECORDS = 20
"""Records per partition: enough for two commits of a service that commits `late`, and
some more. After a single one, a close cannot be told from a commit of the close."""
LATE = 7
TRANSACTIONAL = "transactional"
"""The service that handles records in transactions, and commits its offsets in them."""
ABORT_EVERY = 3
LIMIT_S = 60.0
CAREFUL = frozenset({"released", "auto"})
"""Services that commit when they have to stop."""
CONFIG = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "offsets.topic.num.partitions": 1,
    "auto.create.topics.enable": False,
    # The records have no time, and are deleted otherwise when 5 minutes have passed.
    "log.retention.ms": -1,
}
_numbers = itertools.count(1)

Place = tuple[int, int]
"""Partition and offset."""


@dataclass(slots=True)
class Member:
    """A worker in this cell."""

    name: str
    worker: Worker
    service: str
    is_gone: bool = False
    _last: list[Line] | None = None

    @property
    def lines(self) -> list[Line]:
        """What the worker said for this member."""
        return self.worker.lines if self._last is None else self._last

    def close(self) -> None:
        """Keeps what it said: the worker may be used again."""
        self.is_gone = True
        self._last = [*self.worker.lines]

    @property
    def handled(self) -> list[Place]:
        """The records that its application handled, in order."""
        return [
            (int(row[0]), int(row[1]))
            for line in self.lines
            if line.kind == "consumed"
            for row in line.event["records"]
        ]

    @property
    def done(self) -> list[Place]:
        """Those whose handling counts: an aborted transaction undoes it."""
        if self.service != TRANSACTIONAL:
            return self.handled
        done: list[Place] = []
        begun: list[Place] = []
        for line in self.lines:
            if line.kind == "consumed":
                begun = [(int(row[0]), int(row[1])) for row in line.event["records"]]
            elif line.kind == "ended" and line.event["is_commit"]:
                done += begun
        return done

    @property
    def is_idle(self) -> bool:
        """Whether it has committed what its service commits."""
        if self.service == TRANSACTIONAL:
            kinds = [line.kind for line in self.lines if line.kind != "owns"]
            return not kinds or kinds[-1] != "consumed"
        commits = [line for line in self.lines if line.kind == "committed"]
        if self.service == "late":
            # A partition may have been revoked in the middle of a batch.
            failed = [line for line in self.lines if line.kind == "note"]
            return len(commits) + len(failed) >= len(self.handled) // LATE
        if self.service not in {"after", "before"}:
            return True
        committed = {
            int(p): int(o) for line in commits for p, o in line.event["offsets"]
        }
        ends: dict[int, int] = {}
        for partition, offset in self.handled:
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        return all(committed.get(p, 0) >= end for p, end in ends.items())


class Cell:
    """See the module.

    Attributes:
        group: the group.
        topic: its topic.
        members: all members that ever joined.
        ends: by partition, the offset behind the last record.
        absent: offsets without a record for readers of committed records.
        took_over: whether a member was assigned partitions at the end of the cell: it
            may have been sent records, and have closed before it could handle them.
    """

    def __init__(
        self, broker: Broker, workers: Pool, service: str, assignor: str
    ) -> None:
        number = next(_numbers)
        self.broker = broker
        self.workers = workers
        self.service = service
        self.assignor = assignor
        self.topic = f"orders-{number}"
        self.group = Group(broker, f"billing-{number}")
        self.members: list[Member] = []
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self.absent: set[Place] = set()
        self.took_over = False
        self._changed = asyncio.Event()
        broker.cluster.create_topic(self.topic, PARTITIONS)
        if service == TRANSACTIONAL:
            broker.cluster.create_topic(f"{self.topic}-out", 1)

    # -- the application's account

    @property
    def handled(self) -> Counter[Place]:
        """How often each record was handled."""
        return Counter(place for each in self.members for place in each.done)

    @property
    def again(self) -> int:
        """How often a record was handled that had been handled before."""
        return sum(count - 1 for count in self.handled.values())

    @property
    def skipped(self) -> int:
        """Records between the first and the last handled ones that nobody handled."""
        found = self.handled
        total = 0
        for partition in range(PARTITIONS):
            offsets = [o for p, o in found if p == partition]
            for each in range(min(offsets, default=0), max(offsets, default=0)):
                place = partition, each
                total += place not in found and place not in self.absent
        return total

    # -- verbs

    def produce(self, count: int = RECORDS, partition: int | None = None) -> None:
        """Appends records to each partition, or to one."""
        for index in range(PARTITIONS) if partition is None else (partition,):
            log = self.broker.cluster.topics.by_name[self.topic].partitions[index]
            records = [
                Record(key=b"key", value=b"%d" % (self.ends[index] + n))
                for n in range(count)
            ]
            log.append_own(build_batch(records), now_ms=0)
            self.ends[index] += count

    async def produce_in_transactions(self) -> None:
        """Appends records of transactions to each partition; the last is aborted."""
        producer = Producer(
            bootstrap_servers=self.broker.bootstrap_servers,
            transactional_id=f"{self.topic}-input",
        )
        async with producer:
            for count, is_commit in ((9, True), (5, False), (12, True), (3, False)):
                await producer.begin_transaction()
                for partition, end in self.ends.items():
                    for _ in range(count):
                        await producer.send_and_wait(
                            self.topic, b"value", b"key", partition=partition
                        )
                    lost = range(end + is_commit * count, end + count + 1)
                    self.absent |= {(partition, each) for each in lost}
                    self.ends[partition] = end + count + 1
                await (
                    producer.commit_transaction()
                    if is_commit
                    else producer.abort_transaction()
                )

    async def commit_in_transaction(self) -> None:
        """Commits the first offsets: the group is known to work in transactions.

        Otherwise a transaction that is aborted before any was committed looks like a
        seek.
        """
        first = {TopicPartition(self.topic, each): 0 for each in range(PARTITIONS)}
        producer = Producer(
            bootstrap_servers=self.broker.bootstrap_servers,
            transactional_id=f"{self.topic}-before",
        )
        async with producer, producer.transaction():
            group = ConsumerGroupMetadata(self.group.group_id, -1, "", None)
            await producer.send_offsets_to_transaction(first, group)

    def delete(self, offset: int) -> None:
        """Deletes the records of each partition below an offset."""
        for log in self.broker.cluster.topics.by_name[self.topic].partitions:
            log.delete_records(offset)

    @property
    def positions(self) -> dict[int, int]:
        """The positions of the present readers, by partition."""
        accounting = self.broker.events.accounting
        assert accounting is not None
        found = accounting.deliveries.of(self.group.group_id).partitions
        return {
            partition: state.passage.position
            for (_, partition), state in found.items()
            if state.passage is not None and state.passage.release is None
        }

    @property
    def is_read(self) -> bool:
        """Whether each partition has a reader, whose position is known."""
        return len(self.positions) == PARTITIONS

    @property
    def is_at_end(self) -> bool:
        """Whether each partition has a reader, which has received everything."""
        return self.positions == self.ends

    async def join(self, name: str, **words: object) -> Member:
        """A member joins; returns before it has."""
        worker = await asyncio.to_thread(self.workers.take)
        wake = asyncio.get_running_loop().call_soon_threadsafe
        worker.begin(partial(wake, self._changed.set))
        member = Member(name, worker, self.service)
        self.members.append(member)
        words.setdefault("session", 30_000)
        if self.service == TRANSACTIONAL:
            words |= {"out": f"{self.topic}-out", "abort": ABORT_EVERY}
        else:
            words |= {"service": self.service}
            # Without the worker's own polls kafka-python often joins twice.
            words["plain"] = (
                None if self.workers.name == libraries.KAFKA_PYTHON.name else 1
            )
        worker.send(
            "join",
            bootstrap=self.broker.bootstrap_servers,
            topic=self.topic,
            group=self.group.group_id,
            client=name,
            assignor=self.assignor,
            heartbeat=50,
            **words,
        )
        return member

    async def leave(self, member: Member) -> None:
        """Closes it; its worker can be used again."""
        left = await asyncio.to_thread(self.workers.give_back, member.worker)
        member.close()
        if not left:
            raise AssertionError(f"{member.name} did not leave: {member.worker.error}")
        self._changed.set()

    async def end(self) -> None:
        """Closes all members."""
        generation = self.group.generation
        living = [each for each in self.members if not each.is_gone]
        await asyncio.gather(*map(self.leave, living))
        self.took_over = self.group.generation > generation + 1

    async def crash(self, member: Member) -> None:
        """Kills its process."""
        await asyncio.to_thread(member.worker.stop)
        member.close()

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Waits for a worker's line, or for an event or a fetch at the broker."""
        accounting = self.broker.events.accounting
        assert accounting is not None
        accounting.listen(self._changed.set)
        try:
            async with asyncio.timeout(LIMIT_S):
                while not holds():
                    for each in self.members:
                        if not each.is_gone and each.worker.error is not None:
                            raise AssertionError(each.worker.error)
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            text = f"not within {LIMIT_S} s: {what}; {self}\n{self.seen_by_broker}"
            raise AssertionError(text) from None
        finally:
            accounting.unlisten(self._changed.set)

    async def worked(self) -> None:
        """All records are handled, and committed if the service commits."""
        places = {(p, o) for p, end in self.ends.items() for o in range(end)}
        places -= self.absent
        await self.until("handled everything", lambda: places <= {*self.handled})
        await self.idle()

    async def idle(self) -> None:
        """All members have committed what they commit."""
        living = [each for each in self.members if not each.is_gone]
        await self.until("committed", lambda: all(each.is_idle for each in living))

    async def closed(self) -> None:
        """One more record in each partition is written, and handled."""
        last = {(p, self.ends[p]) for p in range(PARTITIONS)}
        self.produce(1)
        await self.until("handled the last records", lambda: last <= {*self.handled})
        await self.idle()

    async def stable(self, members: int) -> None:
        """The group is Stable with so many members."""
        await self.group.until(state="Stable", members=members, timeout=LIMIT_S)

    async def balanced(self) -> None:
        """Each of two members has a partition, and nothing remains to be moved."""

        def holds() -> bool:
            shares = self.group.assignment().values()
            many = [len(each.get(self.topic, ())) for each in shares]
            return self.group.state == "Stable" and many == [1, 1]

        await self.until("balanced", holds)

    # -- comparing

    async def delivery(self) -> Delivery:
        """The broker's account, when all that was handled was also seen as received."""
        if all(each.is_gone for each in self.members):
            return await self.group.delivery(timeout_s=LIMIT_S)
        many = len(self.handled)
        with contextlib.suppress(AssertionError, TimeoutError):
            await asyncio.wait_for(self._received(many), 3)
        return await self.group.delivery(timeout_s=LIMIT_S)

    async def _received(self, many: int) -> None:
        """The account has them, and an application what was certainly sent again.

        The readers are at the end: a former one may have handled the last records.
        """

        def holds() -> bool:
            found = self.group.peek_delivery()
            return (
                found.records >= many
                and found.again_certain <= self.again
                and self.is_at_end
            )

        await self.until("received", holds)

    async def wrong(self, *, at_work: bool) -> list[str]:
        """Compares the two accounts.

        Args:
            at_work: whether members were disturbed before they had handled all that
                they had received. Then the broker's number is an upper bound, but for
                a service that commits when it has to stop.

        Returns:
            A sentence for each difference.
        """
        try:
            account = await self.delivery()
        except (ConditionTimeout, TimeoutError) as error:
            return [f"not settled: {error}"]
        certain, possible = account.again_certain, account.again_possible
        found = []
        if self.again > certain + possible:
            found.append(f"handled again: {self.again}")
        # One that is disturbed may not handle what it is sent again; the last one does.
        once = self._certain(account) - {p for p, n in self.handled.items() if n > 1}
        if once and not self.took_over:
            found.append(f"handled once: {_runs(sorted(once))}")
        is_exact = not (at_work or self.took_over)
        is_exact |= self.service in CAREFUL and not self.again
        if is_exact and self.again != certain + possible:
            found.append(f"handled again, exactly: {self.again}")
        if self.skipped != account.skipped_records:
            found.append(f"skipped: {self.skipped}")
        if found:
            found.append(str(account))
            found.append(str(self))
        return found

    @property
    def seen_by_broker(self) -> str:
        """The group, and the reader of each partition."""
        group = self.group
        accounting = self.broker.events.accounting
        assert accounting is not None
        found = accounting.deliveries.of(group.group_id).partitions
        rows = [f"{key[1]}: {state.passage}" for key, state in sorted(found.items())]
        head = f"{group.state}, generation {group.generation}, {group.assignment()}"
        return "\n".join([head, *rows])

    def _certain(self, account: Delivery) -> set[Place]:
        return {
            (row.partition, offset)
            for row in account.again
            if row.is_certain
            for offset in range(row.first, row.end)
        }

    def __str__(self) -> str:
        """Its members, and what they handled."""
        rows = []
        for each in self.members:
            rows.append(f"{each.name}: {_runs(each.handled)}")
            rows += [
                f"  {line.event}"
                for line in each.lines
                if line.kind in {"note", "error", "owns"}
            ]
        return "\n".join(rows)


def _runs(places: Iterable[Place]) -> str:
    """Places as runs of offsets."""
    found: list[tuple[int, int, int]] = []
    for partition, offset in places:
        if found and found[-1][0] == partition and found[-1][2] == offset:
            found[-1] = (partition, found[-1][1], offset + 1)
        else:
            found.append((partition, offset, offset + 1))
    return " ".join(f"{p}:{a}-{b - 1}" for p, a, b in found)


@contextlib.asynccontextmanager
async def played(
    broker: Broker, workers: Pool, service: str, assignor: str
) -> AsyncIterator[Cell]:
    """A cell; at the end its members are gone."""
    cell = Cell(broker, workers, service, assignor)
    if service == TRANSACTIONAL:
        await cell.commit_in_transaction()
    try:
        yield cell
    finally:
        for each in cell.members:
            if not each.is_gone:
                with contextlib.suppress(AssertionError):
                    await cell.leave(each)
