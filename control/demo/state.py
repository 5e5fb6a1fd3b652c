"""The observed state of the group, from the broker's answers and from its members.

Nothing here is made up for the picture. The group's state and the owners of partitions
come from DescribeGroups; generations, partitions and consumed records from the
consumers themselves; produced records from the broker's acknowledgements.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kohort.control.terminal import ranges

STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
"""States of a group, under Kafka's names and in their order."""
EMPTY, _, _, STABLE = STATES
EVENTS_KEPT = 1000
"""More than any terminal has lines; a demo may be left running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The command's options."""

    members: int
    partitions: int
    assignor: str
    pace: float
    port: int
    stays: bool
    group: str = "demo"
    topic: str = "orders"
    initial_delay_ms: int = 1_000
    session_timeout_ms: int = 3_000
    heartbeat_interval_ms: int = 700

    @property
    def is_cooperative(self) -> bool:
        """True if members keep partitions while they rebalance (KIP-429)."""
        return self.assignor == "cooperative-sticky"


class Standing(StrEnum):
    """Standing of a member."""

    JOINING = "joining"
    CONSUMING = "consuming"
    CRASHED = "crashed"
    REFUSED = "refused"
    LEAVING = "leaving"
    LEFT = "left"
    FAILED = "failed"
    GUEST = "guest"


LIVE = {Standing.JOINING, Standing.CONSUMING}


@dataclass(slots=True)
class Member:
    """A present, future or former member of the group."""

    name: str
    number: int
    """In the order of their coming."""
    standing: Standing = Standing.JOINING
    partitions: frozenset[int] = frozenset()
    """As the member reports them; for a guest, as the broker does."""
    generation: int = -1
    """The last that it joined, by its own words."""
    records: int = 0
    in_group: bool = False
    """True if the broker counts it as a member."""
    note: str = ""
    gone_at: float = 0.0
    """When it crashed."""


class Described(NamedTuple):
    """A member in DescribeGroups."""

    name: str
    partitions: frozenset[int]


class Kind(StrEnum):
    """Subject of an event."""

    SCENE = "scene"
    GROUP = "group"
    JOIN = "join"
    MOVE = "move"
    CRASH = "crash"
    REFUSAL = "refusal"
    LEAVE = "leave"


class Event(NamedTuple):
    """Something that happened, in plain words."""

    at: float
    """Seconds since the start."""
    kind: Kind
    text: str
    detail: str = ""
    """More text for lines; the picture shows it elsewhere."""


class Scene(NamedTuple):
    """The current scene."""

    where: str
    """Its number and how many there are, with a space behind."""
    title: str
    text: str


@dataclass(slots=True)
class Counts:
    """For the summary."""

    refused: int = 0
    produced: dict[int, int] = field(default_factory=dict)
    """By partition, the offset behind the last record that the broker has taken."""
    read: dict[int, int] = field(default_factory=dict)
    """Likewise, behind the last record that any member has got."""
    twice: int = 0
    crash_noticed_s: float | None = None
    """Seconds from the crash until the broker counted the member out."""


class Seen:
    """The observed state of broker and members; notifies of every change.

    Args:
        setup: the command's options.
        clock: the time in seconds.

    Attributes:
        address: the broker's.
        members: by name, in the order of their coming; guests by member id.
        state: the group's, as the broker says.
        seconds_in: how long the group was in each state since the last rebalance
            began.
        generation: the newest that a member has said it is in.
        owners: owners by partition, from the broker's last answer in state Stable.
        settled: the owners of the last generation with all partitions assigned.
    """

    def __init__(self, setup: Setup, clock: Callable[[], float]) -> None:
        self.setup = setup
        self.address = ""
        self.members: dict[str, Member] = {}
        self.state = ""
        self.generation = -1
        self.seconds_in: dict[str, float] = {}
        self.owners: dict[int, str] = {}
        self.settled: dict[int, str] = {}
        self.scene: Scene | None = None
        self.scenes = 0
        self.events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self.event_count = 0
        self.counts = Counts()
        self._clock = clock
        self._began = clock()
        self._state_since = self._began
        self._rebalancing_since: float | None = None
        self._settled_in = 0
        self.last_rebalance_s: float | None = None
        self._changed = asyncio.Event()

    # -- time and change

    def now(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._began

    def changed(self) -> None:
        """Wakes up all waiters."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def change(self) -> None:
        """Returns when something has changed."""
        await self._changed.wait()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Returns when something is so."""
        while not condition():
            await self.change()

    def tell(self, kind: Kind, text: str, detail: str = "") -> None:
        """Something has happened."""
        self.events.append(Event(self.now(), kind, text, detail))
        self.event_count += 1
        self.changed()

    def begin(self, number: int, title: str, text: str) -> None:
        """A scene begins; the number is 0 for one that is not counted."""
        where = f"{number}/{self.scenes}  " if number else ""
        self.scene = Scene(where, title, text)
        self.tell(Kind.SCENE, f"{where}{title}", text)

    # -- from members

    def add(self, name: str) -> Member:
        """A new member."""
        member = self.members[name] = Member(name, len(self.members))
        self.changed()
        return member

    def assigned(self, member: Member, partitions: frozenset[int]) -> None:
        """A member was assigned partitions, perhaps none."""
        member.partitions |= partitions
        member.standing = Standing.CONSUMING
        if partitions:
            self.tell(Kind.MOVE, f"{member.name} is assigned {_shown(partitions)}")
        self._look()

    def revoked(
        self, member: Member, partitions: frozenset[int], *, lost: bool
    ) -> None:
        """A member revoked partitions, or lost them."""
        member.partitions -= partitions
        if not member.partitions and member.standing in LIVE:
            member.standing = Standing.JOINING
        if partitions:
            verb = "loses" if lost else "revokes"
            self.tell(Kind.MOVE, f"{member.name} {verb} {_shown(partitions)}")

    def got(self, member: Member, partition: int, offset: int) -> None:
        """A member has got a record."""
        member.records += 1
        read = self.counts.read
        if offset < read.get(partition, 0):
            self.counts.twice += 1
        else:
            read[partition] = offset + 1

    # -- from the broker

    def described(
        self, state: str, generation: int, members: Mapping[str, Described]
    ) -> None:
        """The broker's answer to DescribeGroups.

        Args:
            state: the group's.
            generation: the newest that a member says it is in.
            members: by member id.
        """
        self._in_state(state)
        present = self._meet(members)
        for member in [*self.members.values()]:
            if member.in_group and member.name not in present:
                self._gone(member)
            member.in_group = member.name in present
        if state == STABLE:
            self.owners = {
                partition: name
                for name, each in present.items()
                for partition in each.partitions
            }
        elif state == EMPTY:
            self.owners = {}
        self.generation = max(generation, self.generation)
        self._look()
        self.changed()

    def _in_state(self, state: str) -> None:
        now = self.now()
        passed = now - self._state_since
        before, self.state, self._state_since = self.state, state, now
        if before:
            self.seconds_in[before] = self.seconds_in.get(before, 0) + passed
        is_still = state in (STABLE, EMPTY)
        if not is_still and self._rebalancing_since is None:
            self._rebalancing_since = now
            self.seconds_in = {}
            if before:
                self.tell(Kind.GROUP, f"a rebalance starts: {before} -> {state}")

    def _meet(self, members: Mapping[str, Described]) -> dict[str, Described]:
        """Members by name; guests are members that this program has not started."""
        present = {}
        for member_id, each in members.items():
            name = each.name
            own = self.members.get(name)
            if own is None or own.standing is Standing.GUEST:
                name = member_id
                if name not in self.members:
                    guest = self.add(name)
                    guest.standing, guest.note = Standing.GUEST, each.name
                    self.tell(Kind.JOIN, f"a guest joins: {each.name}")
                if self.state == STABLE:
                    self.members[name].partitions = each.partitions
            present[name] = each
        return present

    def _gone(self, member: Member) -> None:
        if member.standing is Standing.GUEST:
            del self.members[member.name]
            self.owners = {p: n for p, n in self.owners.items() if n != member.name}
            self.tell(Kind.LEAVE, f"a guest left: {member.note}")
        elif member.standing is Standing.CRASHED:
            after = self.now() - member.gone_at
            self.counts.crash_noticed_s = after
            member.partitions = frozenset()
            timeout_s = self.setup.session_timeout_ms / 1000
            self.tell(
                Kind.CRASH,
                f"the broker removes {member.name}, {after:.1f} s after the crash: "
                f"no heartbeat for {timeout_s:g} s",
            )

    def _look(self) -> None:
        """Logs the end of a rebalance."""
        if not self.is_settled or self.generation == self._settled_in:
            return
        began, self._rebalancing_since = self._rebalancing_since, None
        text = STABLE
        if began is not None:
            self.last_rebalance_s = self.now() - began
            text += f" after {self.last_rebalance_s:.2f} s"
        before, self.settled = self.settled, dict(self.owners)
        moved = [p for p, name in self.owners.items() if before.get(p) != name]
        what = f"{len(moved)} of {len(self.owners)} partitions moved"
        if not before:
            what = f"{len(self.owners)} partitions assigned"
        detail = "; ".join(
            f"{name} {_shown(owned)}" for name, owned in self.shares().items()
        )
        self._settled_in = self.generation
        self.tell(
            Kind.GROUP, f"{text}: generation {self.generation}, {what}", f": {detail}"
        )

    # -- derived

    @property
    def live(self) -> list[Member]:
        """Members of this program that are at work or want to be."""
        return [m for m in self.members.values() if m.standing in LIVE]

    @property
    def size(self) -> int:
        """Number of members, as the broker counts them."""
        return sum(m.in_group for m in self.members.values())

    @property
    def guests(self) -> int:
        """Number of guests in the group."""
        return sum(m.standing is Standing.GUEST for m in self.members.values())

    def shares(self) -> dict[str, list[int]]:
        """Partitions by the owner's displayed name, from the broker's last answer."""
        found: dict[str, list[int]] = {}
        for partition, name in sorted(self.owners.items()):
            member = self.members.get(name)
            shown = (
                member.note if member and member.standing is Standing.GUEST else name
            )
            found.setdefault(shown, []).append(partition)
        return dict(sorted(found.items()))

    @property
    def is_settled(self) -> bool:
        """True if all partitions are assigned, and members and broker agree."""
        if self.state != STABLE or len(self.owners) != self.setup.partitions:
            return False
        at_work = {Standing.CONSUMING, Standing.GUEST}
        return all(
            self.members[name].standing in at_work for name in self.owners.values()
        ) and all(
            member.in_group
            and member.standing is Standing.CONSUMING
            and member.partitions
            == {p for p, name in self.owners.items() if name == member.name}
            for member in self.live
        )

    @property
    def waiting(self) -> int | None:
        """Records not consumed yet; None while there are guests."""
        if self.guests:
            return None
        read = self.counts.read
        produced = self.counts.produced
        return sum(max(0, end - read.get(p, 0)) for p, end in produced.items())


def _shown(partitions: Iterable[int]) -> str:
    return ranges(partitions, ", ") or "none"
