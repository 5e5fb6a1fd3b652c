"""KIP-429: a rebalance in two steps, which stops no member that loses nothing.

The broker plays no part in it. Assignors put a member's owned partitions into its
metadata; a member that has given up partitions joins again.
"""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import Member

from kohort.protocol.consumer import Subscription, TopicPartitions, encode


def owning(*partitions: int) -> list[tuple[str, bytes]]:
    """The join metadata of a cooperative-sticky member that owns these partitions."""
    owned = [TopicPartitions("orders", partitions)] if partitions else []
    return [("cooperative-sticky", encode(Subscription(["orders"], b"", owned)))]


def member(context: Context, name: str, *owned: int) -> Member:
    """A consumer that owns these partitions of "orders"."""
    return context.member(name, protocols=owning(*owned), requires_id=False)


def test_a_newcomer_gets_what_is_given_up(context: Context) -> None:
    """A gives up one of two partitions: two rebalances, and A can always commit."""
    a, b = member(context, "A"), member(context, "B")
    a.join()
    a.sync([(a.member_id, b"0 1")])
    joining = b.join()

    # The first step: A keeps both while it joins, and is assigned one.
    assert a.heartbeat() == 27
    assert a.commit("orders", 10) == 0
    told = a.join(protocols=owning(0, 1)).result
    assert [m[2] for m in told.members] == [owning(0, 1)[0][1], owning()[0][1]]
    assert joining.result.generation_id == told.generation_id == 2
    waiting = b.sync()
    assert a.sync([(a.member_id, b"0"), (b.member_id, b"")]).result.assignment == b"0"
    assert waiting.result.assignment == b""
    assert a.commit("orders", 11) == 0

    # The second step: A, the leader, joins again, because it gave up partition 1.
    again = a.join(protocols=owning(0))
    assert context.notice("rebalance_started").fields["cause"] == "leader_rejoined"
    assert b.heartbeat() == 27
    assert a.commit("orders", 12) == 0
    assert b.join().result.generation_id == 3
    assert again.result.members[0][2] == owning(0)[0][1]
    waiting = b.sync()
    a.sync([(a.member_id, b"0"), (b.member_id, b"1")])
    assert waiting.result.assignment == b"1"
    assert (a.heartbeat(), b.heartbeat(), context.state()) == (0, 0, "Stable")
    assert a.generation_id == 3
    assert context.committed("orders") == 12


@pytest.mark.parametrize("gives_up", [(), (1,)])
def test_only_who_gave_something_up_makes_a_rebalance(
    context: Context, gives_up: tuple[int, ...]
) -> None:
    """A follower that joins with unchanged owned partitions gets the same answer."""
    a, b = member(context, "A"), member(context, "B", 1, 2)
    context.form([a, b])
    kept = [p for p in (1, 2) if p not in gives_up]
    joining = b.join(protocols=owning(*kept))
    assert joining.answered == (not gives_up)
    assert context.state() == ("PreparingRebalance" if gives_up else "Stable")


def test_eager_and_cooperative_members_need_a_protocol_in_common(
    context: Context,
) -> None:
    """KIP-429's way to upgrade: first come members that support both protocols.

    The group switches to the new one when the last member supports it.
    """
    both = [*owning(), ("range", b"")]
    a, b = (context.member(n, protocols=[("range", b"")]) for n in "AB")
    context.form([a, b])
    newcomer = context.member("C", protocols=owning())
    assert newcomer.join().result.error_code == 23
    first = a.join(protocols=both)
    b.join()
    context.sync_all([a, b])
    second = a.join(protocols=both)
    b.join(protocols=both)
    chosen = [join.result.protocol_name for join in (first, second)]
    assert chosen == ["range", "cooperative-sticky"]
