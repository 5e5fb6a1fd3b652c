"""The transaction coordinator's records as bytes, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from kohort.broker.transactions.effects import StateRecord
from kohort.broker.transactions.events import TopicPartition
from kohort.broker.transactions.state import BY_NUMBER, EMPTY, NUMBERS
from kohort.broker.transactions.transaction_metadata import Metadata
from kohort.protocol import offsets_log, records
from kohort.protocol.fields import Buffer
from kohort.protocol.messages import WireError
from kohort.protocol.transactions_log import (
    PartitionsSchema,
    TransactionLogValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

AT_ONCE: Final = 100
"""Records that are read before other tasks run: about a millisecond."""


def encode(records: Sequence[StateRecord], value_version: int, now_ms: int) -> bytes:
    """Returns one batch of these records, for `Partition.append_own`.

    Args:
        records: at least one.
        value_version: the version of their values.
        now_ms: the time of all of them, ms since the epoch.

    Raises:
        WireError: an id is longer than the format allows, 32,767 bytes.
    """
    body = b"".join(
        offsets_log.frame(
            position,
            encode_key(record.transactional_id),
            None
            if record.metadata is None
            else encode_value(_value(record.metadata), value_version),
        )
        for position, record in enumerate(records)
    )
    return offsets_log.batch_of(body, len(records), now_ms, 0)


def _value(metadata: Metadata) -> TransactionLogValue:
    rows = groupby(sorted(metadata.partitions), lambda each: each.topic)
    return TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=NUMBERS[metadata.state],
        transaction_partitions=None
        if metadata.state is EMPTY
        else [
            PartitionsSchema(topic, [each.partition for each in of_topic])
            for topic, of_topic in rows
        ],
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.transaction_version,
    )


def read_in_pieces(batch: Buffer) -> Iterator[list[StateRecord]]:
    """Reads a batch, some records at a time; those of unknown keys are skipped.

    Raises:
        WireError: the batch, or a record in it, is damaged.
    """
    if records.read_header(batch).is_control:
        return
    made = []
    for record in records.read_records(batch):
        if record.key is None:
            raise WireError("a record without a key")
        transactional_id = decode_key(bytes(record.key))
        if transactional_id is None:
            continue
        metadata = None if record.value is None else _metadata(bytes(record.value))
        made.append(StateRecord(transactional_id, metadata))
        if len(made) >= AT_ONCE:
            yield made
            made = []
    yield made


def _metadata(data: bytes) -> Metadata:
    value = decode_value(data)
    if not 0 <= value.transaction_status < len(BY_NUMBER):
        raise WireError(f"a transaction of state {value.transaction_status}")
    return Metadata(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=BY_NUMBER[value.transaction_status],
        partitions=frozenset(
            TopicPartition(row.topic, partition)
            for row in value.transaction_partitions or ()
            for partition in row.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        transaction_version=value.client_transaction_version,
    )
