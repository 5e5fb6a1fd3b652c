"""The timeout of the sync phase."""

from __future__ import annotations

from tests.conformance.env import Env
from tests.conformance.member import assignments
from tests.conformance.steps import joined


async def sync_timeout_leader_missing(env: Env) -> None:
    """The leader never syncs: it is removed, waiting syncs fail with 27, a follower leads."""
    a, b, c = await env.stable_group("A", "B", "C", sync=False, rebalance_ms=1500)
    first, second = await b.send_sync(), await c.send_sync()
    await first.within(0.8, 4.0)
    await second.result()
    await a.heartbeat()
    joins = [await b.send_join()]
    await joins[0].unanswered(0.2)
    joins.append(await c.send_join())
    await joined(env, [b, c], joins)


async def sync_timeout_nobody_syncs(env: Env) -> None:
    """Nobody syncs: all are removed and the group is Empty one generation later."""
    a, b = await env.stable_group("A", "B", sync=False, rebalance_ms=1000)
    await env.until_state("Empty", 0)
    await env.describe(a.peer)
    await a.heartbeat()
    await b.sync()
    c = await env.member("C", join_version=3)
    await c.join()


async def sync_timeout_removes_static_members(env: Env) -> None:
    """The sync timeout removes static members, too, and frees their instance ids."""
    a, b = await env.stable_group(
        "A", "B", sync=False, rebalance_ms=1200, B={"instance": "i-B"}
    )
    await a.sync(assignments=assignments(a, b))
    await env.until_state("PreparingRebalance", 1)
    await a.heartbeat()
    await b.heartbeat()
    await b.join()
    await a.join()


async def sync_timeout_in_stable(env: Env) -> None:
    """Members that synced before the leader, and heartbeats of the one that never does."""
    a, b, c = await env.stable_group("A", "B", "C", sync=False, rebalance_ms=2000)
    syncing = await b.send_sync()
    await a.sync(assignments=assignments(a, b, c))
    await syncing.result()
    await env.describe(a.peer)
    for _ in range(2):
        await c.heartbeat()
    await env.until_state("PreparingRebalance", 2)
    await c.heartbeat()
    await b.heartbeat()
    await env.describe(a.peer)


async def sync_timeout_not_after_late_sync(env: Env) -> None:
    """A follower that fetches its assignment late, but in time, ends the wait."""
    a, b = await env.stable_group("A", "B", sync=False, rebalance_ms=1500)
    await a.sync(assignments=assignments(a, b))
    await env.settle(0.5)
    await b.sync()
    await env.sleep(1.8)
    await a.heartbeat()
    await b.heartbeat()


async def sync_timeout_not_ended_by_wrong_sync(env: Env) -> None:
    """Syncs with a wrong generation or protocol do not count as synced."""
    a, b = await env.stable_group("A", "B", sync=False, rebalance_ms=1500)
    await a.sync(assignments=assignments(a, b))
    await b.sync(generation_id=1)
    await b.sync(protocol_name="other")
    await b.sync(protocol_type="connect")
    await env.until_state("PreparingRebalance", 1)
    await b.heartbeat()
    await a.heartbeat()


async def sync_timeout_kicks_missing_members(env: Env) -> None:
    """Members that do not sync within the rebalance timeout are removed, and the rest rebalances."""
    a, b = await env.stable_group("A", "B", sync=False, rebalance_ms=2000)
    syncing = await b.send_sync()
    await syncing.within(1.3, 5.0)
    await a.heartbeat()
    await b.heartbeat()
    await env.describe(b.peer)
    await b.join()


async def sync_timeout_follower_missing(env: Env) -> None:
    """A follower that never syncs after the leader did is removed as well."""
    a, b = await env.stable_group("A", "B", sync=False, rebalance_ms=2000)
    await a.sync(assignments=assignments(a, b))
    await a.heartbeat()
    await env.sleep(3.5)
    await b.heartbeat()
    await a.heartbeat()
    await env.describe(a.peer)
