"""Leader epochs of a partition, and the offset at which each began (KIP-101)."""

from __future__ import annotations

from bisect import bisect_right

from kohort.protocol.errors import ErrorCode


class LeaderEpochs:
    """The epochs that have batches in the log, and the current one."""

    __slots__ = ("_epochs", "_starts", "latest")

    def __init__(self, epoch: int = 0) -> None:
        self.latest = epoch
        self._epochs = [epoch]
        self._starts = [0]

    def begin(self, epoch: int, log_end_offset: int) -> None:
        """A leader was elected, in a newer epoch than all before."""
        if self._starts[-1] == log_end_offset:
            # Nothing was written in the epoch before, so nobody can ask for it.
            self._epochs.pop()
            self._starts.pop()
        self.latest = epoch
        self._epochs.append(epoch)
        self._starts.append(log_end_offset)

    def at(self, offset: int) -> int:
        """The epoch of an offset in the log or at its end."""
        return self._epochs[bisect_right(self._starts, offset) - 1]

    def end_of(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch up to `epoch`, and the offset behind it.

        (-1, -1) where `epoch` is newer than all known ones. An epoch older than
        all known ones comes back with the start of the oldest.
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
        """The log starts at `offset` now: epochs that ended before are gone."""
        gone = bisect_right(self._starts, offset) - 1
        del self._epochs[:gone], self._starts[:gone]
        self._starts[0] = max(self._starts[0], offset)

    def check(self, current_leader_epoch: int) -> ErrorCode:
        """Whether a client knows the current epoch (KIP-320); -1 is not checked."""
        if current_leader_epoch in (-1, self.latest):
            return ErrorCode.NONE
        if current_leader_epoch < self.latest:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH
