"""Streams of events for the page, made from a seed, as the schema has them.

A scene tells what a group goes through; the events of several are merged by time.

    group = Scene("orders", seed=1)
    group.arrive(4)
    group.crash(group.members[2])
    events = merge(group)
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kohort.broker.events.schema import SCHEMA_VERSION

Event = dict[str, Any]

START_NS = 1_790_000_000_000_000_000
MS = 1_000_000
PARTITIONS = 12


@dataclass(slots=True, eq=False)
class Member:
    """A member of a scene's group, and what it owns."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    owned: list[int] = field(default_factory=list)


class Scene:
    """What one group goes through.

    Args:
        name: the group's id.
        seed: of the dice that times are thrown with.
        partitions: how many its only topic has.
        at_ms: when it begins.
    """

    def __init__(
        self, name: str, seed: int = 0, partitions: int = PARTITIONS, at_ms: float = 0
    ) -> None:
        self.name = name
        self.topic = f"{name}-topic"
        self.partitions = partitions
        self.members: list[Member] = []
        self.events: list[Event] = []
        self.generation = 0
        self.state = "Empty"
        self.leader: Member | None = None
        self.now = START_NS + int(at_ms * MS)
        self._dice = random.Random(f"{name}/{seed}")
        self._count = 0

    # -- what happens

    def arrive(
        self, count: int, *, static: bool = False, window_ms: int = 3000
    ) -> list[Member]:
        """New members join within one window, or one more generation."""
        fresh = [self._newcomer(static) for _ in range(count)]
        first, *others = fresh
        self._emit("member_id_given", first)
        self.wait(3)
        if self.state == "Empty":
            self._joined(first, "new", is_first=True)
            self._begin("member_joined", first, [first])
            self._emit(
                "window_opened",
                cause="first",
                delay_ms=window_ms,
                remaining_ms=300_000 - window_ms,
            )
            late = sorted(self._dice.uniform(1, window_ms - 5) for _ in others)
            for each, at in zip(others, late, strict=True):
                self._joined(each, "new", is_first=True, after_ms=at)
            self.members += fresh
            self.leader = first
            self._emit("leader_chosen", first, "first", previous_leader=None)
            self.wait(window_ms)
            self._complete("initial_delay", fresh, [], [], window_ms * MS)
        else:
            self._joined(first, "new", is_first=True)
            self._rebalance("member_joined", first, fresh)
        return fresh

    def leave(self, who: Member, reason: str | None = None) -> None:
        """A member says goodbye."""
        self._emit("member_left", who, "left", reason=reason, was_pending=False)
        self._without(who, "member_left")

    def crash(self, who: Member, session_ms: float = 10_000) -> None:
        """A member is not heard of for its session timeout."""
        self.wait(session_ms)
        self._emit("member_expired", who, silent_ns=int(session_ms * MS))
        self._without(who, "session_expired")

    def lag(self, who: Member, rebalance_timeout_ms: float = 5000) -> None:
        """The leader asks for a rebalance, and a member does not come back in time."""
        leader = self.leader
        assert leader is not None
        self._joined(leader, "leader", is_first=False)
        self._rebalance(
            "leader_rejoined", leader, late=who, timeout=rebalance_timeout_ms
        )

    def return_static(self, who: Member, *, rebalances: bool = False) -> None:
        """A static member comes back under a new id."""
        old, who.member_id = who.member_id, self._id(who.client_id)
        self._emit("member_replaced", who, replaced_member_id=old, **self._offer())
        owned = self._parts(who.owned)
        for member_id, now, gained, lost in (
            (old, [], [], owned),
            (who.member_id, owned, owned, []),
        ):
            self._emit(
                "partitions_changed",
                who,
                "replaced",
                owned=now,
                partitions_gained=gained,
                partitions_lost=lost,
            )
            self.events[-1]["member_id"] = member_id
        if rebalances:
            self._rebalance("static_member_replaced", who)

    def refuse(
        self, error: str = "GROUP_MAX_SIZE_REACHED", cause: str = "full"
    ) -> None:
        """A newcomer is turned away."""
        self._emit("member_refused", self._newcomer(static=False), cause, error=error)

    def heartbeats(self, for_ms: float, every_ms: float = 3000) -> None:
        """All members give signs of life for a while, and commit now and then."""
        for who in self.members:
            at = self._dice.uniform(0, every_ms)
            while at < for_ms:
                self._emit("heartbeat", who, error="NONE", after_ms=at)
                at += every_ms
        self.wait(for_ms)

    def commit(self, error: str | None = None) -> None:
        """All members commit, or are refused to."""
        for who in self.members:
            rows = [
                {"topic": self.topic, "partition": each, "offset": 100 + each}
                for each in who.owned
            ]
            if error is None:
                self._emit("offsets_committed", who, offsets=rows)
            else:
                self._emit("commit_refused", who, error=error, offsets=rows)

    def load(self) -> None:
        """A coordinator reads the group from its log."""
        self._emit(
            "group_loaded",
            state=self.state,
            members=[each.member_id for each in self.members],
            protocol="range",
            leader=self.leader.member_id if self.leader else None,
        )

    def wait(self, ms: float) -> None:
        """Time passes."""
        self.now += int(ms * MS)

    # -- how a rebalance goes

    def _without(self, who: Member, cause: str) -> None:
        self.members.remove(who)
        self._own(who, [], "gone")
        if self.leader is who:
            self.leader = self.members[0] if self.members else None
            self._emit(
                "leader_chosen", self.leader, "gone", previous_leader=who.member_id
            )
        self._rebalance(cause, who, lost=[who])

    def _rebalance(
        self,
        cause: str,
        culprit: Member,
        newcomers: Sequence[Member] = (),
        *,
        lost: Sequence[Member] = (),
        late: Member | None = None,
        timeout: float = 0,
    ) -> None:
        started = self.now
        self._begin(cause, culprit, [*self.members, *newcomers[:1]])
        for each in newcomers[1:]:
            self._joined(each, "new", is_first=True, after_ms=1)
        waits, longest = [], 0.0
        for each in self.members:
            if each is culprit and cause == "leader_rejoined":
                continue
            came = each is not late
            ms = self._dice.uniform(5, 900) if came else timeout
            longest = max(longest, ms)
            if came:
                self._joined(each, "rejoin", is_first=False, after_ms=ms)
            waits.append(
                {"member_id": each.member_id, "waited_ns": int(ms * MS), "came": came}
            )
        self.wait(longest + 1)
        gone = list(lost)
        if late is not None:
            self._emit("member_kicked", late, "did_not_join_in_time", was_pending=False)
            self.members.remove(late)
            self._own(late, [], "gone")
            gone.append(late)
        self.members += newcomers
        ended = "rebalance_timeout" if late is not None else "all_joined"
        if not self.members:
            ended = "nobody_left"
        self._complete(ended, newcomers, gone, waits, self.now - started)

    def _begin(self, cause: str, culprit: Member, members: Sequence[Member]) -> None:
        previous, self.state = self.state, "PreparingRebalance"
        self._emit(
            "rebalance_started",
            culprit,
            cause,
            previous_state=previous,
            members=[each.member_id for each in members],
            culprits=[culprit.member_id],
        )
        self._emit("group_state", state=self.state, previous_state=previous)

    def _complete(
        self,
        ended: str,
        gained: Sequence[Member],
        lost: Sequence[Member],
        waits: list[dict[str, Any]],
        duration_ns: int,
    ) -> None:
        self.generation += 1
        ids = [each.member_id for each in self.members]
        leader = self.leader
        self._emit(
            "join_completed",
            cause=ended,
            members=ids,
            gained=[each.member_id for each in gained],
            lost=[each.member_id for each in lost],
            waits=waits,
            duration_ns=duration_ns,
            protocol="range" if ids else None,
            leader=leader.member_id if leader else None,
        )
        state = "CompletingRebalance" if ids else "Empty"
        self._emit("group_state", state=state, previous_state=self.state)
        self.state = state
        if leader is not None:
            self._assign(leader)

    def _assign(self, leader: Member) -> None:
        divided = self._dice.uniform(2, 40) + len(self.members) * 0.3
        self.wait(divided)
        self._emit(
            "assignment_made",
            leader,
            protocol="range",
            leader=leader.member_id,
            bytes=30 * len(self.members),
            metadata_bytes=40 * len(self.members),
            duration_ns=int(divided * MS),
        )
        self._emit("group_state", state="Stable", previous_state=self.state)
        self.state = "Stable"
        for index, each in enumerate(self.members):
            waited = divided + self._dice.uniform(0, 30)
            later = waited - divided
            self._emit(
                "member_synced", each, waited_ns=int(waited * MS), after_ms=later
            )
            share = range(index, self.partitions, len(self.members))
            self._own(each, list(share), "assigned", after_ms=later)
        self.wait(35)

    def _own(
        self, who: Member, owned: list[int], cause: str, after_ms: float = 0
    ) -> None:
        before, who.owned = who.owned, owned
        if before != owned:
            self._emit(
                "partitions_changed",
                who,
                cause,
                owned=self._parts(owned),
                partitions_gained=self._parts(sorted({*owned} - {*before})),
                partitions_lost=self._parts(sorted({*before} - {*owned})),
                after_ms=after_ms,
            )

    # -- how events are written

    def _joined(
        self, who: Member, cause: str, *, is_first: bool, after_ms: float = 0
    ) -> None:
        self._emit(
            "member_joined",
            who,
            cause,
            is_first=is_first,
            after_ms=after_ms,
            **self._offer(),
        )

    def _offer(self) -> dict[str, Any]:
        return {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 300_000,
            "protocols": ["range"],
            "topics": [self.topic],
        }

    def _newcomer(self, static: bool) -> Member:
        self._count += 1
        client = f"{self.name}-consumer-{self._count}"
        return Member(
            self._id(client),
            client,
            f"/10.0.{self._count // 250}.{self._count % 250 + 1}",
            f"{self.name}-{self._count}" if static else None,
        )

    def _id(self, client: str) -> str:
        return f"{client}-{self._dice.getrandbits(128):032x}"

    def _parts(self, partitions: Sequence[int]) -> list[dict[str, Any]]:
        return (
            [{"topic": self.topic, "partitions": list(partitions)}]
            if partitions
            else []
        )

    def _emit(
        self,
        kind: str,
        who: Member | None = None,
        cause: str | None = None,
        *,
        reason: str | None = None,
        after_ms: float = 0,
        **fields: Any,
    ) -> None:
        at = self.now + int(after_ms * MS)
        self.events.append(
            {
                "kind": kind,
                "time_ns": at,
                "wall_ns": at,
                "group": self.name,
                "generation": self.generation,
                "member_id": who.member_id if who else None,
                "instance_id": who.instance_id if who else None,
                "client_id": who.client_id if who else None,
                "host": who.host if who else None,
                "cause": cause,
                "reason": reason,
                **fields,
            }
        )


def restart() -> list[Event]:
    """A broker is stopped, and started anew with what its log has."""
    before = Scene("orders")
    first = before.arrive(2)
    before.wait(2000)
    stopped = broker_event("node_stopped", (before.now - START_NS) / MS)
    events = merge(before, also=[stopped])
    after = Scene("orders", at_ms=(before.now - START_NS) / MS + 3000)
    after.members = first
    after.generation, after.state, after.leader = before.generation, "Stable", first[0]
    started = broker_event("node_started", (after.now - START_NS) / MS)
    after.load()
    after.wait(1000)
    after.leave(first[1])
    return [*events, *merge(after, also=[started], run="d4e5f6")]


def broker_event(kind: str, at_ms: float, **fields: Any) -> Event:
    """An event that is about no group."""
    at = START_NS + int(at_ms * MS)
    return {"kind": kind, "time_ns": at, "wall_ns": at, **fields}


def merge(
    *scenes: Scene, also: Sequence[Event] = (), run: str = "a1b2c3"
) -> list[Event]:
    """One stream of a single node: by time, and counted."""
    every = [*also, *(event for scene in scenes for event in scene.events)]
    every.sort(key=lambda event: event["time_ns"])
    return [
        {
            "schema": SCHEMA_VERSION,
            "run": run,
            "labels": {"scene": "made by tests"},
            "node": 0,
            "sequence": sequence,
            **event,
        }
        for sequence, event in enumerate(every, 1)
    ]


def story() -> list[Event]:
    """Two groups; every state of a member, and most causes."""
    orders = Scene("orders", at_ms=200)
    first = orders.arrive(3)
    orders.heartbeats(6000)
    orders.commit()
    orders.arrive(1)
    orders.wait(4000)
    orders.refuse()
    orders.heartbeats(5000)
    orders.leave(first[1], "the consumer is being closed")
    orders.heartbeats(4000)
    orders.commit("REBALANCE_IN_PROGRESS")
    orders.lag(first[2])
    orders.heartbeats(3000)
    orders.crash(orders.members[-1], 6000)
    orders.heartbeats(3000)
    payments = Scene("payments", at_ms=4000, partitions=6)
    static = payments.arrive(3, static=True)
    payments.heartbeats(9000)
    payments.return_static(static[1])
    payments.heartbeats(5000)
    payments.return_static(static[0], rebalances=True)
    payments.wait(2000)
    payments.leave(static[2])
    payments.heartbeats(6000)
    started = broker_event("node_started", 0)
    loaded = broker_event(
        "shard_loaded", 20, partition=7, groups=0, duration_ns=2_000_000
    )
    return merge(orders, payments, also=[started, loaded])


def deployment(members: int = 1000, crashes: int = 4) -> list[Event]:
    """One large group that comes up, and loses some."""
    fleet = Scene("fleet", partitions=2 * members)
    fleet.arrive(members)
    fleet.wait(5000)
    for number in range(crashes):
        fleet.crash(fleet.members[(number * 37 + 11) % len(fleet.members)])
        fleet.wait(4000)
    fleet.arrive(max(1, members // 50))
    fleet.wait(5000)
    return merge(fleet)


def many(count: int = 100_000, groups: int = 20, members: int = 10) -> list[Event]:
    """So many events, of groups whose members come and go."""
    scenes = [
        Scene(f"group-{number:02}", at_ms=number * 150) for number in range(groups)
    ]
    for scene in scenes:
        scene.arrive(members)
    turns = _turns(scenes)
    while sum(len(scene.events) for scene in scenes) < count:
        next(turns)
    return merge(*scenes)[:count]


def _turns(scenes: Sequence[Scene]) -> Iterator[None]:
    """In each of them something happens, for ever."""
    number = 0
    while True:
        for scene in scenes:
            scene.heartbeats(12_000)
            who = scene.members[number % len(scene.members)]
            if number % 3:
                scene.leave(who)
            else:
                scene.crash(who)
            scene.wait(2000)
            scene.arrive(1)
            scene.commit()
            yield
        number += 1
