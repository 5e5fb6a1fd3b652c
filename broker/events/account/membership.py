"""The members of a group, present and past, according to its events."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from kohort.broker.events.account.values import Event, Gone
from kohort.broker.events.words import COOPERATIVE

_UUID: Final = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)

MOST_GONE: Final = 1_000
"""Members that are gone but remembered: by their connection, or as a cause."""

_OFFERS: Final = frozenset({"member_joined", "member_replaced"})
"""Kinds that have a member's protocols and subscription."""

_OF_OTHERS: Final = frozenset(
    {"rebalance_started", "member_refused", "member_fenced", "rebalance_account"}
)
"""Kinds that introduce no member: they are about several, or about an unknown id."""

_IDENTITY: Final = (
    *("instance_id", "client_id", "host"),
    *("session_timeout_ms", "rebalance_timeout_ms", "group_type"),
)
"""Fields of events that are attributes of `Member`."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member id, and the client behind it.

    Attributes:
        member_id: as handed out by the coordinator.
        instance_id: its group.instance.id; None for a dynamic member.
        client_id: its client.id; if no event has it, the part of the member id before
            the UUID.
        host: its host as Kafka shows it.
        session_timeout_ms: of its last JoinGroup; None if unknown.
        rebalance_timeout_ms: likewise; consumers send their max.poll.interval.ms.
        protocols: the assignors that it supports, likewise.
        topics: its subscription, likewise.
        group_type: the protocol by which it joined; None if unknown.
        previous_id: the previous id of the same process, which joined anew on the same
            connection; None if unknown. Its own id if it left a consumer group and is
            back: a new process has a new id (KIP-1082).
    """

    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    host: str = ""
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    protocols: tuple[str, ...] | None = None
    topics: tuple[str, ...] | None = None
    group_type: str | None = None
    previous_id: str | None = None

    @property
    def process(self) -> tuple[str, str]:
        """Identity across restarts of the process: an instance id, or client and host.

        Two processes with the same client id on one host cannot be told apart.
        """
        if self.instance_id is not None:
            return ("instance", self.instance_id)
        return (self.client_id, self.host)


@dataclass(frozen=True, slots=True)
class Life:
    """A member id's time in the group.

    Attributes:
        member_id: the member id.
        since_ns: its first JoinGroup; None: before the first event.
        until_ns: when it went; None: it is a member.
        how: how it went.
        reason: the reason that it gave (KIP-800).
        until_sequence: sequence number of the event that ended it.
        silent_ns: how long the broker had not heard of it then; None if unknown.
        unpolled_ns: partition-time for which its application had not polled by then, if
            that is why it left. Whether it is shows when it is back, or its reason.
        is_connected: as in ``member_expired``.
        is_active: likewise.
        software: as in ``member_left``.
        has_other_offer: it joined with other assignors or topics than before.
    """

    member_id: str
    since_ns: int | None
    until_ns: int | None = None
    how: Gone | None = None
    reason: str | None = None
    until_sequence: int | None = None
    silent_ns: int | None = None
    unpolled_ns: int = 0
    is_connected: bool | None = None
    is_active: bool | None = None
    software: str | None = None
    has_other_offer: bool = False


class Membership:
    """The members of a group.

    Attributes:
        members: all ids ever seen.
        lives: their times in the group, in order of their beginnings.
        gone: of each id that went, the life that ended last.
        pending: ids that were handed out and not used yet (KIP-394).
        changed: whether a member's last JoinGroup offered other assignors or topics
            than the one before; members for which this is unknown are left out.
        connections: the member that last used each connection.
    """

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.lives: list[Life] = []
        self.gone: dict[str, Life] = {}
        self.pending: dict[str, None] = {}
        self.changed: dict[str, bool] = {}
        self.connections: dict[int, str] = {}
        self._life_of: dict[str, int] = {}

    def __contains__(self, member_id: object) -> bool:
        """Returns whether an id is a member now."""
        return member_id in self._life_of

    @property
    def present(self) -> list[str]:
        """The ids of the present members."""
        return [*self._life_of]

    def introduce(self, event: Event) -> None:
        """Notes the identity and the offer of the member that an event names."""
        member_id, kind = event["member_id"], event["kind"]
        known = self.members.get(member_id)
        if known is None:
            if kind in _OF_OTHERS:
                # the event may be about several members, or an id that was never handed
                # out
                return
            known = stranger(member_id)
        if event.get("connection") is not None:
            known = self._connected(known, event)
        if not known.host or kind in _OFFERS:
            known = self._introduced(known, event)
        if self._is_back(event):
            known = replace(known, previous_id=member_id)
        self.members[member_id] = known

    def _connected(self, member: Member, event: Event) -> Member:
        connection = event["connection"]
        before = self.connections.get(connection)
        self.connections[connection] = member.member_id
        if before is None or before == member.member_id or before in self:
            return member
        # Several clients behind one connection are separate processes.
        known = self.members.get(before)
        if known is None or known.client_id != (event.get("client_id") or ""):
            return member
        return replace(member, previous_id=member.previous_id or before)

    def _is_back(self, event: Event) -> bool:
        """Returns whether a member of a consumer group joins that has gone before."""
        return (
            event["kind"] == "member_joined"
            and event.get("group_type") == "consumer"
            and bool(event.get("is_first"))
            and event["member_id"] in self.gone
        )

    def _introduced(self, known: Member, event: Event) -> Member:
        told: dict[str, Any] = {
            name: event[name] for name in _IDENTITY if event.get(name) is not None
        }
        for name in ("protocols", "topics"):
            if event.get(name) is not None:
                told[name] = tuple(event[name])
        if event["kind"] == "member_joined":
            self.changed.pop(known.member_id, None)
            offer = [(getattr(known, n), told.get(n)) for n in ("protocols", "topics")]
            if all(None not in pair for pair in offer):
                self.changed[known.member_id] = any(old != new for old, new in offer)
        new = {
            name: each for name, each in told.items() if getattr(known, name) != each
        }
        return replace(known, **new) if new else known

    def meet(self, member_ids: Iterable[str]) -> None:
        """Adds members from before the first event."""
        for member_id in member_ids:
            if member_id not in self.members:
                self.members[member_id] = stranger(member_id)
            if member_id not in self:
                self.begin(member_id, None)

    def begin(self, member_id: str, since_ns: int | None) -> None:
        """Makes an id a member; None: since before the first event."""
        self._life_of[member_id] = len(self.lives)
        has_other_offer = self.changed.get(member_id, False)
        life = Life(member_id, since_ns, has_other_offer=has_other_offer)
        self.lives.append(life)

    def end(
        self,
        event: Event,
        member_id: str,
        how: Gone,
        at_ns: int,
        silent_ns: int | None = None,
        unpolled_ns: int = 0,
    ) -> None:
        """Ends an id's membership."""
        self.meet([member_id])
        at = self._life_of.pop(member_id)
        self.gone[member_id] = self.lives[at] = replace(
            self.lives[at],
            until_ns=at_ns,
            how=how,
            reason=event.get("reason"),
            until_sequence=event["sequence"],
            silent_ns=silent_ns,
            unpolled_ns=unpolled_ns,
            is_connected=event.get("is_connected"),
            is_active=event.get("is_active"),
            software=event.get("software"),
        )

    def inherit(self, new: str, old: str) -> None:
        """Copies the facts of a static member's old id to its new one."""
        before, now = self.members.get(old), self.members[new]
        if before is not None:
            self.members[new] = replace(
                now,
                instance_id=now.instance_id or before.instance_id,
                session_timeout_ms=now.session_timeout_ms or before.session_timeout_ms,
                rebalance_timeout_ms=now.rebalance_timeout_ms
                or before.rebalance_timeout_ms,
                protocols=now.protocols or before.protocols,
                topics=now.topics or before.topics,
            )

    def trim(self) -> bool:
        """Forgets the earliest members if many are gone; returns whether it did.

        A long-running broker has had more members than fit in its memory.
        """
        if len(self.gone) <= 2 * MOST_GONE:
            return False
        kept = {*[*self.gone][-MOST_GONE:], *self.pending, *self._life_of}
        self.members = {m: each for m, each in self.members.items() if m in kept}
        self.gone = {m: life for m, life in self.gone.items() if m in kept}
        self.changed = {m: each for m, each in self.changed.items() if m in kept}
        self.connections = {c: m for c, m in self.connections.items() if m in kept}
        self.lives = [life for life in self.lives if life.member_id in kept]
        self._life_of = {
            life.member_id: at
            for at, life in enumerate(self.lives)
            if life.until_ns is None
        }
        return True

    def is_eager(self, member_id: str, protocol: str | None) -> bool | None:
        """Returns whether a member revokes all its partitions to join; None if unknown.

        A member works eagerly if one of its assignors does: kafka-clients, franz-go and
        kohort take the protocol that all of them support. So between the two rolling
        restarts of KIP-429 a member is eager, whatever the group's protocol.

        A member of a consumer group never is (KIP-848).
        """
        member = self.members.get(member_id)
        if member is not None and member.group_type == "consumer":
            return False
        if member is not None and member.protocols:
            return not COOPERATIVE.issuperset(member.protocols)
        return None if protocol is None else protocol not in COOPERATIVE

    def may_want(self, topic: str) -> bool:
        """Returns whether a present member subscribes to a topic, or may."""
        wanted = (self.members[member_id].topics for member_id in self._life_of)
        return any(topics is None or topic in topics for topics in wanted)


def stranger(member_id: str) -> Member:
    """A member that no event has introduced."""
    return Member(member_id, client_id=client_id_of(member_id))


def client_id_of(member_id: str) -> str:
    """The part of a member id before the UUID: the client id, in Kafka."""
    return _UUID.sub("", member_id)
