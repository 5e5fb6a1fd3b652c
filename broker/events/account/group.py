"""The state of one group, from its events so far."""

from __future__ import annotations

from typing import Final

from kohort.broker.events.account.membership import Membership
from kohort.broker.events.account.ownership import Ownership
from kohort.broker.events.account.processes import Processes
from kohort.broker.events.account.readers import Readers
from kohort.broker.events.account.rebalance import Leadership, Phase, Rebalance
from kohort.broker.events.account.values import (
    Account,
    Event,
    Outcome,
    Partition,
    Return,
    Unread,
    UnreadAccount,
)
from kohort.broker.events.words import UNSEEN

_OF_JOINS: Final = frozenset({"member_id_given", "member_joined", "window_opened"})
"""Events that, in a join phase, carry the number of the previous generation."""


class GroupAccounts:
    """One group, as of the events so far.

    Attributes:
        group_id: its id.
        membership: its members.
        processes: processes of members that are gone.
        ownership: the owners of partitions.
        readers: the readers of partitions.
        last: the last rebalance seen; None without one.
        since_ns: time of the first event; None without one.
        since_generation: the generation of the first event.
        now: the latest time of an event.
        last_ns: the time of the event before the last one.
        set_back_ns: how far the clock was set back, at most. A broker's own never is.
        run: the run of the last event.
        latest: the last event of the group itself; empty without one.
        disconnected: by member, when its connection was closed; it may have another.
        away: members that were not back when the broker stopped.
        protocol: the assignor of the last generation.
        leadership: the leader and why it leads.
        held_in: the state in which a test holds the group, or None.
        revoking: by member of a consumer group, partitions that it has to give up.
        gaps: by member of a consumer group, the time that partitions had no reader
            before it got them, in steps, on its way to its target.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.membership = Membership()
        self.processes = Processes()
        self.ownership = Ownership()
        self.readers = Readers()
        self.last: Rebalance | None = None
        self.since_ns: int | None = None
        self.since_generation = 0
        self.now = 0
        self.set_back_ns = 0
        self.last_ns = 0
        self.run: str | None = None
        self.latest: Event = {}
        self.disconnected: dict[str, int] = {}
        self.away: set[str] = set()
        self.protocol: str | None = None
        self.leadership = Leadership()
        self.held_in: str | None = None
        self.revoking: dict[str, set[Partition]] = {}
        self.gaps: dict[str, dict[Partition, int]] = {}
        self._returns: list[Return] = []
        self._unprocessed_ns = 0
        self._stopped: dict[int, int] = {}
        self._settled: list[Account] = []

    def told(self) -> list[Account]:
        """Returns the accounts that were settled since the last call."""
        if not self._settled:
            return []
        settled, self._settled = self._settled, []
        return settled

    def note_time(self, event: Event) -> None:
        """Notes the time of an event."""
        self.latest = event
        at_ns = int(event["time_ns"])
        if self.since_ns is None:
            self.since_ns = self.now = at_ns
            generation = max(int(event.get("generation") or 0), 0)
            # A consumer group begins with 1.
            is_new = event.get("group_type") == "consumer" and generation == 1
            self.since_generation = 0 if is_new else generation
            self.ownership.is_whole = not self.since_generation
        self.set_back_ns = max(self.set_back_ns, self.now - at_ns)
        self.last_ns = self.now
        self.now = max(self.now, at_ns)

    def under_way(self, now_ns: int | None = None) -> Account | None:
        """The account of a rebalance that is not settled yet; None without one.

        Args:
            now_ns: the time of the broker's clock; None: that of the last event.
        """
        last = self.last
        if last is None or last.phase is Phase.OVER:
            return None
        last.seal(self.ownership)
        until_ns = self.now if now_ns is None else max(self.now, now_ns)
        return last.account(
            self.group_id, self.membership, self.unread_since(until_ns), until_ns
        )

    def unread_since(self, now_ns: int) -> tuple[Unread, ...]:
        """Partitions without a reader since the last settled account."""
        return self.readers.rows_until(now_ns)

    def take_unread(self, cause: str = "read_again") -> UnreadAccount | None:
        """Returns the time without a reader that belongs to no rebalance, once.

        None if there is none, or a rebalance is in progress, whose account will have
        it.

        Args:
            cause: `kohort.broker.events.words.UNREAD_ENDS`.
        """
        if self.last is not None and self.last.phase is not Phase.OVER:
            return None
        rows = self.readers.take_rows()
        if not rows:
            return None
        if cause == "read_again" and all(row.reader is None for row in rows):
            cause = UNSEEN
        return UnreadAccount(
            run=str(self.latest["run"]),
            node=int(self.latest["node"]),
            group=self.group_id,
            generation=self.latest.get("generation"),
            cause=cause,
            closed_sequence=int(self.latest["sequence"]),
            unread=rows,
        )

    def close(self) -> list[Account]:
        """Ends the stream: a stopped node's rebalance, and gaps, do not continue.

        `take_unread` has the gaps that were open.

        Returns:
            The rebalance's account, if there is one.
        """
        last = self.last
        if last is not None and last.opening.event["node"] in self._stopped:
            last.seal(self.ownership)
            last.end(self.now, Outcome.CUT)
            self.settle(last)
        stopped_ns = self._stopped.get(self.latest.get("node", -1))
        if stopped_ns is not None:
            stopped_ns = max(stopped_ns, self.now)
            if self._is_deserted:
                self.readers.empty(stopped_ns)
            self.readers.end(stopped_ns)
        return self.told()

    @property
    def _is_deserted(self) -> bool:
        """True if the broker stopped, and all members had gone before."""
        return bool(self.away) and self.away.issuperset(self.membership.present)

    def settle(self, rebalance: Rebalance, at_ns: int | None = None) -> None:
        """Closes an account; does nothing if it is closed."""
        if rebalance.phase is Phase.OVER:
            return
        at_ns = self.now if at_ns is None else at_ns
        rebalance.seal(self.ownership)
        rebalance.phase = Phase.OVER
        rebalance.settled_ns = at_ns
        if rebalance.outcome is Outcome.EMPTIED or self._is_deserted:
            self.readers.empty(at_ns)
        else:
            self.readers.cut(at_ns)
        unread = self.readers.take_rows()
        made = rebalance.account(self.group_id, self.membership, unread, at_ns)
        self._settled.append(made)

    def begin(self, rebalance: Rebalance) -> None:
        """Begins a rebalance, with the returns of processes that caused it."""
        rebalance.returns += self._returns
        self._returns.clear()
        rebalance.unprocessed_ns += self._unprocessed_ns
        self._unprocessed_ns = 0
        rebalance.hold(self.held_in, self.now)
        self.last = rebalance

    def is_back(self, found: Return | None) -> None:
        """Adds the return of a process to the rebalance that it belongs to."""
        if found is not None:
            rebalance = self.joining()
            (self._returns if rebalance is None else rebalance.returns).append(found)

    def add_unprocessed(self, unprocessed_ns: int) -> None:
        """Adds time of a slow poller to the rebalance that it causes, or takes part in.

        See `Account.unprocessed_ns`.
        """
        rebalance = self.joining()
        if rebalance is None:
            self._unprocessed_ns += unprocessed_ns
        else:
            rebalance.unprocessed_ns += unprocessed_ns

    def drop_unassigned(self, rebalance: Rebalance) -> None:
        """Drops the partitions that a completed assignment leaves out.

        Keeps those that cooperative members gave up for the next assignment, if a
        member subscribes to them. Call it before another member goes, whose partitions
        wait for the next assignment, too.
        """
        if rebalance.outcome is not Outcome.COMPLETED:
            return
        unread = self.readers.unread
        if not unread or not self.ownership.is_known:
            return
        for owned in self.ownership.owned.values():
            unread -= owned
        topics = {topic for topic, _ in unread}
        wanted = {topic for topic in topics if self.membership.may_want(topic)}
        self.readers.drop(p for p in unread if p[0] not in wanted)
        self.readers.cut(self.now)
        waiting = self.readers.revoked_since(rebalance.opening.started_ns)
        self.readers.drop(unread - waiting)

    def settle_if_done(self) -> None:
        """Closes the account of the last rebalance if none of its members waits."""
        if self.last is not None and self.last.is_settled:
            self.settle(self.last)

    def trim(self) -> None:
        """Bounds the memory of a group in an endless stream."""
        if self.membership.trim():
            self.processes.keep(self.membership.members)

    def joining(self) -> Rebalance | None:
        """The rebalance that waits for joins, or None."""
        return self.last if self.last is not None and self.last.is_joining else None

    def seal(self) -> None:
        """Notes the partitions kept in the last rebalance, before owners change."""
        if self.last is not None:
            self.last.seal(self.ownership)

    def node_is(self, node: int, at_ns: int, *, is_running: bool) -> None:
        """Notes a start or stop of a node; a stopped node's groups move away."""
        if is_running:
            self._stopped.pop(node, None)
        else:
            self._stopped[node] = at_ns

    def began_anew(self) -> None:
        """Notes a restart of the broker."""
        self._stopped.clear()
        self.held_in = None
        self.membership.connections.clear()
        self.disconnected.clear()
        self.away.clear()
        self._lose_sight()
        if self.last is not None:
            self.last.end(self.now, Outcome.CUT)
            self.settle(self.last)

    def events_lost(self) -> None:
        """Notes that events are missing from here on."""
        self._lose_sight()
        self.ownership.forget()
        last = self.last
        if last is not None and not last.has_ended:
            last.is_whole = False
            if last.seen_ns is None:
                last.seen_ns = self.now
        self.settle_if_done()

    def _lose_sight(self) -> None:
        """Drops the state seen last, which may have changed."""
        self.seal()
        self.membership.pending.clear()
        self.readers.forget(self.now)
        if self.last is not None:
            for member_id in [*self.last.pauses.open]:
                self.last.pauses.end(member_id, self.now, UNSEEN)
            if self.last.has_ended:
                self.last.unsynced.clear()

    def notice_missing(self, event: Event) -> None:
        """Ends a join phase if the generation number shows that it is over."""
        rebalance, generation = self.joining(), event.get("generation")
        if rebalance is None or generation is None or rebalance.opening.is_consumer:
            return
        ahead = generation - rebalance.opening.generation
        if ahead > 1 or (ahead == 1 and event["kind"] in _OF_JOINS):
            self.end_unseen(rebalance)

    def end_unseen(self, rebalance: Rebalance, until_ns: int | None = None) -> None:
        """Ends a rebalance whose end, or more of it, is missing from the events."""
        rebalance.is_whole = False
        seen_ns = self.last_ns if rebalance.seen_ns is None else rebalance.seen_ns
        if until_ns is not None:
            seen_ns = min(seen_ns, until_ns)
        rebalance.end(max(seen_ns, rebalance.pieces.at_ns), Outcome.UNSEEN)
