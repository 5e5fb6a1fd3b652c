"""OffsetDelete: deletes offsets of topics that no member subscribes to (KIP-496)."""

from __future__ import annotations

from kohort.broker.coordinator.events import DeleteOffsets
from kohort.broker.handlers.result_slot import ResultSlot
from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.protocol.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kohort.protocol.errors import ErrorCode

_ROW_COST = 3
"""Cost of looking up and deleting one offset, as `Pace` counts."""
_MOST_AT_ONCE = 500
"""Offsets that are deleted at once, and so in one batch of the log."""

_Row = tuple[str, list[OffsetDeleteResponsePartition]]


def handle(request: Request) -> Work:
    """Asks the coordinator about known partitions; unknown ones get their error.

    If all partitions are known, a topic named twice has two entries, as in
    Kafka; else one.
    """
    message: OffsetDeleteRequest = request.message
    by_name = request.node.cluster.topics.by_name
    submit = request.node.submit_group_event
    pace, slot = Pace(), ResultSlot()
    # The group's error does not depend on the offsets to delete.
    submit(DeleteOffsets(slot, message.group_id, ()))
    error = slot.result.error_code
    rows: list[_Row] = []
    unknown: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for topic in message.topics if not error else ():
        found = by_name.get(topic.name)
        count = len(found.partitions) if found else 0
        deleted: list[OffsetDeleteResponsePartition] = []
        missing: list[OffsetDeleteResponsePartition] = []
        for start in range(0, len(topic.partitions), _MOST_AT_ONCE):
            some = topic.partitions[start : start + _MOST_AT_ONCE]
            indexes = [p.partition_index for p in some]
            known = [i for i in indexes if 0 <= i < count]
            missing += [_unknown(i) for i in indexes if not 0 <= i < count]
            if known:
                event = DeleteOffsets(slot, message.group_id, [(topic.name, known)])
                submit(event)
                error = error or slot.result.error_code
                for _, codes in slot.result.topics:
                    deleted += [OffsetDeleteResponsePartition(*code) for code in codes]
            if pace.spend(_ROW_COST * len(some)):
                yield
        if deleted:
            rows.append((topic.name, deleted))
        if missing or found is None:
            unknown.setdefault(topic.name, []).extend(missing)
        if pace.spend(_ROW_COST):
            yield
    answers = () if error else _merged(rows, unknown)
    yield from request.reply_in_pieces(OffsetDeleteResponse(error, 0, answers))


def _merged(
    rows: list[_Row], unknown: dict[str, list[OffsetDeleteResponsePartition]]
) -> list[OffsetDeleteResponseTopic]:
    if unknown:
        for name, deleted in rows:
            unknown.setdefault(name, []).extend(deleted)
        rows = list(unknown.items())
    return [OffsetDeleteResponseTopic(*row) for row in rows]


def _unknown(index: int) -> OffsetDeleteResponsePartition:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetDeleteResponsePartition(index, error)
