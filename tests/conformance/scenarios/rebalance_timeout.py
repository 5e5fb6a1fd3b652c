"""The rebalance timeout of the join phase."""

from __future__ import annotations

import asyncio

from tests.conformance.env import Env
from tests.conformance.member import Member, meta, protocols
from tests.conformance.steps import again, joined


async def new_timeouts_in_completing(env: Env) -> None:
    """Other timeouts with the same metadata in CompletingRebalance are not noticed."""
    a, b = await env.stable_group("A", "B", sync=False, rebalance_ms=1500)
    syncing = await b.send_sync()
    await _join_again_with_longer_timeout(env, b)
    await syncing.within(1.0, 4.0)
    await b.heartbeat()
    await a.heartbeat()


async def _join_again_with_longer_timeout(env: Env, member: Member) -> None:
    """The same join with a longer rebalance timeout, on another connection."""
    twin = await again(env, member)
    await twin.join(rebalance_timeout_ms=60_000)


async def rebalance_timeout_twice(env: Env) -> None:
    """Two members are late, one after the other, in two rebalances in a row."""
    a, b, c = await env.stable_group("A", "B", "C", rebalance_ms=1200)
    joining = await env.rebalance(a, 3)
    second = await b.send_join()
    await joining.within(0.8, 4.0)
    await second.result()
    joining = await a.send_join(protocols=protocols("range", metadata=meta("new")))
    await joining.within(0.8, 4.0)
    await b.heartbeat()
    await c.heartbeat()


async def rebalance_timeout_changed_by_waiting_join(env: Env) -> None:
    """The wait is as long as the timeouts were when it began; later joins do not change it."""
    a, b = await env.stable_group("A", "B", rebalance_ms=1500)
    joining = await env.rebalance(a, 2)
    c = await env.member("C", join_version=3, rebalance_ms=20_000)
    newcomer = await c.send_join()
    await joining.within(1.0, 4.0)
    await newcomer.result()
    await b.heartbeat()


async def rebalance_timeout_of_first_rejoin_counts(env: Env) -> None:
    """The member whose join starts the rebalance brings its new timeout along."""
    a, b = await env.stable_group("A", "B", rebalance_ms=1000)
    joining = await a.send_join(rebalance_timeout_ms=2500)
    await joining.within(2.2, 5.0)
    await b.heartbeat()


async def rebalance_timeout_is_longest_of_all(env: Env) -> None:
    """The rebalance waits for the longest of the members' timeouts."""
    a, _ = await env.stable_group(
        "A", "B", A={"rebalance_ms": 1000}, B={"rebalance_ms": 3000}
    )
    joining = await a.send_join()
    await joining.within(2.8, 5.5)


async def rebalance_timeout_leader_missing(env: Env) -> None:
    """If the leader does not rejoin another member becomes leader."""
    a, b, c = await env.stable_group("A", "B", "C", rebalance_ms=2000)
    first = await b.send_join(protocols=protocols("range", metadata=meta("new")))
    await env.settle()
    second = await c.send_join()
    await joined(env, [b, c], [first, second])
    await a.heartbeat()


async def rebalance_timeout_of_join_v0(env: Env) -> None:
    """v0 has no rebalance timeout: the session timeout is used, here 6 s."""
    a, b = await env.stable_group("A", "B", join_version=0, session_ms=6000)
    joining = await a.send_join()
    with env.transcript.muted():
        for _ in range(20):  # or else B's session would end the wait
            if joining.answered:
                break
            await b.heartbeat(0)
            await asyncio.sleep(0.5)
    await joining.within(5.5, 9.0)
    await b.heartbeat(0)


async def rebalance_heartbeats_do_not_extend(env: Env) -> None:
    """Heartbeats of a member that never rejoins do not stop its removal."""
    a, b = await env.stable_group("A", "B", rebalance_ms=2000)
    joining = await a.send_join()
    for _ in range(3):
        await env.settle()
        await b.heartbeat()
    await joining.within(1.8, 4.5)
    await b.heartbeat()
