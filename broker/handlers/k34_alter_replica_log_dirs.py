"""AlterReplicaLogDirs: to the only log directory (KIP-113), where all replicas are."""

from __future__ import annotations

from collections.abc import Generator

from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.protocol.apis.k34_alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kohort.protocol.errors import ErrorCode

_ROW_COST = 3
"""Cost of one partition, as `Pace` counts."""
_FOLDER = 255
"""Characters of the name of a folder."""
_SUFFIX = len(f"-.{'0' * 32}-future")
"""Those that a moved replica's folder has in Kafka, next to its topic and partition."""


def handle(request: Request) -> Work:
    """Answers for each partition of the request."""
    pace = Pace()
    wanted = yield from _wanted(request.message, pace)
    results = []
    for topic, paths in wanted.items():
        rows = []
        for index, path in paths.items():
            code = _error(request, path, topic, index)
            rows.append(AlterReplicaLogDirPartitionResult(index, code))
            if pace.spend(_ROW_COST):
                yield
        if rows:
            results.append(AlterReplicaLogDirTopicResult(topic, rows))
        if pace.spend(1):
            yield
    yield from request.finish_in_pieces(AlterReplicaLogDirsResponse(0, results), pace)


def _wanted(
    message: AlterReplicaLogDirsRequest, pace: Pace
) -> Generator[None, None, dict[str, dict[int, str]]]:
    """The directory of each partition, by topic; of several the last one counts."""
    wanted: dict[str, dict[int, str]] = {}
    for directory in message.dirs:
        for topic in directory.topics:
            paths = wanted.setdefault(topic.name, {})
            for index in topic.partitions:
                paths[index] = directory.path
                if pace.spend(1):
                    yield
            if pace.spend(1):
                yield
        if pace.spend(1):
            yield
    return wanted


def _error(request: Request, path: str, topic: str, index: int) -> int:
    """The error of moving a replica to a directory: Kafka's checks, in its order."""
    if len(topic) + len(str(index)) + _SUFFIX > _FOLDER:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    cluster = request.node.cluster
    if path != cluster.log_dir:
        return ErrorCode.LOG_DIR_NOT_FOUND
    found = cluster.topics.by_name.get(topic)
    if found is None or not 0 <= index < len(found.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if request.node.id not in found.replicas[index]:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE
