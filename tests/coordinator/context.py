"""A coordinator on virtual time, with a client's verbs.

Performs effects as a driver does, checks the invariants after every event, and keeps
records and notices. `sleep` moves the clock and fires due timers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar, cast

from tests.coordinator.invariants import Invariants

from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import (
    Append,
    Arm,
    CommandResult,
    CommitResult,
    DeleteGroupResult,
    DeleteOffsetsResult,
    DescribeGroupResult,
    Disarm,
    Effect,
    FetchOffsetsResult,
    Forget,
    GroupRecord,
    GroupTombstone,
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    ListGroupsResult,
    Notice,
    OffsetRecord,
    Record,
    Replies,
    Reply,
    SyncResult,
    TransactionEnd,
    completed,
)
from kohort.broker.coordinator.events import (
    Appended,
    AppendFailed,
    Client,
    Command,
    CommitInTransaction,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    Event,
    Expire,
    Expired,
    FetchOffsets,
    Heartbeat,
    HoldGroup,
    Join,
    Kick,
    Leave,
    LeavingMember,
    LimitGroup,
    ListGroups,
    Mute,
    Offsets,
    ReleaseGroup,
    Sync,
    TimerKey,
    TransactionEnded,
    TriggerRebalance,
    Unmute,
)
from kohort.broker.coordinator.lasting import Lasting
from kohort.broker.coordinator.load import Loading
from kohort.broker.coordinator.offsets import COMMITTED
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.coordinator.state import GroupState
from kohort.broker.events.render import render
from kohort.protocol.consumer import Subscription, encode
from kohort.protocol.errors import ErrorCode

R = TypeVar("R")

HOST = "/127.0.0.1"
SIMPLE = Client("simple", HOST)
"""A consumer that is not a member."""
START = 1_700_000_000.0
"""Start of every scene, seconds since the epoch."""


MOST_AT_ONCE = 1_000
"""Timers that may fire without any time passing."""


def protocols(*names: str, metadata: bytes = b"meta") -> list[tuple[str, bytes]]:
    """Several protocols with the same metadata."""
    return [(name, metadata) for name in names]


def subscribed(*topics: str, protocol: str = "range") -> list[tuple[str, bytes]]:
    """One protocol, with a consumer's subscription."""
    return [(protocol, encode(Subscription(topics)))]


def read_log(records: Iterable[Record]) -> Loading:
    """Reads a whole log, for a coordinator to take over."""
    loading = Loading()
    loading.feed(records)
    return loading


class Pending(Generic[R]):
    """A request: the token of its reply."""

    def __init__(self, name: str, on_result: Callable[[R], None] | None = None) -> None:
        self.name = name
        self.results: list[R] = []
        self._on_result = on_result

    def __repr__(self) -> str:
        return self.name

    def answer(self, result: R) -> None:
        """Takes the reply; there is at most one."""
        assert not self.results, f"{self} is answered twice"
        self.results.append(result)
        if self._on_result is not None:
            self._on_result(result)

    def answer_alike(self, result: Any, value: str | bytes) -> None:
        """Takes the reply in two parts."""
        self.answer(completed(result, value))  # type: ignore[arg-type]

    @property
    def answered(self) -> bool:
        """True if the reply has come."""
        return bool(self.results)

    @property
    def result(self) -> R:
        """The reply, which must have come."""
        assert self.results, f"{self} waits"
        return self.results[0]


class Context:
    """A coordinator, its clock, its timers and its log.

    Initial delays are off unless a scene asks for them.
    """

    def __init__(self, **settings: int) -> None:
        self._settings: dict[str, Any] = {"initial_rebalance_delay_ms": 0} | settings
        self._numbers = itertools.count(1)
        # Powers in force, which outlive coordinators.
        self.lasting = Lasting()
        self._is_short = False
        self.coordinator = self._new_coordinator()
        self.now = START
        # The numbers of members' connections.
        self.connections = itertools.count(1)
        # True while appends wait for `flush` or `refuse`; and those appends.
        self.is_holding = False
        self.held: list[Append] = []
        # Deadline, and the order of arming for equal deadlines.
        self.timers: dict[TimerKey, tuple[float, int]] = {}
        self._no_earlier = float("inf")  # no timer is due earlier
        self.records: list[Record] = []
        self.notices: list[Notice] = []
        self._noticed_at: list[float] = []
        # Requests without an answer, with the time since when they wait.
        self.waiting: dict[Pending[Any], float] = {}
        self.answered: list[Pending[Any]] = []
        self.forgotten: list[Pending[Any]] = []
        self.invariants = Invariants()
        # Assignments that members got: group, generation, member, assignment.
        self.assigned: list[tuple[str, int, str, bytes]] = []
        # Set when group.max.size is lowered while groups are in use.
        self._is_lowered = False
        self._order = itertools.count()
        self._perform(self.coordinator.start(self.now))

    def _new_coordinator(self) -> Coordinator:
        settings = GroupSettings(**self._settings)
        return Coordinator(
            settings,
            lambda prefix: f"{prefix}-{next(self._numbers)}",
            lasting=self.lasting,
        )

    @property
    def settings(self) -> GroupSettings:
        """The coordinator's settings."""
        return self.coordinator.settings

    def configure(self, **settings: int) -> None:
        """Changes settings at run time."""
        before = self.settings.max_size
        self._settings |= settings
        self.coordinator.settings = GroupSettings(**self._settings)
        self._is_lowered |= self.settings.max_size < before

    def restart(self, **settings: int) -> None:
        """Replaces the coordinator by one that loads the log.

        Waiting requests get no answer: their connections are gone.
        """
        before = self.settings.max_size
        self._settings |= settings
        self._is_lowered |= GroupSettings(**self._settings).max_size < before
        self.coordinator = coordinator = self._new_coordinator()
        self.timers.clear()
        self.waiting.clear()
        effects = coordinator.start(self.now)
        effects += coordinator.take_over(read_log(self.records), self.now)
        self.invariants.check_loaded(coordinator)
        self._perform(effects)
        self._fire(self.now)

    def move(self) -> None:
        """Unloads the coordinator; another one takes over the groups."""
        for effect in self.coordinator.unload():
            assert isinstance(effect, Reply)
            pending = cast("Pending[Any]", effect.token)
            del self.waiting[pending]
            pending.answer(effect.result)
            assert pending.result.error_code == ErrorCode.NOT_COORDINATOR
        assert not self.waiting, "everybody who waited is told"
        self.restart()

    # -- the driver

    def submit(self, event: Event) -> list[Effect]:
        """Submits an event, performs its effects, and fires timers that are due."""
        heard = self._hear(event) if isinstance(event, Heartbeat) else None
        if isinstance(event, CommitOffsets) and event.retention_ms == -1:
            return self._commit(event)
        if isinstance(event, Join | Sync) and self._only_waits(event):
            self._fire(self.now)
            return []
        effects = self.coordinator.handle(event, self.now)
        if isinstance(event, Heartbeat) and heard is not None:
            assert effects == [Reply(event.token, heard)]
        self._perform(effects)
        self._fire(self.now)
        return effects

    def _only_waits(self, event: Join | Sync) -> bool:
        """Handles every other join or sync on the short way, if that can take it."""
        self._is_short = not self._is_short
        if not self._is_short:
            return False
        found: Sequence[Effect] | None = None
        if isinstance(event, Join):
            found = self.coordinator.wait_to_join(
                event.token, event.member_id, event.client, event, self.now
            )
        elif not event.assignments and self.coordinator.wait_to_sync(
            event.token,
            event.group_id,
            event.generation_id,
            event.member_id,
            event.group_instance_id,
            event.protocol_type,
            event.protocol_name,
            protocol_required=event.protocol_required,
        ):
            found = []
        if found is not None:
            self._perform([*found])
        return found is not None

    def _commit(self, event: CommitOffsets) -> list[Effect]:
        """Handles a commit; the short way would do the same, or nothing."""
        sessions = self._sessions()
        sender = event.member_id, event.group_instance_id
        group = self.coordinator.prepare_commit(
            event.group_id, event.generation_id, *sender, event.offsets, self.now
        )
        prepared = self._sessions()
        assert group is not None or prepared == sessions
        effects = self.coordinator.handle(event, self.now)
        if group is not None:
            assert self._sessions() == prepared
            (append,) = effects
            assert isinstance(append, Append)
        self._perform(effects)
        if group is not None and not self.is_holding:
            offsets, stored = dict(group.offsets), event.offsets
            assert self.notices[-1] == self.coordinator.finish_commit(
                group, *sender, event.client, stored, int(self.now * 1000)
            )
            assert group.offsets == offsets
            assert list(event.token.results) == [COMMITTED]  # type: ignore[attr-defined]  # a `Pending`
        self._fire(self.now)
        return effects

    def _hear(self, beat: Heartbeat) -> HeartbeatResult | None:
        """Sends a heartbeat on the short way, which does the same or nothing."""
        sessions = self._sessions()
        heard = self.coordinator.hear(
            beat.group_id,
            beat.generation_id,
            beat.member_id,
            beat.group_instance_id,
            self.now,
        )
        assert heard is not None or self._sessions() == sessions
        return heard

    def _sessions(self) -> list[float]:
        groups = self.coordinator.groups.values()
        return [m.deadline for group in groups for m in group.members.values()]

    def _ask(self, event: Event, pending: Pending[R]) -> Pending[R]:
        self.waiting[pending] = self.now
        self.submit(event)
        return pending

    def _perform(self, effects: list[Effect]) -> None:
        is_replying, written = False, None
        for effect in effects:
            is_reply = isinstance(effect, Reply | Replies)
            assert is_reply or not is_replying, "replies come last"
            if isinstance(effect, Reply | Replies):
                is_replying = True
                self._answer(effect)
            elif isinstance(effect, Append):
                if self._holds(effect):
                    self.held.append(effect)
                else:
                    self.records += effect.records
                    written = effect.append_id
            elif not isinstance(effect, Notice):
                self._perform_silently(effect)
            else:
                self.notices.append(effect)
                self._noticed_at.append(self.now)
                if effect.fields.get("cause") == "group_over_max_size":
                    kind = effect.kind
                    assert kind == "rebalance_started" or self._is_lowered, "let in"
        if written is not None:
            self._perform(self.coordinator.handle(Appended(written), self.now))
        elif not self.held:
            self._check()

    def _answer(self, effect: Reply | Replies) -> None:
        for reply in effect.each() if isinstance(effect, Replies) else [effect]:
            pending = cast("Pending[Any]", reply.token)
            del self.waiting[pending]
            self.answered.append(pending)
            pending.answer(reply.result)

    def _holds(self, append: Append) -> bool:
        """Returns whether an append waits for `flush` or `refuse`."""
        return self.is_holding

    def _perform_silently(self, effect: Forget | Arm | Disarm) -> None:
        if isinstance(effect, Forget):
            pending = cast("Pending[Any]", effect.token)
            del self.waiting[pending]
            self.forgotten.append(pending)
        elif isinstance(effect, Arm):
            assert effect.deadline >= self.now
            self.timers[effect.key] = (effect.deadline, next(self._order))
            self._no_earlier = min(self._no_earlier, effect.deadline)
        else:
            del self.timers[effect.key]

    def flush(self) -> None:
        """Writes the held appends."""
        held, self.held = self.held, []
        for append in held:
            self.records += append.records
            self.invariants.written_late(r.group_id for r in append.records)
        self._perform(self.coordinator.handle(Appended(held[-1].append_id), self.now))

    def refuse(self) -> None:
        """Refuses the last held append: it is too large."""
        failed = AppendFailed(self.held.pop().append_id, 10, 1_048_589, 1_048_588)
        self._perform(self.coordinator.handle(failed, self.now))

    def _check(self) -> None:
        self.invariants.check(
            self.coordinator, self.timers, self.waiting.keys(), self.records
        )

    def _fire(self, until: float) -> None:
        since, fired = self.now, 0
        while self.timers and self._no_earlier <= until:
            key = min(self.timers, key=self.timers.__getitem__)
            deadline, _ = self.timers[key]
            self._no_earlier = deadline
            if deadline > until:
                return
            del self.timers[key]
            fired = 0 if deadline > since else fired + 1
            assert fired < MOST_AT_ONCE, f"{key} is armed again and again"
            self.now = since = max(self.now, deadline)
            self._perform(self.coordinator.handle(Expired(key), self.now))

    def sleep(self, ms: float) -> None:
        """Lets time pass, and fires timers as they come due."""
        until = self.now + ms / 1000
        self._fire(until)
        self.now = until

    # -- participants

    def member(self, name: str, **options: Any) -> Member:
        """A client that may join; see `Member`."""
        return Member(self, name, **options)

    def stable_group(self, *names: str, sync: bool = True, **options: Any) -> Members:
        """Members of one group in the same generation, led by the first.

        Static ones (``static=True``) have the instance ids ``i-A`` and so on.
        """
        static = options.pop("static", False)
        members = [
            self.member(n, instance=f"i-{n}" if static else None, **options)
            for n in names
        ]
        return self.form(members, sync=sync)

    def form(self, members: Members, *, sync: bool = True) -> Members:
        """Gets these members into one generation, led by the first."""
        members[0].enter()
        if len(members) > 1:
            for member in members[1:]:
                member.enter()
            members[0].join()
        self.sleep(0)
        if sync:
            self.sync_all(members)
        return members

    def sync_all(self, members: Members) -> None:
        """All members sync, the first as the leader; each is assigned its name."""
        for member in members[1:]:
            member.sync()
        members[0].sync(assign(*members))

    def state(self, group: str = "g") -> str:
        """The state according to DescribeGroups."""
        return self.describe(group).state

    def describe(self, group: str = "g") -> DescribeGroupResult:
        """DescribeGroups for one group."""
        pending: Pending[DescribeGroupResult] = Pending("describe")
        return self._ask(DescribeGroup(pending, group), pending).result

    def list_groups(
        self, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> ListGroupsResult:
        """ListGroups."""
        pending: Pending[ListGroupsResult] = Pending("list")
        return self._ask(ListGroups(pending, states, types), pending).result

    def delete(self, group: str = "g") -> int:
        """Sends DeleteGroups for one group; returns the error code."""
        return self.start_delete(group).result.error_code

    def start_delete(self, group: str = "g") -> Pending[DeleteGroupResult]:
        """The same, while appends are held."""
        pending: Pending[DeleteGroupResult] = Pending("delete")
        return self._ask(DeleteGroup(pending, group), pending)

    def leave(self, *members: tuple[str, str | None], group: str = "g") -> LeaveResult:
        """Sends LeaveGroup for (member id, instance id) each."""
        return self.start_leave(*members, group=group).result

    def start_leave(
        self, *members: tuple[str, str | None], group: str = "g"
    ) -> Pending[LeaveResult]:
        """The same, while appends are held."""
        pending: Pending[LeaveResult] = Pending("leave")
        leaving = [LeavingMember(m, i, None) for m, i in members]
        return self._ask(Leave(pending, group, leaving), pending)

    def commit(
        self, offsets: Sequence[tuple[str, int, int, int, str | None]], **over: Any
    ) -> CommitResult:
        """Sends OffsetCommit, by default as a simple consumer."""
        return self.start_commit(offsets, **over).result

    def start_commit(
        self,
        offsets: Sequence[tuple[str, int, int, int, str | None]],
        *,
        group: str = "g",
        generation_id: int = -1,
        member_id: str = "",
        instance: str | None = None,
        is_old: bool = False,
        retention_ms: int = -1,
        end_offset: int | None = None,
        client: Client = SIMPLE,
    ) -> Pending[CommitResult]:
        """The same, while appends are held."""
        pending: Pending[CommitResult] = Pending("commit")
        event = CommitOffsets(
            pending,
            group,
            generation_id,
            member_id,
            instance,
            client,
            is_old,
            Offsets.of([(*offset, end_offset) for offset in offsets]),
            retention_ms,
        )
        return self._ask(event, pending)

    def commit_pending(
        self, producer_id: int, *offsets: tuple[str, int], **over: Any
    ) -> int:
        """Sends TxnOffsetCommit; returns the error code of the last offset.

        Args:
            producer_id: the producer.
            offsets: (topic, offset) of partitions 0.
            over: other fields.
        """
        result = self.start_pending(producer_id, *offsets, **over).result
        return result.codes[-1] if result.codes else result.error_code

    def start_pending(
        self,
        producer_id: int,
        *offsets: tuple[str, int],
        group: str = "g",
        generation_id: int = -1,
        member_id: str = "",
        instance: str | None = None,
        metadata: str = "",
    ) -> Pending[CommitResult]:
        """The same, while appends are held."""
        pending: Pending[CommitResult] = Pending("pending commit")
        rows = [(topic, 0, offset, -1, metadata, 100) for topic, offset in offsets]
        event = CommitInTransaction(
            pending,
            group,
            generation_id,
            member_id,
            instance,
            SIMPLE,
            producer_id,
            0,
            Offsets.of(rows),
        )
        return self._ask(event, pending)

    def end_transaction(self, producer_id: int, *, is_commit: bool = True) -> None:
        """A marker ends a transaction; the log has all appends before it."""
        if self.held:
            self.flush()
        self.records.append(TransactionEnd(producer_id, is_commit))
        self.submit(TransactionEnded(producer_id, is_commit))

    def fetch(
        self,
        topics: Sequence[tuple[str, Sequence[int]]] | None = None,
        group: str = "g",
        *,
        is_stable: bool = False,
    ) -> FetchOffsetsResult:
        """Sends OffsetFetch, by default for all offsets."""
        pending: Pending[FetchOffsetsResult] = Pending("fetch")
        event = FetchOffsets(pending, group, topics, is_stable)
        return self._ask(event, pending).result

    def committed(self, topic: str, partition: int = 0, group: str = "g") -> int:
        """One committed offset; -1 if there is none."""
        (row,) = self.fetch([(topic, [partition])], group).topics
        return row[1][0][1]

    def is_unstable(self, topic: str, group: str = "g") -> bool:
        """True if a stable offset of partition 0 is refused."""
        (row,) = self.fetch([(topic, [0])], group, is_stable=True).topics
        ((_, offset, _, _, code),) = row[1]
        assert (code == ErrorCode.UNSTABLE_OFFSET_COMMIT) <= (offset == -1)
        return code == ErrorCode.UNSTABLE_OFFSET_COMMIT

    def delete_offsets(
        self, *topics: tuple[str, Sequence[int]], group: str = "g"
    ) -> DeleteOffsetsResult:
        """OffsetDelete."""
        pending: Pending[DeleteOffsetsResult] = Pending("delete offsets")
        return self._ask(DeleteOffsets(pending, group, topics), pending).result

    # -- commands: return the reason for a refusal, or None

    def command(
        self, make: Callable[..., Command], *args: object, group: str = "g"
    ) -> str | None:
        """A command about a group, with its other fields."""
        pending: Pending[CommandResult] = Pending(make.__name__)
        return self._ask(make(pending, group, *args), pending).result.refusal

    def kick(self, member_id: str, reason: str | None = None) -> str | None:
        """Removes a member."""
        return self.command(Kick, member_id, reason)

    def expire(self, member_id: str) -> str | None:
        """Ends a member's session."""
        return self.command(Expire, member_id)

    def mute(self, member_id: str) -> str | None:
        """Stops hearing a member."""
        return self.command(Mute, member_id)

    def unmute(self, member_id: str) -> str | None:
        """Hears a member again."""
        return self.command(Unmute, member_id)

    def trigger(self, reason: str | None = None) -> str | None:
        """Starts a rebalance."""
        return self.command(TriggerRebalance, reason)

    def hold(self, state: str | None = None) -> str | None:
        """Holds the group in a state."""
        return self.command(HoldGroup, None if state is None else GroupState(state))

    def release(self) -> str | None:
        """Releases the group."""
        return self.command(ReleaseGroup)

    def limit(self, max_size: int | None) -> str | None:
        """Limits the group; None removes the limit."""
        self._is_lowered = True
        return self.command(LimitGroup, max_size)

    # -- records and notices

    def group_records(self) -> list[GroupRecord]:
        """Records of existing groups."""
        return [r for r in self.records if isinstance(r, GroupRecord)]

    def offset_records(self) -> list[OffsetRecord]:
        """Records of offsets."""
        return [r for r in self.records if isinstance(r, OffsetRecord)]

    def tombstones(self) -> list[str]:
        """Ids of groups with a tombstone."""
        return [r.group_id for r in self.records if isinstance(r, GroupTombstone)]

    def kinds(self) -> list[str]:
        """The kinds of all notices, in order."""
        return [notice.kind for notice in self.notices]

    def notice(self, kind: str) -> Notice:
        """The latest notice of a kind."""
        found: Notice = next(n for n in reversed(self.notices) if n.kind == kind)
        return found

    def events(self, since: int = 0) -> list[dict[str, Any]]:
        """All notices rendered as events, from the given number on."""
        return [render(notice, time) for notice, time in self.noticed(since)]

    def noticed(self, since: int = 0) -> list[tuple[Notice, float]]:
        """The same, raw, each with its time."""
        return [*zip(self.notices[since:], self._noticed_at[since:], strict=True)]

    def event(self, kind: str) -> dict[str, Any]:
        """The latest event of a kind."""
        return next(e for e in reversed(self.events()) if e["kind"] == kind)


class Member:
    """A client: remembers answers, and uses them in its next requests."""

    def __init__(
        self,
        context: Context,
        name: str,
        *,
        group: str = "g",
        instance: str | None = None,
        session_ms: int = 30_000,
        rebalance_ms: int = 30_000,
        protocol_type: str = "consumer",
        protocols: Sequence[tuple[str, bytes]] | None = None,
        requires_id: bool = True,
        skips: bool = True,
    ) -> None:
        self.context = context
        self.name = name
        self.client = Client(name, HOST, next(context.connections))
        self.group = group
        self.instance = instance
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.protocol_type = protocol_type
        self.protocols = protocols or [("range", f"meta-{name}".encode())]
        self.requires_id = requires_id
        self.skips = skips
        self.member_id = ""
        self.generation_id = -1
        # The members of the generation, if it leads.
        self.told: Sequence[tuple[str, str | None, bytes]] = ()

    def _joined(self, result: JoinResult) -> None:
        if result.error_code in (0, 79):
            self.member_id = result.member_id
        if result.error_code == 0:
            self.generation_id = result.generation_id
            self.told = result.members
            if result.leader == self.member_id:
                self.context.invariants.check_leader(
                    self.group, self.generation_id, self.instance or self.member_id
                )

    def join(self, **over: Any) -> Pending[JoinResult]:
        """JoinGroup."""
        pending: Pending[JoinResult] = Pending(f"join of {self.name}", self._joined)
        event = Join(
            pending,
            over.get("group", self.group),
            over.get("member_id", self.member_id),
            over.get("instance", self.instance),
            over.get("client", self.client),
            over.get("session_ms", self.session_ms),
            over.get("rebalance_ms", self.rebalance_ms),
            over.get("protocol_type", self.protocol_type),
            over.get("protocols", self.protocols),
            over.get("reason"),
            self.requires_id,
            self.skips,
        )
        return self.context._ask(event, pending)

    def enter(self) -> Pending[JoinResult]:
        """Joins, and joins again with the id that it got, if it has to."""
        pending = self.join()
        if pending.answered and pending.result.error_code == 79:
            pending = self.join()
        return pending

    def sync(
        self, assignments: Sequence[tuple[str, bytes]] = (), **over: Any
    ) -> Pending[SyncResult]:
        """SyncGroup."""
        generation_id = over.get("generation_id", self.generation_id)
        owner = self.instance or over.get("member_id", self.member_id)

        def synced(result: SyncResult) -> None:
            if result.error_code == 0:
                row = (self.group, generation_id, owner, result.assignment)
                self.context.assigned.append(row)

        pending = Pending(f"sync of {self.name}", synced)
        event = Sync(
            pending,
            over.get("group", self.group),
            generation_id,
            over.get("member_id", self.member_id),
            over.get("instance", self.instance),
            over.get("protocol_type"),
            over.get("protocol_name"),
            over.get("required", False),
            assignments,
        )
        return self.context._ask(event, pending)

    def heartbeat(self, **over: Any) -> int:
        """Sends a heartbeat; returns the error code."""
        return self.start_heartbeat(**over).result.error_code

    def start_heartbeat(self, **over: Any) -> Pending[HeartbeatResult]:
        """The same, while appends are held."""
        pending: Pending[HeartbeatResult] = Pending(f"heartbeat of {self.name}")
        event = Heartbeat(
            pending,
            over.get("group", self.group),
            over.get("generation_id", self.generation_id),
            over.get("member_id", self.member_id),
            over.get("instance", self.instance),
        )
        return self.context._ask(event, pending)

    def leave(self, **over: Any) -> int:
        """Sends LeaveGroup; returns the member's error code, or the request's."""
        result = self.context.leave(
            (
                over.get("member_id", self.member_id),
                over.get("instance", self.instance),
            ),
            group=self.group,
        )
        return result.error_code or result.members[0][2]

    def commit(self, topic: str, offset: int, **over: Any) -> int:
        """Sends OffsetCommit for partition 0; returns the error code."""
        result = self.start_commit(topic, offset, **over).result
        return result.codes[0] if result.codes else result.error_code

    def start_commit(
        self, topic: str, offset: int, **over: Any
    ) -> Pending[CommitResult]:
        """The same, while appends are held."""
        mine: dict[str, Any] = {
            "generation_id": self.generation_id,
            "member_id": self.member_id,
            "instance": self.instance,
            "client": self.client,
        }
        return self.context.start_commit(
            [(topic, 0, offset, -1, "")], group=self.group, **mine | over
        )

    def keep_alive(self, ms: int) -> None:
        """Sends heartbeats four times a second for some time."""
        for _ in range(ms // 250):
            self.heartbeat()
            self.context.sleep(250)


Members = Sequence[Member]


def assign(*members: Member) -> list[tuple[str, bytes]]:
    """One assignment per member, with the member's name."""
    return [(m.member_id, f"assigned-{m.name}".encode()) for m in members]
