"""Static members (KIP-345) in every state."""

from __future__ import annotations

from env import Env, Member, assignments, meta, protocols, scenario


async def _two(
    env: Env, group: str, *, sync: bool = True, rebalance_ms: int = 30_000
) -> list[Member]:
    a = await env.member("A", group, instance="i-A", rebalance_ms=rebalance_ms)
    b = await env.member("B", group, instance="i-B", rebalance_ms=rebalance_ms)
    await env.form([a, b], sync=sync)
    return [a, b]


async def _successor(env: Env, member: Member, name: str, version: int = 9) -> Member:
    """Another process with the same instance id and metadata."""
    back = await env.member(
        name,
        member.group,
        instance=member.instance,
        join_version=version,
        rebalance_ms=member.rebalance_ms,
        session_ms=member.session_ms,
    )
    back.protocols = member.protocols
    back.protocol_name = member.protocol_name
    return back


@scenario()
async def static_late_member_stays(env: Env) -> None:
    """A static member that misses the rebalance timeout stays in the next generation."""
    group = env.group()
    a, b = await _two(env, group, rebalance_ms=1200)
    joining = await a.send_join()
    await joining.within(0.8, 4.0)
    await env.describe(a.peer, group)
    await b.heartbeat()
    await b.heartbeat(generation_id=a.generation)
    await a.sync(assignments=assignments(a, b))
    await b.sync(generation_id=a.generation)
    await b.join()


@scenario()
async def static_late_leader(env: Env) -> None:
    """A static leader that is late stays a member, but somebody who is there leads."""
    group = env.group()
    a, b = await _two(env, group, rebalance_ms=1200)
    joining = await b.send_join(protocols=protocols("range", metadata=meta("new")))
    await joining.within(0.8, 4.0)
    await a.heartbeat()
    await a.join()
    await b.sync(assignments=assignments(a, b))
    await a.sync()


@scenario()
async def static_late_member_replaced(env: Env) -> None:
    """A late static member of the new generation is replaced in CompletingRebalance."""
    group = env.group()
    a, b = await _two(env, group, rebalance_ms=1200)
    joining = await a.send_join()
    await joining.within(0.8, 4.0)
    back = await _successor(env, b, "B2")
    again = await back.send_join()
    await again.unanswered(0.3)
    await a.heartbeat()
    await a.join()
    await again.result()


@scenario()
async def static_nobody_rejoins(env: Env) -> None:
    """A rebalance that no static member joins goes on until one of them does."""
    group = env.group()
    a, b = await _two(env, group, rebalance_ms=800)
    c = await env.member("C", group, rebalance_ms=800)
    await c.join()
    await c.leave()
    await env.describe(a.peer, group)
    await env.sleep(2.0)
    await env.describe(a.peer, group)
    await a.heartbeat()
    joining = await a.send_join()
    await joining.within(0.0, 3.0)
    await env.describe(a.peer, group)
    await b.heartbeat()


@scenario()
async def static_leader_returns_each_version(env: Env) -> None:
    """The leader comes back without its id: who it is told leads, and what it may do."""
    for version in (5, 6, 7, 8, 9):
        group = env.group(f"v{version}")
        a, b = await _two(env, group)
        back = await _successor(env, a, "A2", version)
        await back.join()
        await back.sync()
        await b.heartbeat()
        await back.heartbeat()
        await env.describe(b.peer, group)


@scenario()
async def static_replaced_leader_rejoins(env: Env) -> None:
    """The leader's successor joins with its new id: as leader it starts a rebalance."""
    group = env.group()
    a, b = await _two(env, group)
    back = await _successor(env, a, "A2")
    await back.join()
    joining = await back.send_join()
    await joining.unanswered(0.3)
    await b.heartbeat()
    await b.join()
    await joining.result()


@scenario()
async def static_replaced_twice(env: Env) -> None:
    """One after the other takes the place; all but the last one are fenced."""
    group = env.group()
    a, b = await _two(env, group)
    second = await _successor(env, b, "B2")
    await second.join()
    third = await _successor(env, b, "B3")
    await third.join()
    for each in (b, second, third):
        await each.heartbeat()
        await each.heartbeat(group_instance_id=None)
        await each.sync()
        await each.join()
    await a.heartbeat()


@scenario()
async def static_replaced_while_joining(env: Env) -> None:
    """A replacement while the old one's join waits: the old join is fenced at once."""
    group = env.group()
    a, b = await _two(env, group)
    joining = await b.send_join(protocols=protocols("range", metadata=meta("new")))
    await joining.unanswered(0.3)
    back = await _successor(env, b, "B2")
    again = await back.send_join()
    await joining.result()
    await again.unanswered(0.3)
    await a.join()
    await again.result()


@scenario()
async def static_leader_replaced_while_joining(env: Env) -> None:
    """The leader's waiting join is fenced; its successor leads the next generation."""
    group = env.group()
    a, b = await _two(env, group)
    joining = await a.send_join()
    await joining.unanswered(0.3)
    back = await _successor(env, a, "A2")
    again = await back.send_join()
    await joining.result()
    await again.unanswered(0.3)
    await b.join()
    await again.result()


@scenario()
async def static_leader_replaced_in_completing(env: Env) -> None:
    """The leader is replaced before it syncs: waiting syncs fail, and all join again."""
    group = env.group()
    a, b = await _two(env, group, sync=False)
    syncing = await b.send_sync()
    await syncing.unanswered(0.3)
    back = await _successor(env, a, "A2")
    joining = await back.send_join()
    await syncing.result()
    await joining.unanswered(0.2)
    await a.sync(assignments=assignments(a, b))
    await b.join()
    await joining.result()


@scenario()
async def static_sole_member_replaced_in_each_state(env: Env) -> None:
    """The only member is replaced in CompletingRebalance and in Stable."""
    group = env.group()
    a = await env.member("A", group, instance="i-A")
    await a.join()
    second = await _successor(env, a, "A2")
    await second.join()
    await a.heartbeat()
    await second.sync(assignments=assignments(second))
    third = await _successor(env, a, "A3")
    await third.join()
    await third.sync()
    await env.describe(third.peer, group)


@scenario()
async def static_replacement_changes_protocol(env: Env) -> None:
    """A successor without the protocol in use, but with another common one: rebalance."""
    group = env.group()
    both = protocols("x", "y")
    a = await env.member("A", group, instance="i-A", protocols=both)
    b = await env.member("B", group, instance="i-B", protocols=both)
    await env.form([a, b])
    back = await env.member("B2", group, instance="i-B", protocols=protocols("y"))
    joining = await back.send_join()
    await joining.unanswered(0.3)
    await b.heartbeat()
    await a.heartbeat()
    await a.join()
    await joining.result()


@scenario()
async def static_replacement_changes_votes(env: Env) -> None:
    """A successor that prefers another protocol, such that the choice would change."""
    group = env.group()
    first, second = protocols("x", "y"), protocols("y", "x")
    a = await env.member("A", group, instance="i-A", protocols=first)
    b = await env.member("B", group, instance="i-B", protocols=first)
    c = await env.member("C", group, instance="i-C", protocols=second)
    await env.form([a, b, c])
    back = await env.member("B2", group, instance="i-B", protocols=second)
    joining = await back.send_join()
    await joining.unanswered(0.3)
    one = await c.send_join()
    await env.settle()
    await a.join()
    await env.results(joining, one)


@scenario()
async def static_replacement_other_protocol_type(env: Env) -> None:
    """A successor of another protocol type is refused, and the old one stays."""
    group = env.group()
    a, b = await _two(env, group)
    back = await _successor(env, b, "B2")
    back.protocol_type = "connect"
    await back.join()
    await back.join(protocol_type="")
    await back.join(protocols=[])
    await b.heartbeat()
    await a.heartbeat()


@scenario()
async def static_replaced_before_sync_in_stable(env: Env) -> None:
    """Replaced before it fetched its assignment; its successor fetches it."""
    group = env.group()
    a, b = await _two(env, group, sync=False, rebalance_ms=1500)
    await a.sync(assignments=assignments(a, b))
    back = await _successor(env, b, "B2")
    await back.join()
    await back.sync()
    await env.until_state(group, "PreparingRebalance")
    await env.describe(a.peer, group)
    await back.heartbeat()
    await a.heartbeat()


@scenario()
async def static_rejoin_with_id_new_metadata(env: Env) -> None:
    """A known static follower rejoins with its id and other metadata: rebalance."""
    group = env.group()
    a, b = await _two(env, group)
    joining = await b.send_join(protocols=protocols("range", metadata=meta("new")))
    await joining.unanswered(0.3)
    await a.heartbeat()
    await a.join()
    await joining.result()


@scenario()
async def static_rejoin_without_instance(env: Env) -> None:
    """A static member joins with its id but without its instance id: taken as it is."""
    group = env.group()
    a, b = await _two(env, group)
    await b.join(group_instance_id=None)
    await b.join(3)
    await env.describe(a.peer, group)
    joining = await b.send_join(
        group_instance_id=None, protocols=protocols("range", metadata=meta("new"))
    )
    await joining.unanswered(0.3)
    await a.join()
    await joining.result()
    await env.describe(a.peer, group)


@scenario()
async def static_dynamic_member_brings_instance(env: Env) -> None:
    """A dynamic member joins again with an instance id: free, taken, its own id."""
    group = env.group()
    a = await env.member("A", group, instance="i-A")
    b = await env.member("B", group)
    await env.form([a, b])
    await b.join(group_instance_id="i-B")
    await b.join(group_instance_id="i-A")
    await b.heartbeat()
    await b.heartbeat(group_instance_id="i-A")
    await b.sync(group_instance_id="i-A")
    await b.sync(group_instance_id="i-B")


@scenario()
async def static_pending_member_brings_instance(env: Env) -> None:
    """An id that was given to a dynamic member, used with an instance id."""
    group = env.group()
    (a,) = await env.stable_group(group, "A")
    b = await env.member("B", group)
    await b.join()
    await b.join(group_instance_id="i-B")
    await a.heartbeat()
    joining = await b.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    await a.join()
    await joining.result()


@scenario()
async def static_instance_ids_in_each_state(env: Env) -> None:
    """Heartbeats and commits with right, wrong and unknown instance ids in each state."""
    topic = await env.topic()
    group = env.group()
    a, b = await _two(env, group, sync=False)

    async def ask() -> None:
        for instance in ("i-B", "i-A", "i-none", "", None):
            await b.heartbeat(group_instance_id=instance)
            await b.commit(topic, 1, group_instance_id=instance)
            await b.commit(topic, 1, 8, group_instance_id=instance, member_id="")

    await ask()
    await env.sync_all([a, b])
    await ask()
    joining = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    await ask()
    await b.join()
    await joining.result()
    await a.leave()
    await b.leave()
    await ask()


@scenario()
async def static_leave_in_completing(env: Env) -> None:
    """An admin removes a static member while the group waits for the leader's sync."""
    group = env.group()
    a, b = await _two(env, group, sync=False)
    syncing = await b.send_sync()
    await syncing.unanswered(0.3)
    admin = await env.peer("admin")
    await admin.call(
        "LeaveGroup",
        5,
        group_id=group,
        members=[{"member_id": "", "group_instance_id": "i-A"}],
    )
    await syncing.result()
    await a.sync(assignments=assignments(a, b))
    await b.join()


@scenario()
async def static_leave_while_joining(env: Env) -> None:
    """An admin removes a static member whose join waits: 25, and its place is free."""
    group = env.group()
    a, b = await _two(env, group)
    joining = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    admin = await env.peer("admin")
    await admin.call(
        "LeaveGroup",
        4,
        group_id=group,
        members=[{"member_id": "", "group_instance_id": "i-A"}],
    )
    await joining.result()
    await b.join()


@scenario()
async def static_leave_of_replaced_member(env: Env) -> None:
    """Leaves with the id before a replacement are fenced or unknown; the new one goes."""
    group = env.group()
    a, b = await _two(env, group)
    back = await _successor(env, b, "B2")
    await back.join()
    await b.leave(3)
    await b.leave(5, members=[{"member_id": b.member_id}])
    await b.leave(1)
    await a.heartbeat()
    await back.leave(5, members=[{"member_id": back.member_id}])
    await a.heartbeat()
    await back.heartbeat()


@scenario()
async def static_skip_assignment_then_change(env: Env) -> None:
    """A leader told to skip its assignment, syncs that bring one nevertheless."""
    group = env.group()
    a, b = await _two(env, group)
    back = await _successor(env, a, "A2")
    await back.join()
    await back.sync(assignments=[{"member_id": b.member_id, "assignment": b"other"}])
    await b.sync()
    await env.describe(b.peer, group)


@scenario()
async def static_replacement_takes_timeouts_along(env: Env) -> None:
    """The successor's rebalance timeout counts in the next rebalance."""
    group = env.group()
    a = await env.member("A", group, instance="i-A", rebalance_ms=20_000)
    b = await env.member("B", group, rebalance_ms=1000)
    await env.form([a, b])
    back = await _successor(env, a, "A2")
    back.rebalance_ms = 1000
    await back.join()
    joining = await back.send_join()
    await joining.within(0.7, 4.0)
    await b.heartbeat()
