"""Static members that are late, or that return with a new member id."""

from __future__ import annotations

from tests.conformance.env import Env
from tests.conformance.member import assignments, meta, protocols


async def static_late_member_stays(env: Env) -> None:
    """A static member that misses the rebalance timeout stays in the next generation."""
    a, b = await env.stable_group("A", "B", static=True, rebalance_ms=1200)
    joining = await a.send_join()
    await joining.within(0.8, 4.0)
    await env.describe(a.peer)
    await b.heartbeat()
    await b.heartbeat(generation_id=a.generation)
    await a.sync(assignments=assignments(a, b))
    await b.sync(generation_id=a.generation)
    await b.join()


async def static_late_leader(env: Env) -> None:
    """A static leader that is late stays a member, but somebody who is there leads."""
    a, b = await env.stable_group("A", "B", static=True, rebalance_ms=1200)
    joining = await b.send_join(protocols=protocols("range", metadata=meta("new")))
    await joining.within(0.8, 4.0)
    await a.heartbeat()
    await a.join()
    await b.sync(assignments=assignments(a, b))
    await a.sync()


async def static_late_member_replaced(env: Env) -> None:
    """A late static member of the new generation is replaced in CompletingRebalance."""
    a, b = await env.stable_group("A", "B", static=True, rebalance_ms=1200)
    joining = await a.send_join()
    await joining.within(0.8, 4.0)
    back = await env.successor(b, "B2")
    again = await back.send_join()
    await again.unanswered(0.3)
    await a.heartbeat()
    await a.join()
    await again.result()


async def static_leader_returns_each_version(env: Env) -> None:
    """The leader comes back without its id: who it is told leads, and what it may do."""
    for version in (5, 6, 7, 8, 9):
        group = env.group(f"v{version}")
        a, b = await env.stable_group("A", "B", static=True, group=group)
        back = await env.successor(a, "A2", version)
        await back.join()
        await back.sync()
        await b.heartbeat()
        await back.heartbeat()
        await env.describe(b.peer, group)


async def static_replaced_leader_rejoins(env: Env) -> None:
    """The leader's successor joins with its new id: as leader it starts a rebalance."""
    a, b = await env.stable_group("A", "B", static=True)
    back = await env.successor(a, "A2")
    await back.join()
    joining = await back.send_join()
    await joining.unanswered(0.3)
    await b.heartbeat()
    await b.join()
    await joining.result()


async def static_replaced_twice(env: Env) -> None:
    """One after the other takes the place; all but the last one are fenced."""
    a, b = await env.stable_group("A", "B", static=True)
    second = await env.successor(b, "B2")
    await second.join()
    third = await env.successor(b, "B3")
    await third.join()
    for each in (b, second, third):
        await each.heartbeat()
        await each.heartbeat(group_instance_id=None)
        await each.sync()
        await each.join()
    await a.heartbeat()


async def static_replaced_while_joining(env: Env) -> None:
    """A replacement while the old one's join waits: the old join is fenced at once."""
    a, b = await env.stable_group("A", "B", static=True)
    joining = await b.send_join(protocols=protocols("range", metadata=meta("new")))
    await joining.unanswered(0.3)
    back = await env.successor(b, "B2")
    again = await back.send_join()
    await joining.result()
    await again.unanswered(0.3)
    await a.join()
    await again.result()


async def static_leader_replaced_while_joining(env: Env) -> None:
    """The leader's waiting join is fenced; its successor leads the next generation."""
    a, b = await env.stable_group("A", "B", static=True)
    joining = await a.send_join()
    await joining.unanswered(0.3)
    back = await env.successor(a, "A2")
    again = await back.send_join()
    await joining.result()
    await again.unanswered(0.3)
    await b.join()
    await again.result()


async def static_leader_replaced_in_completing(env: Env) -> None:
    """The leader is replaced before it syncs: waiting syncs fail, and all join again."""
    a, b = await env.stable_group("A", "B", static=True, sync=False)
    syncing = await b.send_sync()
    await syncing.unanswered(0.3)
    back = await env.successor(a, "A2")
    joining = await back.send_join()
    await syncing.result()
    await joining.unanswered(0.2)
    await a.sync(assignments=assignments(a, b))
    await b.join()
    await joining.result()


async def static_sole_member_replaced_in_each_state(env: Env) -> None:
    """The only member is replaced in CompletingRebalance and in Stable."""
    a = await env.member("A", instance="i-A")
    await a.join()
    second = await env.successor(a, "A2")
    await second.join()
    await a.heartbeat()
    await second.sync(assignments=assignments(second))
    third = await env.successor(a, "A3")
    await third.join()
    await third.sync()
    await env.describe(third.peer)


async def static_replacement_changes_protocol(env: Env) -> None:
    """A successor without the protocol in use, but with another common one: rebalance."""
    both = protocols("x", "y")
    a, b = await env.stable_group("A", "B", static=True, protocols=both)
    back = await env.member("B2", instance="i-B", protocols=protocols("y"))
    joining = await back.send_join()
    await joining.unanswered(0.3)
    await b.heartbeat()
    await a.heartbeat()
    await a.join()
    await joining.result()


async def static_replacement_changes_votes(env: Env) -> None:
    """A successor that prefers another protocol, such that the choice would change."""
    first, second = protocols("x", "y"), protocols("y", "x")
    a, _, c = await env.stable_group(
        "A",
        "B",
        "C",
        static=True,
        A={"protocols": first},
        B={"protocols": first},
        C={"protocols": second},
    )
    back = await env.member("B2", instance="i-B", protocols=second)
    joining = await back.send_join()
    await joining.unanswered(0.3)
    one = await c.send_join()
    await env.settle()
    await a.join()
    await env.results(joining, one)


async def static_replacement_other_protocol_type(env: Env) -> None:
    """A successor of another protocol type is refused, and the old one stays."""
    a, b = await env.stable_group("A", "B", static=True)
    back = await env.successor(b, "B2")
    back.protocol_type = "connect"
    await back.join()
    await back.join(protocol_type="")
    await back.join(protocols=[])
    await b.heartbeat()
    await a.heartbeat()


async def static_replaced_before_sync_in_stable(env: Env) -> None:
    """Replaced before it fetched its assignment; its successor fetches it."""
    a, b = await env.stable_group("A", "B", static=True, sync=False, rebalance_ms=1500)
    await a.sync(assignments=assignments(a, b))
    back = await env.successor(b, "B2")
    await back.join()
    await back.sync()
    await env.until_state("PreparingRebalance")
    await env.describe(a.peer)
    await back.heartbeat()
    await a.heartbeat()


async def static_leave_of_replaced_member(env: Env) -> None:
    """Leaves with the id before a replacement are fenced or unknown; the new one goes."""
    a, b = await env.stable_group("A", "B", static=True)
    back = await env.successor(b, "B2")
    await back.join()
    await b.leave(3)
    await b.leave(5, members=[{"member_id": b.member_id}])
    await b.leave(1)
    await a.heartbeat()
    await back.leave(5, members=[{"member_id": back.member_id}])
    await a.heartbeat()
    await back.heartbeat()


async def static_skip_assignment_then_change(env: Env) -> None:
    """A leader told to skip its assignment, syncs that bring one nevertheless."""
    a, b = await env.stable_group("A", "B", static=True)
    back = await env.successor(a, "A2")
    await back.join()
    await back.sync(assignments=[{"member_id": b.member_id, "assignment": b"other"}])
    await b.sync()
    await env.describe(b.peer)


async def static_replacement_takes_timeouts_along(env: Env) -> None:
    """The successor's rebalance timeout counts in the next rebalance."""
    a, b = await env.stable_group(
        "A",
        "B",
        A={"instance": "i-A", "rebalance_ms": 20_000},
        B={"rebalance_ms": 1000},
    )
    back = await env.successor(a, "A2")
    back.rebalance_ms = 1000
    await back.join()
    joining = await back.send_join()
    await joining.within(0.7, 4.0)
    await b.heartbeat()


async def static_replaced_while_syncing(env: Env) -> None:
    """A replacement during CompletingRebalance fences the waiting sync and rebalances."""
    a, b = await env.stable_group("A", "B", sync=False, static=True)
    syncing = await b.send_sync()
    await syncing.unanswered()
    back = await env.successor(b, "B2")
    joining = await back.send_join()
    await syncing.result()
    await env.settle()
    await a.heartbeat()
    env.note("answered", joining=joining.answered)
    if not joining.answered:
        await a.join()
    await joining.result()


async def static_replacement_without_common_protocol(env: Env) -> None:
    """A replacement that supports none of the group's protocols is refused."""
    a, b = await env.stable_group("A", "B", static=True)
    back = await env.member("B2", instance="i-B", protocols=protocols("other"))
    await back.join()
    await b.heartbeat()
    await a.heartbeat()


async def static_replaced_in_preparing(env: Env) -> None:
    """A replacement while the group rebalances joins that rebalance."""
    a, b = await env.stable_group("A", "B", static=True)
    joining = await env.rebalance(a, 2)
    back = await env.member("B2", instance="i-B")
    await back.join()
    await joining.result()
    await b.heartbeat()
