"""Offsets of consumer groups: commits and fetches by member epoch."""

from __future__ import annotations

from typing import Any

from tests.conformance.consumer import (
    Consumer,
    consumer,
    enter,
    in_balance,
    known_topic,
    reconcile,
)
from tests.conformance.env import Env
from tests.conformance.member import commit_topic
from tests.conformance.steps import wanted


async def _commit(
    env: Env, member: Consumer, topic: str, offset: int, **over: Any
) -> None:
    own: dict[str, Any] = {
        "member_id": member.member_id,
        "generation_id_or_member_epoch": member.epoch,
    }
    partition = over.pop("partition", 0)
    row = commit_topic(topic, offset, partition)
    await env.commit_offsets(member.peer, row, **(own | over))


async def _simple_commit(env: Env, member: Consumer, topic: str, **over: Any) -> None:
    await env.commit_offsets(member.peer, commit_topic(topic, 7), **over)


async def _fetch(env: Env, member: Consumer, topic: str, **fields: Any) -> None:
    group = {"group_id": env.group(), "topics": [wanted(topic, 0, 1)], **fields}
    await member.peer.call("OffsetFetch", 9, groups=[group])


async def consumer_commit_and_fetch(env: Env) -> None:
    """Commits need v9 and the member's epoch; fetches check the epoch if they have one."""
    topic = await known_topic(env)
    a = await consumer(env, "A", topic)
    await enter(env, a)
    for version in (9, 8, 2):
        await _commit(env, a, topic, 5, version=version)
    for epoch in (0, 1, 3):
        await _commit(env, a, topic, 5, generation_id_or_member_epoch=epoch)
    await _commit(env, a, topic, 5, member_id="made-up")
    await _simple_commit(env, a, topic)
    for member_id, epoch in (
        (None, -1),
        (a.member_id, a.epoch),
        (a.member_id, 0),
        (a.member_id, 3),
        ("made-up", a.epoch),
    ):
        await _fetch(env, a, topic, member_id=member_id, member_epoch=epoch)


async def consumer_commit_of_others_partitions(env: Env) -> None:
    """Any partition with the present epoch, only its own ones with an earlier one."""
    topic = await known_topic(env, partitions=2)
    a, b = [await consumer(env, name, topic) for name in "AB"]
    await in_balance(env, a)
    old = a.epoch
    await enter(env, b)
    await reconcile(a, b)
    await a.show()
    for epoch in (a.epoch, old):
        for partition in (0, 1):
            await _commit(
                env,
                a,
                topic,
                7,
                partition=partition,
                generation_id_or_member_epoch=epoch,
            )
    await _fetch(env, a, topic)


async def consumer_commit_by_topic_id(env: Env) -> None:
    """OffsetCommit and OffsetFetch v10."""
    topic = await known_topic(env)
    topic_id = await env.topic_id(topic)
    a = await consumer(env, "A", topic)
    await enter(env, a)
    rows = commit_topic(topic, 5)["partitions"]
    for epoch in (a.epoch, a.epoch + 1, 0):
        await env.commit_offsets(
            a.peer,
            {"topic_id": topic_id, "partitions": rows},
            version=10,
            member_id=a.member_id,
            generation_id_or_member_epoch=epoch,
        )
    for member_id, epoch in ((a.member_id, a.epoch), (a.member_id, 0), ("made-up", 1)):
        group = {
            "group_id": env.group(),
            "member_id": member_id,
            "member_epoch": epoch,
            "topics": [{"topic_id": topic_id, "partition_indexes": [0]}],
        }
        await a.peer.call("OffsetFetch", 10, groups=[group])


async def consumer_offsets_of_empty_group(env: Env) -> None:
    """Without members: commits of a former member and of simple consumers; deletion."""
    topic = await known_topic(env)
    a = await consumer(env, "A", topic)
    await enter(env, a)
    await _commit(env, a, topic, 5)
    last = a.epoch
    await a.leave()
    await _commit(env, a, topic, 6, generation_id_or_member_epoch=last)
    for version in (9, 8):
        await _simple_commit(env, a, topic, version=version)
    await _fetch(env, a, topic)
    await env.delete_groups(a.peer)
    await _fetch(env, a, topic)
