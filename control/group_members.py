"""Members of a group as rows, and the ways to name one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.classic.member import Member as ClassicMember
from kohort.broker.notice import Who
from kohort.control.group_views import AnyGroup, AnyMember, members_of, partitions_of

MOST_LISTED = 10
"""Most names that an error lists."""


class UnknownMemberError(LookupError):
    """A name fits no member, or several; lists the members that exist."""


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One member, as it was when it was asked for.

    Attributes:
        member_id: its member id.
        instance_id: its ``group.instance.id``; None: it is a dynamic member.
        client_id: its ``client.id``.
        host: the address that it joined from, as Kafka shows it.
        is_muted: its requests do not renew its session.
        is_pending: it has an id, and has not joined yet (KIP-394).
        waits_for: its request that waits for an answer, "join" or "sync"; None: none.
        assignment: its partitions by topic, in order; empty if its assignor is not
            one of consumers.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    is_muted: bool = False
    is_pending: bool = False
    waits_for: Literal["join", "sync"] | None = None
    assignment: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The same as JSON's types."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShown:
    """A group and its members.

    Attributes:
        group: its id.
        state: Kafka's name; "Dead": the group is unknown, so far.
        generation: -1 for an unknown group; of a consumer group (KIP-848) its epoch.
        protocol_type: as its members joined with.
        protocol: the assignor, for consumers.
        leader: the member id of the leader; consumer groups have none.
        coordinator: the id of a node; -1 for none.
        held: the state in which it is held; None: it is not.
        max_size: its limit; None: that of group.max.size.
        rebalances: the number of rebalances since the broker started.
        members: in Kafka's order.
        pending_members: those that have a member id, and have not joined yet.
    """

    group: str
    state: str
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    coordinator: int
    held: (
        Literal["PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"]
        | None
    )
    max_size: int | None
    rebalances: int
    members: list[MemberRow]
    pending_members: list[MemberRow]


MemberName = str | MemberRow | Callable[[MemberRow], object]
"""A member's id, or its ``group.instance.id``, or its ``client.id``, tried in this
order; or one of `Group.members`; or a function that is true for one of them."""


def rows_of(group: AnyGroup) -> list[MemberRow]:
    """The members of a group, in Kafka's order."""
    return [_row(group, member) for member in members_of(group)]


def pending_rows_of(group: AnyGroup) -> list[MemberRow]:
    """The pending members of a group; consumer groups have none."""
    if not isinstance(group, ClassicGroup):
        return []
    return [_pending_row(each.identity) for each in group.pending_members.values()]


def _row(group: AnyGroup, member: AnyMember) -> MemberRow:
    waits_for: Literal["join", "sync"] | None = None
    if isinstance(member, ClassicMember):
        if member.join_token is not None:
            waits_for = "join"
        elif member.sync_token is not None:
            waits_for = "sync"
    return MemberRow(
        member.member_id,
        member.group_instance_id,
        member.client.id,
        member.client.host,
        is_muted=member.is_muted,
        waits_for=waits_for,
        assignment=partitions_of(group, member),
    )


def _pending_row(who: Who) -> MemberRow:
    client_id, host = ("", "") if who.client is None else who.client[:2]
    member_id = who.member_id or ""
    return MemberRow(member_id, None, client_id, host, is_pending=True)


def find(
    group: AnyGroup,
    name: MemberName | None = None,
    *,
    member_id: str | None = None,
    instance_id: str | None = None,
    client_id: str | None = None,
) -> MemberRow:
    """Returns the one member of a group that a name fits.

    A pending member is found only where no member fits.

    Args:
        group: the group.
        name: see `MemberName`.
        member_id: its member id; like the following ones in place of `name`.
        instance_id: its ``group.instance.id``.
        client_id: its ``client.id``.

    Raises:
        UnknownMemberError: it fits no member, or several.
        TypeError: not exactly one of the four is given.
    """
    keywords = {
        "member_id": member_id,
        "instance_id": instance_id,
        "client_id": client_id,
    }
    given = {key: value for key, value in keywords.items() if value is not None}
    if len(given) + (name is not None) != 1:
        raise TypeError("give a member, or one of member_id, instance_id, client_id")
    if isinstance(name, MemberRow):
        name = name.member_id
    if isinstance(name, str):
        tries = [{key: name} for key in keywords]
        said = repr(name)
    else:
        tries = [given]
        said = " and ".join(f"{key} {value!r}" for key, value in given.items())
    fits = name if callable(name) else None
    for rows in (rows_of(group), pending_rows_of(group)):
        for wanted in tries:
            found = [row for row in rows if _fits(row, wanted, fits)]
            if len(found) > 1:
                raise UnknownMemberError(_several(group, found, said))
            if found:
                return found[0]
    raise UnknownMemberError(_no_member(group, said))


def _fits(
    row: MemberRow,
    wanted: Mapping[str, str],
    predicate: Callable[[MemberRow], object] | None,
) -> bool:
    if predicate is not None:
        return bool(predicate(row))
    return all(getattr(row, key) == value for key, value in wanted.items())


def _no_member(group: AnyGroup, said: str) -> str:
    rows = [*rows_of(group), *pending_rows_of(group)]
    none = f"group {group.group_id!r} has no member"
    none += f" {said}" if said else " that matches the function"
    if not rows:
        return f"{none}; it has no members"
    return f"{none}; its members are: {listed(map(_shown, rows))}"


def _several(group: AnyGroup, found: Sequence[MemberRow], said: str) -> str:
    fit = f"{said} matches" if said else "the function matches"
    fit += f" {len(found)} members of group {group.group_id!r}"
    return f"{fit}: {listed(map(_shown, found))}"


def _shown(row: MemberRow) -> str:
    notes = [f"client id {row.client_id!r}"]
    if row.instance_id is not None:
        notes.append(f"instance id {row.instance_id!r}")
    if row.is_pending:
        notes.append("pending")
    return f"{row.member_id} ({', '.join(notes)})"


def listed(names: Iterable[str]) -> str:
    """Returns the first names, and the number of the others."""
    every = [*names]
    rest = len(every) - MOST_LISTED
    more = f" and {rest} more" if rest > 0 else ""
    return ", ".join(every[:MOST_LISTED]) + more
