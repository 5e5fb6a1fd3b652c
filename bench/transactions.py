"""The broker's cost of a transaction: CPU time, and how long one takes.

A transaction has ten records, five in each of two partitions, and the offsets of a
group: Produce, TxnOffsetCommit and EndTxn of the second generation (KIP-890), where
the broker adds partitions and groups by itself; or of the first, with
AddPartitionsToTxn and AddOffsetsToTxn (KIP-98).

    python -m bench.transactions
    python -m bench.transactions --also "Apache Kafka=127.0.0.1:9092/PID"

Some producers work at once, each on a connection of its own. Brokers take turns, and
the round with the least CPU time counts: other work of the machine only adds to it.
Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.measured import Meter, Target
from tests.exactly_once.producer import Generation
from tests.long_runs.broker_process import BrokerProcess

from kohort.client.config import CommonConfig
from kohort.client.network.connection import Connection
from kohort.protocol import records
from kohort.protocol.apis.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kohort.protocol.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdRequest
from kohort.protocol.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kohort.protocol.apis.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from kohort.protocol.apis.k26_end_txn import EndTxnRequest
from kohort.protocol.apis.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record

PARTITIONS = (0, 1)
RECORDS = 10
VALUE = b"x" * 100
TIMEOUT_MS = 60_000
AGAIN_S = 0.02
"""Pause of a producer whose last transaction is not complete, as in the Java client."""
LATER = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


class Round(NamedTuple):
    """Costs of a transaction in one round.

    Attributes:
        cpu_us: of the broker.
        median_ms: time that one took.
        again: requests that were repeated.
    """

    cpu_us: float
    median_ms: float
    again: float


class Producer:
    """A transactional producer, as quick as the broker lets it be.

    Args:
        connection: to the broker.
        name: its transactional id, and the name of its topic and group.
        generation: of the protocol.
    """

    def __init__(
        self, connection: Connection, name: str, generation: Generation
    ) -> None:
        self.again = 0
        self._connection = connection
        self._name = name
        self._versions = generation.versions
        self._is_first = generation is Generation.FIRST
        self._id = self._epoch = -1
        self._sequence = 0

    async def _ask(self, api_name: str, version: int, message: object) -> Any:
        """Repeats a request until its only error code is 0."""
        while True:
            answer = await self._connection.send(api_name, version, message)
            code = error_of(answer)
            if code == ErrorCode.NONE:
                return answer
            if code not in LATER:
                raise RuntimeError(f"{api_name}: {ErrorCode(code).name}")
            self.again += 1
            await asyncio.sleep(AGAIN_S)

    async def start(self) -> None:
        """Makes the topic, finds the coordinators, and gets the producer's id."""
        topic = CreatableTopic(self._name, len(PARTITIONS), 1)
        await self._ask("CreateTopics", 4, CreateTopicsRequest([topic], TIMEOUT_MS))
        about = MetadataRequest([MetadataRequestTopic(name=self._name)])
        await self._ask("Metadata", 9, about)
        for kind in (0, 1):
            find = FindCoordinatorRequest(key=self._name, key_type=kind)
            await self._ask("FindCoordinator", 3, find)
        request = InitProducerIdRequest(self._name, TIMEOUT_MS)
        answer = await self._ask("InitProducerId", 4, request)
        self._id, self._epoch = answer.producer_id, answer.producer_epoch

    async def transact(self) -> None:
        """One transaction."""
        name, ids = self._name, (self._id, self._epoch)
        if self._is_first:
            topics = [AddPartitionsToTxnTopic(name, PARTITIONS)]
            await self._ask(
                "AddPartitionsToTxn",
                3,
                AddPartitionsToTxnRequest((), name, *ids, topics),
            )
        rows = [PartitionProduceData(each, self._batch()) for each in PARTITIONS]
        data = [TopicProduceData(name, partition_data=rows)]
        produce = ProduceRequest(name, -1, TIMEOUT_MS, data)
        await self._ask("Produce", self._versions["Produce"], produce)
        self._sequence += RECORDS // len(PARTITIONS)
        if self._is_first:
            group = AddOffsetsToTxnRequest(name, *ids, name)
            await self._ask("AddOffsetsToTxn", 3, group)
        offsets = [
            TxnOffsetCommitRequestPartition(p, self._sequence) for p in PARTITIONS
        ]
        commit = TxnOffsetCommitRequest(
            name, name, *ids, topics=[TxnOffsetCommitRequestTopic(name, offsets)]
        )
        await self._ask("TxnOffsetCommit", self._versions["TxnOffsetCommit"], commit)
        end = EndTxnRequest(name, *ids, committed=True)
        answer = await self._ask("EndTxn", self._versions["EndTxn"], end)
        if not self._is_first:
            self._id, self._epoch = answer.producer_id, answer.producer_epoch
            self._sequence = 0

    def _batch(self) -> bytes:
        now_ms = int(time.time() * 1000)
        return records.build_batch(
            [Record(timestamp_ms=now_ms, value=VALUE)] * (RECORDS // len(PARTITIONS)),
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            attributes=records.TRANSACTIONAL,
        )


def error_of(answer: Any) -> int:
    """The first error code in a response, or 0."""
    if getattr(answer, "error_code", 0):
        return int(answer.error_code)
    for name in ("topics", "results_by_topic_v3_and_below", "responses"):
        for topic in getattr(answer, name, ()):
            if getattr(topic, "error_code", 0):
                return int(topic.error_code)
            for rows in ("partitions", "results_by_partition", "partition_responses"):
                for row in getattr(topic, rows, ()):
                    code = getattr(row, "error_code", 0)
                    code = code or getattr(row, "partition_error_code", 0)
                    if code:
                        return int(code)
    return 0


async def measured(
    target: Target, generation: Generation, producers: int, transactions: int
) -> Round:
    """One round."""
    host, _, port = target.servers.rpartition(":")
    times: list[float] = []
    left = iter(range(transactions))

    async def work(producer: Producer) -> None:
        for _ in left:
            began = time.perf_counter()
            await producer.transact()
            times.append(time.perf_counter() - began)

    async with contextlib.AsyncExitStack() as stack:
        ready = []
        for number in range(producers):
            connection = await Connection.open(CommonConfig(), host, int(port))
            stack.callback(connection.abort)
            name = f"{time.time_ns()}-{number}"
            ready.append(Producer(connection, name, generation))
            await ready[-1].start()
        meter = Meter(target)
        await asyncio.gather(*map(work, ready))
        cost = meter.read()
        assert cost.broker_s is not None
        return Round(
            cost.broker_s / transactions * 1e6,
            statistics.median(times) * 1e3,
            sum(each.again for each in ready) / transactions,
        )


@contextlib.contextmanager
def targets_of(also: Sequence[str]) -> Iterator[dict[str, Target]]:
    """Brokers of kohort, in memory and on files, and those that run already."""
    with contextlib.ExitStack() as stack:
        found = {}
        for name in ("kohort", "kohort on files"):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            has_files = name != "kohort"
            options = [f"--data-dir={folder / 'data'}"] if has_files else []
            served = BrokerProcess(folder, 1, options)
            served.start()
            stack.callback(served.close)
            served.until_ready()
            found[name] = Target(served.bootstrap, served.pid)
        for each in also:
            name, _, rest = each.partition("=")
            servers, _, pid = rest.partition("/")
            found[name] = Target(servers, int(pid))
        yield found


def table(rounds: Mapping[str, Mapping[Generation, Sequence[Round]]]) -> Iterator[str]:
    """Lines of a table in Markdown."""
    yield "| broker | generation | broker CPU us | median ms | repeated requests |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for name, by_generation in rounds.items():
        for generation, costs in by_generation.items():
            best = min(costs)
            quickest = min(each.median_ms for each in costs)
            yield (
                f"| {name} | {generation.name.lower()} | {best.cpu_us:,.0f} | "
                f"{quickest:.1f} | {best.again:.2f} |"
            )


def main() -> None:
    """Measures all brokers, and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="NAME=HOST:PORT/PID",
        help="a broker that runs on this machine",
    )
    parser.add_argument("--producers", type=int, default=8, help="(%(default)s)")
    parser.add_argument(
        "--transactions", type=int, default=2_000, help="a round (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    asked = parser.parse_args()
    with targets_of(asked.also) as targets:
        rounds: dict[str, dict[Generation, list[Round]]] = {
            name: {generation: [] for generation in Generation} for name in targets
        }
        for number in range(asked.rounds + 1):
            for name, target in targets.items():
                for generation, costs in rounds[name].items():
                    cost = asyncio.run(
                        measured(
                            target, generation, asked.producers, asked.transactions
                        )
                    )
                    if number:  # the first one warms up
                        costs.append(cost)
    print(
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, {platform.machine()}; {asked.producers} producers, "
        f"{asked.transactions} transactions, {asked.rounds} rounds\n"
    )
    print("\n".join(table(rounds)))


if __name__ == "__main__":
    main()
