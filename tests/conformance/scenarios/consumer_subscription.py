"""Consumer groups: subscriptions by name and by pattern, and changes of topics."""

from __future__ import annotations

from typing import Any

from tests.conformance.consumer import (
    KNOWN_S,
    Consumer,
    consumer,
    describe,
    enter,
    known_topic,
)
from tests.conformance.env import Env

RESOLVED_S = 1.0
"""Until a new pattern is matched with the topics."""
AGAIN_S = 11.0
"""Until Kafka matches a group's patterns again."""
CHANGED_S = KNOWN_S + 0.5


def _only_regex(regex: str) -> dict[str, Any]:
    return {"subscribed_topic_names": None, "subscribed_topic_regex": regex}


async def _resolved(env: Env, member: Consumer) -> None:
    """Waits until the member has the topics of its pattern, and records them."""
    await env.settle(RESOLVED_S)
    await member.settle()
    await member.show()


async def consumer_empty_subscription(env: Env) -> None:
    """A member without topics."""
    a = await consumer(env, "A")
    await a.join()
    await describe(a)


async def consumer_unknown_topic(env: Env) -> None:
    """Missing topics of a subscription are ignored."""
    topic = await known_topic(env)
    a = await consumer(env, "A", topic, env.fresh_topic_name("unknown"))
    await a.join()
    await describe(a)


async def consumer_changes_subscription(env: Env) -> None:
    """One topic more, then one less: new epochs and assignments."""
    x, y = [await known_topic(env, suffix) for suffix in "xy"]
    a = await consumer(env, "A", x)
    await a.join()
    await a.acknowledge()
    for names in ([x, y], [y]):
        await a.beat(subscribed_topic_names=names)
        await a.acknowledge()
    await describe(a)


async def consumer_unsubscribes(env: Env) -> None:
    """Without topics the member gives up its partitions, and stays."""
    topic = await known_topic(env, partitions=2)
    a = await consumer(env, "A", topic)
    await a.join()
    await a.acknowledge()
    for names in ([], [topic]):
        await a.beat(subscribed_topic_names=names)
        await a.acknowledge()
        await describe(a)


async def consumer_regex(env: Env) -> None:
    """An invalid pattern, and one that matches a topic."""
    topic = await known_topic(env)
    a = await consumer(env, "A")
    await a.join(**_only_regex("["))
    await a.join(**_only_regex(topic))
    await _resolved(env, a)
    await describe(a)


async def consumer_regex_and_names(env: Env) -> None:
    """A pattern beside names, instead of them, and none any more."""
    x, y = [await known_topic(env, suffix) for suffix in "xy"]
    a = await consumer(env, "A", x)
    await a.join(subscribed_topic_regex=y)
    await _resolved(env, a)
    await describe(a)
    changes: list[dict[str, Any]] = [
        {"subscribed_topic_names": []},
        {"subscribed_topic_regex": ""},
    ]
    for change in changes:
        with env.transcript.muted():
            await a.beat(**change)
        await a.settle()
        await a.show()
        await describe(a)


async def consumer_regex_changed(env: Env) -> None:
    """The topics of the old pattern go at once, those of the new one come within 11 s."""
    x, y = [await known_topic(env, suffix) for suffix in "xy"]
    a = await consumer(env, "A")
    await enter(env, a, **_only_regex(x))
    await _resolved(env, a)
    with env.transcript.muted():
        await a.beat(subscribed_topic_regex=y)
    await _resolved(env, a)
    await env.sleep(AGAIN_S)
    await a.settle()
    await _resolved(env, a)


async def consumer_regex_matches_whole_names(env: Env) -> None:
    """A pattern that matches a part of a name is no match."""
    topic = await known_topic(env)
    part = topic[2:]
    for number, regex in enumerate((part, f".*{part}", f"{topic}|other")):
        a = await consumer(env, f"A{number}", group=env.group(f"{number}"))
        await enter(env, a, **_only_regex(regex))
        await _resolved(env, a)


async def consumer_topic_created_later(env: Env) -> None:
    """A missing topic of the subscription is created: it is assigned in a new epoch."""
    later = env.fresh_topic_name("later")
    a = await consumer(env, "A", await known_topic(env, "x"), later)
    await a.join()
    await a.acknowledge()
    topic = {"name": later, "num_partitions": 1, "replication_factor": 1}
    with env.transcript.muted():
        await a.peer.call("CreateTopics", 5, topics=[topic], timeout_ms=10_000)
    env.note("the topic is created")
    await env.settle(CHANGED_S)
    topic_id = await env.topic_id(later)
    assert topic_id is not None
    env.symbols.name_uuid(topic_id, "<topic-id:later>")
    await a.beat()
    await a.acknowledge()
    await describe(a)


async def consumer_topic_deleted(env: Env) -> None:
    """A topic of the group is deleted: the members lose it in a new epoch."""
    x, y = [await known_topic(env, suffix) for suffix in "xy"]
    a = await consumer(env, "A", x, y)
    await a.join()
    await a.acknowledge()
    await a.peer.call("DeleteTopics", 5, topic_names=[x], timeout_ms=5000)
    await env.settle(CHANGED_S)
    await a.beat()
    await a.acknowledge()
    await describe(a)


async def consumer_partitions_added(env: Env) -> None:
    """A topic of the group grows: its new partitions are assigned in a new epoch."""
    topic = await known_topic(env)
    a = await consumer(env, "A", topic)
    await a.join()
    await a.acknowledge()
    grown = {"name": topic, "count": 3, "assignments": None}
    await a.peer.call("CreatePartitions", 3, topics=[grown], timeout_ms=5000)
    await env.settle(CHANGED_S)
    await a.beat()
    await a.acknowledge()
    await describe(a)


async def consumer_other_topics_do_not_matter(env: Env) -> None:
    """A new topic that no member subscribes to begins no epoch."""
    a = await consumer(env, "A", await known_topic(env))
    await a.join()
    await a.acknowledge()
    await known_topic(env, "other")
    await a.beat()
    await describe(a)
