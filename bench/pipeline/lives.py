"""Histories of groups on virtual time: kohort's own coordinator, and clients made up.

Members join, crash, are bounced, come too many, pause for too long, and commit
processed records of topics that grow steadily; the coordinator moves. The
coordinator's events are real, down to their order; only the clients are not.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from tests.coordinator.context import Context
from tests.coordinator.driver import START, Pending
from tests.coordinator.member import Member

from kohort.broker.coordinator.effects import CommitResult, Effect
from kohort.broker.coordinator.events import CommitOffsets, Offsets
from kohort.broker.events.render import render
from kohort.broker.notice import Notice
from kohort.broker.runtime.effects import Append, Reply
from kohort.broker.runtime.events import Appended
from kohort.protocol.consumer import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    encode,
)

TOPIC: Final = "orders"
STEP_S: Final = 0.25
"""How often clients do something."""
HEARTBEAT_S: Final = 3.0
SPEED: Final = 4.0
"""Rate at which a consumer processes, by the rate at which a partition grows."""
SESSION_MS: Final = 10_000
REBALANCE_MS: Final = 15_000
TIRED_OF_FULL_S: Final = 5.0

_RETRY: Final = frozenset({14, 15, 16})
"""The coordinator is elsewhere, or still loading."""
_REBALANCE_IN_PROGRESS: Final = 27
_GROUP_IS_FULL: Final = 81


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of group.

    Attributes:
        name: its name.
        members: how many it usually has.
        partitions: of its topic.
        commit_s: how often a member commits.
        protocol: its assignor.
        is_static: whether members have instance ids (KIP-345).
        per_hour: incidents per hour, by kind: see `Life`.
        most: group.max.size; 0 for no limit.
        delay_ms: group.initial.rebalance.delay.ms.
        rate: records per second and partition.
        session_ms: session.timeout.ms of its members.
    """

    name: str
    members: int
    partitions: int
    commit_s: float
    protocol: str = "range"
    is_static: bool = False
    per_hour: tuple[tuple[str, float], ...] = ()
    most: int = 0
    delay_ms: int = 3_000
    rate: float = 40.0
    session_ms: int = SESSION_MS


class Client:
    """A consumer: joins, syncs, sends heartbeats, processes, commits."""

    def __init__(self, life: Life, name: str, instance: str | None) -> None:
        self.life = life
        self.name = name
        self.instance = instance
        self.is_up = False
        self.owned: tuple[int, ...] = ()
        self.positions: dict[int, float] = {}
        self.quiet_until = 0.0
        self.doing = "nothing"
        self._member: Member | None = None
        self._pending: Pending[Any] | None = None
        self._next_beat = self._next_commit = self._worked_until = 0.0

    @property
    def member_id(self) -> str:
        """Its member id; empty before it has one."""
        return "" if self._member is None else self._member.member_id

    # -- its process

    def start(self) -> None:
        """The process begins, and joins."""
        self.is_up = True
        self.owned = ()
        self._member = self.life.context.member(
            self.name,
            instance=self.instance,
            session_ms=self.life.kind.session_ms,
            rebalance_ms=REBALANCE_MS,
            protocols=self._subscription(),
        )
        self._join()

    def crash(self) -> None:
        """The process is gone, without LeaveGroup."""
        self.is_up = False
        self.owned = ()
        self.doing = "nothing"

    def stop(self) -> None:
        """The process commits, and ends; a static member does not leave."""
        if self._member is not None and self.instance is None and self.is_up:
            if self.doing == "working":
                self._commit()
            if self.doing in {"working", "rejoining"}:
                self._member.leave()
        self.crash()

    def say_goodbye(self) -> None:
        """The process ends for good, and leaves, even if it is a static member."""
        if self._member is not None and self._member.member_id:
            self._member.leave()
        self.crash()

    def pause(self, seconds: float) -> None:
        """Processing hangs: nothing is sent for some seconds."""
        self.quiet_until = self.life.now + seconds

    # -- every moment

    def step(self) -> None:
        """Does its next actions that are due."""
        if not self.is_up or self.life.now < self.quiet_until:
            return
        if self.doing == "joining":
            self._see_joined()
        elif self.doing == "syncing":
            self._see_synced()
        elif self.doing in {"rejoining", "dividing"}:
            self._next_of(self.doing)
        elif self.doing == "working":
            self._work()

    def _subscription(self) -> list[tuple[str, bytes]]:
        name = self.life.kind.protocol
        owned = [TopicPartitions(TOPIC, self.owned)] if self.owned else []
        is_cooperative = name == "cooperative-sticky"
        said = Subscription((TOPIC,), None, owned if is_cooperative else ())
        return [(name, encode(said, 1))]

    @property
    def _here(self) -> Member:
        if self._member is None:
            raise RuntimeError("it has not started")
        return self._member

    def _join(self) -> None:
        if self.life.kind.protocol != "cooperative-sticky":
            self.owned = ()
        self._here.protocols = self._subscription()
        self._pending = self._here.enter()
        self.doing = "joining"
        self._see_joined()

    def _wait(self, doing: str, seconds: float) -> None:
        self.doing = doing
        self.quiet_until = self.life.now + seconds

    def _see_joined(self) -> None:
        pending = self._pending
        if pending is None or not pending.answered:
            return
        result = pending.result
        if result.error_code == 0:
            if result.leader == self._here.member_id:
                self._wait("dividing", self.life.random.uniform(0.05, 0.4))
            else:
                self._sync(())
        elif result.error_code == _GROUP_IS_FULL:
            self._wait("rejoining", TIRED_OF_FULL_S)
        else:
            self._begin_again(result.error_code)

    def _begin_again(self, code: int) -> None:
        if code not in _RETRY and code != _REBALANCE_IN_PROGRESS:
            self._here.member_id = ""
            self.owned = ()
        self._wait("rejoining", self.life.random.uniform(0.1, 0.5))

    def _next_of(self, doing: str) -> None:
        if doing == "rejoining":
            # Clients commit partitions that they give up; too late, if removed already.
            self._commit()
            self._join()
        else:
            told = self._here.told
            self._sync(self.life.divide([row[0] for row in told]))

    def _sync(self, assignments: Sequence[tuple[str, bytes]]) -> None:
        self._pending = self._here.sync(assignments)
        self.doing = "syncing"
        self._see_synced()

    def _see_synced(self) -> None:
        pending = self._pending
        if pending is None or not pending.answered:
            return
        if pending.result.error_code:
            self._begin_again(pending.result.error_code)
            return
        before, self.owned = self.owned, _owned(pending.result.assignment)
        for partition in self.owned:
            if partition not in before:
                self.positions[partition] = self.life.committed.get(partition, 0.0)
        self._worked_until = now = self.life.now
        self._next_beat = now + HEARTBEAT_S
        # Members do not commit at one moment.
        self._next_commit = now + self.life.kind.commit_s * self.life.random.random()
        self.doing = "working"
        if set(before) - set(self.owned):
            # Revoked partitions can go to others now (KIP-429).
            self._wait("rejoining", 0.1)

    def _work(self) -> None:
        now = self.life.now
        if now >= self._next_commit:
            self._next_commit = max(now, self._next_commit + self.life.kind.commit_s)
            if not self._commit():
                return
        if now >= self._next_beat:
            self._next_beat = now + HEARTBEAT_S
            code = self._here.heartbeat()
            if code == _REBALANCE_IN_PROGRESS:
                self._wait("rejoining", self._to_finish_s())
            elif code and code not in _RETRY:
                self._begin_again(code)

    def _to_finish_s(self) -> float:
        """Time to finish the records at hand; some take too long."""
        longest = self.life.random.choices(
            (1, 6, 2.0 * REBALANCE_MS / 1000), (88, 10, 2)
        )
        return self.life.random.uniform(0.05, longest[0])

    def _commit(self) -> bool:
        """Commits processed records; returns whether that was accepted."""
        if not self.owned:
            return True
        life = self.life
        room = (life.now - self._worked_until) * life.kind.rate * SPEED
        self._worked_until = life.now
        rows = []
        for partition in self.owned:
            end = life.end(partition)
            position = min(end, self.positions[partition] + room)
            self.positions[partition] = position
            rows.append((TOPIC, partition, int(position), -1, "", int(end)))
        code = life.commit(self._here, rows)
        if code == 0:
            for partition in self.owned:
                life.committed[partition] = self.positions[partition]
            return True
        if code not in _RETRY:
            self._begin_again(code)
        return False


def _owned(assignment: bytes) -> tuple[int, ...]:
    if not assignment:
        return ()
    parts = decode_assignment(assignment).assigned_partitions
    return tuple(p for part in parts for p in part.partitions)


class _Told(Context):
    """A coordinator that takes commits without looking at all of its state."""

    def told(self) -> list[tuple[Notice, float]]:
        """All that it has noticed, and when."""
        return [*zip(self.notices, self._noticed_at, strict=True)]

    def quick_commit(self, event: CommitOffsets) -> int:
        """An OffsetCommit: its error code."""
        return self._quickly(self.coordinator.handle(event, self.now))

    def _quickly(self, effects: Sequence[Effect]) -> int:
        """Performs the effects of a commit; returns the code of the last reply."""
        code = -1
        for effect in effects:
            if isinstance(effect, Notice):
                self.notices.append(effect)
                self._noticed_at.append(self.now)
            elif isinstance(effect, Append):
                self.records += effect.records
                written = Appended(effect.append_id)
                code = self._quickly(self.coordinator.handle(written, self.now))
            elif isinstance(effect, Reply):
                code = cast("CommitResult", effect.result).error_code
        return code


class Life:
    """A group for some time: from its first member to none.

    Incidents, by `Kind.per_hour`: ``crash`` and ``leave`` (it comes back a little
    later), ``roll`` (all are bounced, one after the other), ``loop`` (one crashes again
    and again), ``pause`` (one hangs for longer than its session), ``crowd`` (three more
    come and ask for a while), ``move`` (another node takes over).
    """

    def __init__(self, kind: Kind, seconds: float, seed: str) -> None:
        self.kind = kind
        self.seconds = seconds
        self.random = random.Random(seed)
        settings: dict[str, Any] = {"max_size": kind.most} if kind.most else {}
        self.context = _Told(
            initial_rebalance_delay_ms=kind.delay_ms,
            min_session_timeout_ms=1_000,
            **settings,
        )
        self.clients = [self._client(i) for i in range(kind.members)]
        self.crowd = [self._client(kind.members + i) for i in range(3)]
        self.committed: dict[int, float] = {}
        self.moves: list[int] = []
        self._due: list[tuple[float, int, str, Client | None]] = []
        self._plan()

    def _client(self, number: int) -> Client:
        instance = f"{self.kind.name}-{number}" if self.kind.is_static else None
        return Client(self, f"{self.kind.name}-{number}", instance)

    @property
    def now(self) -> float:
        """Seconds since it began."""
        return self.context.now - START

    def end(self, partition: int) -> float:
        """The end of a partition's log, in records."""
        return self.kind.rate * (1 + partition % 3 / 2) * self.now

    def commit(self, member: Member, rows: Sequence[Any]) -> int:
        """An OffsetCommit: its error code."""
        event = CommitOffsets(
            object(),
            member.group,
            member.generation_id,
            member.member_id,
            member.instance,
            member.client,
            False,
            Offsets.of(rows),
        )
        return self.context.quick_commit(event)

    # -- assignments

    def divide(self, members: list[str]) -> list[tuple[str, bytes]]:
        """The leader's assignment, as by the range assignor or the sticky one."""
        if self.kind.protocol == "range":
            shares = _ranges(members, self.kind.partitions)
        else:
            everybody = (*self.clients, *self.crowd)
            owned = {client.member_id: client.owned for client in everybody}
            shares = _sticky(members, owned, self.kind.partitions)
        return [
            (m, encode(Assignment([TopicPartitions(TOPIC, p)] if p else []), 0))
            for m, p in shares.items()
        ]

    # -- incidents

    def _plan(self) -> None:
        """Begins with the start of all members, and ends with their leaves."""
        last = self.seconds * 0.9 - 30
        for client in self.clients:
            self._at(
                self.random.uniform(0, 4 + len(self.clients) / 10), "start", client
            )
        for what, per_hour in self.kind.per_hour:
            times = round(per_hour * self.seconds / 3600 + self.random.random())
            for _ in range(times):
                self._plan_one(what, self.random.uniform(20, last))
        for client in self.clients + self.crowd:
            self._at(last + 12 + self.random.uniform(0, 8), "end", client)

    def _plan_one(self, what: str, when: float) -> None:
        one = self.random.choice(self.clients)
        if what == "roll":
            for i, client in enumerate(self.clients):
                self._at(when + 3 * i, "stop", client)
                self._at(when + 3 * i + 2, "start", client)
        elif what == "loop":
            for i in range(8):
                self._at(when + 7 * i, "crash", one)
                self._at(when + 7 * i + 1, "start", one)
        elif what == "crowd":
            for client in self.crowd:
                self._at(when + self.random.uniform(0, 3), "start", client)
                self._at(when + 30, "stop", client)
        elif what in {"crash", "leave"}:
            self._at(when, "stop" if what == "leave" else what, one)
            self._at(when + self.random.uniform(1, 25), "start", one)
        else:
            self._at(when, what, None if what == "move" else one)

    def _at(self, when: float, what: str, client: Client | None) -> None:
        if when < self.seconds * 0.9:
            self._due.append((when, len(self._due), what, client))

    def _happen(self, what: str, client: Client | None) -> None:
        if client is None:
            self.moves.append(len(self.context.notices))
            self.context.move()
        elif what == "start":
            if not client.is_up and not self._is_ending:
                client.start()
        elif what == "end":
            client.say_goodbye()
        elif what == "pause":
            client.pause(self.kind.session_ms / 1000 + self.random.uniform(1, 8))
        elif what == "stop":
            client.stop()
        else:
            client.crash()

    @property
    def _is_ending(self) -> bool:
        return self.now > self.seconds * 0.9 - 30 + 10

    # -- its events

    def live(self) -> list[dict[str, Any]]:
        """Plays the life of the group.

        Returns:
            Events without their source: ``t_ns`` is ns since it began, ``hops`` how
            often the coordinator had moved before.
        """
        self._due.sort(reverse=True)
        while self.now < self.seconds:
            self.step()
            self.context.sleep(STEP_S * 1000)
        return [*self._events()]

    def step(self) -> None:
        """The incidents that are due, and then each client's actions."""
        while self._due and self._due[-1][0] <= self.now:
            _, _, what, client = self._due.pop()
            self._happen(what, client)
        for client in (*self.clients, *self.crowd):
            client.step()

    def _events(self) -> Any:
        moves = [*self.moves]
        count = 0
        for number, (notice, time) in enumerate(self.context.told()):
            while moves and moves[0] <= number:
                moves.pop(0)
                count += 1
            event = render(notice, time)
            event["t_ns"] = event.pop("time_ns") - int(START) * 1_000_000_000
            yield {**event, "hops": count}


def _ranges(members: list[str], partitions: int) -> dict[str, list[int]]:
    shares: dict[str, list[int]] = {}
    each, more = divmod(partitions, len(members))
    begin = 0
    for i, member in enumerate(sorted(members)):
        end = begin + each + (i < more)
        shares[member] = [*range(begin, end)]
        begin = end
    return shares


def _sticky(
    members: list[str], owned: dict[str, tuple[int, ...]], partitions: int
) -> dict[str, list[int]]:
    """Owners keep their share; the rest goes to the members with the fewest.

    A partition that its owner has to give up is not assigned yet (KIP-429).
    """
    each, more = divmod(partitions, len(members))
    shares: dict[str, list[int]] = {}
    taken: set[int] = set()
    for member in sorted(members, key=lambda m: -len(owned.get(m, ()))):
        most = each + (more > 0)
        had = owned.get(member, ())
        if len(had) > each:
            more -= 1
        shares[member] = [*had[:most]]
        taken |= {*had}
    for partition in range(partitions):
        if partition not in taken:
            least = min(sorted(shares), key=lambda m: len(shares[m]))
            shares[least].append(partition)
    return {member: sorted(share) for member, share in shares.items()}
