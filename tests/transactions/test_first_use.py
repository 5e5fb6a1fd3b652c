"""The first request for a transaction coordinator makes `__transaction_state`."""

from __future__ import annotations

from tests.wire.client import served

from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdRequest

TRANSACTION = 1


async def test_the_first_look_up_has_an_answer() -> None:
    """A new broker names the coordinator at once."""
    async with served() as client:
        request = FindCoordinatorRequest("t", TRANSACTION)
        found = await client.call("FindCoordinator", 3, request)
        assert (found.error_code, found.node_id) == (0, 1)


async def test_the_first_producer_has_an_answer() -> None:
    """A producer that does not look for its coordinator gets an id, too."""
    async with served() as client:
        request = InitProducerIdRequest("t", 60_000)
        answer = await client.call("InitProducerId", 4, request)
        assert (answer.error_code, answer.producer_epoch) == (0, 0)
