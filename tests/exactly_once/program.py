"""`kohort` with signals for its markers, and with a bug if its name comes first.

    python program.py serve ...
    python program.py ignored_stable_offset serve ...

After the signal HOLD markers are refused for a moment: transactions stay prepared.
After BEFORE they are refused, too, and then the process is killed. After BEHIND it is
killed behind the next marker: a transaction has one, and perhaps not all. A bug is for
the test of the test; each replaces something of kohort while it runs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from kohort.broker.cluster import markers
from kohort.broker.coordinator import transactional_offsets as group_side
from kohort.broker.coordinator.events import TransactionEnded
from kohort.broker.log.partition import Partition
from kohort.control.cli import main
from kohort.protocol.errors import ErrorCode

WITHOUT_MARKERS_S = 0.2
HOLD, BEFORE, BEHIND = signal.SIGRTMIN, signal.SIGUSR1, signal.SIGUSR2


def obey_signals() -> None:
    """Makes the process obey the signals."""
    asked: list[int] = []

    def wait(number: int, _: object) -> None:
        asked.append(number)
        if number == BEFORE:
            threading.Timer(WITHOUT_MARKERS_S, die).start()
        elif number == HOLD:
            threading.Timer(WITHOUT_MARKERS_S, asked.remove, [HOLD]).start()

    for number in (HOLD, BEFORE, BEHIND):
        signal.signal(number, wait)
    write_marker = markers.write_marker

    def write(*args: Any) -> None:
        if HOLD in asked or BEFORE in asked:
            answer = args[-1]
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        write_marker(*args)
        if BEHIND in asked:
            die()

    markers.write_marker = write  # type: ignore[assignment]  # on purpose


def die() -> None:
    """Kills this process."""
    os.kill(os.getpid(), signal.SIGKILL)


# -- bugs


def ignored_stable_offset() -> None:
    """Readers of committed records read up to the high watermark."""
    end = property(lambda self: self.log_end_offset)
    Partition.last_stable_offset = end  # type: ignore[method-assign, assignment]  # on purpose


def lost_index_entries() -> None:
    """Every tenth aborted transaction is missing in the index."""
    from kohort.broker.log.aborted import AbortedIndex

    add = AbortedIndex.add
    count = 0

    def add_most(self: AbortedIndex, aborted: Any) -> None:
        nonlocal count
        count += 1
        if count % 10:
            add(self, aborted)

    AbortedIndex.add = add_most  # type: ignore[method-assign]  # on purpose


def instant_offsets() -> None:
    """Offsets of a transaction count at once."""
    commit = group_side.commit

    def commit_and_end(
        turn: Any, groups: Any, open_: Any, event: Any, make: Any
    ) -> None:
        commit(turn, groups, open_, event, make)
        ended = TransactionEnded(event.producer_id, is_commit=True)
        group_side.ended(turn, groups, open_, ended)

    group_side.commit = commit_and_end  # type: ignore[assignment]  # on purpose


def lost_markers() -> None:
    """A prepared transaction that a coordinator loads gets no more markers."""
    from kohort.broker.transactions.load import Loading
    from kohort.broker.transactions.state import PREPARED

    finish = Loading.finish

    def finish_complete(self: Loading, turn: Any, transactions: Any) -> None:
        for transactional_id, metadata in self.found.items():
            if metadata.state in PREPARED:
                self.found[transactional_id] = metadata.completed(turn.now_ms)
        finish(self, turn, transactions)

    Loading.finish = finish_complete  # type: ignore[method-assign]  # on purpose


def unchecked_epochs() -> None:
    """The coordinator takes a request of any epoch for one of the current epoch."""
    from kohort.broker.transactions.coordinator import TransactionCoordinator
    from kohort.broker.transactions.events import AddPartitions, EndTransaction
    from kohort.protocol.slotted import replace

    handle = TransactionCoordinator.handle

    def handle_all(self: TransactionCoordinator, event: Any, now: float) -> Any:
        if isinstance(event, AddPartitions | EndTransaction):
            known = self.transactions.get(event.transactional_id)
            if known is not None:
                epoch = known.metadata.producer_epoch
                event = replace(event, producer_epoch=epoch)
        return handle(self, event, now)

    TransactionCoordinator.handle = handle_all  # type: ignore[method-assign, assignment]  # on purpose


BUGS: dict[str, Callable[[], None]] = {
    bug.__name__: bug
    for bug in (
        ignored_stable_offset,
        lost_index_entries,
        instant_offsets,
        lost_markers,
        unchecked_epochs,
    )
}


if __name__ == "__main__":
    obey_signals()
    if sys.argv[1] in BUGS:
        BUGS[sys.argv.pop(1)]()
    main()
