"""Time that coordinators take to load 100,000 groups with 1,000,000 committed offsets.

This writes a data directory with `__consumer_offsets` in 50 partitions, starts a
broker on it in a separate process, and prints how long and how much CPU time it
takes until each coordinator answers, its memory, and how long other clients have to
wait for an answer meanwhile:

    python -m bench.loading

Linux only: memory and CPU time are read from /proc.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.long_runs.broker_process import BrokerProcess
from tests.long_runs.cluster_queries import ClusterQueries
from tests.wire.blocking import BlockingClient

from kohort.broker.coordinator.effects import GroupRecord, OffsetRecord
from kohort.broker.log.directory import DataDir
from kohort.broker.log.settings import LogConfig
from kohort.broker.runtime.hash import partition_of
from kohort.broker.shards.group_records import Encoder
from kohort.protocol.apis.k03_metadata import MetadataRequest
from kohort.protocol.apis.k09_offset_fetch import OffsetFetchRequest
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.apis.k15_describe_groups import DescribeGroupsRequest
from kohort.protocol.apis.k16_list_groups import ListGroupsRequest
from kohort.protocol.consumer import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode,
)
from kohort.protocol.errors import ErrorCode

OFFSETS_TOPIC = "__consumer_offsets"
SHARDS = 50
"""offsets.topic.num.partitions"""
TOPIC = "orders"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def group_id(number: int) -> str:
    """The name of a group, of a realistic length."""
    return f"application-{number:06}-consumers"


# -- the directory


def _records(
    number: int, offsets: int, now_ms: int
) -> tuple[GroupRecord, list[OffsetRecord]]:
    """A Stable group of one member, and its committed offsets."""
    group = group_id(number)
    partitions = list(range(offsets))
    subscription = encode(Subscription([TOPIC]), 1)
    assignment = encode(Assignment([TopicPartitions(TOPIC, partitions)]), 1)
    client = f"client-{number}"
    member = f"{client}-01234567-89ab-cdef-0123-456789abcdef"
    row = (
        member,
        None,
        client,
        "/127.0.0.1",
        300_000,
        45_000,
        subscription,
        assignment,
    )
    record = GroupRecord(group, "consumer", 1, "range", member, now_ms, [row])
    entries = [
        OffsetRecord(group, TOPIC, place, (number + place, 0, "", now_ms), -1)
        for place in partitions
    ]
    return record, entries


def fill(directory: Path, groups: int, offsets: int, *, age_ms: int = 0) -> int:
    """Writes the groups into a directory whose broker has stopped; returns bytes.

    Args:
        directory: the broker's.
        groups: how many.
        offsets: of each group.
        age_ms: time since the last commits; groups that have one are empty.
    """
    data = DataDir.open(directory, "", 1)
    assert data.metadata is not None
    topics = data.metadata.topics
    encoder = Encoder({TOPIC: topics[TOPIC].id})
    logs = [
        data.open_partition(
            OFFSETS_TOPIC, index, topics[OFFSETS_TOPIC].id, LogConfig(), 0
        )
        for index in range(SHARDS)
    ]
    for number in range(groups):
        now_ms = int(time.time() * 1000) - age_ms
        record, entries = _records(number, offsets, now_ms)
        if age_ms:
            group = record.group_id
            record = GroupRecord(group, "consumer", 2, None, None, now_ms, [])
        log = logs[partition_of(record.group_id, SHARDS)]
        log.append_own(encoder.encode([record], now_ms), now_ms=now_ms)
        log.append_own(encoder.encode(entries, now_ms), now_ms=now_ms)
    size = sum(log.store.size_in_bytes for log in logs)
    data.close()
    return size


def prepare(served: BrokerProcess, offsets: int) -> None:
    """Has a broker make the topics, and stops it."""
    served.start()
    served.until_ready()
    queries = ClusterQueries(served)
    queries.create_topic(TOPIC, offsets, 1)
    queries.describe(group_id(0))
    queries.close()
    served.stop()


# -- measurements


class Process:
    """A process, as Linux sees it."""

    def __init__(self, pid: int) -> None:
        self._proc = Path(f"/proc/{pid}")

    def mib(self, field: str) -> float:
        """VmRSS or VmHWM, the peak of it."""
        status = (self._proc / "status").read_text()
        found = re.search(rf"{field}:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024

    def cpu_s(self) -> float:
        """CPU time, in user and in system mode."""
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


class Waiting(threading.Thread):
    """A client that asks again and again, and how long it waits for each answer.

    Args:
        port: of the broker.
        api_name: of the request.
        version: of the request.
        message: the request.
    """

    def __init__(self, port: int, api_name: str, version: int, message: object) -> None:
        super().__init__(daemon=True)
        self.waits_ms: list[float] = []
        self.failure: Exception | None = None
        self._port = port
        self._request = api_name, version, message
        self._over = threading.Event()

    def run(self) -> None:
        """Asks, with a millisecond between an answer and the next question."""
        try:
            with BlockingClient(self._port) as wire:
                while not self._over.wait(0.001):
                    began = time.perf_counter()
                    wire.call(*self._request)
                    self.waits_ms.append((time.perf_counter() - began) * 1000)
        except Exception as error:  # noqa: BLE001 - printed by `report`
            self.failure = error

    def report(self) -> str:
        """Ends it; how long it waited."""
        self._over.set()
        self.join()
        if self.failure is not None:
            raise self.failure
        cuts = statistics.quantiles(self.waits_ms, n=100, method="inclusive")
        return (
            f"{len(self.waits_ms)} answers; ms: median {cuts[49]:.1f}, "
            f"99 % {cuts[98]:.1f}, longest {max(self.waits_ms):.1f}"
        )


def groups_of_each_partition(groups: int) -> Iterator[str]:
    """The id of a group in each partition that has one."""
    seen = set()
    for number in range(groups):
        index = partition_of(group_id(number), SHARDS)
        if index not in seen:
            seen.add(index)
            yield group_id(number)
        if len(seen) == SHARDS:
            return


def until_loaded(wire: BlockingClient, served: BrokerProcess, groups: int) -> None:
    """Asks for a group of each partition until its coordinator has loaded it."""
    waiting = list(groups_of_each_partition(groups))
    while waiting:
        answer = wire.call("DescribeGroups", 5, DescribeGroupsRequest(waiting))
        for each in answer.groups:
            if each.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                state = each.error_code, each.group_state
                assert state == (0, "Stable"), each
        waiting = [each.group_id for each in answer.groups if each.error_code]
        served.runs_for(0.01)


def check(wire: BlockingClient, groups: int, offsets: int) -> None:
    """Checks that all groups exist, and the fields of one of them."""
    listed = wire.call("ListGroups", 4, ListGroupsRequest()).groups
    assert len(listed) == groups, len(listed)
    last = groups - 1
    request = OffsetFetchRequest(group_id(last), None)
    (topic,) = wire.call("OffsetFetch", 7, request).topics
    found = {each.partition_index: each.committed_offset for each in topic.partitions}
    wanted = {place: last + place for place in range(offsets)}
    assert found == wanted, found


def measure(served: BrokerProcess, groups: int, offsets: int) -> None:
    """Starts the broker on the directory, and prints the cost."""
    began = time.monotonic()
    served.start()
    served.until_ready()
    process = Process(served.pid)
    accepting_s, accepting_cpu_s = time.monotonic() - began, process.cpu_s()
    print(
        f"accepts connections after {accepting_s:.2f} s ({accepting_cpu_s:.2f} s CPU), "
        f"{process.mib('VmRSS'):.0f} MiB"
    )
    port = served.ports[0]
    heartbeat = HeartbeatRequest(group_id(0), 1, "nobody")
    waiting = {
        "Metadata": Waiting(port, "Metadata", 9, MetadataRequest([])),
        "Heartbeat": Waiting(port, "Heartbeat", 4, heartbeat),
    }
    for each in waiting.values():
        each.start()
    with BlockingClient(port) as wire:
        until_loaded(wire, served, groups)
        loaded_s, loaded_cpu_s = time.monotonic() - began, process.cpu_s()
        for name, each in waiting.items():
            print(f"{name} while loading: {each.report()}")
        print(
            f"last coordinator loaded after {loaded_s:.2f} s ({loaded_cpu_s:.2f} s CPU)"
        )
        print(
            f"memory: peak {process.mib('VmHWM'):.0f} MiB, "
            f"then {process.mib('VmRSS'):.0f} MiB"
        )
        check(wire, groups, offsets)
    served.stop()


def main() -> None:
    """Writes a directory, and has a broker load it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--offsets", type=int, default=10, help="of each group")
    parser.add_argument("--log-level", default="info")
    asked = parser.parse_args()
    print(
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, {platform.machine()}"
    )
    with tempfile.TemporaryDirectory(prefix="kohort-loading-") as name:
        folder = Path(name)
        served = BrokerProcess(
            folder,
            1,
            [f"--data-dir={folder / 'data'}", f"--log-level={asked.log_level}"],
        )
        try:
            prepare(served, asked.offsets)
            began = time.monotonic()
            size = fill(folder / "data", asked.groups, asked.offsets)
            print(
                f"{asked.groups} groups, {asked.groups * asked.offsets} offsets, "
                f"{size / 2**20:.0f} MiB, written in {time.monotonic() - began:.0f} s"
            )
            measure(served, asked.groups, asked.offsets)
        finally:
            served.close()


if __name__ == "__main__":
    main()
