"""Members that only have an id (KIP-394), and joins that come in other forms."""

from __future__ import annotations

import wire
from env import Env, Member, assignments, meta, protocols, scenario


@scenario()
async def pending_member_in_completing(env: Env) -> None:
    """An id given out in CompletingRebalance does not disturb; its join does."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B", sync=False)
    c = await env.member("C", group)
    await c.join()
    await a.heartbeat()
    await a.sync(assignments=assignments(a, b))
    await b.sync()
    joining = await c.send_join()
    await env.until_state(group, "PreparingRebalance", 3)
    await a.heartbeat()
    first = await a.send_join()
    await b.join()
    await env.results(first, joining)


@scenario()
async def pending_member_leaves_in_each_state(env: Env) -> None:
    """The leave of an id that was only given out starts a rebalance, but not if Empty."""
    for state in ("empty", "completing", "stable"):
        group = env.group(state)
        if state == "empty":
            a = await env.member("A", group)
        else:
            (a,) = await env.stable_group(group, "A", sync=state == "stable")
        b = await env.member("B", group)
        await b.join()
        await b.leave(2 if state == "stable" else 5)
        await env.describe(b.peer, group)
        await b.join()
        if state != "empty":
            await a.heartbeat()


@scenario()
async def pending_member_leave_fails_waiting_sync(env: Env) -> None:
    """A given-out id that leaves in CompletingRebalance sends waiting syncs back to join."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B", sync=False)
    syncing = await b.send_sync()
    c = await env.member("C", group)
    await c.join()
    await syncing.unanswered(0.3)
    await c.leave()
    await syncing.result()
    await a.sync(assignments=assignments(a, b))


@scenario()
async def pending_members_several(env: Env) -> None:
    """A rebalance waits for every id that was given out."""
    group = env.group()
    (a,) = await env.stable_group(group, "A")
    b, c, d = [await env.member(name, group) for name in "BCD"]
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


@scenario()
async def pending_member_id_twice(env: Env) -> None:
    """Asking for an id twice makes two pending members: a rebalance waits for both."""
    group = env.group()
    (a,) = await env.stable_group(group, "A", rebalance_ms=2000)
    b = await env.member("B", group, rebalance_ms=1000)
    await b.join()
    await b.join(member_id="")
    joining = await a.send_join()
    second = await b.send_join()
    await joining.within(1.7, 4.5)
    await second.result()
    await env.describe(a.peer, group)


@scenario()
async def pending_member_of_empty_group_left(env: Env) -> None:
    """Ids given out before a group became Empty are still good afterwards."""
    group = env.group()
    (a,) = await env.stable_group(group, "A")
    b = await env.member("B", group)
    await b.join()
    await a.leave()
    await env.describe(a.peer, group)
    await b.join()
    await env.describe(a.peer, group)


@scenario()
async def pending_member_waits_in_empty_rebalance(env: Env) -> None:
    """All members leave, one id is out: the rebalance of nobody ends at once."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B")
    c = await env.member("C", group)
    await c.join()
    await a.leave()
    await env.describe(a.peer, group)
    await b.leave()
    await env.settle()
    await env.describe(a.peer, group)
    await c.join()


@scenario()
async def pending_member_after_group_deleted(env: Env) -> None:
    """DeleteGroups forgets ids that were given out."""
    group = env.group()
    a = await env.member("A", group)
    await a.join()
    await a.peer.call("DeleteGroups", 2, groups_names=[group])
    await a.join()
    await a.leave()
    await env.describe(a.peer, group, version=6)


@scenario()
async def pending_member_other_protocols(env: Env) -> None:
    """An id was given out for protocols that nobody else has by the time it is used."""
    group = env.group()
    a = await env.member("A", group, protocols=protocols("x"))
    b = await env.member("B", group, protocols=protocols("y"))
    await a.join()
    await b.join()
    await a.join()
    await b.join()
    await b.join(protocols=protocols("y", "x"), protocol_type="connect")
    joining = await b.send_join(protocols=protocols("y", "x"))
    await env.until_state(group, "PreparingRebalance", 2)
    await a.join()
    await joining.result()


@scenario()
async def pending_member_id_used_by_old_version(env: Env) -> None:
    """An id from v4 used with v3, and with v0; v3 without an id is taken at once."""
    group = env.group()
    a = await env.member("A", group)
    await a.join()
    await a.join(3)
    await a.sync(assignments=assignments(a))
    b = await env.member("B", group)
    await b.join()
    joining = await b.send_join(0)
    await env.until_state(group, "PreparingRebalance", 2)
    await a.join(2)
    await joining.result()


@scenario()
async def join_of_preparing_group_wrong_fields(env: Env) -> None:
    """Refusals during a rebalance: type, protocols, session timeout, made-up ids."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B")
    joining = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    c = await env.member("C", group)
    await c.join(protocol_type="connect")
    await c.join(protocol_type="")
    await c.join(protocols=[])
    await c.join(protocols=protocols("other"))
    await c.join(session_timeout_ms=1)
    await c.join(member_id="made-up")
    await c.join(member_id="made-up", protocols=protocols("other"))
    await b.join(protocols=protocols("other"))
    await b.join(protocol_type="connect")
    await b.join()
    await joining.result()


@scenario()
async def join_of_group_with_members_wrong_fields(env: Env) -> None:
    """The same refusals of a Stable group, of strangers and of its own members."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B")
    c = await env.member("C", group)
    for version in (3, 6, 7, 9):
        await c.join(version, protocol_type="")
        await c.join(version, protocols=[])
        await b.join(version, protocol_type="")
        await b.join(version, protocols=[])
        await b.join(version, session_timeout_ms=1)
    await a.heartbeat()
    await b.heartbeat()


@scenario()
async def join_unknown_group_wrong_fields(env: Env) -> None:
    """A refused join makes an Empty group all the same; a made-up id makes none."""
    a = await env.member("A", env.group("type"), protocol_type="")
    await a.join()
    await env.describe(a.peer, a.group, version=6)
    b = await env.member("B", env.group("id"))
    await b.join(member_id="made-up")
    await env.describe(b.peer, b.group, version=6)
    c = await env.member("C", env.group("session"), session_ms=1)
    await c.join()
    await env.describe(c.peer, c.group, version=6)


@scenario()
async def join_null_client_id(env: Env) -> None:
    """A client without a client id joins, syncs and is described."""
    group = env.group()
    peer = await env.peer("A", None)
    a = Member(peer, group, join_version=3)
    joining = await a.send_join()
    await joining.result(3.0)
    await env.describe(await env.peer("watcher"), group)


@scenario()
async def join_protocols_of_everybody(env: Env) -> None:
    """A newcomer has to support one protocol that all others do, not just some."""
    group = env.group()
    a = await env.member("A", group, protocols=protocols("x", "y"))
    b = await env.member("B", group, protocols=protocols("y", "z"))
    await env.form([a, b])
    c = await env.member("C", group, join_version=3)
    await c.join(protocols=protocols("x"))
    await c.join(protocols=protocols("z", "x"))
    joining = await c.send_join(protocols=protocols("z", "x", "y"))
    await env.until_state(group, "PreparingRebalance", 3)
    first = await a.send_join()
    await b.join()
    await env.results(first, joining)


@scenario()
async def join_protocol_freed_by_leave(env: Env) -> None:
    """When the member with fewer protocols leaves, its restriction goes with it."""
    group = env.group()
    a = await env.member("A", group, protocols=protocols("x", "y"))
    b = await env.member("B", group, protocols=protocols("y"))
    await env.form([a, b])
    c = await env.member("C", group, protocols=protocols("x"), join_version=3)
    await c.join()
    await b.leave()
    joining = await c.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    await a.join()
    await joining.result()
    await env.describe(a.peer, group)


@scenario()
async def protocol_ties(env: Env) -> None:
    """Two members, two common protocols, one vote each: which one is always the same."""
    pairs = [
        ("x", "y"),
        ("y", "x"),
        ("range", "roundrobin"),
        ("roundrobin", "range"),
        ("cooperative-sticky", "range"),
        ("sticky", "cooperative-sticky"),
        ("uniform", "sticky"),
        ("a", "b"),
        ("b", "a"),
    ]
    for number, (one, two) in enumerate(pairs):
        group = env.group(f"{number}")
        a = await env.member("A", group, protocols=protocols(one, two))
        b = await env.member("B", group, protocols=protocols(two, one))
        await env.form([a, b])
        await env.describe(a.peer, group)


@scenario()
async def protocol_votes_of_three(env: Env) -> None:
    """Three protocols with one vote each, and two against one."""
    names = ["range", "roundrobin", "sticky"]
    for shift in range(2):
        group = env.group(f"tie-{shift}")
        orders = [names[i:] + names[:i] for i in (shift, shift + 1, shift + 2)]
        members = [
            await env.member(who, group, protocols=protocols(*order))
            for who, order in zip("ABC", orders, strict=True)
        ]
        await env.form(members)
        await env.describe(members[0].peer, group)


@scenario()
async def protocol_choice_follows_members(env: Env) -> None:
    """The choice is made anew in every generation: a leave can change it."""
    group = env.group()
    a = await env.member("A", group, protocols=protocols("x", "y"))
    b = await env.member("B", group, protocols=protocols("y", "x"))
    c = await env.member("C", group, protocols=protocols("y", "x"))
    await env.form([a, b, c])
    await b.leave()
    await c.leave()
    await a.join()
    await a.sync(protocol_name="y")
    await a.sync(protocol_name="x", assignments=assignments(a))
    await env.describe(a.peer, group)


@scenario()
async def join_subscription_with_owned_partitions(env: Env) -> None:
    """Subscriptions of all versions go to the leader byte by byte."""
    group = env.group()
    members = []
    for version in range(4):
        metadata = wire.consumer_subscription(["t"], version)
        members.append(
            await env.member(
                f"M{version}",
                group,
                protocols=[{"name": "range", "metadata": metadata}],
            )
        )
    await env.form(members)
    leading = await members[0].send_join()
    await env.until_state(group, "PreparingRebalance", 4)
    joins = [await m.send_join() for m in members[1:]]
    await env.results(leading, *joins)


@scenario()
async def heartbeat_of_waiting_join(env: Env) -> None:
    """Heartbeats, syncs and commits of a member whose join waits, on another connection."""
    topic = await env.topic()
    group = env.group()
    a, b = await env.stable_group(group, "A", "B")
    joining = await b.send_join(protocols=protocols("range", metadata=meta("new")))
    await joining.unanswered(0.3)
    twin = Member(await env.peer("B-again"), group)
    twin.member_id, twin.generation = b.member_id, b.generation
    await twin.heartbeat()
    await twin.heartbeat(generation_id=b.generation + 1)
    await twin.sync()
    await twin.commit(topic, 1)
    await a.join()
    await joining.result()


@scenario()
async def generation_counts_on(env: Env) -> None:
    """Generations count on through Empty, and start anew after DeleteGroups."""
    group = env.group()
    (a,) = await env.stable_group(group, "A")
    await a.leave()
    b = await env.member("B", group, join_version=3)
    await b.join()
    await b.leave()
    await b.peer.call("DeleteGroups", 2, groups_names=[group])
    c = await env.member("C", group, join_version=3)
    await c.join()
