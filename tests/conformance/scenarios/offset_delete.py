"""OffsetDelete, and the subscriptions that it checks."""

from __future__ import annotations

from tests.conformance.consumer_protocol import consumer_subscription
from tests.conformance.env import Env
from tests.conformance.member import assignments, commit_topic, meta, protocols
from tests.conformance.steps import (
    partitions_of,
    wanted,
)


async def offset_delete_each_state_of_connect(env: Env) -> None:
    """Groups of another protocol type: refused as a whole unless Empty."""
    topic = await env.topic()
    watcher = await env.peer("watcher")
    await env.commit_offsets(watcher, commit_topic(topic, 1))
    a, b = await env.stable_group("A", "B", sync=False, protocol_type="connect")

    async def delete() -> None:
        await env.delete_offsets(watcher, partitions_of(topic))

    await delete()
    await a.sync(assignments=assignments(a, b))
    await b.sync()
    await delete()
    joining = await env.rebalance(a, 2)
    await delete()
    await b.leave()
    await joining.result()
    await a.leave()
    await delete()
    await env.fetch_all_offsets(watcher)


async def offset_delete_repeated_names(env: Env) -> None:
    """The same topic and the same partition twice, known and unknown."""
    topic = await env.topic("x", partitions=2)
    other = await env.topic("y")
    watcher = await env.peer("watcher")
    for topics in (
        [partitions_of(topic, 0, 0)],
        [partitions_of(topic, 0), partitions_of(topic, 1)],
        [partitions_of(topic, 0), partitions_of(topic, 0)],
        [partitions_of(topic, 0), partitions_of(other, 0), partitions_of(topic, 9)],
        [partitions_of(topic, 9), partitions_of(topic, 9, 0)],
        [{"name": topic, "partitions": []}],
        [{"name": topic, "partitions": []}, partitions_of(other)],
        [{"name": env.fresh_topic_name("none"), "partitions": []}],
        [partitions_of(topic, -1)],
    ):
        with env.transcript.muted():
            await env.commit_offsets(
                watcher,
                commit_topic(topic, 1),
                commit_topic(topic, 1, 1),
                commit_topic(other, 1),
            )
        await env.delete_offsets(watcher, *topics)
        await env.fetch_all_offsets(watcher)


async def offset_delete_unknown_topics_of_bad_group(env: Env) -> None:
    """Only unknown topics: is the group looked at all the same?"""
    unknown = env.fresh_topic_name("unknown")
    topic = await env.topic()
    watcher = await env.peer("watcher")
    for group in (env.group("nobody"), ""):
        await env.delete_offsets(watcher, partitions_of(unknown), group=group)
        await env.delete_offsets(watcher, group=group)
        await env.delete_offsets(
            watcher, partitions_of(unknown), partitions_of(topic, 0, 5), group=group
        )


async def offset_delete_subscription_changes(env: Env) -> None:
    """What counts is the subscription of the last generation, not of a waiting join."""
    topic, other = await env.topic("x"), await env.topic("y")
    a, b = await env.stable_group(
        "A", "B", protocols=protocols("r", metadata=meta("", topic))
    )
    watcher = await env.peer("watcher")
    both = [partitions_of(topic), partitions_of(other)]
    await a.commit(topic, 1)
    await b.commit(other, 2)
    joining = await env.rebalance(
        b, 2, protocols=protocols("r", metadata=meta("", other))
    )
    await env.delete_offsets(watcher, *both)
    await a.leave()
    await joining.result()
    await env.delete_offsets(watcher, *both)
    await b.sync(assignments=assignments(b))
    await b.leave()
    await env.delete_offsets(watcher, *both)


async def offset_delete_static_replacement_subscription(env: Env) -> None:
    """A successor's other subscription counts only in the next generation."""
    topic, other = await env.topic("x"), await env.topic("y")
    first = protocols("r", metadata=meta("", topic))
    second = protocols("r", metadata=meta("", other))
    await env.stable_group("A", static=True, protocols=first)
    back = await env.member("A2", instance="i-A", protocols=second)
    await back.join()
    both = [partitions_of(topic), partitions_of(other)]
    await env.delete_offsets(back.peer, *both)
    await back.join()
    await env.delete_offsets(back.peer, *both)


async def offset_delete_chosen_protocol_counts(env: Env) -> None:
    """Subscriptions are those of the chosen protocol."""
    topic, other = await env.topic("x"), await env.topic("y")
    both = [
        {"name": "p", "metadata": meta("", topic)},
        {"name": "q", "metadata": meta("", other)},
    ]
    (a,) = await env.stable_group("A", protocols=both)
    topics = [partitions_of(topic), partitions_of(other)]
    await env.delete_offsets(a.peer, *topics)
    b = await env.member("B", protocols=both[1:], join_version=3)
    joining = await env.rebalance(b, 2)
    await a.join()
    await joining.result()
    await env.delete_offsets(a.peer, *topics)


async def offset_delete_type_changes(env: Env) -> None:
    """A group that becomes Empty and is a connect group next, then a consumer again."""
    topic = await env.topic()
    watcher = await env.peer("watcher")
    topics = [partitions_of(topic)]
    await env.commit_offsets(watcher, commit_topic(topic, 1))
    for protocol_type in ("connect", "consumer", "connect"):
        (a,) = await env.stable_group(
            "A",
            protocol_type=protocol_type,
            protocols=protocols("r", metadata=meta("", topic)),
        )
        await env.delete_offsets(watcher, *topics)
        await a.leave()
        await env.describe(watcher)
    await env.delete_offsets(watcher, *topics)


async def offset_delete(env: Env) -> None:
    """Deletes offsets of an empty group; partitions without offsets and unknown topics."""
    topic = await env.topic(partitions=2)
    unknown = env.fresh_topic_name("unknown")
    a = await env.peer("A")
    await env.commit_offsets(a, commit_topic(topic, 1))
    await env.delete_offsets(a, partitions_of(topic, 0, 1, 9), partitions_of(unknown))
    await env.fetch_offsets(a, wanted(topic))
    await env.delete_offsets(a, partitions_of(topic))


async def offset_delete_errors(env: Env) -> None:
    """Unknown group, empty group id, no topics."""
    topic = await env.topic()
    a = await env.peer("A")
    for group in (env.group("nobody"), ""):
        await env.delete_offsets(a, partitions_of(topic), group=group)
    group = env.group()
    await env.commit_offsets(a, commit_topic(topic, 1), group=group)
    await env.delete_offsets(a, group=group)


async def offset_delete_subscribed(env: Env) -> None:
    """Consumers in the group: topics they subscribe to are refused with code 86, others deleted."""
    topic = await env.topic("x")
    other = await env.topic("y")
    (a,) = await env.stable_group(
        "A", protocols=protocols("range", metadata=meta("", topic))
    )
    await a.commit(topic, 1)
    await a.commit(other, 2)
    both = [partitions_of(topic), partitions_of(other)]
    await env.delete_offsets(a.peer, *both)
    await env.fetch_offsets(a.peer, wanted(topic), wanted(other))
    await a.leave()
    await env.delete_offsets(a.peer, *both)


async def offset_delete_subscription_versions(env: Env) -> None:
    """Subscriptions are understood in all versions of the consumer protocol."""
    topic = await env.topic("x")
    other = await env.topic("y")
    for version in range(4):
        group = env.group(f"v{version}")
        metadata = consumer_subscription([topic], version)
        (a,) = await env.stable_group(
            "A", protocols=[{"name": "range", "metadata": metadata}], group=group
        )
        await a.commit(topic, 1)
        await a.commit(other, 2)
        both = [partitions_of(topic), partitions_of(other)]
        await env.delete_offsets(a.peer, *both, group=group)


async def offset_delete_unparsable_subscription(env: Env) -> None:
    """Metadata that is no subscription: every topic counts as subscribed to."""
    topic = await env.topic()
    (a,) = await env.stable_group(
        "A", protocols=[{"name": "range", "metadata": b"meta"}]
    )
    await a.commit(topic, 1)
    await env.delete_offsets(a.peer, partitions_of(topic))


async def offset_delete_during_rebalance(env: Env) -> None:
    """Subscriptions count in CompletingRebalance and PreparingRebalance, too."""
    topic = await env.topic("x")
    other = await env.topic("y")
    subscribed = protocols("range", metadata=meta("", topic))
    a, b = await env.stable_group("A", "B", sync=False, protocols=subscribed)
    await env.delete_offsets(a.peer, partitions_of(topic), partitions_of(other))
    await env.sync_all([a, b])
    joining = await env.rebalance(a, 2)
    await env.delete_offsets(b.peer, partitions_of(topic), partitions_of(other))
    await b.join()
    await joining.result()
