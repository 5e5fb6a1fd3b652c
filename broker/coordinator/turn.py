"""The effects of an event of groups, collected while the event is handled."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.coordinator.appends import Changed, GroupAppends
from kohort.broker.coordinator.effects import JoinResult, Replies, SyncResult, Written
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.lasting import Lasting
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.notice import make
from kohort.broker.runtime.turn import MachineTurn


class Turn(MachineTurn):
    """The group coordinator's turn on one event."""

    __slots__ = ("lasting", "settings")

    appends: GroupAppends

    def __init__(
        self,
        settings: GroupSettings,
        appends: GroupAppends,
        lasting: Lasting,
        now: float,
        *,
        listening: bool,
    ) -> None:
        """Begins at `now`, seconds since the epoch; has notices only for listeners."""
        super().__init__(appends, now, listening=listening)
        self.settings = settings
        self.lasting = lasting

    def reply_alike(
        self,
        result: JoinResult | SyncResult,
        tokens: Sequence[object],
        values: Sequence[str | bytes],
    ) -> None:
        """Answers several requests, in this order: see `Replies`."""
        if tokens:
            self._replies.append(make(Replies, (result, tokens, values)))

    def append(
        self,
        record: Written,
        completion: object = None,
        *,
        opens_window: bool = False,
    ) -> None:
        """Writes a record.

        Args:
            record: the record.
            completion: the step that follows when it is written.
            opens_window: see `Append`.
        """
        self.append_batch((record,), completion, [], opens_window=opens_window)

    def append_changes(
        self, records: Sequence[Written], changed: Changed, *, is_atomic: bool
    ) -> None:
        """Writes records of changes; all notices of this turn wait for them.

        Args:
            records: the records.
            changed: the groups as they were.
            is_atomic: whether the records have to fit into one batch.
        """
        waiting, self.notices = self.notices, []
        self.append_batch(records, changed, waiting, is_atomic=is_atomic)

    # -- powers

    def max_size(self, group: Group) -> int:
        """The most members that a group may have (KIP-389)."""
        limits = self.lasting.max_sizes
        return limits.get(group.group_id, self.settings.max_size)

    def is_held(self, group: Group) -> bool:
        """Returns whether a group is held in its present state: timers stand still."""
        return self.lasting.holds.get(group.group_id) is group.state
