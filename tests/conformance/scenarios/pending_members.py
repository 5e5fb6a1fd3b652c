"""Pending members: ids that were handed out and have not joined."""

from __future__ import annotations

from tests.conformance.env import Env
from tests.conformance.member import assignments, protocols


async def pending_member_in_completing(env: Env) -> None:
    """An id given out in CompletingRebalance does not disturb; its join does."""
    a, b = await env.stable_group("A", "B", sync=False)
    c = await env.newcomer("C")
    await a.heartbeat()
    await a.sync(assignments=assignments(a, b))
    await b.sync()
    joining = await env.rebalance(c, 3)
    await a.heartbeat()
    first = await a.send_join()
    await b.join()
    await env.results(first, joining)


async def pending_member_leaves_in_each_state(env: Env) -> None:
    """The leave of an id that was only given out starts a rebalance, but not if Empty."""
    for state in ("empty", "completing", "stable"):
        group = env.group(state)
        if state == "empty":
            a = await env.member("A", group)
        else:
            (a,) = await env.stable_group("A", sync=state == "stable", group=group)
        b = await env.newcomer("B", group)
        await b.leave(2 if state == "stable" else 5)
        await env.describe(b.peer, group)
        await b.join()
        if state != "empty":
            await a.heartbeat()


async def pending_member_leave_fails_waiting_sync(env: Env) -> None:
    """A given-out id that leaves in CompletingRebalance sends waiting syncs back to join."""
    a, b = await env.stable_group("A", "B", sync=False)
    syncing = await b.send_sync()
    c = await env.newcomer("C")
    await syncing.unanswered(0.3)
    await c.leave()
    await syncing.result()
    await a.sync(assignments=assignments(a, b))


async def pending_members_several(env: Env) -> None:
    """A rebalance waits for every id that was given out."""
    (a,) = await env.stable_group("A")
    b, c, d = [await env.member(name) for name in "BCD"]
    for each in (b, c, d):
        await each.join()
    joining = await a.send_join()
    await joining.unanswered(0.3)
    first = await b.send_join()
    await joining.unanswered(0.2)
    await c.leave()
    await joining.unanswered(0.2)
    second = await d.send_join()
    await env.results(joining, first, second)


async def pending_member_id_twice(env: Env) -> None:
    """Asking for an id twice makes two pending members: a rebalance waits for both."""
    (a,) = await env.stable_group("A", rebalance_ms=2000)
    b = await env.newcomer("B", rebalance_ms=1000)
    await b.join(member_id="")
    joining = await a.send_join()
    second = await b.send_join()
    await joining.within(1.7, 4.5)
    await second.result()
    await env.describe(a.peer)


async def pending_member_of_empty_group_left(env: Env) -> None:
    """Ids given out before a group became Empty are still good afterwards."""
    (a,) = await env.stable_group("A")
    b = await env.newcomer("B")
    await a.leave()
    await env.describe(a.peer)
    await b.join()
    await env.describe(a.peer)


async def pending_member_waits_in_empty_rebalance(env: Env) -> None:
    """All members leave, one id is out: the rebalance of nobody ends at once."""
    a, b = await env.stable_group("A", "B")
    c = await env.newcomer("C")
    await a.leave()
    await env.describe(a.peer)
    await b.leave()
    await env.settle()
    await env.describe(a.peer)
    await c.join()


async def pending_member_after_group_deleted(env: Env) -> None:
    """DeleteGroups forgets ids that were given out."""
    a = await env.newcomer("A")
    await env.delete_groups(a.peer)
    await a.join()
    await a.leave()
    await env.describe(a.peer, version=6)


async def pending_member_other_protocols(env: Env) -> None:
    """An id was given out for protocols that nobody else has by the time it is used."""
    a = await env.newcomer("A", protocols=protocols("x"))
    b = await env.newcomer("B", protocols=protocols("y"))
    await a.join()
    await b.join()
    await b.join(protocols=protocols("y", "x"), protocol_type="connect")
    joining = await env.rebalance(b, 2, protocols=protocols("y", "x"))
    await a.join()
    await joining.result()


async def pending_member_id_used_by_old_version(env: Env) -> None:
    """An id from v4 used with v3, and with v0; v3 without an id is taken at once."""
    a = await env.newcomer("A")
    await a.join(3)
    await a.sync(assignments=assignments(a))
    b = await env.newcomer("B")
    joining = await env.rebalance(b, 2, 0)
    await a.join(2)
    await joining.result()


async def pending_member_blocks_rebalance(env: Env) -> None:
    """A rebalance waits for a member that was given an id and has not joined yet."""
    (a,) = await env.stable_group("A")
    b = await env.newcomer("B")
    await a.heartbeat()
    joining = await a.send_join()
    await joining.unanswered(0.8)
    await b.join()
    await joining.result()


async def pending_member_does_not_block_past_timeout(env: Env) -> None:
    """The rebalance timeout also ends the wait for pending members."""
    (a,) = await env.stable_group("A", rebalance_ms=1500)
    b = await env.newcomer("B")
    joining = await a.send_join()
    await joining.within(1.3, 4.0)
    await env.describe(a.peer)
    again = await b.send_join()
    await again.unanswered()
    await a.join()
    await again.result()


async def pending_member_leaves(env: Env) -> None:
    """A member that only has an id may leave, which unblocks the rebalance."""
    (a,) = await env.stable_group("A")
    b = await env.newcomer("B")
    joining = await a.send_join()
    await joining.unanswered(0.4)
    await b.leave()
    await joining.result()
    await b.join()


async def pending_member_other_requests(env: Env) -> None:
    """What a member that only has an id gets for heartbeat, sync and commit."""
    topic = await env.topic()
    (a,) = await env.stable_group("A")
    b = await env.newcomer("B")
    await b.heartbeat(generation_id=1)
    await b.heartbeat(generation_id=-1)
    await b.sync(generation_id=1)
    await b.commit(topic, 1, generation_id_or_member_epoch=1)
    await a.heartbeat()
    await env.describe(a.peer)
