"""Who leads, who leaves and who is late, in each state."""

from __future__ import annotations

from typing import Any

from env import Env, Member, Pending, assignments, meta, protocols, scenario


def _identity(member_id: str, instance: str | None = None) -> dict[str, Any]:
    return {"member_id": member_id, "group_instance_id": instance}


async def _again(env: Env, member: Member) -> Member:
    """The same member on a second connection, for while the first one waits."""
    twin = Member(await env.peer(f"{member.name}-again"), member.group)
    twin.member_id, twin.generation = member.member_id, member.generation
    twin.instance, twin.protocols = member.instance, member.protocols
    twin.protocol_name = member.protocol_name
    return twin


async def _joined(env: Env, members: list[Member], joins: list[Pending]) -> None:
    """Records join results without telling who leads, as brokers may choose."""
    with env.transcript.muted():
        outcomes = await env.results(*joins)
    env.note(
        f"{' and '.join(m.name for m in members)} join",
        error_codes=[o["error_code"] for o in outcomes],
        generations=[o["generation_id"] for o in outcomes],
        leaders=sum(m.is_leader for m in members),
        known_to_leader=[len(o["members"]) for o in outcomes if o["members"]],
    )


@scenario()
async def leader_leaves_in_completing(env: Env) -> None:
    """The leader leaves before it syncs: waiting syncs fail with 27, another one leads."""
    group = env.group()
    a, b, c = await env.stable_group(group, "A", "B", "C", sync=False)
    first, second = await b.send_sync(), await c.send_sync()
    await first.unanswered(0.3)
    await a.leave()
    await env.results(first, second)
    await b.heartbeat()
    await b.sync()
    joins = [await b.send_join()]
    await env.settle()
    joins.append(await c.send_join())
    await _joined(env, [b, c], joins)
    await a.heartbeat()


@scenario()
async def leader_leaves_while_joining(env: Env) -> None:
    """The leader leaves while its join waits: that join fails, the others go on."""
    group = env.group()
    a, b, c = await env.stable_group(group, "A", "B", "C")
    joining = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 3)
    await (await _again(env, a)).leave()
    await joining.result()
    joins = [await b.send_join()]
    await joins[0].unanswered(0.3)
    joins.append(await c.send_join())
    await _joined(env, [b, c], joins)


@scenario()
async def leader_leaves_two_members(env: Env) -> None:
    """Of two members the leader leaves: the other one leads, and is alone."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B")
    await a.leave()
    await b.sync()
    await b.join()
    await b.sync(assignments=assignments(b))
    await env.describe(b.peer, group)


@scenario()
async def leader_leaves_with_all_joined(env: Env) -> None:
    """Everybody but the leader has joined: its leave completes the rebalance."""
    group = env.group()
    a, b, c = await env.stable_group(group, "A", "B", "C")
    new = protocols("range", metadata=meta("new"))
    joins = [await b.send_join(protocols=new)]
    await env.until_state(group, "PreparingRebalance", 3)
    joins.append(await c.send_join())
    await joins[1].unanswered(0.3)
    await a.leave()
    await _joined(env, [b, c], joins)


@scenario()
async def all_members_leave_one_by_one(env: Env) -> None:
    """Leaves in Stable, PreparingRebalance and again: Empty costs one generation."""
    group = env.group()
    a, b, c = await env.stable_group(group, "A", "B", "C")
    await b.leave()
    await env.describe(a.peer, group)
    await a.leave()
    await env.describe(a.peer, group)
    await c.leave()
    await env.describe(a.peer, group)
    d = await env.member("D", group)
    await d.join()
    await d.join()


@scenario()
async def all_members_leave_in_completing(env: Env) -> None:
    """The last leave in CompletingRebalance makes the group Empty."""
    group = env.group()
    (a,) = await env.stable_group(group, "A", sync=False)
    await a.leave()
    await env.describe(a.peer, group)
    await a.sync()
    b = await env.member("B", group, join_version=3)
    await b.join()


@scenario()
async def leave_batch_of_all(env: Env) -> None:
    """All members at once: straight to Empty, one generation later."""
    group = env.group()
    a, b, c = await env.stable_group(group, "A", "B", "C")
    await a.leave(members=[_identity(m.member_id) for m in (a, b, c)])
    await env.describe(a.peer, group)
    d = await env.member("D", group, join_version=3)
    await d.join()


@scenario()
async def leave_batch_with_leader_pending_and_strangers(env: Env) -> None:
    """One request: leader, static member by instance id, pending member, strangers."""
    group = env.group()
    a = await env.member("A", group)
    b = await env.member("B", group, instance="i-B")
    c = await env.member("C", group)
    await env.form([a, b, c])
    d = await env.member("D", group)
    await d.join()
    watcher = await env.peer("watcher")
    await watcher.call(
        "LeaveGroup",
        5,
        group_id=group,
        members=[
            _identity(a.member_id),
            _identity("", "i-B"),
            _identity(d.member_id),
            _identity("made-up"),
            _identity("", "i-none"),
            _identity("made-up", "i-B"),
            _identity("made-up", "i-none"),
            _identity("", None),
        ],
    )
    await env.describe(watcher, group)
    await c.heartbeat()
    await c.join()
    await d.join()


@scenario()
async def leave_batch_of_strangers_only(env: Env) -> None:
    """A batch in which nobody leaves starts no rebalance."""
    group = env.group()
    a = await env.member("A", group, instance="i-A")
    b = await env.member("B", group)
    await env.form([a, b])
    watcher = await env.peer("watcher")
    for version in (3, 4, 5):
        await watcher.call(
            "LeaveGroup",
            version,
            group_id=group,
            members=[
                _identity("made-up"),
                _identity("made-up", "i-A"),
                _identity(b.member_id, "i-A"),
                _identity(b.member_id, "i-B"),
                _identity("", ""),
            ],
        )
    await a.heartbeat()
    await b.heartbeat()


@scenario()
async def leave_static_member_twice_in_batch(env: Env) -> None:
    """The same static member by instance id and by member id in one request."""
    group = env.group()
    a = await env.member("A", group, instance="i-A")
    b = await env.member("B", group, instance="i-B")
    await env.form([a, b])
    await a.leave(
        members=[
            _identity("", "i-B"),
            _identity(b.member_id, "i-B"),
            _identity(b.member_id),
            _identity("", "i-B"),
        ]
    )
    await a.heartbeat()
    await a.join()


@scenario()
async def leave_batch_completes_waiting_join(env: Env) -> None:
    """The batch takes out all who are missing: the waiting join completes."""
    group = env.group()
    a, b, c = await env.stable_group(group, "A", "B", "C")
    joining = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 3)
    watcher = await env.peer("watcher")
    await watcher.call(
        "LeaveGroup",
        4,
        group_id=group,
        members=[_identity(b.member_id), _identity(c.member_id)],
    )
    await joining.result()


@scenario()
async def leave_all_while_joining(env: Env) -> None:
    """All leave in a batch while one of them waits: its join fails, the group is Empty."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B")
    joining = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    watcher = await env.peer("watcher")
    await watcher.call(
        "LeaveGroup",
        3,
        group_id=group,
        members=[_identity(a.member_id), _identity(b.member_id)],
    )
    await joining.result()
    await env.describe(watcher, group)


@scenario()
async def leader_rejoins_while_syncs_wait(env: Env) -> None:
    """The leader's unchanged join in CompletingRebalance changes nothing for waiting syncs."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B", sync=False)
    syncing = await b.send_sync()
    await syncing.unanswered(0.3)
    for version in (3, 5, 9):
        await a.join(version)
    await syncing.unanswered(0.3)
    await a.sync(assignments=assignments(a, b))
    await syncing.result()
    await a.heartbeat()


@scenario()
async def follower_rejoins_after_sync(env: Env) -> None:
    """A follower's unchanged join in CompletingRebalance, then in Stable before its sync."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B", sync=False)
    await b.join()
    await b.join(4)
    await a.sync(assignments=assignments(a, b))
    await b.join()
    await b.sync()
    await b.heartbeat()
    await a.heartbeat()


@scenario()
async def new_timeouts_in_completing(env: Env) -> None:
    """Other timeouts with the same metadata in CompletingRebalance are not noticed."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B", sync=False, rebalance_ms=1500)
    syncing = await b.send_sync()
    await _join_again_with_longer_timeout(env, b)
    await syncing.within(1.0, 4.0)
    await b.heartbeat()
    await a.heartbeat()


async def _join_again_with_longer_timeout(env: Env, member: Member) -> None:
    """The same join with a longer rebalance timeout, on another connection."""
    twin = await _again(env, member)
    await twin.join(rebalance_timeout_ms=60_000)


@scenario()
async def sync_timeout_leader_missing(env: Env) -> None:
    """The leader never syncs: it is removed, waiting syncs fail with 27, a follower leads."""
    group = env.group()
    a, b, c = await env.stable_group(
        group, "A", "B", "C", sync=False, rebalance_ms=1500
    )
    first, second = await b.send_sync(), await c.send_sync()
    await first.within(0.8, 4.0)
    await second.result()
    await a.heartbeat()
    joins = [await b.send_join()]
    await joins[0].unanswered(0.2)
    joins.append(await c.send_join())
    await _joined(env, [b, c], joins)


@scenario()
async def sync_timeout_nobody_syncs(env: Env) -> None:
    """Nobody syncs: all are removed and the group is Empty one generation later."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B", sync=False, rebalance_ms=1000)
    await env.until_state(group, "Empty", 0)
    await env.describe(a.peer, group)
    await a.heartbeat()
    await b.sync()
    c = await env.member("C", group, join_version=3)
    await c.join()


@scenario()
async def sync_timeout_removes_static_members(env: Env) -> None:
    """The sync timeout removes static members, too, and frees their instance ids."""
    group = env.group()
    a = await env.member("A", group, rebalance_ms=1200)
    b = await env.member("B", group, instance="i-B", rebalance_ms=1200)
    await env.form([a, b], sync=False)
    await a.sync(assignments=assignments(a, b))
    await env.until_state(group, "PreparingRebalance", 1)
    await a.heartbeat()
    await b.heartbeat()
    await b.join()
    await a.join()


@scenario()
async def sync_timeout_in_stable(env: Env) -> None:
    """Members that synced before the leader, and heartbeats of the one that never does."""
    group = env.group()
    a, b, c = await env.stable_group(
        group, "A", "B", "C", sync=False, rebalance_ms=2000
    )
    syncing = await b.send_sync()
    await a.sync(assignments=assignments(a, b, c))
    await syncing.result()
    await env.describe(a.peer, group)
    for _ in range(2):
        await c.heartbeat()
    await env.until_state(group, "PreparingRebalance", 2)
    await c.heartbeat()
    await b.heartbeat()
    await env.describe(a.peer, group)


@scenario()
async def sync_timeout_not_after_late_sync(env: Env) -> None:
    """A follower that fetches its assignment late, but in time, ends the wait."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B", sync=False, rebalance_ms=1500)
    await a.sync(assignments=assignments(a, b))
    await env.settle(0.5)
    await b.sync()
    await env.sleep(1.8)
    await a.heartbeat()
    await b.heartbeat()


@scenario()
async def sync_timeout_not_ended_by_wrong_sync(env: Env) -> None:
    """Syncs with a wrong generation or protocol do not count as synced."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B", sync=False, rebalance_ms=1500)
    await a.sync(assignments=assignments(a, b))
    await b.sync(generation_id=1)
    await b.sync(protocol_name="other")
    await b.sync(protocol_type="connect")
    await env.until_state(group, "PreparingRebalance", 1)
    await b.heartbeat()
    await a.heartbeat()


@scenario()
async def sync_same_member_assigned_twice(env: Env) -> None:
    """Two assignments for one member: the last one counts."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B", sync=False)
    plan = [
        {"member_id": b.member_id, "assignment": b"first"},
        {"member_id": a.member_id, "assignment": b"of A"},
        {"member_id": b.member_id, "assignment": b"second"},
        {"member_id": "made-up", "assignment": b"nobody's"},
    ]
    await a.sync(assignments=plan)
    await b.sync()
    await env.describe(a.peer, group)


@scenario()
async def assignments_while_preparing(env: Env) -> None:
    """Assignments of the old generation stay until members sync or a generation fails."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B")
    joining = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    await env.describe(b.peer, group)
    await b.join()
    await joining.result()
    await env.describe(b.peer, group)
    await b.leave()
    await env.describe(b.peer, group)
    await a.join()
    await env.describe(b.peer, group)
    await a.sync()
    await env.describe(b.peer, group)


@scenario()
async def rebalance_timeout_twice(env: Env) -> None:
    """Two members are late, one after the other, in two rebalances in a row."""
    group = env.group()
    a, b, c = await env.stable_group(group, "A", "B", "C", rebalance_ms=1200)
    joining = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 3)
    second = await b.send_join()
    await joining.within(0.8, 4.0)
    await second.result()
    joining = await a.send_join(protocols=protocols("range", metadata=meta("new")))
    await joining.within(0.8, 4.0)
    await b.heartbeat()
    await c.heartbeat()


@scenario()
async def rebalance_timeout_changed_by_waiting_join(env: Env) -> None:
    """The wait is as long as the timeouts were when it began; later joins do not change it."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B", rebalance_ms=1500)
    joining = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    c = await env.member("C", group, join_version=3, rebalance_ms=20_000)
    newcomer = await c.send_join()
    await joining.within(1.0, 4.0)
    await newcomer.result()
    await b.heartbeat()


@scenario()
async def rebalance_timeout_of_first_rejoin_counts(env: Env) -> None:
    """The member whose join starts the rebalance brings its new timeout along."""
    group = env.group()
    a, b = await env.stable_group(group, "A", "B", rebalance_ms=1000)
    joining = await a.send_join(rebalance_timeout_ms=2500)
    await joining.within(2.2, 5.0)
    await b.heartbeat()
