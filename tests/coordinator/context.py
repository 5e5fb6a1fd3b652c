"""Scenes of a coordinator: members, requests of other clients, and commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.coordinator.driver import SIMPLE, Driver, Pending
from tests.coordinator.member import Member, Members, assign
from tests.coordinator.requests import start_commit, start_leave

from kohort.broker.coordinator.effects import (
    CommitResult,
    DeleteGroupResult,
    DeleteOffsetsResult,
    DescribeGroupResult,
    FetchOffsetsResult,
    LeaveResult,
    ListGroupsResult,
    TransactionEnd,
)
from kohort.broker.coordinator.events import (
    Command,
    CommitInTransaction,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    Expire,
    FetchOffsets,
    HoldGroup,
    Kick,
    LimitGroup,
    ListGroups,
    Mute,
    Offsets,
    ReleaseGroup,
    TransactionEnded,
    TriggerRebalance,
    Unmute,
)
from kohort.broker.coordinator.state import GroupState
from kohort.broker.runtime.effects import CommandResult
from kohort.protocol.errors import ErrorCode


class Context(Driver):
    """A driver with the verbs of a scene."""

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

    # -- requests

    def state(self, group: str = "g") -> str:
        """The state according to DescribeGroups."""
        return self.describe(group).state

    def describe(self, group: str = "g") -> DescribeGroupResult:
        """DescribeGroups for one group."""
        pending: Pending[DescribeGroupResult] = Pending("describe")
        return self.ask(DescribeGroup(pending, group), pending).result

    def list_groups(
        self, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> ListGroupsResult:
        """ListGroups."""
        pending: Pending[ListGroupsResult] = Pending("list")
        return self.ask(ListGroups(pending, states, types), pending).result

    def delete(self, group: str = "g") -> int:
        """Sends DeleteGroups for one group; returns the error code."""
        return self.start_delete(group).result.error_code

    def start_delete(self, group: str = "g") -> Pending[DeleteGroupResult]:
        """The same, while appends are held."""
        pending: Pending[DeleteGroupResult] = Pending("delete")
        return self.ask(DeleteGroup(pending, group), pending)

    def leave(self, *members: tuple[str, str | None], group: str = "g") -> LeaveResult:
        """Sends LeaveGroup for (member id, instance id) each."""
        return self.start_leave(*members, group=group).result

    def start_leave(
        self, *members: tuple[str, str | None], group: str = "g"
    ) -> Pending[LeaveResult]:
        """The same, while appends are held."""
        return start_leave(self, *members, group=group)

    def commit(
        self, offsets: Sequence[tuple[str, int, int, int, str | None]], **over: Any
    ) -> CommitResult:
        """Sends OffsetCommit, by default as a simple consumer."""
        return self.start_commit(offsets, **over).result

    def start_commit(
        self, offsets: Sequence[tuple[str, int, int, int, str | None]], **over: Any
    ) -> Pending[CommitResult]:
        """The same, while appends are held."""
        return start_commit(self, offsets, **over)

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
        return self.ask(event, pending)

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
        return self.ask(event, pending).result

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
        return self.ask(DeleteOffsets(pending, group, topics), pending).result

    # -- commands: return the reason for a refusal, or None

    def command(
        self, make: Callable[..., Command], *args: object, group: str = "g"
    ) -> str | None:
        """A command about a group, with its other fields."""
        pending: Pending[CommandResult] = Pending(make.__name__)
        return self.ask(make(pending, group, *args), pending).result.refusal

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
