"""A few rows of the table that every library has to survive.

The whole table is made by hand: `python -m tests.clients_table`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.clients_table.clients import CLIENTS, Client, Pair
from tests.clients_table.judge import judge, verdict
from tests.clients_table.play import Cell
from tests.clients_table.rows import BY_NAME

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.interop

# Libraries with a defect that may show in any rebalance.
GUARDED = {"kafka-python", "librdkafka"}
BUSY_S = 75.0  # for a busy machine; the page has the usual times


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Pair]:
    """Two workers of a library."""
    client: Client = request.param
    pair = Pair(client, tmp_path)
    yield pair
    await pair.stop()


async def test_members_come_back_and_lose_nothing(pair: Pair) -> None:
    """After an expiry, a hold, a move, a lost response: both work again.

    After a kick: tests/delivery.
    """
    rows = (
        *("expire", "hold-join", "hold-sync", "move-sync"),
        *("disconnect-after-JoinGroup", "delay-SyncGroup"),
    )
    for name in rows:
        row, workers = BY_NAME[name], await pair.ready()
        cell = Cell(
            row,
            workers,
            pair.client.assignor,
            limit_s=BUSY_S,
            watch_s=0.0,
            is_plain=pair.client.name not in GUARDED,
        )
        facts = judge(await cell.play())
        assert verdict(facts, row) == "comes back", (name, facts)
        if name == "expire":
            assert "one" in facts.new_ids, (name, facts)
