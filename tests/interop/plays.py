"""Plays for every library: a group that changes, and a static one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import ConsumerGroupState
from tests.interop.scene import BRIEF_MS, PARTITIONS

if TYPE_CHECKING:
    from tests.interop.scene import Scene
    from tests.workers.libraries import Library


def group_that_changes(scene: Scene) -> None:
    """Four members; one joins, one leaves, one is killed; then all are restarted."""
    scene.produce(400)
    members = [scene.start(f"member-{number}") for number in range(3)]
    mortal = scene.start("mortal", session_ms=BRIEF_MS)
    scene.until_settled()
    scene.until_consumed()

    seen = [len(each.changes) for each in members]
    scene.produce(300)
    scene.start("late")
    scene.until_settled()
    if scene.assignor in {"cooperative-sticky", "uniform"}:
        # KIP-429, KIP-848: no member stops. 12 over 5 is 3 or 2 each, so a member that
        # had 3 gives up at most one.
        for member, changes in zip(members, seen, strict=True):
            kept = [len(partitions) for _why, partitions in member.changes[changes:]]
            assert min(kept, default=3) >= 2, (
                f"{member.name} fell to {min(kept)} partitions"
            )

    scene.produce(300)
    scene.close(members[0])
    scene.until_settled()

    scene.produce(200)
    scene.kill(mortal)
    scene.until_settled()
    scene.until_consumed()
    assert scene.sent == 1200
    scene.until_committed()
    broker_agrees(scene)
    owners_are_alone(scene)
    records_are_whole(scene)

    restart_resumes(scene)


def restart_resumes(scene: Scene, *libraries: Library) -> None:
    """All leave; later members get new records, and no committed ones.

    One member of each library comes, or two of the scene's.
    """
    scene.close(*scene.members)
    scene.until_state(ConsumerGroupState.EMPTY)
    old = scene.sent
    scene.produce(60)
    again = [
        scene.start(f"again-{number}", library)
        for number, library in enumerate(libraries or [None, None])
    ]
    scene.until_settled()
    scene.until_consumed()
    scene.until_committed()
    keys = {record[2] for each in again for record in each.records}
    assert keys == {f"key-{number}" for number in range(old, scene.sent)}
    broker_agrees(scene)
    scene.close(*scene.members)


def static_members(scene: Scene) -> None:
    """KIP-345: members come back, after SIGKILL or a close, unnoticed by others."""
    scene.produce(400)
    # The mortal one's timeout has to outlast the moment between a kill and the next
    # join, which is short, because the returning worker is loaded before.
    members = [
        scene.start(f"member-{number}", instance=f"instance-{number}")
        for number in range(3)
    ]
    mortal = scene.start("mortal", instance="instance-mortal", session_ms=BRIEF_MS * 2)
    scene.until_settled()
    scene.until_consumed()
    generation = scene.generation()
    reports = {each.name: len(each.changes) for each in members}

    # Killed, and back under the same instance id.
    had = mortal.partitions
    back = scene.prepare("mortal-again")
    scene.kill(mortal, expires=False)
    scene.produce(400)
    mortal = scene.join(back, instance="instance-mortal", session_ms=BRIEF_MS * 2)
    scene.until("the killed member owns what it had", lambda: mortal.partitions == had)
    scene.until_settled()
    scene.until_consumed()
    assert scene.generation() == generation

    # Closed, which does not leave the group, and back.
    closed = members.pop(0)
    had = closed.partitions
    back = scene.prepare("member-0-again")
    scene.close(closed)
    scene.join(back, instance="instance-0")
    scene.until("the closed member owns what it had", lambda: back.partitions == had)
    scene.until_settled()
    assert scene.generation() == generation
    for member in members:
        assert len(member.changes) == reports[member.name], (
            f"{member.name} took part in a rebalance"
        )
    broker_agrees(scene)

    # A new instance changes the group, and so does one that stays away too long.
    scene.produce(200)
    scene.start("late", instance="instance-late")
    scene.until_settled()
    assert scene.generation() > generation
    scene.produce(200)
    scene.kill(mortal)
    scene.until_settled()
    scene.until_consumed()
    assert scene.sent == 1200
    scene.until_committed()
    broker_agrees(scene)
    records_are_whole(scene)
    static_restart_resumes(scene)


def group_that_migrates(scene: Scene, *libraries: Library) -> None:
    """Members of the one protocol replace those of the other, there and back.

    KIP-848: the group is never without members, no record is lost, and none comes again
    after its commit. There is one member of each library, or two of the scene's.
    """
    scene.produce(300)
    scene.protocol = None
    old = [
        (library, scene.start(f"classic-{number}", library))
        for number, library in enumerate(libraries or [None, None])
    ]
    scene.until_settled()
    scene.until_consumed()
    for protocol, name in (("consumer", "consumer"), (None, "again")):
        scene.protocol = protocol
        new = []
        for number, (library, leaving) in enumerate(old):
            scene.produce(100)
            new.append((library, scene.start(f"{name}-{number}", library)))
            scene.until_settled()
            scene.produce(100)
            scene.close(leaving)
            scene.until_settled()
        scene.until_consumed()
        old = new
    assert scene.sent == 300 + 400 * len(old)
    scene.until_committed()
    owners_are_alone(scene)
    records_are_whole(scene)
    scene.close(*scene.members)  # so that each has reported its last commit
    commits_are_kept(scene)


def static_consumers(scene: Scene) -> None:
    """KIP-848: static members come back after a close, unnoticed by others.

    One that is killed comes back once its session has ended.
    """
    scene.produce(400)
    members = [
        scene.start(f"member-{number}", instance=f"instance-{number}")
        for number in range(4)
    ]
    scene.until_settled()
    scene.until_consumed()
    generation = scene.generation()
    closed = members.pop(0)
    reports = {each.name: len(each.changes) for each in members}
    had = closed.partitions
    back = scene.prepare("member-0-again")
    scene.close(closed)
    scene.produce(200)
    scene.join(back, instance="instance-0")
    scene.until("the closed member owns what it had", lambda: back.partitions == had)
    scene.until_settled()
    scene.until_consumed()
    assert scene.generation() == generation
    for member in members:
        assert len(member.changes) == reports[member.name], (
            f"{member.name} took part in a rebalance"
        )
    scene.kill(members.pop())
    scene.until_settled()
    scene.start("member-3-again", instance="instance-3")
    scene.until_settled()
    assert scene.generation() > generation
    scene.produce(200)
    scene.until_consumed()
    scene.until_committed()
    broker_agrees(scene)
    records_are_whole(scene)
    static_restart_resumes(scene)


def static_restart_resumes(scene: Scene) -> None:
    """All close and come back: the same generation continues at its commits."""
    generation = scene.generation()
    gone = [(each, each.partitions) for each in scene.members]
    loaded = [scene.prepare(f"{each.name}-restarted") for each, _had in gone]
    scene.close(*scene.members)
    old = scene.sent
    scene.produce(60)
    back = [
        scene.join(member, instance=before.client)
        for member, (before, _had) in zip(loaded, gone, strict=True)
    ]
    had = [partitions for _before, partitions in gone]
    scene.until(
        "all own what they had", lambda: [each.partitions for each in back] == had
    )
    scene.until_consumed()
    scene.until_committed()
    assert scene.generation() == generation
    keys = {record[2] for each in back for record in each.records}
    assert keys == {f"key-{number}" for number in range(old, scene.sent)}
    scene.close(*scene.members)


def broker_agrees(scene: Scene) -> None:
    """The group is Stable, and DescribeGroups and the members name the same owners."""
    scene.ask_everybody()
    described = scene.until_state(ConsumerGroupState.STABLE)
    assert described.partition_assignor == scene.library.wire_name(scene.assignor)
    shown = {
        each.client_id: sorted(
            (part.topic, part.partition) for part in each.assignment.topic_partitions
        )
        for each in described.members
    }
    told = {
        each.client: sorted((scene.topic, part) for part in each.partitions)
        for each in scene.members
    }
    assert shown == told
    owned = sorted(part for parts in shown.values() for _topic, part in parts)
    assert owned == list(range(PARTITIONS)), (
        "after the last rebalance each partition has exactly one owner"
    )


def owners_are_alone(scene: Scene) -> None:
    """No generation assigned a partition to two members."""
    generations = {number for each in scene.everybody for number in each.assigned}
    for number in generations:
        shares = {
            each.name: each.assigned[number]
            for each in scene.everybody
            if number in each.assigned
        }
        together = frozenset().union(*shares.values())
        assert sum(map(len, shares.values())) == len(together), (
            f"generation {number}: {shares}"
        )


def records_are_whole(scene: Scene) -> None:
    """Each record came with its value, from one place in the log."""
    places: dict[tuple[int, int], str] = {}
    for member in scene.everybody:
        for partition, offset, key, value in member.records:
            assert value == key.replace("key", "value")
            assert places.setdefault((partition, offset), key) == key
    assert len(places) == scene.sent
    assert set(places.values()) == {f"key-{number}" for number in range(scene.sent)}


def commits_are_kept(scene: Scene) -> None:
    """No record came, and no offset was committed, a second time after its commit."""
    committed = dict.fromkeys(range(scene.partitions), 0)
    steps = [
        (line.at_ns, each.name, line) for each in scene.everybody for line in each.work
    ]
    for _at_ns, name, line in sorted(steps, key=lambda step: step[0]):
        if line.kind == "consumed":
            for partition, offset, key, _value in line.event["records"]:
                assert offset >= committed[partition], (
                    f"{name} got {key} of partition {partition} at {offset}, "
                    f"which had been committed up to {committed[partition]}"
                )
            continue
        for partition, end in line.event["offsets"]:
            assert end > committed[partition], (
                f"{name} committed {end} of partition {partition} "
                f"after {committed[partition]}"
            )
            committed[partition] = end
    assert sum(committed.values()) == scene.sent
