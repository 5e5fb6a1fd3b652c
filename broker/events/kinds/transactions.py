"""Events about transactions."""

from __future__ import annotations

from kohort.broker.events import words
from kohort.broker.events.fields import ERROR, Field, Kind, always

_TRANSACTIONAL_ID = always("transactional_id", "string", "a transactional.id")
_PRODUCER_ID = always("producer_id", "long", "the producer's id")
_PRODUCER_EPOCH = always("producer_epoch", "int", "the producer's epoch")

KINDS: tuple[Kind, ...] = (
    Kind(
        "transaction_state",
        "A transactional id has another state, or its transaction got more partitions"
        " or groups. `client_id` is that of the producer.",
        (
            _TRANSACTIONAL_ID,
            _PRODUCER_ID,
            _PRODUCER_EPOCH,
            always("state", "string", "its state", words.TRANSACTION_STATES),
            Field(
                "previous_state",
                "string",
                "its state before; null: the id is new",
                words=words.TRANSACTION_STATES,
            ),
            always("partitions", "[part]", "the partitions of the transaction"),
            always(
                "group_ids", "[string]", "groups whose offsets are in the transaction"
            ),
            Field(
                "started_ns",
                "long",
                "start of the transaction; null: none is open or being ended",
            ),
            Field(
                "duration_ns", "long", "time in `previous_state`; null: the id is new"
            ),
            always("timeout_ms", "long", "the producer's transaction.timeout.ms"),
        ),
        words.TRANSACTION_CAUSES,
    ),
    Kind(
        "transaction_fenced",
        "A request of a producer was refused because its epoch is not the current one.",
        (
            Field(
                _TRANSACTIONAL_ID.name,
                _TRANSACTIONAL_ID.type,
                "its transactional.id; null: unknown, as in a partition's log",
            ),
            _PRODUCER_ID,
            always("producer_epoch", "int", "its epoch"),
            always("current_epoch", "int", "the current epoch of the producer id"),
            always("api", "string", "the request's API"),
            ERROR,
        ),
    ),
    Kind(
        "transaction_ended_in_partition",
        "The marker that ends a transaction was written to a partition.",
        (
            always("topic", "string", "the topic"),
            always("partition", "int", "the partition"),
            _PRODUCER_ID,
            _PRODUCER_EPOCH,
            always("is_commit", "boolean", "false: the transaction was aborted"),
            Field(
                "first_offset",
                "long",
                "offset of the transaction's first record; null: it has none here",
            ),
            always("end_offset", "long", "offset of the marker"),
            always(
                "held_back",
                "long",
                "records that the last stable offset moved over: read_committed"
                " consumers get past them from now on. 0: another transaction holds it"
                " at the same place or before",
            ),
            Field(
                "duration_ns",
                "long",
                "time since the transaction's first record; null: it has none here",
            ),
        ),
    ),
)
