"""Producers with transactions, in a stream of events that is written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.events.build import Stream


class Producer:
    """A transactional producer, as a coordinator tells of it.

    Args:
        stream: the stream of events.
        transactional_id: its id; its client id is "app".
        timeout_s: the timeout of its transactions.
    """

    def __init__(
        self, stream: Stream, transactional_id: str = "tx", timeout_s: float = 60
    ) -> None:
        self.stream = stream
        self.transactional_id = transactional_id
        self.client_id: str | None = "app"
        self.timeout_ms = round(timeout_s * 1000)
        self.epoch = 0
        self.state: str | None = None
        self.parts: dict[str, list[int]] = {}
        self.groups: Sequence[str] = ()
        self.started: int | None = None

    def initializes(self, client_id: str = "app") -> None:
        """A producer takes the id: the next epoch; an open transaction is aborted."""
        if self.state == "Ongoing":
            self.ends("fenced")
        self.epoch += 1
        self.client_id = client_id
        self._change("Empty", "initialized")

    def begins(
        self, *numbers: int, topic: str = "t", groups: Sequence[str] = ()
    ) -> None:
        """Adds partitions and groups; the first ones begin the transaction."""
        cause = "client_added" if self.state == "Ongoing" else "client_began"
        if self.started is None:
            self.started = self.stream.now
        self.parts.setdefault(topic, []).extend(numbers)
        self.groups = groups
        self._change("Ongoing", cause)

    def ends(self, cause: str, held_back: int = 0) -> None:
        """Ends the transaction, and writes all markers."""
        self.prepares(cause)
        for topic, numbers in self.parts.items():
            for number in numbers:
                self.is_marked(number, topic, held_back)
        self.completes()

    def prepares(self, cause: str) -> None:
        """The end is decided."""
        is_commit = cause == "client_committed"
        self._change("PrepareCommit" if is_commit else "PrepareAbort", cause)

    def is_marked(self, partition: int, topic: str = "t", held_back: int = 0) -> None:
        """One partition gets the marker."""
        self.stream.say(
            "transaction_ended_in_partition",
            group=None,
            node=1,
            topic=topic,
            partition=partition,
            producer_id=self._producer_id,
            producer_epoch=self.epoch,
            is_commit=self.state == "PrepareCommit",
            first_offset=0,
            end_offset=held_back,
            held_back=held_back,
            duration_ns=0,
        )

    def completes(self) -> None:
        """All partitions have the marker."""
        self.started, self.parts, self.groups = None, {}, ()
        state = str(self.state).replace("Prepare", "Complete")
        self._change(state, "markers_written")

    def is_loaded(self) -> None:
        """Another coordinator reads it from its log."""
        self._change(str(self.state), "loaded")

    def is_fenced(self, epoch: int, client_id: str | None = "app") -> None:
        """A request with an old epoch is refused, by a partition."""
        self.stream.say(
            "transaction_fenced",
            group=None,
            client_id=client_id,
            transactional_id=None,
            producer_id=self._producer_id,
            producer_epoch=epoch,
            current_epoch=self.epoch,
            api="Produce",
            error="INVALID_PRODUCER_EPOCH",
        )

    @property
    def _producer_id(self) -> int:
        return 4_000 + sum(map(ord, self.transactional_id))

    def _change(self, state: str, cause: str) -> None:
        from_client = cause.startswith("client") or cause == "initialized"
        fields: dict[str, Any] = {
            "group": None,
            "cause": cause,
            "client_id": self.client_id if from_client else None,
            "transactional_id": self.transactional_id,
            "producer_id": self._producer_id,
            "producer_epoch": self.epoch,
            "state": state,
            "previous_state": self.state,
            "partitions": [
                {"topic": topic, "partitions": [*numbers]}
                for topic, numbers in self.parts.items()
            ],
            "group_ids": [*self.groups],
            "started_ns": self.started,
            "duration_ns": 0 if self.state else None,
            "timeout_ms": self.timeout_ms,
        }
        self.state = state
        self.stream.say("transaction_state", **fields)
