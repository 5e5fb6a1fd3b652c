"""Names of members: their instance ids or client ids, as far as those are unique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kohort.broker.events.account.membership import Life, Member

LONGEST = 80
"""Characters of a name that are shown: clients may send 32,767 of them."""
SHORTEST = 4
"""Characters of a member id's UUID that are shown at least: 65,536 of them."""


class Names:
    """Names for the members of a group.

    A name is the instance id, else the client id. If two members with one client id
    were in the group at the same time, the first characters of the rest of their
    member ids follow. A restarted process keeps its name.
    """

    def __init__(self, members: Mapping[str, Member], lives: Sequence[Life]) -> None:
        self._names: dict[str, str] = {}
        self._processes = {each.member_id: each.process for each in members.values()}
        alike: dict[str, list[str]] = {}
        for member in members.values():
            alike.setdefault(_base(member), []).append(member.member_id)
        shared = _shared(members, lives)
        for base, member_ids in alike.items():
            if base in shared and len(member_ids) > 1:
                self._names |= _with_suffixes(base, [members[m] for m in member_ids])
            else:
                self._names |= dict.fromkeys(member_ids, base)

    def of(self, member_id: str) -> str:
        """A member's name; for an unknown member its id."""
        return self._names.get(member_id) or cut(member_id) or "a newcomer"

    def client(self, member: Member) -> str:
        """The name of a client that may never have been a member."""
        return self._names.get(member.member_id) or _base(member) or "a client"

    def is_same(self, one: str | None, other: str) -> bool:
        """True if two ids belong to one process that rejoined with a new id."""
        process = self._processes.get(other)
        return (
            one is not None
            and process is not None
            and self._processes.get(one) == process
            # Two that look the same, and were there at the same time, have two names.
            and self.of(one) == self.of(other)
        )

    def list(self, member_ids: Iterable[str], most: int = 3) -> str:
        """As in "ana, ben and cleo", or "ana, ben, cleo and 7 others"."""
        names = [self.of(member_id) for member_id in member_ids]
        if len(names) > most + 1:
            names[most:] = [f"{len(names) - most} others"]
        if len(names) < 2:
            return "".join(names)
        return f"{', '.join(names[:-1])} and {names[-1]}"


def cut(text: str, most: int = LONGEST) -> str:
    """A text, cut to a length that people read."""
    return text if len(text) <= most else f"{text[:most]}..."


def _base(member: Member) -> str:
    return cut(member.instance_id or member.client_id or member.member_id)


def _shared(members: Mapping[str, Member], lives: Sequence[Life]) -> set[str]:
    """Names that two members had at the same time."""
    latest: dict[str, float] = {}
    shared = set()
    for life in sorted(lives, key=lambda life: life.since_ns or 0):
        member = members.get(life.member_id)
        if member is None:
            continue
        base = _base(member)
        if base in latest and (life.since_ns or 0) < latest[base]:
            shared.add(base)
        until = float("inf") if life.until_ns is None else life.until_ns
        latest[base] = max(latest.get(base, 0), until)
    return shared


def _with_suffixes(base: str, members: Sequence[Member]) -> dict[str, str]:
    tails = {each.member_id: _tail(each) for each in members}
    longest = max(map(len, tails.values()))
    length = SHORTEST
    while length < longest and len({t[:length] for t in tails.values()}) < len(tails):
        length += 1
    return {m: f"{base}-{tail[:length]}" if tail else base for m, tail in tails.items()}


def _tail(member: Member) -> str:
    """The part of an id after the name, most often a UUID; shortened."""
    name = member.instance_id or member.client_id
    return member.member_id.removeprefix(name).lstrip("-")[:LONGEST]
