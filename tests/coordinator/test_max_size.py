"""group.max.size (KIP-389); two members here."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context


@pytest.fixture
def context() -> Context:
    """A limit of two members."""
    return Context(initial_rebalance_delay_ms=0, max_size=2)


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("options", [{}, {"requires_id": False}, {"instance": "i-C"}])
def test_third_member(
    context: Context, options: dict[str, object], *, sync: bool
) -> None:
    """A third member is refused, and the other two continue."""
    a, b = context.stable_group("A", "B", sync=sync)
    result = context.member("C", **options).join().result
    assert (result.error_code, result.member_id) == (81, "")
    assert (a.heartbeat(), b.heartbeat()) == (0, 0)
    assert context.notice("member_refused").fields["error"] == "GROUP_MAX_SIZE_REACHED"


def test_pending_id_in_a_full_group(context: Context) -> None:
    """A pending member is removed when its join finds the group full."""
    (a,) = context.stable_group("A")
    b, c = context.member("B"), context.member("C")
    b.join()
    c.join()
    b.join()
    a.join()
    assert c.join().result.error_code == 81
    kicked = context.event("member_kicked")
    assert (kicked["member_id"], kicked["was_pending"]) == (c.member_id, True)
    context.sleep(30_000)
    assert len(context.describe().members) == 2
    assert c.join().result.error_code == 81
