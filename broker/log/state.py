"""State of a log when it is opened."""

from __future__ import annotations

from kohort.broker.log.epochs import LeaderEpochs
from kohort.broker.log.producers import Producers


class LogState:
    """State of a log when it is opened: offsets, epochs and producers.

    The partition and its store share `epochs` and `producers`: a store that survives a
    restart saves them.
    """

    __slots__ = ("epochs", "log_end_offset", "log_start_offset", "producers")

    def __init__(
        self,
        log_start_offset: int = 0,
        log_end_offset: int = 0,
        epochs: LeaderEpochs | None = None,
        producers: Producers | None = None,
    ) -> None:
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.epochs = LeaderEpochs() if epochs is None else epochs
        self.producers = Producers() if producers is None else producers
