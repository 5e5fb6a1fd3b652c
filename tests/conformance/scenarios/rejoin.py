"""Members that join again, in each state."""

from __future__ import annotations

from tests.conformance.env import Env
from tests.conformance.member import assignments, meta, protocols


async def leader_rejoins_while_syncs_wait(env: Env) -> None:
    """The leader's unchanged join in CompletingRebalance changes nothing for waiting syncs."""
    a, b = await env.stable_group("A", "B", sync=False)
    syncing = await b.send_sync()
    await syncing.unanswered(0.3)
    for version in (3, 5, 9):
        await a.join(version)
    await syncing.unanswered(0.3)
    await a.sync(assignments=assignments(a, b))
    await syncing.result()
    await a.heartbeat()


async def follower_rejoins_after_sync(env: Env) -> None:
    """A follower's unchanged join in CompletingRebalance, then in Stable before its sync."""
    a, b = await env.stable_group("A", "B", sync=False)
    await b.join()
    await b.join(4)
    await a.sync(assignments=assignments(a, b))
    await b.join()
    await b.sync()
    await b.heartbeat()
    await a.heartbeat()


async def rejoin_follower_same_metadata_stable(env: Env) -> None:
    """Stable, follower, nothing changed: the current generation, no rebalance."""
    a, b = await env.stable_group("A", "B")
    await b.join()
    await a.heartbeat()
    await b.join(5)
    await b.sync()
    await a.heartbeat()


async def rejoin_follower_new_metadata_stable(env: Env) -> None:
    """Stable, follower with other metadata: rebalance."""
    a, b = await env.stable_group("A", "B")
    joining = await b.send_join(protocols=protocols("range", metadata=meta("new")))
    await joining.unanswered()
    await a.heartbeat()
    await a.join()
    await joining.result()


async def rejoin_follower_protocol_order_stable(env: Env) -> None:
    """Stable, follower with the same protocols in another order."""
    a, b = await env.stable_group("A", "B", protocols=protocols("x", "y"))
    joining = await b.send_join(protocols=protocols("y", "x"))
    await env.settle()
    await a.heartbeat()
    env.note("answered", finish=joining.answered)
    if not joining.answered:
        await a.join()
    await joining.result()


async def rejoin_follower_new_timeouts_stable(env: Env) -> None:
    """Stable, follower with other timeouts but the same metadata."""
    a, b = await env.stable_group("A", "B")
    await b.join(session_timeout_ms=20_000, rebalance_timeout_ms=25_000)
    await a.heartbeat()


async def rejoin_new_metadata_completing(env: Env) -> None:
    """CompletingRebalance, other metadata: rebalance; a pending sync fails with 27."""
    a, b = await env.stable_group("A", "B", sync=False)
    syncing = await b.send_sync()
    await syncing.unanswered()
    joining = await a.send_join(protocols=protocols("range", metadata=meta("new")))
    await syncing.result()
    await joining.unanswered()
    await b.join()
    await joining.result()


async def duplicate_join_same_member_id(env: Env) -> None:
    """A second JoinGroup of the same member, on another connection, while the first waits."""
    a, b = await env.stable_group("A", "B")
    first = await b.send_join(protocols=protocols("range", metadata=meta("first")))
    await first.unanswered(0.3)
    twin = await env.member("B-again")
    twin.member_id = b.member_id
    second = await twin.send_join(protocols=protocols("range", metadata=meta("second")))
    await second.unanswered(0.4)
    await a.join()
    await second.result()
