"""Events about committed offsets, and about the group's log."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.broker.events.fields import ERROR, Field, Kind, always

_IN_TRANSACTION = Field(
    "producer_id", "long", "the producer of their transaction; null: without one"
)

ROWS: Mapping[str, tuple[Field, ...]] = {
    "offset": (
        always("topic", "string", "a topic"),
        always("partition", "int", "a partition of it"),
        always("offset", "long", "offset of the next record to consume"),
        Field(
            "end_offset",
            "long",
            "log end offset at that time; the difference is the lag. Null: unknown",
        ),
    ),
}

KINDS: tuple[Kind, ...] = (
    Kind(
        "offsets_committed",
        "Offsets were committed. Those of a transaction are committed when it is.",
        (always("offsets", "[offset]", "the offsets"), _IN_TRANSACTION),
    ),
    Kind(
        "commit_refused",
        "A commit was refused, completely or in part.",
        (ERROR, always("offsets", "[offset]", "the offsets"), _IN_TRANSACTION),
    ),
    Kind(
        "offsets_unchecked",
        "Offsets of a transaction were taken without a member id and a generation,"
        " while the group had members: their sender may have lost the partitions"
        " (KIP-447).",
        (always("producer_id", "long", "the producer"),),
    ),
    Kind(
        "offsets_expired",
        "Offsets of a group expired (`offsets.retention.minutes`).",
        (always("expired", "[part]", "their partitions"),),
    ),
    Kind(
        "offsets_deleted",
        "Offsets of a group were deleted.",
        (always("deleted", "[part]", "their partitions"),),
        {"admin": "OffsetDelete", "topic_deleted": "their topic was deleted"},
    ),
    Kind(
        "append_failed",
        "The log refused records of the group because they are larger than"
        " `max.message.bytes` of `__consumer_offsets`.",
        (
            ERROR,
            always("size_bytes", "long", "size of the batch; 0: it cannot be encoded"),
            always("max_bytes", "long", "maximum size of a batch"),
        ),
        {
            "group": "records of the group: its members with their assignments",
            "offsets": "committed or deleted offsets",
        },
    ),
)
