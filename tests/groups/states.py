"""A group in each of the five states, and the requests that it may receive there."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tests.coordinator.context import Context
from tests.coordinator.driver import Pending
from tests.coordinator.member import Member, assign, subscribed

from kohort.broker.coordinator.effects import JoinResult, SyncResult

STATES = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
ORDERS = subscribed("orders")
SESSION_MS, REBALANCE_MS = 10_000, 30_000


class Scene:
    """A group of three consumers that subscribe to "orders", taken to a state.

    Attributes:
        context: the coordinator, with Kafka's default delay.
        a: the leader, now or before.
        b: a follower.
        c: a follower, too; in PreparingRebalance it is the last one to rejoin.
        old: in a group of static members, the member whose place B took. It was
            replaced in the first generation.
        context_class: plays with the coordinator; bench/answers.py replaces it by one
            that plays with a broker.
    """

    context_class: ClassVar[type[Context]] = Context

    def __init__(self, state: str, *, static: bool = False, **options: object) -> None:
        protocol_type = str(options.pop("protocol_type", "consumer"))
        self.context = self.context_class(
            **{"initial_rebalance_delay_ms": 3_000} | options,  # type: ignore[arg-type]
        )
        # A simple consumer came first; the group has its offsets.
        self.context.commit([("orders", 0, 5, -1, ""), ("other", 0, 5, -1, "")])
        self.a, self.b, self.c, self.old = (
            self.context.member(
                name,
                instance=f"i-{name[0]}" if static else None,
                protocols=ORDERS,
                protocol_type=protocol_type,
                session_ms=SESSION_MS,
                rebalance_ms=REBALANCE_MS,
            )
            for name in ("A", "B", "C", "B before")
        )
        second = self.old if static else self.b
        members = [self.a, second, self.c]
        for member in members:
            member.enter()
        self.context.sleep(6_000)
        self.context.sync_all(members)
        if static:
            self.b.join()
        getattr(self, f"_to_{state}")()
        assert self.context.state() == state

    def _to_Stable(self) -> None:
        """The group is Stable already."""

    def _to_PreparingRebalance(self) -> None:
        assert not self.a.join().answered

    def _to_CompletingRebalance(self) -> None:
        self._to_PreparingRebalance()
        self.b.join()
        assert self.c.join().result.generation_id == 2

    def _to_Empty(self) -> None:
        for member in (self.a, self.b, self.c):
            member.leave()

    def _to_Dead(self) -> None:
        self._to_Empty()
        assert self.context.delete() == 0

    def newcomer(self, **options: object) -> Member:
        """A new client that can join."""
        mine = {
            "protocols": ORDERS,
            "protocol_type": self.a.protocol_type,
            "session_ms": SESSION_MS,
        }
        return self.context.member("D", **mine | options)

    def heartbeats(self, seconds: int, *members: Member) -> None:
        """These members show signs of life for a while; the others do not."""
        for _ in range(seconds):
            for member in members:
                member.heartbeat()
            self.context.sleep(1_000)


def said(pending: Pending[JoinResult] | Pending[SyncResult]) -> str:
    """The answer to a join or a sync: an error code, or none yet."""
    return str(pending.result.error_code) if pending.answered else "waits"


def _with_given_id(scene: Scene) -> Member:
    """A client with a new id, whose group was deleted since if the state is Dead."""
    member = scene.newcomer()
    is_dead = scene.context.state() == "Dead"
    assert member.join().result.error_code == 79
    if is_dead:
        scene.context.delete()
    return member


def _commit(member: Member, **over: object) -> str:
    """A commit's error code; if versions differ, those of v8 and of v9."""
    codes = [
        str(member.commit("orders", 7, is_old=is_old, **over)) for is_old in (1, 0)
    ]
    return codes[0] if codes[0] == codes[1] else " / ".join(codes)


def _simple_commit(scene: Scene) -> str:
    result = scene.context.commit([("orders", 0, 7, -1, "")])
    return str(result.codes[0] if result.codes else result.error_code)


def _delete_offset(scene: Scene, topic: str) -> str:
    result = scene.context.delete_offsets((topic, [0]))
    return str(result.error_code or result.topics[0][1][0][1])


def _admin_leave(scene: Scene) -> str:
    result = scene.context.leave(("", "i-B"))
    return str(result.error_code or result.members[0][2])


STRANGER = "made-up"

PLAYS: dict[str, Callable[[str], str]] = {
    "JoinGroup v0 to v3, new member": lambda state: said(
        Scene(state).newcomer(requires_id=False).join()
    ),
    "JoinGroup v4 and later, new member": lambda state: said(
        Scene(state).newcomer().join()
    ),
    "JoinGroup, pending member": lambda state: said(
        _with_given_id(Scene(state)).join()
    ),
    "JoinGroup, unknown member id": lambda state: said(
        Scene(state).newcomer().join(member_id=STRANGER)
    ),
    "JoinGroup, leader, as before": lambda state: said(Scene(state).a.join()),
    "JoinGroup, follower, as before": lambda state: said(Scene(state).b.join()),
    "JoinGroup, follower, other metadata": lambda state: said(
        Scene(state).b.join(protocols=subscribed("orders", "other"))
    ),
    "JoinGroup, new static member": lambda state: said(
        Scene(state, static=True).newcomer(instance="i-D").join()
    ),
    "JoinGroup, static member that returns": lambda state: said(
        Scene(state, static=True).newcomer(instance="i-B").join()
    ),
    "JoinGroup, static member that was replaced": lambda state: said(
        Scene(state, static=True).old.join()
    ),
    "JoinGroup, no protocol in common": lambda state: said(
        Scene(state)
        .newcomer(requires_id=False)
        .join(protocols=subscribed("orders", protocol="strange"))
    ),
    "JoinGroup, new member, `group.max.size` = 3": lambda state: said(
        Scene(state, max_size=3).newcomer(requires_id=False).join()
    ),
    "SyncGroup, leader": lambda state: said(_lead(Scene(state))),
    "SyncGroup, follower": lambda state: said(Scene(state).b.sync()),
    "SyncGroup, other generation": lambda state: said(
        Scene(state).b.sync(generation_id=99)
    ),
    "SyncGroup, unknown member id": lambda state: said(
        Scene(state).b.sync(member_id=STRANGER)
    ),
    "SyncGroup, static member that was replaced": lambda state: said(
        Scene(state, static=True).old.sync()
    ),
    "Heartbeat": lambda state: str(Scene(state).b.heartbeat()),
    "Heartbeat, other generation": lambda state: str(
        Scene(state).b.heartbeat(generation_id=99)
    ),
    "Heartbeat, unknown member id": lambda state: str(
        Scene(state).b.heartbeat(member_id=STRANGER)
    ),
    "Heartbeat, static member that was replaced": lambda state: str(
        Scene(state, static=True).old.heartbeat()
    ),
    "LeaveGroup": lambda state: str(Scene(state).b.leave()),
    "LeaveGroup, pending member": lambda state: str(
        _with_given_id(Scene(state)).leave()
    ),
    "LeaveGroup, unknown member id": lambda state: str(
        Scene(state).b.leave(member_id=STRANGER)
    ),
    "LeaveGroup, an admin by instance id": lambda state: _admin_leave(
        Scene(state, static=True)
    ),
    "LeaveGroup, static member that was replaced": lambda state: str(
        Scene(state, static=True).old.leave()
    ),
    "OffsetCommit": lambda state: _commit(Scene(state).b),
    "OffsetCommit, other generation": lambda state: _commit(
        Scene(state).b, generation_id=99
    ),
    "OffsetCommit, unknown member id": lambda state: _commit(
        Scene(state).b, member_id=STRANGER
    ),
    "OffsetCommit, static member that was replaced": lambda state: _commit(
        Scene(state, static=True).old
    ),
    "OffsetCommit, neither member id nor generation": lambda state: _simple_commit(
        Scene(state)
    ),
    "OffsetFetch": lambda state: str(Scene(state).context.fetch().error_code),
    "OffsetDelete, topic that a member subscribes to": lambda state: _delete_offset(
        Scene(state), "orders"
    ),
    "OffsetDelete, other topic": lambda state: _delete_offset(Scene(state), "other"),
    "OffsetDelete, group of another protocol type": lambda state: _delete_offset(
        Scene(state, protocol_type="connect"), "other"
    ),
    "DescribeGroups, v0 to v5": lambda state: str(
        Scene(state).context.describe().error_code
    ),
    "DeleteGroups": lambda state: str(Scene(state).context.delete()),
}
"""The answer to each request in a state, by its name in docs/reference/groups.md."""


def _lead(scene: Scene) -> Pending[SyncResult]:
    return scene.a.sync(assign(scene.a, scene.b, scene.c))
