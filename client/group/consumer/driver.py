"""The driver of a member of a consumer group, with the look-up of topics."""

from __future__ import annotations

import contextlib
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable
from functools import partial
from uuid import UUID

from kohort.client.config import ConsumerConfig
from kohort.client.errors import KohortError
from kohort.client.group.consumer.member import ConsumerMember
from kohort.client.group.consumer.membership import handle
from kohort.client.group.consumer.topics import FindTopics
from kohort.client.group.driver import MemberDriver
from kohort.client.group.effects import Call
from kohort.client.network.cluster import Cluster


def consumer_driver(
    cluster: Cluster,
    config: ConsumerConfig,
    on_call: Callable[[Call], Awaitable[None]],
    on_change: Callable[[], None],
) -> MemberDriver:
    """The driver of a new member; see `MemberDriver`."""
    # 22 characters of base64, as the Java client's.
    made = UUID(int=cluster.random.getrandbits(128), version=4)
    member_id = urlsafe_b64encode(made.bytes).decode().rstrip("=")
    member = ConsumerMember(config, member_id=member_id)
    find = partial(_find_topics, cluster)
    return MemberDriver(
        cluster, member, partial(handle, member), find, on_call, on_change
    )


async def _find_topics(cluster: Cluster, task: FindTopics) -> dict[bytes, str]:
    found = _names(cluster, task)
    if len(found) < len(task.topic_ids):
        with contextlib.suppress(KohortError):  # another look-up follows
            await cluster.refresh()
        found = _names(cluster, task)
    return found


def _names(cluster: Cluster, task: FindTopics) -> dict[bytes, str]:
    topics = cluster.metadata.topics
    names = {info.topic_id: name for name, info in topics.items()}
    return {t: names[t] for t in task.topic_ids if t in names}
