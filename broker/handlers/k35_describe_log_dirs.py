"""DescribeLogDirs: the only log directory, and the sizes of the partitions in it."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator

from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.broker.topics.topic import Topic
from kohort.protocol.apis.k35_describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

_ROW_COST = 3
"""Cost of looking at one partition, as `Pace` counts."""
_UNKNOWN = -1


def handle(request: Request) -> Work:
    """Describes the partitions that this node replicates; leaves others out."""
    cluster = request.node.cluster
    topics = yield from _topics(request)
    total, usable = _UNKNOWN, _UNKNOWN
    if cluster.is_on_disk:
        total, _, usable = shutil.disk_usage(cluster.log_dir)
    result = DescribeLogDirsResult(0, cluster.log_dir, topics, total, usable)
    yield from request.finish_in_pieces(DescribeLogDirsResponse(0, 0, [result]))


def _topics(request: Request) -> Generator[None, None, list[DescribeLogDirsTopic]]:
    by_name = request.node.cluster.topics.by_name
    pace = Pace()
    asked = yield from _asked(request, pace)
    rows = []
    for name, indexes in asked.items():
        topic = by_name.get(name)
        if topic is None:
            continue
        partitions = []
        for index in _replicated(topic, indexes, request.node.id):
            size = topic.partitions[index].size_in_bytes
            partitions.append(DescribeLogDirsPartition(index, size))
            if pace.spend(_ROW_COST):
                yield
        if partitions:
            rows.append(DescribeLogDirsTopic(name, partitions))
    return rows


def _asked(
    request: Request, pace: Pace
) -> Generator[None, None, dict[str, set[int] | None]]:
    """The requested partitions of each topic; None for all of them."""
    message: DescribeLogDirsRequest = request.message
    asked: dict[str, set[int] | None] = {}
    if message.topics is None:
        asked = dict.fromkeys(request.node.cluster.topics.by_name)
    for wanted in message.topics or ():
        indexes = asked.setdefault(wanted.topic, set())
        assert indexes is not None
        for index in wanted.partitions:
            indexes.add(index)
            if pace.spend(1):
                yield
        if pace.spend(_ROW_COST):
            yield
    return asked


def _replicated(topic: Topic, indexes: set[int] | None, node_id: int) -> Iterator[int]:
    """The partitions of a topic, or those of them in `indexes`, on a node."""
    for index, replicas in enumerate(topic.replicas):
        if node_id in replicas and (indexes is None or index in indexes):
            yield index
