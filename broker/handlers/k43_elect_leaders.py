"""ElectLeaders: preferred replicas become leaders again (KIP-183, KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.handlers.refusal import RefusedError
from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.broker.topics.topic import NO_NODE, Topic
from kohort.protocol.apis.k43_elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kohort.protocol.errors import ErrorCode

_PREFERRED, _UNCLEAN = 0, 1
_ELECTED_COST = 20
"""Cost of one election, as `Pace` counts."""


def handle(request: Request) -> None:
    """Elects the leaders of the partitions of the request, or of all."""
    request.node.cluster.controller.submit(_elect(request), request.failed)


def _elect(request: Request) -> Work:
    message: ElectLeadersRequest = request.message
    cluster = request.node.cluster
    wanted, refused = message.topic_partitions, _refused(message)
    asked: Iterable[tuple[str, Iterable[int]]] = ()
    if wanted is not None:
        asked = ((row.topic, row.partitions) for row in wanted)
    elif not refused:
        every = cluster.topics.by_name.items()
        asked = [(name, range(len(topic.partitions))) for name, topic in every]
    results, changed = [], {}
    pace = Pace()
    for name, indexes in asked:
        rows = []
        for index in indexes:
            error, why = refused or (ErrorCode.NONE, None)
            if not refused:
                try:
                    changed[name] = _elected(cluster, name, index, message)
                except RefusedError as refusal:
                    error, why = refusal.code, refusal.why
            if wanted is not None or error != ErrorCode.ELECTION_NOT_NEEDED:
                rows.append(PartitionResult(index, error, why))
            if pace.spend(_ELECTED_COST):
                yield
        results.append(ReplicaElectionResult(name, rows))
        if pace.spend(1):
            yield
    cluster.leaders_changed(changed.values())
    code = refused[0] if refused else ErrorCode.NONE
    yield from request.finish_in_pieces(ElectLeadersResponse(0, code, results))


def _refused(message: ElectLeadersRequest) -> tuple[ErrorCode, str | None] | None:
    """The error and the message of each partition if no leader is elected at all."""
    if message.election_type not in {_PREFERRED, _UNCLEAN}:
        why = f"there is no type of election {message.election_type}"
        return ErrorCode.INVALID_REQUEST, why
    if message.timeout_ms <= 0:
        return ErrorCode.REQUEST_TIMED_OUT, None
    return None


def _elected(
    cluster: Cluster, name: str, index: int, message: ElectLeadersRequest
) -> Topic:
    """Elects the leader of a partition; returns its topic.

    Raises:
        RefusedError: the leader does not change.
    """
    topic = cluster.topics.by_name.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        why = f"there is no partition {name[:260]}-{index}"
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
    leader, preferred = topic.leaders[index], topic.replicas[index][0]
    is_preferred = message.election_type == _PREFERRED
    if leader == preferred or (leader != NO_NODE and not is_preferred):
        why = f"node {leader} leads {name}-{index} already"
        raise RefusedError(ErrorCode.ELECTION_NOT_NEEDED, why)
    if not is_preferred:
        # A running replica would lead it: all are in sync.
        why = f"no replica of {name}-{index} runs"
        raise RefusedError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, why)
    if not cluster.leaders.elect_preferred(topic, index):
        why = f"node {preferred} does not run"
        raise RefusedError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, why)
    return topic
