"""Pairs of requests that are sent together on two connections.

Which one the broker handles first, and how far it has got by then, decides how they
end. The golden has every end that Kafka was seen to give.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from tests.conformance.env import Env
from tests.conformance.member import Member, assignments, commit_topic
from tests.conformance.peer import Peer, Pending
from tests.conformance.producing import fetch_fields, new_producer_id, produce_fields
from tests.conformance.steps import wanted
from tests.wire.malformed_batches import batch, good

ORDERED = True
RUNS = 30


async def _sync(leader: Member, *members: Member) -> Pending:
    return await leader.send_sync(assignments=assignments(leader, *members))


async def _note_joins(env: Env, *joins: Pending) -> None:
    """Records how joins ended that do not wait for another one."""
    with env.transcript.muted():
        while not await _is_settled(env, joins):
            pass
        answers = [await each.result() for each in joins if each.answered]
    generations = [each["generation_id"] for each in answers]
    codes = [int(each["error_code"]) for each in answers]
    waiting = len(joins) - len(answers)
    env.note("joins", codes=codes, generations=generations, waiting=waiting)


async def _is_settled(env: Env, joins: Sequence[Pending]) -> bool:
    """Whether all joins are answered, or all but one, and that one rebalances."""
    await asyncio.sleep(0.05)
    left = [each for each in joins if not each.answered]
    if not left:
        return True
    (group,) = (await env.describe(await env.peer("admin")))["groups"]
    return len(left) == 1 and group["group_state"] == "PreparingRebalance"


# -- requests that meet the leader's sync


async def race_leaders_sync_and_newcomers_join(env: Env) -> None:
    """The leader syncs and a newcomer joins: the sync may end with 27."""
    a, b = await env.stable_group("A", "B", sync=False)
    c = await env.newcomer("C")
    sync, _ = await env.together(_sync(a, b), c.send_join())
    await sync.result()
    await env.until_state("PreparingRebalance", 3)
    await a.heartbeat()


async def race_leaders_sync_and_first_join(env: Env) -> None:
    """The leader syncs and a newcomer asks for an id: it does not matter."""
    a, b = await env.stable_group("A", "B", sync=False)
    c = await env.member("C")
    await env.results(*await env.together(_sync(a, b), c.send_join()))


async def race_leaders_sync_and_commit(env: Env) -> None:
    """The leader syncs and a follower commits: the commit may end with 27."""
    topic = await env.topic()
    a, b = await env.stable_group("A", "B", sync=False)
    await env.results(*await env.together(_sync(a, b), b.send_commit(topic, 5)))


async def race_leaders_sync_and_static_restart(env: Env) -> None:
    """The leader syncs and a static follower restarts: the group may rebalance."""
    a, b = await env.stable_group("A", "B", sync=False, static=True)
    again = await env.successor(b, "B-again")
    sync, join = await env.together(_sync(a, b), again.send_join())
    await sync.result()
    await _note_joins(env, join)


async def race_leaders_sync_and_heartbeat(env: Env) -> None:
    """The leader syncs and a follower heartbeats."""
    a, b = await env.stable_group("A", "B", sync=False)
    await env.results(*await env.together(_sync(a, b), b.send_heartbeat()))


async def race_leaders_sync_and_leave(env: Env) -> None:
    """The leader syncs and a follower leaves."""
    a, b = await env.stable_group("A", "B", sync=False)
    await env.results(*await env.together(_sync(a, b), b.send_leave()))
    await a.heartbeat()


async def race_leaders_sync_and_its_leave(env: Env) -> None:
    """The leader syncs and is removed: its sync may end with 25, or never."""
    (a,) = await env.stable_group("A", sync=False, static=True)
    admin = await env.peer("admin")
    who = [{"member_id": "", "group_instance_id": "i-A"}]
    leaving = admin.send("LeaveGroup", 5, group_id=env.group(), members=who)
    sync, leave = await env.together(_sync(a), leaving)
    await leave.result()
    await sync.unanswered()
    if sync.answered:
        await sync.result()


async def race_leaders_sync_and_followers_sync(env: Env) -> None:
    """The leader and a follower sync: both get their assignment."""
    a, b = await env.stable_group("A", "B", sync=False)
    await env.results(*await env.together(_sync(a, b), b.send_sync()))


# -- joins


async def race_two_first_joins(env: Env) -> None:
    """Two members without ids start a group, v3, without an initial delay."""
    a = await env.member("A", join_version=3)
    b = await env.member("B", join_version=3)
    joins = await env.together(a.send_join(), b.send_join())
    await _note_joins(env, *joins)


async def race_two_joins_with_ids(env: Env) -> None:
    """Two members that have ids start a group, without an initial delay."""
    a, b = await env.newcomer("A"), await env.newcomer("B")
    joins = await env.together(a.send_join(), b.send_join())
    await _note_joins(env, *joins)


async def race_two_joins_of_one_instance(env: Env) -> None:
    """Two processes with one instance id: the second replaces the first."""
    a = await env.member("A", instance="same")
    b = await env.member("B", instance="same")
    with env.transcript.muted():
        joins = await env.together(a.send_join(), b.send_join())
        answers = await env.results(*joins)
    env.note("joins", codes=sorted(int(each["error_code"]) for each in answers))


async def race_last_join_and_heartbeat(env: Env) -> None:
    """The last member rejoins while one that waits heartbeats elsewhere."""
    a, b = await env.stable_group("A", "B")
    joining = await env.rebalance(a, 2)
    beat = Member(await env.peer("A-beats"), a.group)
    beat.member_id, beat.generation = a.member_id, a.generation
    join, heartbeat = await env.together(b.send_join(), beat.send_heartbeat())
    await heartbeat.result()
    with env.transcript.muted():
        await env.results(join, joining)


async def race_leaders_rejoin_and_heartbeat(env: Env) -> None:
    """The leader rejoins while a follower heartbeats: 27 or not."""
    a, b = await env.stable_group("A", "B")
    _, heartbeat = await env.together(a.send_join(), b.send_heartbeat())
    await heartbeat.result()


async def race_leaders_rejoin_and_commit(env: Env) -> None:
    """The leader rejoins while a follower commits: it may."""
    topic = await env.topic()
    a, b = await env.stable_group("A", "B")
    _, commit = await env.together(a.send_join(), b.send_commit(topic, 5))
    await commit.result()


# -- leaves, deletion, offsets


async def race_leave_and_heartbeat(env: Env) -> None:
    """A follower leaves while the leader heartbeats: 27 or not."""
    a, b = await env.stable_group("A", "B")
    await env.results(*await env.together(b.send_leave(), a.send_heartbeat()))


async def race_two_leaves(env: Env) -> None:
    """A member leaves twice at once: the second leave finds no member."""
    a, _ = await env.stable_group("A", "B")
    other = Member(await env.peer("A-again"), a.group)
    other.member_id = a.member_id
    await env.results(*await env.together(a.send_leave(), other.send_leave()))


async def race_leave_and_join(env: Env) -> None:
    """The only member leaves while another one joins."""
    (a,) = await env.stable_group("A")
    b = await env.newcomer("B")
    leave, join = await env.together(a.send_leave(), b.send_join())
    await leave.result()
    await join.result()


async def race_delete_group_and_join(env: Env) -> None:
    """An empty group is deleted while a member joins."""
    (a,) = await env.stable_group("A")
    await a.leave()
    b = await env.member("B", join_version=3)
    admin = await env.peer("admin")
    delete = admin.send("DeleteGroups", 2, groups_names=[a.group])
    await env.results(*await env.together(delete, b.send_join()))


async def race_delete_group_and_commit(env: Env) -> None:
    """An empty group is deleted while offsets are committed."""
    topic = await env.topic()
    a, admin = await env.peer("A"), await env.peer("admin")
    await env.commit_offsets(a, commit_topic(topic, 1))
    delete = admin.send("DeleteGroups", 2, groups_names=[env.group()])
    await env.results(*await env.together(delete, _commit(env, a, topic, 2)))
    await env.fetch_offsets(a, wanted(topic))


async def _commit(env: Env, peer: Peer, topic: str, offset: int) -> Pending:
    return await peer.send(
        "OffsetCommit",
        9,
        group_id=env.group(),
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[commit_topic(topic, offset)],
    )


async def race_two_commits(env: Env) -> None:
    """Two commits for one partition: the last one counts."""
    topic = await env.topic()
    a, b = await env.peer("A"), await env.peer("B")
    commits = _commit(env, a, topic, 1), _commit(env, b, topic, 2)
    await env.results(*await env.together(*commits))
    await env.fetch_offsets(a, wanted(topic))


async def race_commit_and_fetch(env: Env) -> None:
    """A commit while its partition's offset is fetched."""
    topic = await env.topic()
    a, b = await env.peer("A"), await env.peer("B")
    await env.commit_offsets(a, commit_topic(topic, 1))
    groups = [{"group_id": env.group(), "topics": [wanted(topic)]}]
    fetch = b.send("OffsetFetch", 9, groups=groups)
    await env.results(*await env.together(_commit(env, a, topic, 2), fetch))


async def race_commit_and_offset_delete(env: Env) -> None:
    """A commit while its partition's offset is deleted."""
    topic = await env.topic()
    a, b = await env.peer("A"), await env.peer("B")
    await env.commit_offsets(a, commit_topic(topic, 1))
    partitions = [{"partition_index": 0}]
    topics = [{"name": topic, "partitions": partitions}]
    delete = b.send("OffsetDelete", 0, group_id=env.group(), topics=topics)
    await env.results(*await env.together(_commit(env, a, topic, 2), delete))
    await env.fetch_offsets(a, wanted(topic))


# -- topics


def _batch(count: int = 3, **fields: Any) -> bytes:
    return batch(int(time.time() * 1000), good(count), count, **fields)


async def _produced(env: Env, topic: str, *batches: bytes) -> None:
    """Records how batches end that are produced to partition 0 at once."""
    sends = []
    for name, records in zip("AB", batches, strict=True):
        peer = await env.peer(name)
        sends.append(peer.send("Produce", 9, **produce_fields(topic, (0, records))))
    await env.results(*await env.together(*sends))


async def race_two_batches(env: Env) -> None:
    """Two batches for one partition."""
    await _produced(env, await env.topic(), _batch(3), _batch(5))


async def race_repeated_sequence(env: Env) -> None:
    """One batch of an idempotent producer, twice: it is stored once."""
    topic = await env.topic()
    producer = await new_producer_id(env, await env.peer("init"))
    same = _batch(producer=(producer, 0, 0))
    await _produced(env, topic, same, same)


async def race_following_sequences(env: Env) -> None:
    """Two batches of an idempotent producer that may overtake each other."""
    topic = await env.topic()
    peer = await env.peer("init")
    producer = await new_producer_id(env, peer)
    first = _batch(producer=(producer, 0, 0))
    with env.transcript.muted():
        await peer.call("Produce", 9, **produce_fields(topic, (0, first)))
    following = [_batch(producer=(producer, 0, at)) for at in (3, 6)]
    await _produced(env, topic, *following)


async def race_produce_and_fetch(env: Env) -> None:
    """A batch is produced while the partition is fetched, without waiting."""
    topic = await env.topic()
    a, b = await env.peer("A"), await env.peer("B")
    produce = a.send("Produce", 9, **produce_fields(topic, (0, _batch())))
    fetch = b.send("Fetch", 12, **fetch_fields(topic, 0))
    await env.results(*await env.together(produce, fetch))


async def race_create_topic_twice(env: Env) -> None:
    """One topic, created twice: the second one is refused."""
    name = env.fresh_topic_name()
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
    a, b = await env.peer("A"), await env.peer("B")
    sends = [p.send("CreateTopics", 5, topics=[topic], timeout_ms=5000) for p in (a, b)]
    with env.transcript.muted():
        answers = await env.results(*await env.together(*sends))
    env.note("codes", codes=[int(each["topics"][0]["error_code"]) for each in answers])


async def race_delete_topic_twice(env: Env) -> None:
    """One topic, deleted twice: the second one does not find it."""
    topic = await env.topic()
    a, b = await env.peer("A"), await env.peer("B")
    deletes = _delete(a, topic), _delete(b, topic)
    await env.results(*await env.together(*deletes))


async def _delete(peer: Peer, topic: str) -> Pending:
    return await peer.send("DeleteTopics", 5, topic_names=[topic], timeout_ms=5000)
