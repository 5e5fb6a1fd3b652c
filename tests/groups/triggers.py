"""Triggers that take a group from one state to another, and others, as scenes.

Each is a generator: it yields the coordinator when everything is prepared, and then
performs the trigger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.coordinator.context import Context
from tests.coordinator.member import Member, protocols, subscribed
from tests.groups.states import REBALANCE_MS, SESSION_MS, Scene

Play = Callable[[], Iterator[Context]]

BOTH = subscribed("orders", "payments")
"""Other metadata."""


def _one(state: str, act: Callable[[Scene], object], *, static: bool = False) -> Play:
    """A scene with one trigger in a state."""

    def play() -> Iterator[Context]:
        scene = Scene(state, static=static)
        yield scene.context
        act(scene)

    return play


def _join(scene: Scene) -> None:
    scene.newcomer(requires_id=False).join()


def _crash(scene: Scene) -> None:
    scene.heartbeats(SESSION_MS // 1000, scene.a, scene.b)


def _replace(scene: Scene) -> None:
    scene.newcomer(instance="i-B").join()


def _nobody_syncs(scene: Scene) -> None:
    scene.heartbeats(REBALANCE_MS // 1000, scene.a, scene.b, scene.c)


def _all_rejoin(scene: Scene) -> None:
    scene.b.join()
    scene.c.join()


def _last_one_leaves(scene: Scene) -> None:
    scene.b.join()
    scene.c.leave()


def _last_one_crashes(scene: Scene) -> None:
    scene.b.join()
    scene.context.sleep(SESSION_MS)


def _some_are_late(scene: Scene) -> None:
    scene.heartbeats(REBALANCE_MS // 1000, scene.b, scene.c)


def _window(*, leaves: bool) -> Play:
    def play() -> Iterator[Context]:
        context = Context(initial_rebalance_delay_ms=3_000)
        member = context.member("A")
        member.enter()
        if leaves:
            member.leave()
        yield context
        context.sleep(3_000)

    return play


def _all_leave_within_the_window() -> Iterator[Context]:
    context = Context(initial_rebalance_delay_ms=3_000)
    member = context.member("A")
    member.enter()
    yield context
    member.leave()


def _given_id_expires() -> Iterator[Context]:
    scene = Scene("Stable")
    scene.newcomer().join()
    for member in (scene.a, scene.b, scene.c):
        member.join()
    yield scene.context
    scene.context.sleep(SESSION_MS)


def _without(*gone: str) -> Scene:
    """A group in PreparingRebalance after departures; no member has rejoined."""
    scene = Scene("Stable")
    for name in gone:
        member: Member = getattr(scene, name)
        member.leave()
    return scene


def _everybody_leaves() -> Iterator[Context]:
    scene = _without("a", "b")
    yield scene.context
    scene.c.leave()


def _everybody_crashes() -> Iterator[Context]:
    scene = _without("a", "b")
    yield scene.context
    scene.context.sleep(SESSION_MS)


def _everybody_is_late() -> Iterator[Context]:
    scene = _without("a")
    yield scene.context
    scene.heartbeats(REBALANCE_MS // 1000, scene.b, scene.c)


def _offsets_expire() -> Iterator[Context]:
    scene = Scene("Empty", offsets_retention_ms=60_000)
    yield scene.context
    scene.context.sleep(600_000)


def _two_protocols(offers: list[tuple[str, bytes]]) -> Play:
    """A static member that returns with these protocols to a group on "range"."""

    def play() -> Iterator[Context]:
        context = Context()
        members = [
            context.member(
                name, instance=f"i-{name}", protocols=protocols("range", "roundrobin")
            )
            for name in "AB"
        ]
        context.form(members)
        yield context
        context.member("B2", instance="i-B").join(protocols=offers)

    return play


def _follower_does_not_sync() -> Iterator[Context]:
    scene = Scene("CompletingRebalance")
    scene.b.sync()
    scene.a.sync()
    yield scene.context
    _nobody_syncs(scene)


EMPTY, PREPARING, COMPLETING, STABLE = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
)

TRIGGERS: dict[tuple[str, str], Play] = {
    (EMPTY, "join"): _one(EMPTY, _join),
    (EMPTY, "DeleteGroups"): _one(EMPTY, lambda scene: scene.context.delete()),
    (EMPTY, "the last offset expires"): _offsets_expire,
    (PREPARING, "all members have joined"): _one(PREPARING, _all_rejoin),
    (PREPARING, "the last member that is missing leaves"): _one(
        PREPARING, _last_one_leaves
    ),
    (PREPARING, "the last member that is missing crashes"): _one(
        PREPARING, _last_one_crashes
    ),
    (PREPARING, "the last pending member expires"): _given_id_expires,
    (PREPARING, "rebalance timeout, some have joined"): _one(PREPARING, _some_are_late),
    (PREPARING, "rebalance timeout, none has joined"): _everybody_is_late,
    (PREPARING, "the last initial window is over"): _window(leaves=False),
    (PREPARING, "the last initial window is over, all have left"): _window(leaves=True),
    (PREPARING, "the last member leaves"): _everybody_leaves,
    (PREPARING, "the last member crashes"): _everybody_crashes,
    (COMPLETING, "SyncGroup of the leader"): _one(
        COMPLETING, lambda scene: scene.a.sync()
    ),
    (COMPLETING, "join"): _one(COMPLETING, _join),
    (COMPLETING, "leave"): _one(COMPLETING, lambda scene: scene.b.leave()),
    (COMPLETING, "crash"): _one(COMPLETING, _crash),
    (COMPLETING, "metadata change"): _one(
        COMPLETING, lambda scene: scene.b.join(protocols=BOTH)
    ),
    (COMPLETING, "static replacement"): _one(COMPLETING, _replace, static=True),
    (COMPLETING, "sync timeout"): _one(COMPLETING, _nobody_syncs),
    (STABLE, "join"): _one(STABLE, _join),
    (STABLE, "leave"): _one(STABLE, lambda scene: scene.b.leave()),
    (STABLE, "crash"): _one(STABLE, _crash),
    (STABLE, "metadata change"): _one(
        STABLE, lambda scene: scene.b.join(protocols=BOTH)
    ),
    (STABLE, "topic or partition change"): _one(STABLE, lambda scene: scene.a.join()),
    (STABLE, "static replacement, the chosen protocol changes"): _two_protocols(
        protocols("roundrobin")
    ),
    (STABLE, "sync timeout"): _follower_does_not_sync,
    (STABLE, "loaded with more members than `group.max.size`"): _one(
        STABLE, lambda scene: scene.context.restart(max_size=2)
    ),
}
"""All transitions of docs/reference/groups.md, by state and trigger."""

NO_TRIGGERS: dict[tuple[str, str], Play] = {
    (STABLE, "static replacement, the chosen protocol stays"): _two_protocols(
        protocols("range", metadata=b"other")
    ),
    (STABLE, "static replacement with other topics"): _one(
        STABLE,
        lambda scene: scene.newcomer(instance="i-B").join(protocols=BOTH),
        static=True,
    ),
    (STABLE, "static replacement of the leader"): _one(
        STABLE, lambda scene: scene.newcomer(instance="i-A").join(), static=True
    ),
    (STABLE, "a follower rejoins as before"): _one(
        STABLE, lambda scene: scene.b.join()
    ),
    (COMPLETING, "a follower rejoins as before"): _one(
        COMPLETING, lambda scene: scene.b.join()
    ),
    (COMPLETING, "the leader rejoins as before"): _one(
        COMPLETING, lambda scene: scene.a.join()
    ),
    (STABLE, "an id is given out"): _one(STABLE, lambda scene: scene.newcomer().join()),
    (STABLE, "a join that is refused"): _one(
        STABLE, lambda scene: scene.newcomer().join(member_id="made-up")
    ),
    (COMPLETING, "SyncGroup of a follower"): _one(
        COMPLETING, lambda scene: scene.b.sync()
    ),
    (STABLE, "a commit"): _one(STABLE, lambda scene: scene.b.commit("orders", 1)),
    (EMPTY, "a commit"): _one(
        EMPTY, lambda scene: scene.context.commit([("orders", 0, 1, -1, "")])
    ),
    (PREPARING, "all leave within an initial window"): _all_leave_within_the_window,
}
"""Triggers without a transition, as in docs/reference/groups.md."""
