"""Sessions in combination; group.min.session.timeout.ms is 100 in this profile."""

from __future__ import annotations

from env import Env, Member, assignments, meta, protocols, scenario

PROFILE = "sessions"


@scenario(PROFILE)
async def session_of_late_static_member(env: Env) -> None:
    """A static member is late in a rebalance, stays, and expires by its session."""
    group = env.group()
    a = await env.member("A", group, instance="i-A", rebalance_ms=1000)
    b = await env.member("B", group, instance="i-B", rebalance_ms=1000, session_ms=3000)
    await env.form([a, b])
    joining = await a.send_join()
    await joining.within(0.7, 2.6)
    await env.describe(a.peer, group)
    await env.sleep(0.3)
    await a.sync(assignments=assignments(a, b))
    await env.until_state(group, "PreparingRebalance", 1)
    await a.heartbeat()
    await a.join()


@scenario(PROFILE)
async def session_of_static_members_all_gone(env: Env) -> None:
    """Static members that no one of rejoins expire one by one: Empty at the end."""
    group = env.group()
    a = await env.member("A", group, instance="i-A", rebalance_ms=500, session_ms=1500)
    b = await env.member("B", group, instance="i-B", rebalance_ms=500, session_ms=2500)
    await env.form([a, b])
    await env.until_state(group, "Empty", 0, limit=8.0)
    await env.describe(a.peer, group)


@scenario(PROFILE)
async def session_after_static_replacement_is_the_old_one(env: Env) -> None:
    """The successor's session is at first as long as its predecessor's."""
    group = env.group()
    a = await env.member("A", group, instance="i-A", session_ms=1500)
    await env.form([a])
    back = await env.member("A2", group, instance="i-A", session_ms=20_000)
    back.protocols = a.protocols
    await back.join()
    await env.sleep(2.5)
    await back.heartbeat()
    await env.describe(back.peer, group)


@scenario(PROFILE)
async def session_after_static_replacement_heartbeat(env: Env) -> None:
    """From its first heartbeat on the successor's own session timeout counts."""
    group = env.group()
    a = await env.member("A", group, instance="i-A", session_ms=1500)
    await env.form([a])
    back = await env.member("A2", group, instance="i-A", session_ms=20_000)
    back.protocols = a.protocols
    await back.join()
    await back.heartbeat()
    await env.sleep(2.5)
    await back.heartbeat()


@scenario(PROFILE)
async def session_of_replaced_id_does_not_matter(env: Env) -> None:
    """The old id's session ends without anybody noticing."""
    group = env.group()
    a = await env.member("A", group, instance="i-A", session_ms=20_000)
    b = await env.member("B", group, instance="i-B", session_ms=1500)
    await env.form([a, b])
    back = await env.member("B2", group, instance="i-B", session_ms=1500)
    back.protocols = b.protocols
    await back.join()
    for _ in range(4):
        await env.settle(0.6)
        await back.heartbeat()
    await a.heartbeat()


@scenario(PROFILE)
async def session_timeout_changed_by_rebalance(env: Env) -> None:
    """A join that causes a rebalance brings its new session timeout into effect."""
    group = env.group()
    a = await env.member("A", group)
    b = await env.member("B", group)
    await env.form([a, b])
    joining = await b.send_join(
        protocols=protocols("range", metadata=meta("new")), session_timeout_ms=1000
    )
    await env.until_state(group, "PreparingRebalance", 2)
    await a.join()
    await joining.result()
    await a.sync(assignments=assignments(a, b))
    await env.until_state(group, "PreparingRebalance", 1)
    await b.heartbeat()
    await a.heartbeat()


@scenario(PROFILE)
async def session_timeout_longer_by_rebalance(env: Env) -> None:
    """A leader's join brings a longer session timeout into effect."""
    group = env.group()
    (a,) = await env.stable_group(group, "A", session_ms=1000)
    await a.join(session_timeout_ms=20_000)
    await a.sync(assignments=assignments(a))
    await env.sleep(2.0)
    await a.heartbeat()


@scenario(PROFILE)
async def session_leader_expires_in_stable(env: Env) -> None:
    """The leader goes silent in Stable: another member leads the next generation."""
    group = env.group()
    a = await env.member("A", group, session_ms=1000)
    b = await env.member("B", group)
    await env.form([a, b])
    await env.until_state(group, "PreparingRebalance", 1)
    await b.heartbeat()
    await b.join()
    await b.sync(assignments=assignments(b))
    await a.heartbeat()


@scenario(PROFILE)
async def session_expires_in_completing_follower(env: Env) -> None:
    """A silent follower expires in CompletingRebalance: the leader's sync fails with 27."""
    group = env.group()
    a = await env.member("A", group)
    b = await env.member("B", group, session_ms=1000)
    await env.form([a, b], sync=False)
    await env.until_state(group, "PreparingRebalance", 1)
    await a.sync(assignments=assignments(a, b))
    await a.join()


@scenario(PROFILE)
async def session_not_kept_alive_by_refused_commits(env: Env) -> None:
    """Commits that are refused, also those in CompletingRebalance, are no sign of life."""
    topic = await env.topic()
    group = env.group()
    a = await env.member("A", group)
    b = await env.member("B", group, session_ms=1500)
    await env.form([a, b], sync=False)
    env.note("B commits for 2.4 s")
    with env.transcript.muted():
        for _ in range(8):
            await b.commit(topic, 1)
            await env.settle(0.3)
    await b.commit(topic, 1)
    await a.heartbeat()


@scenario(PROFILE)
async def session_not_kept_alive_by_join_that_is_repeated(env: Env) -> None:
    """A follower's unchanged join in Stable is no sign of life."""
    group = env.group()
    a = await env.member("A", group)
    b = await env.member("B", group, session_ms=1500)
    await env.form([a, b])
    env.note("B joins for 2.4 s")
    with env.transcript.muted():
        for _ in range(8):
            if b.member_id:
                await b.join()
            await env.settle(0.3)
    await b.join()
    await a.heartbeat()


@scenario(PROFILE)
async def session_kept_alive_by_commits_while_preparing(env: Env) -> None:
    """Commits in PreparingRebalance are a sign of life."""
    topic = await env.topic()
    group = env.group()
    a = await env.member("A", group)
    b = await env.member("B", group, session_ms=1500)
    await env.form([a, b])
    joining = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    env.note("B commits for 2.4 s")
    with env.transcript.muted():
        for _ in range(8):
            await b.commit(topic, 1)
            await env.settle(0.3)
    await b.commit(topic, 2)
    await joining.unanswered(0.1)
    await b.join()
    await joining.result()


@scenario(PROFILE)
async def session_pending_member_expires_in_stable(env: Env) -> None:
    """A given-out id that expires in Stable and CompletingRebalance disturbs nobody."""
    for state in ("completing", "stable"):
        group = env.group(state)
        a, b = await env.stable_group(group, "A", "B", sync=state == "stable")
        c = await env.member("C", group, session_ms=300)
        await c.join()
        await env.settle(0.8)
        await c.join()
        await a.heartbeat()
        if state == "completing":
            await env.sync_all([a, b])
        await a.heartbeat()


@scenario(PROFILE)
async def session_pending_member_expires_after_last_leave(env: Env) -> None:
    """An Empty group's pending id expires; the group stays."""
    group = env.group()
    (a,) = await env.stable_group(group, "A")
    b = await env.member("B", group, session_ms=300)
    await b.join()
    await a.leave()
    await env.settle(0.8)
    await b.join()
    await env.describe(a.peer, group, version=6)


@scenario(PROFILE)
async def session_of_pending_member_that_joins(env: Env) -> None:
    """Once it joins, the session of its id does not end while its join waits."""
    group = env.group()
    (a,) = await env.stable_group(group, "A")
    b = await env.member("B", group, session_ms=500)
    await b.join()
    joining = await b.send_join()
    await joining.unanswered(1.2)
    await a.join()
    await joining.result()


@scenario(PROFILE)
async def session_of_late_joined_member_with_waiting_sync(env: Env) -> None:
    """A sync waits longer than its member's session, then fails: the session starts anew."""
    group = env.group()
    a = await env.member("A", group)
    b = await env.member("B", group, session_ms=800)
    await env.form([a, b], sync=False)
    syncing = await b.send_sync()
    await syncing.unanswered(1.5)
    await a.leave()
    await syncing.result()
    await b.heartbeat()
    await env.sleep(1.5)
    await b.heartbeat()
    await env.describe(b.peer, group)


@scenario(PROFILE)
async def session_expires_of_member_that_everyone_waits_for(env: Env) -> None:
    """Two are missing; one leaves, the other one expires: that completes the join phase."""
    group = env.group()
    a = await env.member("A", group)
    b = await env.member("B", group)
    c = await env.member("C", group, session_ms=1500)
    await env.form([a, b, c])
    joining = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 3)
    await b.leave()
    await joining.within(0.3, 4.0)
    await c.heartbeat()


@scenario(PROFILE)
async def session_static_leader_expires_while_others_wait(env: Env) -> None:
    """A static leader does not rejoin, and its session ends the wait."""
    group = env.group()
    a = await env.member("A", group, instance="i-A", session_ms=1500)
    b = await env.member("B", group, instance="i-B")
    await env.form([a, b])
    joining = await b.send_join(protocols=protocols("range", metadata=meta("new")))
    await joining.within(0.3, 4.0)
    back = Member(await env.peer("A2"), group, instance="i-A")
    await back.join(9, member_id=a.member_id)
