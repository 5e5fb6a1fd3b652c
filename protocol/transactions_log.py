"""The records of ``__transaction_state``, as Apache Kafka 4.3 writes and reads them.

A key is an int16 0 and the transactional id. A value is an int16, its version, and the
state of the id; a null value is a tombstone. Version 1, the first flexible one, is
written from transaction version 1 on, version 0 before.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Annotated, Final

from kohort.protocol.fields import Int8, Int16, Int32, Int64, String, V
from kohort.protocol.messages import Codec, WireError, codec
from kohort.protocol.slotted import slotted

FIRST_FLEXIBLE: Final = 1
NEWEST_VALUE: Final = 1


@slotted
class TransactionLogKey:
    """The key of a transactional id."""

    transactional_id: String = ""


@slotted
class PartitionsSchema:
    """Partitions of one topic in a transaction."""

    topic: String = ""
    partition_ids: Sequence[Int32] = ()


@slotted
class TransactionLogValue:
    """The state of a transactional id; times in ms since the epoch, -1 if unknown."""

    producer_id: Int64 = 0
    previous_producer_id: Annotated[Int64, V(1, tag=0)] = -1
    next_producer_id: Annotated[Int64, V(1, tag=1)] = -1
    producer_epoch: Int16 = 0
    next_producer_epoch: Annotated[Int16, V(1, tag=3)] = -1
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: Sequence[PartitionsSchema] | None = ()
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Annotated[Int16, V(1, tag=2)] = 0


_VERSION = struct.Struct(">h")


def encode_key(transactional_id: str) -> bytes:
    """Encodes a key.

    Raises:
        WireError: the id is too long for the format.
    """
    known = codec(TransactionLogKey, 0, flexible=False)
    return _VERSION.pack(0) + _encoded(known, TransactionLogKey(transactional_id))


def decode_key(data: bytes) -> str | None:
    """Decodes a key: the transactional id; None for a key of an unknown type.

    Raises:
        WireError: the key is malformed.
    """
    if len(data) < 2:
        raise WireError(f"a key of {len(data)} bytes")
    if _VERSION.unpack_from(data)[0]:
        return None
    known = codec(TransactionLogKey, 0, flexible=False)
    key, position = known.decode(data, 2, len(data))
    if position != len(data):
        raise WireError(f"{len(data) - position} bytes behind a key")
    assert isinstance(key, TransactionLogKey)
    return key.transactional_id


def encode_value(value: TransactionLogValue, version: int = NEWEST_VALUE) -> bytes:
    """Encodes a value, version first.

    Raises:
        WireError: a text is too long for the format.
    """
    known = codec(TransactionLogValue, version, flexible=version >= FIRST_FLEXIBLE)
    return _VERSION.pack(version) + _encoded(known, value)


def decode_value(data: bytes) -> TransactionLogValue:
    """Decodes a value, in any version.

    Raises:
        WireError: the value is malformed.
    """
    if len(data) < 2:
        raise WireError(f"a value of {len(data)} bytes")
    (version,) = _VERSION.unpack_from(data)
    if not 0 <= version <= NEWEST_VALUE:
        raise WireError(f"a value of version {version}")
    known = codec(TransactionLogValue, version, flexible=version >= FIRST_FLEXIBLE)
    value, position = known.decode(data, 2, len(data))
    if position != len(data):
        raise WireError(f"{len(data) - position} bytes behind a value")
    assert isinstance(value, TransactionLogValue)
    return value


def _encoded(known: Codec, message: object) -> bytes:
    try:
        return known.encode(message)
    except (struct.error, OverflowError) as error:
        raise WireError(f"{type(message).__name__}: {error}") from None
