"""Transactional programs of real clients: exactly once, and fenced producers.

Members of kohort's client, kafka-clients, librdkafka, kafka-python, franz-go and sarama
commit their offsets as a member of a generation, which fences former owners (KIP-447).
aiokafka and kafkajs cannot: their programs have a transactional id for each input
partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.interop import transactions
from tests.interop.scene import THREE_NODES
from tests.workers.libraries import TRANSACTIONAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.scene import Scene
    from tests.workers.libraries import Library

pytestmark = pytest.mark.interop

PARTITIONS = 4
"""Partitions of the input; some programs have a transactional id for each."""
FENCED = {
    "kohort": "ProducerFencedError",
    "confluent": "_FENCED",
    "kafka-python": "ProducerFencedError",
    "aiokafka": "ProducerFenced",
    "java": "ProducerFencedException",
    "franz-go": "PRODUCER_FENCED",
    "sarama": "Error code = 90",  # PRODUCER_FENCED has no name in sarama
    "kafkajs": "INVALID_PRODUCER_EPOCH",  # it sends EndTxn v1
}

libraries = pytest.mark.parametrize(
    "library", TRANSACTIONAL, ids=[each.name for each in TRANSACTIONAL]
)


@libraries
@THREE_NODES
def test_exactly_once(play: Callable[..., None], library: Library, nodes: int) -> None:
    """Each record is copied once, though members come and go and transactions abort.

    The coordinators of transactions and groups, and the partitions, have three nodes.
    """
    play(library, "range", transactions.exactly_once, partitions=PARTITIONS)


@libraries
def test_fencing(play: Callable[..., None], library: Library) -> None:
    """A second producer with the same id aborts the first one's transaction."""

    def told(scene: Scene) -> None:
        assert FENCED[library.name] in transactions.fencing(scene)

    play(library, "range", told, partitions=PARTITIONS)
