"""Partitioners choose the same partitions as the Java client."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from kohort.client.producing.partitioners import (
    RoundRobinPartitioner,
    StickyPartitioner,
    murmur2,
    partition_for_key,
)

# Printed by Utils.murmur2 and BuiltInPartitioner.partitionForKey of kafka-clients
# 4.3.0: the key, its hash as Java has it (with a sign), the partition of 7, of 100.
JAVA = [
    ("", 275646681, 2, 81),
    ("61", -1563381124, 5, 24),
    ("6162", 316155434, 0, 34),
    ("616263", 479470107, 4, 7),
    ("61626364", -1323649548, 5, 0),
    ("6162636465", 461995741, 4, 41),
    ("3231", -973932308, 3, 40),
    ("666f6f626172", -790332482, 0, 66),
    ("612d6c6974746c652d6269742d6c6f6e672d737472696e67", -985981536, 1, 12),
    ("612d6c6974746c652d6269742d6c6f6e6765722d737472696e67", -1486304829, 0, 19),
    (
        (
            "6c6b6a683233346c68396669756839307932336f697568736166756a6861646f663232"
            "39706872396831396838396838"
        ),
        -58897971,
        3,
        77,
    ),
    ("4772c3bcc39f65", 1190824359, 4, 59),
    ("e98db5", 1131375336, 0, 36),
    ("637573746f6d65722d303030303137", 2065945617, 1, 17),
    ("000102", 51419311, 6, 11),
    ("ff", -311467685, 5, 63),
    ("fffe", 1717632651, 0, 51),
    ("fffe80", -160726397, 3, 51),
    ("fffe8081", 1055649942, 4, 42),
    ("fffe8081ff", -1698589602, 6, 46),
    ("fffe8081ff90", 869798731, 4, 31),
    ("fffe8081ff90a0", -309369008, 5, 40),
]


@pytest.mark.parametrize(("key", "signed", "of_7", "of_100"), JAVA)
def test_a_key_goes_where_javas_client_sends_it(
    key: str, signed: int, of_7: int, of_100: int
) -> None:
    """The hash and the partitions printed by kafka-clients."""
    data = bytes.fromhex(key)
    assert murmur2(data) == signed & 0xFFFF_FFFF
    assert partition_for_key(data, 7) == of_7
    assert partition_for_key(data, 100) == of_100


def test_round_robin_takes_turns_topic_by_topic() -> None:
    """Partitions without a leader are left out; keys are ignored."""
    choose = RoundRobinPartitioner()
    assert [choose("t", b"k", range(4), [0, 1, 3]) for _ in range(4)] == [0, 1, 3, 0]
    assert choose("u", None, range(4), [0, 1, 3]) == 0
    assert choose("t", None, range(4), []) == 0


def test_records_stick_until_a_batch_of_their_partition_is_full() -> None:
    """100 records of 10 bytes at 95 bytes a batch: 9 in a row, then elsewhere."""
    sticky = StickyPartitioner(95, lambda *_: False, Random(1))
    partitions = [sticky.partition("t", 10, range(3), [0, 1, 2]) for _ in range(90)]
    runs = [partitions[at : at + 9] for at in range(0, 90, 9)]
    assert all(len(set(run)) == 1 for run in runs)
    assert all(a[0] != b[0] for a, b in itertools.pairwise(runs))
    assert set(partitions) == {0, 1, 2}


def test_records_stick_while_there_is_room_in_a_batch() -> None:
    """Records that other partitioners sent there do not split a batch."""
    sticky = StickyPartitioner(95, lambda *_: True, Random(1))
    assert len({sticky.partition("t", 10, range(3), [0, 1, 2]) for _ in range(50)}) == 1


def test_records_leave_a_partition_that_nobody_leads() -> None:
    """A partition with a leader is chosen, and kept when the other is back."""
    sticky = StickyPartitioner(1_000, lambda *_: True, Random(1))
    first = sticky.partition("t", 10, range(2), [0, 1])
    other = 1 - first
    assert sticky.partition("t", 10, range(2), [other]) == other
    assert sticky.partition("t", 10, range(2), [0, 1]) == other
    assert sticky.partition("t", 10, range(2), []) == other
