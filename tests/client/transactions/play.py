"""A transactional producer without batches, and its coordinator's answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kohort.client.consuming.consumer_group import ConsumerGroupMetadata
from kohort.client.errors import KohortError, error_of
from kohort.client.offsets import OffsetAndMetadata, TopicPartition
from kohort.client.transactions.requests import (
    AddOffsets,
    AddPartitions,
    CommitOffsets,
    EndTransaction,
    InitProducer,
    Request,
)
from kohort.client.transactions.state import TransactionState
from kohort.client.transactions.transaction_manager import Operation, TransactionManager
from kohort.protocol.errors import ErrorCode

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = ConsumerGroupMetadata("g", 3, "m", None)
ROWS = {P0: OffsetAndMetadata(5), P1: OffsetAndMetadata(7)}
APIS = {
    InitProducer: "InitProducerId",
    AddPartitions: "AddPartitionsToTxn",
    AddOffsets: "AddOffsetsToTxn",
    CommitOffsets: "TxnOffsetCommit",
    EndTransaction: "EndTxn",
}


class Play:
    """A producer without batches, and its coordinator's answers.

    Attributes:
        core: the state under test.
        asked: the requests so far.
        has_batches: whether batches are undelivered.
    """

    def __init__(self, version: int = 2, *, can_bump: bool = True) -> None:
        self.core = TransactionManager("x")
        self.asked: list[Request] = []
        self.has_batches = False
        start = self.core.initialize()
        self.core.learn(version, 1, can_bump=can_bump)
        self.answer()
        assert start.is_done
        assert start.error is None
        self.asked.clear()

    @property
    def state(self) -> TransactionState:
        """The current state."""
        return self.core.state

    def next(self) -> Request | None:
        """The next request."""
        return self.core.next_request(has_batches=self.has_batches)

    def answer(self) -> None:
        """Answers all requests without an error."""
        while (request := self.next()) is not None:
            self.asked.append(request)
            self.accept(request)

    def accept(self, request: Request) -> None:
        """Answers a request without an error."""
        core = self.core
        match request:
            case InitProducer():
                core.initialized(max(request.producer_id, 9), request.epoch + 1)
            case AddPartitions():
                core.partitions_added(request)
            case AddOffsets():
                core.group_added()
            case CommitOffsets():
                core.offsets_committed(request.offsets)
            case EndTransaction(version=version):
                bumped = (9, core.epoch + 1) if version >= 2 else (-1, -1)
                core.ended(*bumped)

    def refuse(self, code: int, **where: Any) -> bool:
        """Answers the next request with an error; returns whether it is retried."""
        request = self.next()
        assert request is not None
        self.asked.append(request)
        return self.core.refused(
            request, error_of(code, api=APIS[type(request)], **where)
        )

    def begin(self, *places: TopicPartition) -> None:
        """Begins a transaction with records in some partitions."""
        self.core.begin()
        for place in places:
            self.core.add_partition(place)

    def end(self, *, is_commit: bool = True) -> Operation:
        """Ends the transaction, with all answers."""
        operation = self.core.end(is_commit=is_commit)
        self.answer()
        return operation

    def step(self, kind: str, code: int) -> Operation | None:
        """One step of a random scene; `code` is the error of a request or batch."""
        core = self.core
        if kind == "begin":
            core.begin()
        elif kind == "add":
            core.add_partition(P0)
        elif kind == "offsets":
            return core.add_offsets(ROWS, GROUP)
        elif kind in {"commit", "abort"}:
            return core.end(is_commit=kind == "commit")
        elif kind == "fail":
            core.batch_failed(batch_error(code or ErrorCode.REQUEST_TIMED_OUT))
        elif (request := self.next()) is not None:
            if code:
                api = APIS[type(request)]
                core.refused(request, error_of(code, api=api, topic="t"))
            else:
                self.accept(request)
        return None

    def kinds(self) -> list[str]:
        """The kinds of the requests so far."""
        return [APIS[type(request)] for request in self.asked]


def fails(call: Callable[[], object], message: str = ".") -> KohortError:
    """The error that a call raises."""
    with pytest.raises(KohortError, match=message) as caught:
        call()
    return caught.value


def at(api: str) -> tuple[Play, Operation | None]:
    """A producer whose next request is of this API, and the operation behind it."""
    play = Play(version=1)
    operation: Operation | None = None
    if api == "InitProducerId":
        play.core = TransactionManager("x")
        operation = play.core.initialize()
        return play, operation
    play.begin(P0)
    if api != "AddPartitionsToTxn":
        play.answer()
    if api in {"AddOffsetsToTxn", "TxnOffsetCommit"}:
        operation = play.core.add_offsets(ROWS, GROUP)
    if api == "TxnOffsetCommit":
        request = play.next()
        assert request is not None
        play.accept(request)
    if api == "EndTxn":
        operation = play.core.end(is_commit=True)
    play.asked.clear()
    return play, operation


def batch_error(code: int) -> KohortError:
    """The error of a batch."""
    return error_of(code, api="Produce", topic="t", partition=0)
