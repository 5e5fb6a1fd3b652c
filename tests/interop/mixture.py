"""Plays with members of different libraries in one group."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tests.interop.plays import (
    broker_agrees,
    owners_are_alone,
    records_are_whole,
    restart_resumes,
)
from tests.interop.scene import BRIEF_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.scene import Scene
    from tests.workers.libraries import Library


def group_of_several(scene: Scene, *libraries: Library) -> None:
    """The first library's member leads, then the second's; all others follow them.

    The first member of an empty group leads it for as long as it is a member. The
    second one leads when it is the only one left; then one of each library comes.
    """
    first, second, *others = [
        scene.prepare(f"{library.name}-first", library) for library in libraries
    ]
    mortal = scene.prepare("mortal", libraries[0])
    scene.produce(400)
    scene.join(first)
    scene.until_settled()
    assert scene.leader() is first
    for each in [second, *others]:
        with partitions_stay(scene):
            scene.join(each)
        assert scene.leader() is first
    with partitions_stay(scene):
        scene.join(mortal, session_ms=BRIEF_MS)
    assert scene.leader() is first
    scene.until_consumed()

    scene.produce(400)
    with partitions_stay(scene):
        scene.kill(mortal)
    assert scene.leader() is first
    for each in [*others, first]:
        with partitions_stay(scene):
            scene.close(each)
    assert scene.leader() is second

    scene.produce(400)
    for library in (libraries[0], *libraries[2:], libraries[1]):
        with partitions_stay(scene):
            scene.start(f"{library.name}-second", library)
        assert scene.leader() is second
    scene.until_consumed()
    assert scene.sent == 1200
    scene.until_committed()
    broker_agrees(scene)
    owners_are_alone(scene)
    records_are_whole(scene)

    restart_resumes(scene, *libraries)


@contextlib.contextmanager
def partitions_stay(scene: Scene) -> Iterator[None]:
    """The group settles; sticky members have lost or gained partitions, never both.

    So the leader has understood the owned partitions of the others. With the
    cooperative protocol no member has meanwhile released a partition that it keeps
    (KIP-429).
    """
    before = [(each, each.partitions, len(each.changes)) for each in scene.members]
    yield
    scene.until_settled()
    if scene.assignor not in {"sticky", "cooperative-sticky"}:
        return
    for member, had, seen in before:
        if member not in scene.members:
            continue
        has = member.partitions
        assert has <= had or has >= had, f"{member.name} had {had}, and has {has}"
        if scene.assignor == "cooperative-sticky":
            for why, partitions in member.changes[seen:]:
                assert partitions >= had & has, (
                    f"{member.name} held {partitions} when they were {why}"
                )
