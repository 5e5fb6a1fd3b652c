"""One cell of a producer: it sends records while the script of a row is played."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from typing import TYPE_CHECKING

from tests.clients_table.evidence import PARTITIONS, TOPIC
from tests.clients_table.judge import Facts, short
from tests.clients_table.play import Cell

from kohort.protocol.records import read_header, read_records

if TYPE_CHECKING:
    from tests.clients_table.rows import Step

COUNT = 400


class ProducerCell(Cell):
    """The play of a row of producers; the first worker sends.

    The script has a step `produce`, at which the producer starts.
    """

    facts: Facts

    async def play_producer(self) -> Facts:
        """Plays it, and compares the acknowledged records with the log."""
        sender, *others = self.workers.values()
        evidence = self.evidence
        async with self.broker as broker:
            broker.cluster.create_topic(TOPIC, PARTITIONS, self.row.nodes, {})
            self._nodes = {"leader": broker.cluster.topics.by_name[TOPIC].leaders[0]}
            broker.events.listen(self._hear)
            for worker in (sender, *others):
                worker.begin(self._wake())
            for step in self.row.steps:
                await self._perform(step)
            evidence.undone_ns = time.time_ns()
            await self._until(
                lambda: (
                    sender.error is not None
                    or any(line.kind == "produced" for line in sender.lines)
                ),
                evidence.limit_s,
            )
            self._count_strikes()
            broker.faults.clear()
            self._judge()
        sender.is_reusable = self.facts.is_back
        return self.facts

    async def _perform(self, step: Step) -> None:
        if step[0] == "produce":
            self.evidence.done_ns = time.time_ns()
            next(iter(self.workers.values())).send(
                "produce",
                bootstrap=self.broker.bootstrap_servers,
                topic=TOPIC,
                first=0,
                count=COUNT,
                request=self.timeouts.request,
                plain=1,
            )
        else:
            await super()._perform(step)

    def _judge(self) -> None:
        sender = next(iter(self.workers.values()))
        seen = self.evidence
        facts = self.facts = Facts(
            limit_s=seen.limit_s,
            strikes=seen.strikes,
            notes=[*seen.notes],
            is_producer=True,
        )
        ends = [line for line in sender.lines if line.kind == "produced"]
        facts.is_back = bool(ends) and sender.error is None
        if sender.error is not None:
            facts.exits = {"producer": short(sender.error)}
        elif ends:
            since = max(0, ends[0].at_ns - seen.undone_ns)
            facts.back_s = round(since / 1e9, 1)
        counts: Counter[str] = Counter()
        for partition in self.broker.cluster.topics.by_name[TOPIC].partitions:
            numbers = [
                int(record.value.decode().removeprefix("value-"))
                for batch in partition.batches(0)
                if not read_header(batch).is_control
                for record in read_records(batch)
                if record.value is not None
            ]
            counts.update(map(str, numbers))
            firsts = list(dict.fromkeys(numbers))
            facts.reordered += sum(
                before > after for before, after in itertools.pairwise(firsts)
            )
        facts.doubled = sum(count - 1 for count in counts.values())
        if facts.is_back:
            facts.lost = COUNT - len(counts)
