"""Processes that went and are back as another member, as far as a broker can know.

1. A member went, by any event: its process is away (`Processes.went`).
2. A member joins. On the connection of a member that went, it is the same process,
   which never stopped. Otherwise, of the processes that look the same, the one that has
   been away longest is back (`Processes.came`).
3. A member that has crashed stays a member until its session expires, and its process
   may be back before that. So a member that joined while no process like its own was
   away is remembered, and found when the crashed one goes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container
from operator import itemgetter
from typing import Final

from kohort.broker.events.account.membership import Life, Member
from kohort.broker.events.account.values import Gone, Return

RESTART_NS: Final = 600_000_000_000
"""The longest absence that is taken for a restart. Kubernetes waits up to 5 minutes
before it starts a crashed container again, and a large JVM service may take minutes to
start; two deployments are further apart."""

_TIME: Final = itemgetter(0)


class Processes:
    """The processes of a group that are away, and the members that may be theirs.

    Processes look the same if `Member.process` is the same. Each call takes a few
    steps, however many members there are.

    Attributes:
        away: by process, the members that went, in that order: when the broker last
            heard of each, and how it went.
        new: by process, the members that joined while none was away, with the time.
    """

    def __init__(self) -> None:
        self.away: dict[tuple[str, str], dict[str, tuple[int, Gone]]] = {}
        self.new: dict[tuple[str, str], list[tuple[int, str]]] = {}

    def went(self, member: Member, life: Life) -> Return | None:
        """Notes that a member is gone.

        Returns:
            Its return, if its process is back already.
        """
        assert life.until_ns is not None
        assert life.how is not None
        heard_ns = life.until_ns - (life.silent_ns or 0)
        heard_ns = max(heard_ns, life.since_ns or heard_ns)
        new = self.new.get(member.process, [])
        at = bisect_right(new, heard_ns, key=_TIME)
        if at < len(new) and new[at][0] - heard_ns <= RESTART_NS:
            came_ns, member_id = new.pop(at)
            return Return(
                member_id, life.member_id, life.how, heard_ns, came_ns, is_restart=True
            )
        away = self.away.setdefault(member.process, {})
        away[life.member_id] = heard_ns, life.how
        return None

    def came(self, member: Member, at_ns: int, previous: Life | None) -> Return | None:
        """Notes that a new member has joined.

        Args:
            member: the member.
            at_ns: time of its JoinGroup.
            previous: the life of the member that went on the same connection, or None.

        Returns:
            The return of its process, if it was away.
        """
        away = self.away.get(member.process, {})
        if member.previous_id is not None:
            away.pop(member.previous_id, None)
            if previous is None or previous.until_ns is None or previous.how is None:
                return None
            heard_ns = min(previous.until_ns - (previous.silent_ns or 0), at_ns)
            row = (member.previous_id, previous.how, heard_ns, at_ns)
            return Return(member.member_id, *row, is_restart=False)
        while away:
            previous_id = next(iter(away))
            heard_ns, how = away.pop(previous_id)
            if at_ns - heard_ns <= RESTART_NS:
                row = (previous_id, how, heard_ns, at_ns)
                return Return(member.member_id, *row, is_restart=True)
        self.new.setdefault(member.process, []).append((at_ns, member.member_id))
        return None

    def keep(self, member_ids: Container[str]) -> None:
        """Forgets all members but these."""
        self.away = {
            process: kept
            for process, away in self.away.items()
            if (kept := {m: each for m, each in away.items() if m in member_ids})
        }
        self.new = {
            process: rows
            for process, new in self.new.items()
            if (rows := [row for row in new if row[1] in member_ids])
        }
