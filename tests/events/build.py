"""Streams of events: written by hand, or recorded from a coordinator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.coordinator.context import Context
from tests.coordinator.driver import START

from kohort.broker.events.account import Account, UnreadAccount
from kohort.broker.events.account.values import Event
from kohort.broker.events.findings.explain import explain
from kohort.broker.events.findings.fold import Folding
from kohort.broker.events.findings.names import Names
from kohort.broker.events.schema import COMMON

SECOND = 1_000_000_000
BEGIN = int(START) * SECOND


def recorded(context: Context, run: str = "run-1", since: int = 0) -> list[Event]:
    """The events of a coordinator, as a broker's only node numbers them."""
    header = {"schema": 1, "run": run, "labels": {}, "node": 0}
    return [
        {**header, "sequence": number, "wall_ns": event["time_ns"], **event}
        for number, event in enumerate(context.events(since), since + 1)
    ]


def accounted(events: Sequence[Event]) -> list[Event]:
    """The same events, with the account of each rebalance where it is settled.

    As a broker publishes them, but for one thing: they come at once, in one go with the
    event that settles them.
    """
    folding, found = Folding(), list[Event]()
    numbers: dict[tuple[str, int], int] = {}

    def add(event: Event) -> None:
        source = event["run"], event["node"]
        numbers[source] = numbers.get(source, 0) + 1
        found.append({**event, "sequence": numbers[source]})

    for event in events:
        add(event)
        for account in folding.take(found[-1]):
            names = ("schema", "labels", "time_ns", "wall_ns")
            common = {
                field.name: getattr(account, field.name, None) for field in COMMON
            }
            common |= {name: event[name] for name in names}
            add({**common, "kind": account.kind, **own_fields(account, folding)})
    return found


def own_fields(account: Account | UnreadAccount, folding: Folding) -> dict[str, Any]:
    """The fields of an account's event: a rebalance has its sentence."""
    if isinstance(account, UnreadAccount):
        return account.own_fields()
    facts = folding.facts(account.group)
    words = explain(account, facts, Names(facts.members, facts.lives))
    return {**account.own_fields(), "words": words}


class Stream:
    """Events of one group, as a coordinator makes them, in the words of a scene.

    Members are named; their ids are that name and a number, another one for each time
    that they come: "ana-1".
    """

    def __init__(self, group: str = "g", *, protocol: str = "range") -> None:
        self.group = group
        self.protocol = protocol
        self.events: list[dict[str, Any]] = []
        self.now = BEGIN
        self.run = "run-1"
        self.generation = 0
        self.ids: dict[str, str] = {}
        self.instances: dict[str, str] = {}
        self.members: list[str] = []
        self.owned: dict[str, Sequence[int]] = {}
        self.state = "Empty"
        self._count = 0

    def wait(self, seconds: float) -> None:
        """Time goes by."""
        self.now += round(seconds * SECOND)

    def say(self, kind: str, name: str | None = None, **fields: Any) -> None:
        """An event of a kind, about a member perhaps."""
        member_id = None if name is None else self.ids.get(name)
        self.events.append(
            {
                "schema": 1,
                "run": self.run,
                "labels": {},
                "node": 0,
                "sequence": len(self.events) + 1,
                "time_ns": self.now,
                "wall_ns": self.now,
                "kind": kind,
                "group": self.group,
                "generation": self.generation,
                "member_id": member_id,
                "instance_id": None if name is None else self.instances.get(name),
                "client_id": name,
                "host": None if name is None else f"/{name}",
                "cause": None,
                "reason": None,
                **fields,
            }
        )

    def clock_moves(self, seconds: float, *, credits_heartbeats: bool = False) -> None:
        """A test moves the clock ahead; what happens on the way follows."""
        until_ns = self.now + round(seconds * SECOND)
        self.say(
            "clock_advanced",
            generation=None,
            group=None,
            until_ns=until_ns,
            credits_heartbeats=credits_heartbeats,
        )

    # -- members

    def comes(self, name: str, instance: str | None = None, **fields: Any) -> None:
        """A newcomer's JoinGroup is taken."""
        self._count += 1
        self.ids[name] = f"{name}-{self._count}"
        if instance is not None:
            self.instances[name] = instance
        self.members.append(name)
        usual = {
            "session_timeout_ms": 45_000,
            "rebalance_timeout_ms": 300_000,
            "protocols": [self.protocol],
        }
        new = {"cause": "new", "is_first": True}
        self.say("member_joined", name, **{**usual, **new, **fields})

    def comes_back(self, name: str, silent_s: float = 10) -> None:
        """A static member takes its old place under a new id (KIP-345)."""
        old = self.ids[name]
        self._count += 1
        self.ids[name] = f"{name}-{self._count}"
        silent_ns = round(silent_s * SECOND)
        self.say("member_replaced", name, replaced_member_id=old, silent_ns=silent_ns)

    def rejoins(self, name: str, cause: str = "rejoin", **fields: Any) -> None:
        """A member's JoinGroup is taken."""
        self.say("member_joined", name, cause=cause, is_first=False, **fields)

    def leaves(self, name: str, reason: str | None = None, **more: Any) -> None:
        """A member sends LeaveGroup."""
        fields = {"cause": "left", "reason": reason, "was_pending": False, **more}
        self.say("member_left", name, **fields)
        self._is_gone(name)

    def expires(self, name: str, silent_s: float = 45, **fields: Any) -> None:
        """A member's session is over."""
        silent_ns = round(silent_s * SECOND)
        self.say("member_expired", name, silent_ns=silent_ns, **fields)
        self._is_gone(name)

    def _is_gone(self, name: str) -> None:
        self.members.remove(name)
        if self.owned.pop(name, ()):
            self.say("partitions_changed", name, cause="gone", **parts((), (), (0,)))

    # -- rebalances

    def rebalance(
        self,
        cause: str,
        *culprits: str,
        joins: Mapping[str, float] | None = None,
        owned: Mapping[str, Sequence[int]] | None = None,
        reason: str | None = None,
        window_s: float = 0.0,
        sync_s: float = 0.0,
        ended: str | None = None,
    ) -> None:
        """A whole rebalance.

        Args:
            cause: as in the schema.
            culprits: the members that caused it.
            joins: members that join, each with the seconds after the one before; None
                for all that have not joined, at once.
            owned: the partitions of topic "t" of each member afterwards; None for no
                change.
            reason: the reason that the culprits send.
            window_s: the initial delay of an Empty group.
            sync_s: the time that the leader takes.
            ended: the end of the join phase; None for the usual one.
        """
        began, before = self.now, [*self.members]
        self.starts(cause, *culprits, reason=reason)
        is_initial = self.state == "Empty"
        if is_initial and window_s:
            delay_ms = round(window_s * 1000)
            self.say("window_opened", cause="first", delay_ms=delay_ms)
        self.wait(window_s)
        here = culprits if cause in {"member_joined", "leader_rejoined"} else ()
        others = dict.fromkeys((m for m in before if m not in here), 0.0)
        for name, seconds in (others if joins is None else joins).items():
            self.wait(seconds)
            self.rejoins(name)
        usual = "initial_delay" if is_initial and window_s else "all_joined"
        self.joined(ended or usual, began)
        if self.members:
            self.wait(sync_s)
            self.divided(owned or {})

    def starts(self, cause: str, *culprits: str, reason: str | None = None) -> None:
        """A rebalance starts."""
        ids = [self.ids[name] for name in culprits]
        self.say(
            "rebalance_started",
            culprits[0] if culprits else None,
            cause=cause,
            reason=reason,
            culprits=ids,
            previous_state=self.state,
            members=[self.ids[name] for name in self.members],
        )

    def joined(
        self, ended: str, began: int, waits: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """Its join phase is over."""
        self.generation += 1
        ids = [self.ids[name] for name in self.members]
        self.say(
            "join_completed",
            cause=ended if ids else "nobody_left",
            members=ids,
            gained=[],
            lost=[],
            waits=[*waits],
            duration_ns=self.now - began,
            protocol=self.protocol if ids else None,
            leader=ids[0] if ids else None,
        )
        self.state = "CompletingRebalance" if ids else "Empty"

    def divided(self, owned: Mapping[str, Sequence[int]]) -> None:
        """The leader has sent the assignment, and all members synced."""
        self.say("assignment_made", self.members[0], leader=self.ids[self.members[0]])
        self.state = "Stable"
        for name, new in owned.items():
            old = self.owned.get(name, ())
            if [*old] != [*new]:
                gained = [p for p in new if p not in old]
                lost = [p for p in old if p not in new]
                fields = parts(new, gained, lost)
                self.say("partitions_changed", name, cause="assigned", **fields)
            self.owned[name] = new
        for name in self.members:
            self.say("member_synced", name, waited_ns=0)


def parts(
    owned: Sequence[int], gained: Sequence[int], lost: Sequence[int]
) -> dict[str, Any]:
    """The fields of ``partitions_changed``, of the topic "t"."""
    return {
        name: [{"topic": "t", "partitions": [*numbers]}] if numbers else []
        for name, numbers in (
            ("owned", owned),
            ("partitions_gained", gained),
            ("partitions_lost", lost),
        )
    }
