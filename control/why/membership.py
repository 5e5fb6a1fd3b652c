"""Who is, was, and may become a member, as events come in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kohort.control.why.model import Event, Gone, Life, Member

_UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)


class Membership:
    """The members of a group.

    Attributes:
        members: all ids that were ever seen, and whom they stand for.
        lives: their times in the group, in order of their beginnings.
        gone: of each id that went, the life that ended last.
        pending: ids that were given out and not used yet (KIP-394).
        changed: whether a member's last JoinGroup offered other assignors or topics
            than the one before; it is missing where that is not known.
    """

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.lives: list[Life] = []
        self.gone: dict[str, Life] = {}
        self.pending: dict[str, None] = {}
        self.changed: dict[str, bool] = {}
        self._life_of: dict[str, int] = {}

    def __contains__(self, member_id: object) -> bool:
        """Whether somebody is a member now."""
        return member_id in self._life_of

    @property
    def present(self) -> list[str]:
        """The ids of the members that there are."""
        return [*self._life_of]

    def introduce(self, event: Event) -> None:
        """Takes in what an event says of the member that it names."""
        member_id = event["member_id"]
        known = self.members.get(member_id)
        if known is None:
            if event["kind"] in {"rebalance_started", "member_refused"}:
                return  # its id may be several, or none that was ever given out
            known = stranger(member_id)
        told: dict[str, Any] = {
            name: event[name]
            for name in ("instance_id", "client_id", "host", "session_timeout_ms")
            if event.get(name) is not None
        }
        for name in ("protocols", "topics"):
            if event.get(name) is not None:
                told[name] = tuple(event[name])
        if event["kind"] == "member_joined":
            self.changed.pop(member_id, None)
            offer = [(getattr(known, n), told.get(n)) for n in ("protocols", "topics")]
            if all(None not in pair for pair in offer):
                self.changed[member_id] = any(old != new for old, new in offer)
        self.members[member_id] = replace(known, **told) if told else known

    def meet(self, member_ids: Iterable[str]) -> None:
        """Members that were there before the events begin."""
        for member_id in member_ids:
            if member_id not in self.members:
                self.members[member_id] = stranger(member_id)
            if member_id not in self:
                self.begin(member_id, None)

    def begin(self, member_id: str, since_ns: int | None) -> None:
        """Somebody is a member from now on; None: since before the events begin."""
        self._life_of[member_id] = len(self.lives)
        self.lives.append(Life(member_id, since_ns))

    def end(self, event: Event, member_id: str, how: Gone, at_ns: int) -> None:
        """Somebody is no member any more."""
        self.meet([member_id])
        at = self._life_of.pop(member_id)
        self.gone[member_id] = self.lives[at] = replace(
            self.lives[at],
            until_ns=at_ns,
            how=how,
            reason=event.get("reason"),
            until_sequence=event["sequence"],
        )

    def inherit(self, new: str, old: str) -> None:
        """What is known of a static member holds for the id that it came back under."""
        before, now = self.members.get(old), self.members[new]
        if before is not None:
            self.members[new] = replace(
                now,
                instance_id=now.instance_id or before.instance_id,
                session_timeout_ms=now.session_timeout_ms or before.session_timeout_ms,
                protocols=now.protocols or before.protocols,
                topics=now.topics or before.topics,
            )

    def asker(self, event: Event) -> Member:
        """Who sent a request that was refused; it may never have been a member."""
        member_id = event.get("member_id") or ""
        return self.members.get(member_id) or Member(
            member_id,
            event.get("instance_id"),
            event.get("client_id") or client_id_of(member_id),
            event.get("host") or "",
        )


def stranger(member_id: str) -> Member:
    """A member that no event has introduced."""
    return Member(member_id, client_id=client_id_of(member_id))


def client_id_of(member_id: str) -> str:
    """What stands before the UUID in a member id: its client id, in Kafka."""
    return _UUID.sub("", member_id)
