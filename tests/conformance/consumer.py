"""Members of consumer groups (KIP-848), and steps that their scenarios share."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.conformance.connection import Outcome
from tests.conformance.env import Env
from tests.conformance.peer import Peer

KNOWN_S = 1.0
"""Until Kafka's group coordinator knows of a change of topics."""
_MOST_BEATS = 20


class Consumer:
    """A member of a consumer group, with an id of its own making.

    Args:
        env: the scene's.
        peer: its connection.
        group: its group.
        topics: the names that it subscribes to.
        options: further fields of its first heartbeat.
    """

    def __init__(
        self, env: Env, peer: Peer, group: str, topics: tuple[str, ...], **options: Any
    ) -> None:
        self._env = env
        self.peer = peer
        self.group = group
        self.topics = topics
        self.options = options
        self.member_id = f"member-{peer.name}"
        self.epoch = 0
        self.owned: list[dict[str, Any]] = []

    @property
    def count(self) -> int:
        """The number of its partitions."""
        return sum(len(topic["partitions"]) for topic in self.owned)

    async def beat(self, version: int = 1, **fields: Any) -> Outcome:
        """A heartbeat; takes over the epoch and the assignment."""
        own: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
        }
        outcome = await self.peer.call(
            "ConsumerGroupHeartbeat", version, **(own | fields)
        )
        if outcome.ok and not int(outcome["error_code"]):
            self.epoch = outcome["member_epoch"]
            if outcome["assignment"] is not None:
                # Ids of topics are random, their symbols are not.
                symbol = self._env.symbols.for_uuid
                self.owned = sorted(
                    outcome["assignment"]["topic_partitions"],
                    key=lambda topic: symbol(topic["topic_id"]),
                )
        return outcome

    async def join(self, version: int = 1, **over: Any) -> Outcome:
        """The first heartbeat."""
        fields: dict[str, Any] = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 30_000,
            "subscribed_topic_names": list(self.topics),
            "topic_partitions": [],
        }
        return await self.beat(version, **(fields | self.options | over))

    async def acknowledge(self) -> Outcome:
        """A heartbeat that reports the assignment as owned."""
        return await self.beat(topic_partitions=self.owned)

    async def leave(self, **over: Any) -> Outcome:
        """The last heartbeat."""
        return await self.beat(**({"member_epoch": -1} | over))

    async def leave_for_a_while(self, **over: Any) -> Outcome:
        """The last heartbeat of a static member that will come back."""
        instance_id = self.options.get("instance_id")
        fields: dict[str, Any] = {"member_epoch": -2, "instance_id": instance_id}
        return await self.beat(**(fields | over))

    async def settle(self) -> None:
        """Unrecorded heartbeats until one of them changes nothing."""
        with self._env.transcript.muted():
            for _ in range(_MOST_BEATS):
                epoch = self.epoch
                outcome = await self.acknowledge()
                if self.epoch == epoch and outcome["assignment"] is None:
                    return
                await asyncio.sleep(0.1)

    async def show(self) -> None:
        """Records its partitions."""
        self._env.note(self.peer.name, topic_partitions=self.owned)


async def consumer(
    env: Env, name: str, *topics: str, group: str | None = None, **options: Any
) -> Consumer:
    """A consumer on a separate connection, by default in the group without a suffix."""
    of = env.group() if group is None else group
    return Consumer(env, await env.peer(name), of, topics, **options)


async def known_topic(env: Env, suffix: str = "", partitions: int = 1) -> str:
    """Creates a topic, and waits until the group coordinator knows it."""
    name = await env.topic(suffix, partitions)
    await asyncio.sleep(KNOWN_S)
    return name


async def enter(env: Env, *consumers: Consumer, **over: Any) -> None:
    """Unrecorded: the consumers join one after the other."""
    with env.transcript.muted():
        for each in consumers:
            await each.join(**over)


async def reconcile(*consumers: Consumer, rounds: int = 3) -> None:
    """Unrecorded heartbeats until all have the partitions that they are to have."""
    for _ in range(rounds):
        for each in consumers:
            await each.settle()


async def in_balance(env: Env, *consumers: Consumer) -> None:
    """Unrecorded: the consumers join, and all get their partitions."""
    await enter(env, *consumers)
    await reconcile(*consumers)


async def describe(member: Consumer, version: int = 1) -> None:
    """ConsumerGroupDescribe of a member's group."""
    await member.peer.call("ConsumerGroupDescribe", version, group_ids=[member.group])


async def owns(env: Env, topic: str, *partitions: int) -> list[dict[str, Any]]:
    """Partitions of one topic, as a heartbeat reports them."""
    return [{"topic_id": await env.topic_id(topic), "partitions": list(partitions)}]
