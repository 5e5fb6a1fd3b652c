"""Produce in a transaction: asks the coordinator before a batch opens it (KIP-890).

1. `ProduceVerification.ask` finds the batches that would be the first ones of their
   transaction in their partition, and asks the coordinator about all of them at once.
   Up to Produce v11 these partitions have to be in the transaction. From v12 on the
   coordinator adds them.
2. The coordinator answers, in the same turn or later, after a write to its log. Its
   errors become those that a producer expects of Produce.
3. The handler appends the other batches. A verification does not count any more if a
   marker or another batch came first: `Producers.check`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from kohort.broker.log.partition import Partition
from kohort.broker.log.producers import Verification
from kohort.broker.long_work import Work
from kohort.broker.request import Request
from kohort.broker.transactions.events import AddPartitions, AddPartitionsResult
from kohort.protocol import records
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer
from kohort.protocol.slotted import slotted

_FIRST_WITH_ABORTABLE: Final = 11
"""First version whose clients know TRANSACTION_ABORTABLE."""
_FIRST_THAT_ADDS: Final = 12

NOT_ADDED: Final = "the partition is not part of the transaction"
_NOT_VERIFIED: Final = "the coordinator could not be asked about the transaction: "

_PASSING: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors of the coordinator that some producers would not expect from a leader."""

Key = tuple[str, bytes, int]
"""Name and id of a topic, as far as the request has them, and a partition."""


class Batch(NamedTuple):
    """A batch of a transaction.

    Attributes:
        key: its key in the request.
        topic: the name of the topic.
        partition: the partition that this node leads.
        data: the batch.
    """

    key: Key
    topic: str
    partition: Partition
    data: Buffer


@slotted
class Refused:
    """The reason why a batch is not appended; the message is for the response."""

    error_code: int
    message: str | None = None


Verified = Mapping[Key, Verification | Refused]
"""Verified and refused batches; one without an entry needs no verification."""


class ProduceVerification:
    """The verification of one request; the token of its question.

    Args:
        request: a Produce with a transactional id.
        batches: returns its batches of a transaction, as of now; all of one producer.
        go_on: continues with the result.
    """

    __slots__ = ("_asked", "_batches", "_deadline", "_found", "_go_on", "_request")

    def __init__(
        self,
        request: Request,
        batches: Callable[[], Sequence[Batch]],
        go_on: Callable[[Verified], Work],
    ) -> None:
        self._request = request
        self._batches = batches
        self._go_on = go_on
        self._found: dict[Key, Verification | Refused] = {}
        self._asked: list[Batch] = []
        cluster = request.node.cluster
        wait_ms = cluster.config["add.partitions.to.txn.retry.backoff.max.ms"]
        self._deadline = cluster.client_clock.now() + wait_ms / 1000

    @property
    def _adds(self) -> bool:
        return self._request.version >= _FIRST_THAT_ADDS

    def ask(self) -> None:
        """Asks the coordinator, or goes on at once if no batch needs it."""
        cluster, client = self._request.node.cluster, self._request.client
        now_ms = cluster.now_ms()
        self._found, self._asked = {}, []
        for batch in self._batches():
            found = batch.partition.verify(batch.data, now_ms=now_ms, adds=self._adds)
            if isinstance(found, Verification):
                self._found[batch.key] = found
                self._asked.append(batch)
            elif found:
                self._found[batch.key] = Refused(found)
                publish_fenced(self._request, batch.partition, batch.data)
        is_enabled = cluster.config["transaction.partition.verification.enable"]
        if not self._asked or not (self._adds or is_enabled):
            self._request.go_on(self._go_on(self._found))
            return
        header = records.read_header(self._asked[0].data)
        cluster.transactions.submit(
            None,
            AddPartitions(
                self,
                self._request.message.transactional_id,
                header.producer_id,
                header.producer_epoch,
                [(batch.topic, batch.key[-1]) for batch in self._asked],
                verify_only=not self._adds,
                client=client,
            ),
        )

    def answer(self, result: AddPartitionsResult) -> None:
        """Takes the coordinator's answer."""
        codes = result.codes
        if codes is None:
            codes = [result.error_code] * len(self._asked)
        if self._adds and ErrorCode.CONCURRENT_TRANSACTIONS in codes:
            # The markers of the last transaction are being written: it costs less to
            # wait here than to send the records again.
            clock = self._request.node.cluster.client_clock
            if clock.now() < self._deadline:
                self._ask_later()
                return
        for batch, code in zip(self._asked, codes, strict=True):
            if code:
                self._found[batch.key] = _refusal(code, self._request.version)
        self._request.go_on(self._go_on(self._found))

    def _ask_later(self) -> None:
        cluster = self._request.node.cluster
        wait_ms = cluster.config["add.partitions.to.txn.retry.backoff.ms"]
        clock = cluster.client_clock
        timer = clock.call_at(clock.now() + wait_ms / 1000, self.ask)
        self._request.abandon = timer.cancel

    def forget(self, why: str) -> None:
        """The coordinator never answers, so neither does Produce."""
        self._request.forget(why)


def publish_fenced(request: Request, partition: Partition, batch: Buffer) -> None:
    """Publishes that a batch is refused because of its epoch.

    The coordinator publishes its own refusals.
    """
    cluster = request.node.cluster
    header = records.read_header(batch)
    state = partition.producers.get(header.producer_id)
    if state is None or not cluster.events.listening:
        return
    cluster.events.of(request.node.id).tell(
        "transaction_fenced",
        cluster.clock.now(),
        transactional_id=request.message.transactional_id,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        current_epoch=state.epoch,
        api=request.api.name,
        error=ErrorCode.INVALID_PRODUCER_EPOCH.name,
        client_id=request.client.id,
    )


def _refusal(code: int, version: int) -> Refused:
    """The answer of Produce for an error of the coordinator, as in Kafka."""
    if code == ErrorCode.PRODUCER_FENCED:
        return Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code == ErrorCode.TRANSACTION_ABORTABLE and version < _FIRST_WITH_ABORTABLE:
        code = ErrorCode.INVALID_TXN_STATE
    if code == ErrorCode.INVALID_TXN_STATE:
        return Refused(code, NOT_ADDED)
    is_early = code == ErrorCode.CONCURRENT_TRANSACTIONS and version < _FIRST_THAT_ADDS
    if code in _PASSING or is_early:
        why = _NOT_VERIFIED + ErrorCode(code).name
        return Refused(ErrorCode.NOT_ENOUGH_REPLICAS, why)
    return Refused(code)
