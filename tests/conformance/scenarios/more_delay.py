"""group.initial.rebalance.delay.ms (3000 in this profile): who comes and goes meanwhile."""

from __future__ import annotations

from env import Env, Member, meta, protocols, scenario

PROFILE = "delay3s"


async def _leave_elsewhere(env: Env, member: Member) -> None:
    """A leave on a connection of its own, as the member's waits."""
    other = Member(await env.peer(f"{member.name}-leaves"), member.group)
    other.member_id, other.instance = member.member_id, member.instance
    await other.leave()


@scenario(PROFILE)
async def delay_first_leaves_second_stays(env: Env) -> None:
    """The first member leaves within the window: the second one waits for two windows."""
    group = env.group()
    a = await env.member("A", group)
    b = await env.member("B", group)
    await a.join()
    await b.join()
    first = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 1)
    second = await b.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    await _leave_elsewhere(env, a)
    await first.result()
    await second.within(5.4, 8.5)


@scenario(PROFILE)
async def delay_leave_does_not_extend(env: Env) -> None:
    """A pending member that leaves within the window neither ends nor extends it."""
    group = env.group()
    a = await env.member("A", group)
    b = await env.member("B", group)
    await a.join()
    await b.join()
    joining = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 1)
    await b.leave()
    await joining.within(2.7, 5.0)


@scenario(PROFILE)
async def delay_all_leave_then_another_joins(env: Env) -> None:
    """All leave within the window; who joins before it is over waits for another one."""
    group = env.group()
    a = await env.member("A", group)
    await a.join()
    first = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 1)
    await _leave_elsewhere(env, a)
    await first.result()
    b = await env.member("B", group, join_version=3)
    await b.join(protocol_type="connect")
    joining = await b.send_join()
    await joining.within(5.0, 8.5)


@scenario(PROFILE)
async def delay_other_protocols_refused_within_window(env: Env) -> None:
    """Within the window newcomers have to fit to those who wait."""
    group = env.group()
    a = await env.member("A", group, join_version=3)
    joining = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 1)
    b = await env.member("B", group, join_version=3)
    await b.join(protocol_type="connect")
    await b.join(protocols=protocols("other"))
    await b.join(4, protocols=protocols("other"))
    await joining.within(2.7, 5.0)


@scenario(PROFILE)
async def delay_static_member_replaced_within_window(env: Env) -> None:
    """A replacement within the window fences the waiting join and is no arrival."""
    group = env.group()
    a = await env.member("A", group, instance="i-A")
    first = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 1)
    back = await env.member("A2", group, instance="i-A")
    again = await back.send_join(protocols=protocols("other", metadata=meta("x")))
    await again.result()
    again = await back.send_join()
    await first.result()
    await again.within(2.0, 4.9)


@scenario(PROFILE)
async def delay_commits_within_window(env: Env) -> None:
    """Commits and fetches within the window: simple ones are refused, as there is a member."""
    topic = await env.topic()
    group = env.group()
    a = await env.member("A", group, join_version=3)
    joining = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 1)
    watcher = Member(await env.peer("W"), group)
    await watcher.commit(topic, 1)
    await watcher.commit(topic, 1, generation_id_or_member_epoch=0)
    await watcher.peer.call("DeleteGroups", 2, groups_names=[group])
    await watcher.peer.call(
        "OffsetDelete",
        0,
        group_id=group,
        topics=[{"name": topic, "partitions": [{"partition_index": 0}]}],
    )
    await joining.result()


@scenario(PROFILE)
async def delay_pending_member_expires_within_window(env: Env) -> None:
    """A pending member that expires when all others have joined ends the windows early."""
    group = env.group()
    a = await env.member("A", group, join_version=3, session_ms=6000)
    b = await env.member("B", group, session_ms=6000)
    c = await env.member("C", group, join_version=3)
    d = await env.member("D", group, join_version=3)
    first = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 1)
    await env.sleep(1.5)
    await b.join()
    second = await c.send_join()
    await env.sleep(3.5)
    third = await d.send_join()
    await first.within(7.0, 8.7)
    await env.results(second, third)


@scenario(PROFILE)
async def delay_waiting_member_leaves_with_others_in(env: Env) -> None:
    """A leave within a window does not end it, though all who remain have joined."""
    group = env.group()
    a = await env.member("A", group)
    b = await env.member("B", group)
    await a.join()
    await b.join()
    first = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 1)
    second = await b.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    await env.sleep(1.0)
    await _leave_elsewhere(env, b)
    await second.result()
    await first.within(5.4, 8.5)


@scenario(PROFILE)
async def delay_not_after_member_was_removed_by_sync(env: Env) -> None:
    """The sync timeout empties the group: the next member waits for the window again."""
    group = env.group()
    a = await env.member("A", group, join_version=3, rebalance_ms=1000)
    await a.join()
    await env.until_state(group, "Empty", 0)
    b = await env.member("B", group, join_version=3, rebalance_ms=1000)
    joining = await b.send_join()
    await joining.within(2.7, 5.0)


@scenario(PROFILE)
async def delay_offset_delete_within_window(env: Env) -> None:
    """Within a window of consumers: which subscriptions are known of the last life."""
    topic = await env.topic()
    watcher = await env.peer("W")
    for before in ("none", "consumer", "connect"):
        group = env.group(before)
        await watcher.call(
            "OffsetCommit",
            9,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": 0,
                            "committed_offset": 1,
                            "committed_metadata": "",
                        }
                    ],
                }
            ],
        )
        if before != "none":
            a = await env.member("A", group, protocol_type=before, join_version=3)
            await a.join()
            await a.leave()
            await env.until_state(group, "Empty", 0)
        b = await env.member("B", group, join_version=3)
        await b.send_join()
        await env.until_state(group, "PreparingRebalance", 1)
        await watcher.call(
            "OffsetDelete",
            0,
            group_id=group,
            topics=[{"name": topic, "partitions": [{"partition_index": 0}]}],
        )
