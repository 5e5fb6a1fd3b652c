"""Growth of groups that are in the log when a broker starts."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.group_load import Connection
from bench.growth.scene import Broker, Measure, Row, running
from bench.loading import fill, groups_of_each_partition, prepare
from tests.long_runs.broker_process import BrokerProcess

from kohort.protocol.apis.k15_describe_groups import DescribeGroupsRequest
from kohort.protocol.errors import ErrorCode

OFFSETS = 3
"""Offsets of each group."""
WEEKS_MS = 30 * 24 * 3600 * 1000
"""Age of the offsets of groups that have expired."""
KEEP = "offsets.retention.minutes=1000000"
EXPIRE = "offsets.retention.check.interval.ms=2000"


def until(broker: Broker, connection: Connection, groups: int, state: str) -> None:
    """Waits until a group of each partition has a state."""
    waiting = list(groups_of_each_partition(groups))
    while waiting:
        answer: Any = broker.ask(
            connection, "DescribeGroups", DescribeGroupsRequest(waiting)
        )
        waiting = [
            each.group_id
            for each in answer.groups
            if (each.error_code, each.group_state) != (ErrorCode.NONE, state)
        ]
        broker.served.runs_for(0.05)


def _copied(
    folder: Path, copy: Path, setting: str
) -> contextlib.AbstractContextManager[Broker]:
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    return running(copy, setting, data=True)


@contextlib.contextmanager
def _start(groups: int, *, age_ms: int, setting: str, state: str) -> Iterator[Measure]:
    with tempfile.TemporaryDirectory(prefix="kohort-growth-") as name:
        folder = Path(name)
        served = BrokerProcess(folder, 1, [f"--data-dir={folder / 'data'}"])
        try:
            prepare(served, OFFSETS)
        finally:
            served.close()
        fill(folder / "data", groups, OFFSETS, age_ms=age_ms)

        def measure() -> float:
            with (
                tempfile.TemporaryDirectory(prefix="kohort-growth-") as copy,
                _copied(folder, Path(copy), setting) as broker,
                contextlib.closing(Connection(broker.address)) as connection,
            ):
                until(broker, connection, groups, state)
                return broker.cpu_us() / groups

        yield measure


ROWS = [
    Row(
        "load a group, groups in the log",
        "group",
        (5_000, 20_000, 100_000),
        (1_000, 5_000),
        1.3,
        "a record is read once; the start of the broker is shared by more groups",
        partial(_start, age_ms=0, setting=KEEP, state="Stable"),
    ),
    Row(
        "load a group and expire it, groups in the log",
        "group",
        (5_000, 20_000, 100_000),
        (1_000, 5_000),
        1.3,
        "each offset is looked at once",
        partial(_start, age_ms=WEEKS_MS, setting=EXPIRE, state="Dead"),
    ),
]
