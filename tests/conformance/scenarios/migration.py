"""Groups that change their protocol while members are in them (KIP-848)."""

from __future__ import annotations

from tests.conformance.consumer import (
    consumer,
    describe,
    enter,
    known_topic,
)
from tests.conformance.consumer_protocol import consumer_assignment
from tests.conformance.env import Env
from tests.conformance.member import commit_topic
from tests.conformance.mixed import classic_group, join_twice, offer
from tests.conformance.steps import wanted


async def migration_upgrade(env: Env) -> None:
    """A consumer joins a classic group, whose members leave one after the other."""
    topic = await known_topic(env, partitions=3)
    a, b = await classic_group(env, topic, {"A": [0, 1], "B": [2]})
    c = await consumer(env, "C", topic)
    await c.join()
    await a.heartbeat()
    await b.heartbeat()
    await describe(c)
    await a.leave()
    await b.leave()
    await c.settle()
    await c.show()
    await describe(c)
    await env.describe(c.peer, version=6)


async def migration_rebalances_classic_members(env: Env) -> None:
    """They learn of it by heartbeats, and join and sync without a leader."""
    topic = await known_topic(env, partitions=2)
    (a,) = await classic_group(env, topic, {"A": [0, 1]})
    c = await consumer(env, "C", topic)
    await c.join()
    await a.heartbeat()
    await a.sync()
    await a.join()
    await a.heartbeat()
    await c.beat()
    await a.sync()
    await a.sync(protocol_type="consumer", protocol_name="range")
    await a.heartbeat()
    await c.acknowledge()
    await describe(c)


async def migration_cooperative_member(env: Env) -> None:
    """A classic member that owns partitions revokes some, and joins again."""
    topic = await known_topic(env, partitions=2)
    (a,) = await classic_group(env, topic, {"A": [0, 1]})
    c = await consumer(env, "C", topic)
    await enter(env, c)
    await a.join(protocols=offer(topic, owned={topic: [0, 1]}))
    await a.heartbeat()
    await a.sync()
    await c.beat()
    await a.join(protocols=offer(topic, owned={topic: [0]}))
    await a.heartbeat()
    await a.sync()
    await c.beat()
    await describe(c)


async def migration_classic_member_waits(env: Env) -> None:
    """Its heartbeats are fine until the partitions that it waits for are free."""
    topic = await known_topic(env, partitions=2)
    c = await consumer(env, "C", topic)
    await enter(env, c)
    await c.settle()
    a = await env.member("A", protocols=offer(topic))
    await join_twice(env, a)
    await a.sync()
    await a.heartbeat()
    await c.beat()
    await a.heartbeat()
    await c.acknowledge()
    await a.heartbeat()
    await a.join()
    await a.sync()
    await a.heartbeat()


async def migration_downgrade(env: Env) -> None:
    """The last consumer leaves: the classic members rebalance."""
    topic = await known_topic(env, partitions=2)
    c = await consumer(env, "C", topic)
    await c.join()
    await c.acknowledge()
    a = await env.member("A", protocols=offer(topic))
    await a.join()
    await a.join()
    await a.sync()
    await c.beat()
    await describe(c)
    await c.leave()
    await env.describe(c.peer)
    await describe(c)
    await a.heartbeat()
    await a.join()
    await env.describe(c.peer)


async def migration_there_and_back(env: Env) -> None:
    """Offsets and generations go on; a consumer comes and goes."""
    topic = await known_topic(env, partitions=2)
    (a,) = await classic_group(env, topic, {"A": [0, 1]})
    await a.commit(topic, 3)
    c = await consumer(env, "C", topic)
    await c.join()
    await c.leave()
    await a.heartbeat()
    await a.join()
    everything = {
        "member_id": a.member_id,
        "assignment": consumer_assignment({topic: [0, 1]}),
    }
    await a.sync(assignments=[everything])
    await env.describe(a.peer)
    await c.join()
    await describe(c)
    group = {"group_id": env.group(), "topics": [wanted(topic, 0)]}
    await c.peer.call("OffsetFetch", 9, groups=[group])


async def migration_leave_group_for_consumers(env: Env) -> None:
    """LeaveGroup removes consumers, too; the last one of them makes it classic."""
    topic = await known_topic(env, partitions=2)
    (a,) = await classic_group(env, topic, {"A": [0, 1]}, static=True)
    c = await consumer(env, "C", topic)
    d = await consumer(env, "D", topic, instance_id="i-D")
    await enter(env, c, d)
    members = [
        {"member_id": "made-up"},
        {"member_id": c.member_id, "group_instance_id": "i-D"},
        {"member_id": "", "group_instance_id": "i-X"},
        {"member_id": "", "group_instance_id": "i-D"},
        {"member_id": c.member_id},
    ]
    await c.peer.call("LeaveGroup", 5, group_id=env.group(), members=members)
    await env.describe(c.peer)
    await a.heartbeat()
    await c.beat()


async def migration_static_member_upgraded(env: Env) -> None:
    """A static member comes back as a consumer, with its partitions."""
    topic = await known_topic(env, partitions=2)
    a, b = await classic_group(env, topic, {"A": [0], "B": [1]}, static=True)
    c = await consumer(env, "C", topic, instance_id="i-A")
    await c.join()
    await a.heartbeat()
    await a.join()
    await b.heartbeat()
    await describe(c)


async def migration_static_member_downgraded(env: Env) -> None:
    """The only consumer comes back as a classic member: nobody has to rebalance."""
    topic = await known_topic(env, partitions=2)
    _, b = await classic_group(env, topic, {"A": [0], "B": [1]}, static=True)
    c = await consumer(env, "C", topic, instance_id="i-A")
    await enter(env, c)
    d = await env.member("D", instance="i-A", protocols=offer(topic))
    await d.join()
    await env.describe(b.peer)
    await d.sync()
    await d.heartbeat()
    await b.heartbeat()
    await c.beat()


async def migration_static_member_downgraded_with_other_topics(env: Env) -> None:
    """Then the others rebalance, and the sender's generation is void."""
    topic = await known_topic(env, partitions=2)
    other = await known_topic(env, "other")
    _, b = await classic_group(env, topic, {"A": [0], "B": [1]}, static=True)
    c = await consumer(env, "C", topic, instance_id="i-A")
    await enter(env, c)
    d = await env.member("D", instance="i-A", protocols=offer(topic, other))
    await d.join()
    await env.describe(b.peer)
    await d.heartbeat()
    await b.heartbeat()


async def migration_static_classic_member_returns(env: Env) -> None:
    """It gets a new id and keeps its partitions; the old id is fenced."""
    topic = await known_topic(env, partitions=2)
    a, _ = await classic_group(env, topic, {"A": [0], "B": [1]}, static=True)
    c = await consumer(env, "C", topic, instance_id="i-B")
    await enter(env, c)
    d = await env.successor(a, "D")
    await d.join()
    await a.heartbeat()
    await a.sync()
    await a.join()
    await d.sync()
    await d.heartbeat()
    await describe(c)


async def migration_classic_requests_are_checked(env: Env) -> None:
    """A wrong generation, a wrong protocol, an unknown member, a consumer's id."""
    topic = await known_topic(env, partitions=2)
    (a,) = await classic_group(env, topic, {"A": [0, 1]})
    c = await consumer(env, "C", topic)
    await enter(env, c)
    with env.transcript.muted():
        await a.join()
    await a.heartbeat(generation_id=99)
    await a.heartbeat(member_id="made-up")
    await a.heartbeat(group_instance_id="made-up")
    await a.heartbeat(member_id=c.member_id, generation_id=c.epoch)
    await a.sync(generation_id=99)
    await a.sync(member_id="made-up")
    await a.sync(member_id=c.member_id, generation_id=c.epoch)
    await a.sync(protocol_name="other")
    await a.sync(protocol_type="connect")
    await a.sync()
    await a.heartbeat()


async def migration_classic_joins_are_checked(env: Env) -> None:
    """Another type, no protocols, others than the members', session timeouts."""
    topic = await known_topic(env)
    c = await consumer(env, "C", topic)
    await enter(env, c)
    connect = await env.member("connect", protocol_type="connect")
    await connect.join()
    none = await env.member("none", protocols=offer(topic))
    await none.join(protocols=[])
    short = await env.member("short", protocols=offer(topic), session_ms=1)
    await short.join()
    static = await env.member("static", instance="i", protocols=offer(topic))
    await static.join(member_id="made-up")
    a = await env.member("A", protocols=offer(topic))
    await join_twice(env, a)
    b = await env.member("B")
    await b.join(protocols=[{**offer(topic)[0], "name": "other"}])
    await describe(c)


async def migration_commits(env: Env) -> None:
    """Classic members commit by generation, also older ones; the others by epoch."""
    topic = await known_topic(env, partitions=2)
    (a,) = await classic_group(env, topic, {"A": [0, 1]})
    c = await consumer(env, "C", topic)
    await enter(env, c)
    await a.commit(topic, 2)
    with env.transcript.muted():
        await a.join()
        await a.sync()
    await c.settle()
    for version in (2, 8, 9):
        await a.commit(topic, 3, version)
        for generation in (a.generation - 1, a.generation + 1):
            await a.commit(topic, 4, version, generation_id_or_member_epoch=generation)
    for version in (8, 9):
        await env.commit_offsets(
            c.peer,
            commit_topic(topic, 5),
            version=version,
            member_id=c.member_id,
            generation_id_or_member_epoch=c.epoch,
        )
    group = {"group_id": env.group(), "topics": [wanted(topic, 0, 1)]}
    await c.peer.call("OffsetFetch", 9, groups=[group])


async def migration_during_a_rebalance(env: Env) -> None:
    """A waiting join is answered REBALANCE_IN_PROGRESS, and comes again."""
    topic = await known_topic(env, partitions=2)
    (a,) = await classic_group(env, topic, {"A": [0, 1]})
    b = await env.newcomer("B", protocols=offer(topic))
    waiting = await env.rebalance(b, 2)
    c = await consumer(env, "C", topic)
    await c.join()
    await waiting.result()
    await a.heartbeat()
    await b.heartbeat()


async def migration_during_a_sync_phase(env: Env) -> None:
    """A waiting sync is answered in the same way; the members have no partitions."""
    topic = await known_topic(env, partitions=2)
    members = [await env.member(n, protocols=offer(topic)) for n in "AB"]
    await env.form(members, sync=False)
    follower = next(m for m in members if not m.is_leader)
    waiting = await follower.send_sync()
    await env.settle()
    # Which member gets which partition depends on their random ids.
    other = await known_topic(env, "other")
    c = await consumer(env, "C", other)
    await c.join()
    await waiting.result()
    await follower.heartbeat()
    await follower.sync()


async def migration_refused(env: Env) -> None:
    """Groups of another type, and with assignments that nobody can read, stay."""
    topic = await known_topic(env)
    (a,) = await env.stable_group("A", protocol_type="connect")
    c = await consumer(env, "C", topic)
    await c.join()
    await a.heartbeat()
    await env.describe(a.peer)
    other = env.group("opaque")
    b = await env.member("B", other, protocols=offer(topic))
    await env.form([b])
    d = await consumer(env, "D", topic, group=other)
    await d.join()
    await b.heartbeat()


async def migration_of_empty_groups(env: Env) -> None:
    """The first member of the other protocol makes the group its own."""
    topic = await known_topic(env)
    c = await consumer(env, "C", topic)
    await c.join()
    await c.leave()
    a = await env.member("A", protocols=offer(topic))
    await a.join()
    await a.join()
    await a.sync()
    await env.describe(a.peer)
    await describe(c)
    await a.leave()
    await c.join()
    await env.describe(a.peer)
    await describe(c)


async def migration_member_types(env: Env) -> None:
    """ConsumerGroupDescribe v1 tells classic members from others."""
    topic = await known_topic(env, partitions=2)
    await classic_group(env, topic, {"A": [0, 1]})
    c = await consumer(env, "C", topic)
    await enter(env, c)
    for version in (0, 1):
        await describe(c, version)
    for version in (5, 6):
        await env.describe(c.peer, version=version)
