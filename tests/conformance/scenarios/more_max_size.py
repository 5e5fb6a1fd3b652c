"""group.max.size (2 in this profile) with pending, static and late members."""

from __future__ import annotations

from env import Env, Member, assignments, meta, protocols, scenario

PROFILE = "max2"


@scenario(PROFILE)
async def max_size_pending_member_of_full_group(env: Env) -> None:
    """A pending member finds the group full when it joins: refused, its id is gone."""
    group = env.group()
    a = await env.member("A", group, rebalance_ms=800)
    b = await env.member("B", group, rebalance_ms=800)
    c = await env.member("C", group)
    await c.join()
    await env.form([a, b])
    await c.join()
    await c.join()
    await c.join(member_id="")
    await a.heartbeat()
    await env.describe(a.peer, group)


@scenario(PROFILE)
async def max_size_pending_member_turned_away_unblocks(env: Env) -> None:
    """An id that is refused in a rebalance is not waited for by the next one."""
    group = env.group()
    a = await env.member("A", group, rebalance_ms=2500)
    b = await env.member("B", group, rebalance_ms=2500)
    c = await env.member("C", group)
    await a.join()
    await a.join()
    await b.join()
    await c.join()
    joining = await b.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    first = await a.send_join()
    await first.unanswered(0.3)
    await c.join()
    await first.unanswered(0.3)
    await first.within(0.5, 5.0)
    await joining.result()
    await c.join()


@scenario(PROFILE)
async def max_size_static_replacement_in_full_groups(env: Env) -> None:
    """A full group: replacing static members in Stable and in CompletingRebalance."""
    group = env.group()
    a = await env.member("A", group, instance="i-A")
    b = await env.member("B", group, instance="i-B")
    await env.form([a, b], sync=False)
    back = await env.member("B2", group, instance="i-B")
    back.protocols = b.protocols
    await back.join()
    await env.sync_all([a, b])
    await back.join()
    await back.join(member_id=b.member_id)
    await b.leave()
    joining = await back.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    await a.join()
    await joining.result()


@scenario(PROFILE)
async def max_size_static_replacement_after_rejoin(env: Env) -> None:
    """During a rebalance a full number has joined: even a replacement is refused."""
    group = env.group()
    a = await env.member("A", group, instance="i-A")
    b = await env.member("B", group, instance="i-B")
    await env.form([a, b])
    pending = await env.member("P", group)
    joining = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    await pending.join()
    second = await b.send_join()
    await second.unanswered(0.3)
    back = await env.member("B2", group, instance="i-B")
    await back.join()
    other = await env.member("C", group, instance="i-C")
    await other.join()
    await pending.leave()
    await env.results(joining, second)


@scenario(PROFILE)
async def max_size_late_leader_pushed_out(env: Env) -> None:
    """Newcomers take the room of the leader: it gets 81, and one of them leads."""
    group = env.group()
    (a,) = await env.stable_group(group, "A", rebalance_ms=1500)
    b = await env.member("B", group, join_version=3, rebalance_ms=1500)
    c = await env.member("C", group, join_version=3, rebalance_ms=1500)
    first = await b.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    second = await c.send_join()
    await env.until_state(group, "PreparingRebalance", 3)
    await env.describe(a.peer, group)
    await a.heartbeat()
    await a.join()
    await a.heartbeat()
    await a.join(member_id="")
    await env.describe(a.peer, group)
    with env.transcript.muted():
        outcomes = await env.results(first, second)
    env.note(
        "B and C",
        error_codes=[o["error_code"] for o in outcomes],
        generations=[o["generation_id"] for o in outcomes],
        leaders=sum(m.is_leader for m in (b, c)),
    )


@scenario(PROFILE)
async def max_size_leave_makes_room(env: Env) -> None:
    """A leave, also one in a rebalance, makes room for one."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B")
    c = await env.member("C", group, join_version=3)
    await c.join()
    await b.leave()
    joining = await c.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    d = await env.member("D", group, join_version=3)
    await a.join()
    await joining.result()
    await d.join()


@scenario(PROFILE)
async def max_size_waiting_join_repeated(env: Env) -> None:
    """A member whose join waits in a full rebalance may repeat it."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B")
    pending = await env.member("P", group)
    await pending.join()
    first = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    second = await b.send_join()
    await second.unanswered(0.3)
    twin = Member(await env.peer("B-again"), group)
    twin.member_id, twin.protocols = b.member_id, b.protocols
    again = await twin.send_join()
    await again.unanswered(0.3)
    await pending.join()
    await first.unanswered(0.2)
    await _leave_elsewhere(env, twin)
    await first.result()


async def _leave_elsewhere(env: Env, member: Member) -> None:
    """A leave on a connection of its own, as the member's waits."""
    other = Member(await env.peer(f"{member.name}-leaves"), member.group)
    other.member_id = member.member_id
    await other.leave()


@scenario(PROFILE)
async def max_size_empty_group_takes_many(env: Env) -> None:
    """An Empty group gives out any number of ids, and takes the first two that come."""
    group = env.group()
    members = [await env.member(name, group, rebalance_ms=1500) for name in "ABCD"]
    for each in members:
        await each.join()
    a, b, c, d = members
    await a.join()
    joining = await b.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    again = await a.send_join()
    await again.unanswered(0.3)
    await c.join()
    await d.join()
    await joining.within(0.5, 5.0)
    await again.result()
    await c.join()


@scenario(PROFILE)
async def max_size_dynamic_takes_room_of_dynamic(env: Env) -> None:
    """At the timeout the late member is out, and the group is within its limit."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B", rebalance_ms=1500)
    joining = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    c = await env.member("C", group, join_version=3, rebalance_ms=1500)
    second = await c.send_join()
    await joining.within(0.8, 4.0)
    await second.result()
    await b.heartbeat()
    await b.join()
    await env.describe(a.peer, group)


@scenario(PROFILE)
async def max_size_refused_before_instance_errors(env: Env) -> None:
    """Which error wins in a full group: size, fencing, unknown instance."""
    group = env.group()
    a = await env.member("A", group, instance="i-A")
    b = await env.member("B", group)
    await env.form([a, b])
    c = await env.member("C", group)
    await c.join(member_id="made-up", group_instance_id="i-A")
    await c.join(group_instance_id="i-A")
    await c.join(session_timeout_ms=1)
    await b.join(group_instance_id="i-A")
    await b.join(group_instance_id="i-none")
    joining = await b.send_join(protocols=protocols("range", metadata=meta("new")))
    await joining.unanswered(0.2)
    await a.join()
    await joining.result()
    await a.sync(assignments=assignments(a, b))
