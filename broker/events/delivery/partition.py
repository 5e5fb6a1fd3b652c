"""One partition of a group: its passages, and what they received."""

from __future__ import annotations

from collections import deque
from collections.abc import Container

from kohort.broker.events.delivery.passages import (
    CLOSING_NS,
    IN_REBALANCE,
    LEFT,
    MOST_ROWS,
    ORDERLY,
    PAUSED,
    REPLACED,
    REVOKED,
    Gap,
    Pace,
    Passage,
    Release,
    Repeat,
    Seen,
)
from kohort.broker.events.delivery.segments import END, Segments
from kohort.broker.notice import Client


class PartitionDelivery:
    """One partition of a group.

    Attributes:
        seen: what members received, without what was given back.
        skipped: what no member was sent, by reason.
        committed: the group's offset; None: none, or unknown.
        floor: the group's first position; None: unknown.
        passage: the latest passage; None before the first.
        repeats, gaps: rows, in order of time.
        releases: ends of passages, in order of time.
        sent: records in responses, as offsets.
        unknown: offsets sent to readers that may be another group's.
        is_committed: whether its readers are ``read_committed``; None: unknown.
        strangers: connections that read the partition, but for no member.
        stray: connection, first offset and end of a response to a Fetch from before a
            rebalance. Some clients use it, others drop it and ask again.
        late_from: the log's start, when a rebalance found the partition late.
        told: ranges received, as events have told.
    """

    __slots__ = (
        "_blame",
        "_is_out_of_range",
        "committed",
        "floor",
        "gaps",
        "is_committed",
        "late_from",
        "passage",
        "releases",
        "repeats",
        "seen",
        "sent",
        "strangers",
        "stray",
        "told",
        "unknown",
    )

    def __init__(self, committed: int | None) -> None:
        self.seen: Segments[Seen] = Segments()
        self.committed = committed
        self.floor = committed
        self.passage: Passage | None = None
        self.repeats: deque[Repeat] = deque(maxlen=MOST_ROWS)
        self.gaps: deque[Gap] = deque(maxlen=MOST_ROWS)
        self.releases: deque[Release] = deque(maxlen=MOST_ROWS)
        self.told: Segments[bool] = Segments()
        self.sent = 0
        self.unknown: Segments[bool] = Segments()
        self.is_committed: bool | None = None
        self.strangers: set[int] = set()
        self.stray: tuple[int | None, int, int] | None = None
        self.late_from: int | None = None
        self._is_out_of_range = False
        # A reason that explains the next start better than the release does.
        self._blame: str | None = None

    # -- notes of fetches

    def asked(
        self,
        member_id: str,
        client: Client,
        offset: int,
        log_start: int,
        wall_ns: int,
        pace: Pace,
    ) -> None:
        """A member that reads the partition asks for an offset."""
        passage = self.passage
        if (
            passage is not None
            and passage.member_id == member_id
            and passage.release is None
        ):
            if passage.position <= offset <= passage.sent:
                self.received(passage, offset, wall_ns)
                passage.sent = offset
                passage.client = client
                passage.is_unread = False
                if offset > passage.dropped:
                    passage.dropped = -1
                return
            if offset > passage.sent:
                self.received(passage, passage.sent, wall_ns)
            elif passage.droppable > 0 or offset == passage.dropped:
                self._drop(passage, offset)
                return
            else:
                # A seek, or a response that was on its way is thrown away.
                passage.sent = passage.position
                if pace.is_transactional:
                    self._forget(passage, offset)
        stray = self.stray
        if stray is not None and stray[0] == client.connection:
            self.stray = None
            if stray[2] == offset and not self.seen.within(stray[1], offset):
                # It was read, after all, unless others have read that far since.
                self._begin(member_id, client, stray[1], log_start, wall_ns)
                assert self.passage is not None
                self.received(self.passage, offset, wall_ns)
                self.passage.sent = offset
                return
        self._begin(member_id, client, offset, log_start, wall_ns)

    def _use_stray(self, member_id: str, offset: int, wall_ns: int) -> None:
        """Notes that a member commits what only a stray response has sent to it."""
        stray, passage = self.stray, self.passage
        if (
            stray is None
            or passage is None
            or not member_id
            or offset <= stray[1]
            or (passage.member_id == member_id and passage.release is None)
        ):
            return
        connection, first, end = stray
        if passage.member_id != member_id or passage.sent < end:
            used = Passage(member_id, passage.client, first, first, end, "rebalance")
            self.received(used, min(offset, end), wall_ns)
        self.stray = None if offset >= end else (connection, offset, end)

    def is_read_by_another(
        self, connection: int, offset: int, readers: Container[int]
    ) -> bool:
        """Returns whether a connection is not that of the member that reads.

        A process may read the partition outside of any group, with the same client id,
        or go on after its session has expired. The member's own connection is the one
        that began, as long as it is open; another one that goes on where that was is a
        new connection, perhaps to another leader.

        Args:
            connection: the connection that asks for an offset.
            offset: the offset.
            readers: the open connections of members.
        """
        if connection in self.strangers:
            return True
        passage = self.passage
        if (
            passage is None
            or passage.release is not None
            or passage.client.connection == connection
            or passage.client.connection not in readers
            or passage.position <= offset <= passage.sent
        ):
            return False
        if connection not in readers and len(self.strangers) < MOST_ROWS:
            self.strangers.add(connection)
        return True

    def _drop(self, passage: Passage, offset: int) -> None:
        """The client has dropped records that it had not handed out."""
        passage.droppable = 0
        passage.dropped = offset
        self._forget(passage, max(offset, passage.start))
        passage.position = passage.sent = offset

    def _forget(self, passage: Passage, offset: int) -> None:
        """The reader has not handled what it has received from an offset on."""
        for first, end, seen in self.seen.within(offset, passage.position):
            if seen == (passage.member_id, False):
                self.seen.remove(first, end)

    def _begin(
        self, member_id: str, client: Client, offset: int, log_start: int, wall_ns: int
    ) -> None:
        before = self.passage
        reason = self._why(before, member_id, offset)
        self._note_floor(offset)
        assert self.floor is not None
        if offset > self.floor:
            why = self._why_skipped(before, member_id, offset, log_start)
            for first, end in [*self.seen.gaps(self.floor, offset)]:
                if not self._is_told(first, end):
                    self.gaps.append(Gap(first, end, why, member_id, wall_ns))
        self.passage = Passage(member_id, client, offset, offset, offset, reason)
        self._is_out_of_range = False
        self._blame = None

    def _note_floor(self, offset: int) -> None:
        floor = self.floor if self.late_from is None else self.late_from
        self.late_from = None
        if floor is None:
            self.floor = offset
        elif offset < floor and self.committed == floor:
            # The commit is older than the account: those before it were handled.
            self.seen.set(offset, floor, Seen("", is_handled=True))
            self.floor = offset
        else:
            self.floor = min(floor, offset)

    def _is_told(self, first: int, end: int) -> bool:
        return any(gap.first <= first and end <= gap.end for gap in self.gaps)

    def _why(self, before: Passage | None, member_id: str, offset: int) -> str:
        """The reason for records that the reader receives again."""
        if self._is_out_of_range:
            return "out_of_range"
        if before is None:
            return self._blame or "seek"
        if self._blame is not None and offset <= (self.committed or 0):
            return self._blame
        if before.release is None:
            return "seek" if before.member_id == member_id else "rebalance"
        if before.release.how in IN_REBALANCE:
            return "rebalance"
        return before.release.how

    def _why_skipped(
        self, before: Passage | None, member_id: str, offset: int, log_start: int
    ) -> str:
        committed = self.committed
        if offset <= log_start and (committed is None or offset > committed):
            return "deleted"
        if self._is_out_of_range:
            return "out_of_range"
        if committed is not None and offset <= committed:
            return "commit_ahead"
        if (
            before is not None
            and before.member_id == member_id
            and (before.release is None)
        ):
            return "seek"
        if before is None and committed is None:
            return "found_late"
        return "reset" if committed is None else "seek"

    def was_sent(
        self, member_id: str, client: Client, offset: int, end: int, wall_ns: int
    ) -> None:
        """Notes a response to a member."""
        passage = self.passage
        if (
            passage is None
            or passage.release is not None
            or passage.member_id != member_id
            or passage.client.connection != client.connection
        ):
            self.went_astray(client, offset, end)
            return
        self.sent += end - offset
        passage.sent_ns = wall_ns
        passage.droppable -= 1
        if offset == passage.position:
            passage.sent = max(passage.sent, end)

    def went_astray(self, client: Client, offset: int, end: int) -> None:
        """Notes a response to a connection that is not the present reader's.

        If it was the last one's, its member may not know that it has lost the
        partition, and use the response.
        """
        self.stray = client.connection, offset, end
        passage = self.passage
        if (
            passage is not None
            and passage.client.connection == client.connection
            and passage.sent == offset
        ):
            passage.sent = end

    def received(self, passage: Passage, end: int, wall_ns: int) -> None:
        """Notes that a reader has read up to an offset."""
        first = passage.position
        if end <= first:
            return
        for a, b, seen in self.seen.within(first, end):
            self._repeat(a, b, seen, passage, wall_ns)
        for gap in [*self.gaps]:
            if gap.first < end and gap.end > first:
                self._fill(gap, first, end)
        handled = self.committed or 0
        was_handled = [(a, b) for a, b, s in self.seen.within(first, end) if s[1]]
        mine = Seen(passage.member_id, is_handled=True)
        self.seen.set(first, min(end, handled), mine)
        self.seen.set(max(first, handled), end, mine._replace(is_handled=False))
        for a, b in was_handled:
            self.seen.set(a, b, mine)
        passage.position = end

    def _fill(self, gap: Gap, first: int, end: int) -> None:
        """A reader has received skipped offsets after all."""
        self.gaps.remove(gap)
        for a, b in ((gap.first, min(first, gap.end)), (max(end, gap.first), gap.end)):
            if a < b:
                self.gaps.append(Gap(a, b, gap.reason, gap.reader, gap.wall_ns))

    def _repeat(
        self, first: int, end: int, seen: Seen, passage: Passage, wall_ns: int
    ) -> None:
        if self.releases:
            self.releases[-1].repeated += end - first
        last = self.repeats[-1] if self.repeats else None
        if (
            last is not None
            and (last.end, last.seen, last.reader) == (first, seen, passage.member_id)
            and last.reason == passage.reason
        ):
            last.end = end
            return
        row = Repeat(first, end, seen, passage.reason, passage.member_id, wall_ns)
        self.repeats.append(row)

    def confirm(self, client: Client, *, was_read: bool, wall_ns: int) -> None:
        """The connection has sent another request, or ended without one."""
        passage = self.passage
        if passage is None or passage.has_learnt or passage.client != client:
            return
        if was_read:
            self.received(passage, passage.sent, wall_ns)
        passage.is_unread = not was_read

    def out_of_range(self) -> None:
        """The reader was answered with OFFSET_OUT_OF_RANGE: it resets its offset."""
        self._is_out_of_range = True

    # -- commits

    def commit(
        self, member_id: str, offset: int, wall_ns: int, *, in_transaction: bool
    ) -> tuple[int | None, int]:
        """Notes a commit.

        Returns:
            The offset before, if it was higher; and what `claim` returns.
        """
        before, self.committed = self.committed, offset
        if self.floor is None:
            self.floor = offset
        step = self.claim(member_id, offset, wall_ns, in_transaction=in_transaction)
        if before is None or offset >= before:
            return None, step
        self._blame = "went_back"
        return before, step

    def claim(
        self, member_id: str, offset: int, wall_ns: int, *, in_transaction: bool = False
    ) -> int:
        """A member declares that it has handled all records below an offset.

        By a commit, even if that is refused.

        Returns:
            The distance from its commit before, in offsets.
        """
        self._use_stray(member_id, offset, wall_ns)
        passage = self.passage
        step = 0
        if passage is not None and (
            passage.member_id == member_id or (in_transaction and not member_id)
        ):
            self.received(passage, min(offset, passage.sent), wall_ns)
            step = passage.claim(offset)
        for a, b, seen in self.seen.within(0, offset):
            if not seen.is_handled:
                self.seen.set(a, b, seen._replace(is_handled=True))
        return step

    def refused(self, member_id: str, offset: int, wall_ns: int, pace: Pace) -> None:
        """A commit was refused: what it declares was handled nevertheless."""
        self.claim(member_id, offset, wall_ns)
        self.committed_late(member_id, wall_ns, pace, was_refused=True)
        if self.committed is None or offset > self.committed:
            self._blame = "commit_refused"

    def blame(self, reason: str) -> None:
        """Notes the reason for the next start, where it is known better."""
        self._blame = reason

    def forget_commit(self) -> None:
        """The group's offset was deleted, or expired."""
        self.committed = None
        self._blame = "offset_deleted"

    # -- the end of a passage

    def release(
        self, how: str, wall_ns: int, rebalance: tuple[int, bool], pace: Pace
    ) -> None:
        """The reader stops.

        Args:
            how: as in `Release`.
            wall_ns: when, by the machine's clock.
            rebalance: when the rebalance began that takes the partition, and whether a
                member that left began it.
            pace: that of the reader.
        """
        passage = self.passage
        if passage is None or passage.release is not None:
            return
        began_ns, after_departure = rebalance
        back = self._given_back_from(passage, how, wall_ns, began_ns, pace)
        self._stop(passage, back, wall_ns)
        release = Release(
            passage.member_id,
            how,
            wall_ns,
            self.committed,
            passage.start,
            passage.position,
            after_departure,
        )
        passage.release = release
        passage.has_learnt = how != REVOKED
        self.releases.append(release)
        if back is not None:
            self._give_back(passage, release, back)

    def committed_late(
        self, member_id: str, wall_ns: int, pace: Pace, *, was_refused: bool = False
    ) -> None:
        """A member has committed after a rebalance took the partition from it.

        A cooperative one learns of that from its response to SyncGroup, and may be in
        the middle of its work then.

        Args:
            member_id: the member.
            wall_ns: when, by the machine's clock.
            pace: its pace, with this commit if it was accepted.
            was_refused: whether the commit was refused.
        """
        passage = self.passage
        if passage is None or passage.member_id != member_id:
            return
        release = passage.release
        if release is None or release.how not in IN_REBALANCE:
            return
        back = self._given_back_from(passage, release.how, wall_ns, wall_ns, pace)
        is_usual = pace.step is not None if was_refused else pace.is_usual
        if release.how == PAUSED and is_usual and not pace.is_transactional:
            # It had joined already, and goes on with the records that it has.
            back = None
        elif was_refused and back is None:
            back = passage.done
        self._stop(passage, back, wall_ns)
        release.committed = self.committed
        release.received = max(release.received, passage.position)
        if back is not None:
            self._give_back(passage, release, back)

    def _stop(self, passage: Passage, back: int | None, wall_ns: int) -> None:
        """The reader may have handled what it was sent, and asks for no more."""
        if not passage.is_unread:
            end = passage.sent if back is None else min(passage.sent, back)
            self.received(passage, end, wall_ns)

    def _given_back_from(
        self, passage: Passage, how: str, wall_ns: int, rebalance_ns: int, pace: Pace
    ) -> int | None:
        """The offset from which on the reader declares that it handled nothing.

        Its commits alone do not show that: a commit of the close looks like the only
        one of a service that commits rarely, but for the time.
        """
        if pace.is_transactional:
            # What a transaction had not committed is undone.
            return passage.done
        is_last = (
            0 < rebalance_ns <= pace.last_ns
            if how in IN_REBALANCE
            else how in {LEFT, REPLACED}
            and wall_ns - CLOSING_NS <= pace.last_ns >= passage.sent_ns
        )
        if is_last and not pace.is_usual:
            return passage.done
        if pace.step == 1 or (pace.step is not None and how in ORDERLY):
            # With some more records it would have committed again.
            return passage.done + pace.step - (how in ORDERLY)
        return None

    def _give_back(self, passage: Passage, release: Release, offset: int) -> None:
        for a, b, seen in self.seen.within(offset):
            if seen == (passage.member_id, False):
                self.seen.remove(a, b)
        # A later commit may show that it has handled them after all.
        passage.position = max(passage.start, min(passage.position, offset))
        release.gave_back = True
        passage.has_learnt = True

    # -- reading the account

    @property
    def has_untold_gap(self) -> bool:
        """Whether no event has told some of the gaps."""
        return any(not gap.is_told for gap in self.gaps)

    @property
    def has_untold_repeat(self) -> bool:
        """Whether no event has told the last repeat."""
        last = self.repeats[-1] if self.repeats else None
        return last is not None and last.told != last.end

    @property
    def next_offset(self) -> int:
        """The offset that comes next: the reader's, or the one to begin with."""
        passage = self.passage
        if passage is not None and passage.release is None:
            return passage.position
        if self.committed is not None:
            return self.committed
        return self.floor or 0

    def due(self) -> list[tuple[int, int, Seen]]:
        """Ranges that members received before, and that come next again."""
        return self.seen.within(self.next_offset)

    def uncommitted(self) -> list[tuple[int, int, Seen]]:
        """Ranges that members received, and neither committed nor gave back."""
        return [row for row in self.seen.within(0) if not row[2].is_handled]

    @property
    def reason_of_due(self) -> str:
        """The reason why `due` comes again."""
        passage = self.passage
        if passage is None:
            return self._blame or "seek"
        if passage.release is None:
            return passage.reason
        return self._why(passage, "", END)
