"""A group of three consumers."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import Member
from tests.events.consumers import consumer, divide


@pytest.fixture
def trio(context: Context) -> list[Member]:
    """Ana, ben and cleo, stable, four partitions each."""
    members = [consumer(context, n, session_ms=30_000) for n in ("ana", "ben", "cleo")]
    context.form(members, sync=False)
    ana, ben, cleo = members
    divide((ana, range(4)), (ben, range(4, 8)), (cleo, range(8, 12)))
    return members
