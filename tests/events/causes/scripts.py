"""The acts: each brings a group to rest, yields, and does one thing to it.

Ben acts, with a client of the library of the row; ana and cleo, with kohort's own
client, are the other members and never the cause.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from tests.events.causes.clients import (
    BRIEF_MS,
    AiokafkaClient,
    Client,
    KohortClient,
    slow_leader,
)
from tests.events.causes.scene import GROUP, MakeClient, Scene

from kohort.client.administering.values import MemberToRemove

Script = AsyncIterator[None]

COOPERATIVE = ("cooperative-sticky",)


async def _pair(scene: Scene, library: MakeClient, **options: Any) -> Client:
    """Ana is there, then ben; ben."""
    await scene.comes("ana", KohortClient)
    return await scene.comes("ben", library, **options)


# -- members come


async def comes_first(scene: Scene, library: MakeClient) -> Script:
    """Ben joins an empty group."""
    yield
    await scene.start("ben", library)


async def comes_second(scene: Scene, library: MakeClient) -> Script:
    """Ben comes, and ana is there."""
    await scene.comes("ana", KohortClient)
    yield
    await scene.start("ben", library)


async def comes_static(scene: Scene, library: MakeClient) -> Script:
    """Ben comes, with an instance id that is new."""
    await scene.comes("ana", KohortClient)
    yield
    await scene.start("ben", library, is_static=True)


async def come_together(scene: Scene, library: MakeClient) -> Script:
    """Ben comes, and the others within the initial delay."""
    ben = await scene.start("ben", library, topics=())
    ana = await scene.start("ana", AiokafkaClient, topics=())
    cleo = await scene.start("cleo", KohortClient, topics=())
    yield
    scene.live |= {"ana", "ben", "cleo"}
    await ben.subscribe("t")
    await scene.until_event("member_joined", "ben")
    await ana.subscribe("t")
    await cleo.subscribe("t")


async def comes_before_another(scene: Scene, library: MakeClient) -> Script:
    """Ben joins; cleo joins while the group still waits for ana, who is busy."""
    ana = await scene.comes("ana", slow_leader)
    yield
    async with ana.busy():
        await scene.start("ben", library)
        await scene.until_event("member_joined", "ben")
        await scene.start("cleo", KohortClient)
        await scene.until_event("member_joined", "cleo")


# -- members go


async def closes(scene: Scene, library: MakeClient) -> Script:
    """Ben shuts down."""
    await _pair(scene, library)
    yield
    await scene.misses("ben").close()


async def closes_last(scene: Scene, library: MakeClient) -> Script:
    """Ben closes as the last member."""
    await scene.comes("ben", library)
    yield
    await scene.misses("ben").close()


async def unsubscribes(scene: Scene, library: MakeClient) -> Script:
    """Ben wants nothing any more."""
    await _pair(scene, library)
    yield
    await scene.misses("ben").unsubscribe()


async def does_not_poll(scene: Scene, library: MakeClient) -> Script:
    """Ben's application is busy for longer than max.poll.interval.ms."""
    await _pair(scene, library, poll_ms=BRIEF_MS)
    yield
    scene.misses("ben").stop_polling()


async def dies(scene: Scene, library: MakeClient) -> Script:
    """Ben is gone without a word."""
    await _pair(scene, library, session_ms=BRIEF_MS)
    yield
    await scene.misses("ben").crash()


async def stays_away(scene: Scene, library: MakeClient) -> Script:
    """Ben, a static member, shuts down and does not come back."""
    await _pair(scene, library, session_ms=BRIEF_MS, is_static=True)
    yield
    await scene.misses("ben").close()


# -- an admin takes members out


async def is_removed(scene: Scene, library: MakeClient) -> Script:
    """Ben, a static member, is shut down, and removed."""
    await _pair(scene, library, is_static=True)
    await scene.misses("ben").close()
    yield
    await _remove(scene, "ben")


async def are_removed(scene: Scene, library: MakeClient) -> Script:
    """Ben and cleo are shut down, and removed at once."""
    await _pair(scene, library, is_static=True)
    await scene.comes("cleo", KohortClient, is_static=True)
    await scene.misses("ben").close()
    await scene.misses("cleo").close()
    yield
    await _remove(scene, "ben", "cleo")


async def is_removed_by_id(scene: Scene, library: MakeClient) -> Script:
    """Ben, a dynamic member, has crashed, and is removed by its member id."""
    await _pair(scene, library)
    await scene.misses("ben").crash()
    (member,) = (m for m in await scene.members() if m.client_id == "ben")
    yield
    async with scene.admin() as admin:
        who = MemberToRemove(member.member_id)
        (await admin.remove_members_from_consumer_group(GROUP, [who]))[who]


async def _remove(scene: Scene, *names: str) -> None:
    async with scene.admin() as admin:
        gone = [MemberToRemove("", f"i-{name}") for name in names]
        found = await admin.remove_members_from_consumer_group(GROUP, gone)
        for each in gone:
            found[each]


# -- members join again


async def subscribes_anew(scene: Scene, library: MakeClient) -> Script:
    """Ben, a follower, subscribes to another topic, too."""
    await scene.make_topic("u")
    await scene.comes("ana", KohortClient, topics=("t", "u"))
    ben = await scene.comes("ben", library)
    yield
    await ben.subscribe("t", "u")


async def finds_a_topic(scene: Scene, library: MakeClient) -> Script:
    """Ben, a follower, subscribes to a pattern; a matching topic is created."""
    await scene.comes("ana", KohortClient)
    ben = await scene.start("ben", library, topics=(), metadata_ms=200)
    scene.live.add("ben")
    await ben.subscribe_to("t.*")
    await scene.until_at_rest()
    yield
    await scene.make_topic("t2")


async def finds_partitions(scene: Scene, library: MakeClient) -> Script:
    """A topic of ben, the leader, gets more partitions."""
    await scene.comes("ben", library, metadata_ms=200)
    await scene.comes("ana", KohortClient)
    yield
    await scene.add_partitions("t", 8)


async def leader_wants_one(scene: Scene, library: MakeClient) -> Script:
    """Ben leads, and its application asks for a rebalance."""
    ben = await scene.comes("ben", library)
    await scene.comes("ana", KohortClient)
    yield
    await ben.enforce("more to do")


async def follower_wants_one(scene: Scene, library: MakeClient) -> Script:
    """Ben follows, and its application asks for a rebalance."""
    ben = await _pair(scene, library)
    yield
    await ben.enforce("more to do")


async def gives_up_leading(scene: Scene, library: MakeClient) -> Script:
    """Cleo joins, and ben, the leader, revokes partitions for it (KIP-429)."""
    await scene.comes("ben", library, assignors=COOPERATIVE)
    yield
    await scene.start("cleo", KohortClient, assignors=COOPERATIVE)


async def gives_up_following(scene: Scene, library: MakeClient) -> Script:
    """Cleo joins; ben, a follower, revokes a partition, ana has none to spare."""
    await scene.make_topic("u")
    await scene.start("ana", KohortClient, assignors=COOPERATIVE, topics=("u",))
    await scene.until_event("member_joined", "ana")
    await scene.comes("ben", library, assignors=COOPERATIVE)
    yield
    await scene.start("cleo", KohortClient, assignors=COOPERATIVE)


# -- static members come back


async def restarts(scene: Scene, library: MakeClient) -> Script:
    """Ben, a static member, is there again before its session is over: no rebalance."""
    await _pair(scene, library, is_static=True)
    yield
    await scene.misses("ben").close()
    await scene.start("ben", library, is_static=True)
    await scene.until_event("member_replaced", "ben")


async def restarts_changed(scene: Scene, library: MakeClient) -> Script:
    """Ben is there again, and does not know the group's assignor any more."""
    both = ("range", "roundrobin")
    await scene.comes("ana", KohortClient, assignors=both)
    await scene.comes("ben", library, is_static=True, assignors=both)
    yield
    await scene.misses("ben").close()
    await scene.start("ben", library, is_static=True, assignors=("roundrobin",))


async def restarts_between(scene: Scene, library: MakeClient) -> Script:
    """Ben is back while ana, the leader, is still computing the assignment."""
    ana = await scene.comes("ana", slow_leader)
    await scene.comes("ben", library, is_static=True)
    ana.hold()
    await scene.start("cleo", KohortClient)
    await scene.until_state("CompletingRebalance")
    await scene.misses("ben").close()
    yield
    await scene.start("ben", library, is_static=True)
    await scene.until_event("member_replaced", "ben")
    ana.go_on()


async def is_twice(scene: Scene, library: MakeClient) -> Script:
    """Ben's instance id is taken by another process; the first one is fenced."""
    await _pair(scene, library, is_static=True)
    yield
    await scene.start("ben", library, is_static=True)
    await scene.until_event("member_replaced", "ben")


# -- time is up


async def is_not_waited_for(scene: Scene, library: MakeClient) -> Script:
    """Ben joins; cleo, who has crashed, misses the rebalance timeout."""
    await scene.comes("ana", KohortClient, poll_ms=BRIEF_MS)
    await scene.comes("cleo", KohortClient, poll_ms=BRIEF_MS)
    await scene.misses("cleo").crash()
    yield
    await scene.start("ben", library, poll_ms=BRIEF_MS)


async def divides_too_late(scene: Scene, library: MakeClient) -> Script:
    """Ben leads, and takes longer to divide than the rebalance timeout."""
    ben = await scene.comes("ben", library, poll_ms=BRIEF_MS)
    ben.hold()
    yield
    scene.misses("ben")
    await scene.start("ana", KohortClient, poll_ms=BRIEF_MS)


# -- coordinators


async def is_moved(scene: Scene, library: MakeClient) -> Script:
    """Another node coordinates the group: no rebalance."""
    await _pair(scene, library)
    yield
    scene.move()
    await scene.until(lambda: scene.has("group_loaded"), "the group is loaded")


async def closes_after_a_move(scene: Scene, library: MakeClient) -> Script:
    """Another node coordinates the group when ben shuts down."""
    await _pair(scene, library)
    scene.move()
    await scene.until_at_rest()
    yield
    await scene.misses("ben").close()


async def is_moved_between(scene: Scene, library: MakeClient) -> Script:
    """Another node takes over while ana is waited for, and ben comes again."""
    ana = await scene.comes("ana", slow_leader)
    yield
    async with ana.busy():
        await scene.start("ben", library)
        await scene.until_event("member_joined", "ben")
        scene.between = await scene.members()
        scene.move()
        await scene.until(lambda: len(scene.started()) > 1, "ben has come again")


# -- refused


async def is_refused(scene: Scene, library: MakeClient) -> Script:
    """Ben finds the group full: no rebalance."""
    await scene.comes("ana", KohortClient)
    yield
    await scene.start("ben", library)
    scene.misses("ben")
    await scene.until_event("member_refused", "ben", cause="full")


async def does_not_fit(scene: Scene, library: MakeClient) -> Script:
    """Ben knows no assignor of the group's: no rebalance."""
    await scene.comes("ana", KohortClient)
    yield
    await scene.start("ben", library, assignors=("roundrobin",))
    scene.misses("ben")
    await scene.until_event("member_refused", "ben", cause="inconsistent")


async def is_too_large(scene: Scene, library: MakeClient) -> Script:
    """The broker is started again with a lower limit than the group has members."""
    await scene.comes("ana", KohortClient, poll_ms=BRIEF_MS)
    await scene.comes("cleo", KohortClient, poll_ms=BRIEF_MS)
    await scene.comes("ben", library, poll_ms=BRIEF_MS)
    yield
    await scene.restart({"group.max.size": 2})
    await scene.until(lambda: scene.has("member_refused"), "somebody is too many")
    (refused,) = (e for e in scene.events if e["kind"] == "member_refused")
    scene.misses(refused["client_id"])
