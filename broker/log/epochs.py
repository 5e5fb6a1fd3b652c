"""Leader epochs of a partition, and the offset at which each began (KIP-101)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from kohort.protocol.errors import ErrorCode


class LeaderEpochs:
    """The epochs that have batches in the log, and the current one.

    Before the first one begins, `latest` is -1.
    """

    __slots__ = ("_epochs", "_starts", "latest")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        """Takes (epoch, start offset) pairs, both ascending."""
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in entries:
            self._epochs.append(epoch)
            self._starts.append(start)
        self.latest = self._epochs[-1] if self._epochs else -1

    @property
    def entries(self) -> Sequence[tuple[int, int]]:
        """(Epoch, start offset) of each, oldest first."""
        return tuple(zip(self._epochs, self._starts, strict=True))

    def begin(self, epoch: int, log_end_offset: int) -> None:
        """Begins a newer epoch, after the election of a leader."""
        while self._starts and self._starts[-1] >= log_end_offset:
            # The previous epoch has no record, so no client can ask for it.
            self._epochs.pop()
            self._starts.pop()
        self.latest = epoch
        self._epochs.append(epoch)
        self._starts.append(log_end_offset)

    def at(self, offset: int) -> int:
        """The epoch of an offset in the log or at its end; -1 if there is none."""
        index = bisect_right(self._starts, offset)
        return self._epochs[index - 1] if index else -1

    def end_of(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch up to `epoch`, and its end offset.

        (-1, -1) if `epoch` is newer than all known ones. For one older than all known
        ones, returns it with the start of the oldest.
        """
        if epoch == self.latest:
            return epoch, log_end_offset
        if epoch > self.latest or epoch == -1:
            return -1, -1
        index = bisect_right(self._epochs, epoch)
        if index == 0:
            return epoch, self._starts[0]
        return self._epochs[index - 1], self._starts[index]

    def start_at(self, offset: int) -> None:
        """Drops the epochs that ended before `offset`, the new start of the log."""
        gone = max(bisect_right(self._starts, offset) - 1, 0)
        del self._epochs[:gone], self._starts[:gone]
        if self._starts:
            self._starts[0] = max(self._starts[0], offset)

    def end_at(self, offset: int) -> None:
        """Drops the epochs that began after `offset`, the new end of the log."""
        while self._starts and self._starts[-1] > offset:
            self._starts.pop()
            self._epochs.pop()
        self.latest = self._epochs[-1] if self._epochs else -1

    def check(self, current_leader_epoch: int) -> ErrorCode:
        """Checks a client's leader epoch (KIP-320); -1 is not checked."""
        if current_leader_epoch in (-1, self.latest):
            return ErrorCode.NONE
        if current_leader_epoch < self.latest:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH
