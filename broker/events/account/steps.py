"""The steps of members of a consumer group to their target assignments (KIP-848)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kohort.broker.events.account.values import Step
from kohort.broker.events.words import UNSEEN

WHAT: Final = {
    "unrevoked_partitions": "revoke",
    "unreleased_partitions": "wait",
}
"""The step of a member in a state."""


class _Open(NamedTuple):
    what: str
    since_ns: int
    size: int
    holders: tuple[str, ...]


class Steps:
    """The steps of members in one rebalance.

    Attributes:
        rows: steps that are over.
    """

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self.rows: list[Step] = []

    def take(
        self,
        member_id: str,
        state: str,
        at_ns: int,
        count: int,
        holders: Sequence[str],
    ) -> None:
        """Notes the state of a member after a heartbeat.

        Args:
            member_id: the member.
            state: as in ``member_reconciled``.
            at_ns: the time.
            count: partitions that it has to give up, or waits for.
            holders: members that hold those that it waits for.
        """
        what = WHAT.get(state)
        before = self._open.get(member_id)
        if before is not None and before.what == what:
            return
        self.end(member_id, at_ns, "done")
        if what is not None:
            self._open[member_id] = _Open(what, at_ns, count, tuple(holders))

    def end(self, member_id: str, at_ns: int, ended_by: str) -> None:
        """Ends the step of a member, if it is in one."""
        before = self._open.pop(member_id, None)
        if before is not None and at_ns > before.since_ns:
            self.rows.append(_made(member_id, before, at_ns, ended_by))

    def end_all(self, at_ns: int, ended_by: str) -> None:
        """Ends the steps of all members."""
        for member_id in [*self._open]:
            self.end(member_id, at_ns, ended_by)

    def rows_until(self, at_ns: int) -> tuple[Step, ...]:
        """All rows, with open steps up to a time."""
        still = (
            _made(member_id, step, max(at_ns, step.since_ns), UNSEEN)
            for member_id, step in self._open.items()
        )
        return (*self.rows, *still)


def _made(member_id: str, step: _Open, until_ns: int, ended_by: str) -> Step:
    return Step(
        member_id,
        step.what,
        step.since_ns,
        until_ns,
        step.size,
        step.holders,
        ended_by,
    )
