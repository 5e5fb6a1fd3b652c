"""Transactions over HTTP: transactional ids, their partitions, and power over them.

`kohort.control.transaction` has the same in Python.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Final, TypedDict

from aiohttp import web
from msgspec import UNSET, Meta, UnsetType

from kohort.broker.long_work import Pace
from kohort.broker.server import Broker
from kohort.broker.transactions.state import PREPARED, TransactionState
from kohort.control.http.group_types import Count
from kohort.control.http.long_polls import LongPolls
from kohort.control.http.operations import Fields, Operation, Text, in_turns
from kohort.control.http.verb_routes import condition_operations, verb_operations
from kohort.control.transaction import Transaction as Handle
from kohort.control.transaction import TransactionRow, row_of
from kohort.control.transaction_verbs import TransactionVerbs

if TYPE_CHECKING:
    from kohort.broker.shards.transaction_shards import TransactionShards
    from kohort.broker.transactions.transaction_metadata import TransactionMetadata

MOST_ROWS: Final = 1_000
"""Most transactional ids of one list: they are collected in one go."""
_COST: Final = 1
"""Cost of one id, or one partition, as `Pace` counts."""

TransactionalId = Annotated[Text, Meta(description="A transactional.id.")]


class IdPath(Fields):
    """The path of a transactional id."""

    transactional_id: TransactionalId


class IdsQuery(Fields):
    """Which transactional ids are listed.

    Attributes:
        state: only ids in this state.
        open_ms: only ids whose transaction has been open for this long.
        limit: largest number of ids to list.
    """

    state: TransactionState | UnsetType = UNSET
    open_ms: Count | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=MOST_ROWS)] = MOST_ROWS


class IdList(TypedDict):
    """Transactional ids, and their total number.

    Attributes:
        total: total number of ids, in any state.
    """

    transactions: list[TransactionRow]
    total: int


class HeldPartition(TypedDict):
    """A partition of a transaction.

    Attributes:
        is_marked: it has the marker.
        last_stable_offset: null: the partition does not exist.
        held_back: records behind the last stable offset, for any reason.
    """

    topic: str
    partition: int
    is_marked: bool
    last_stable_offset: int | None
    held_back: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionShown(TransactionRow):
    """A transactional id and its whole transaction.

    Attributes:
        timeout_ms: its transaction.timeout.ms.
        groups: groups whose offsets are in the transaction.
        partitions: the partitions of the transaction.
    """

    timeout_ms: int
    groups: list[str]
    partitions: list[HeldPartition]


def operations(broker: Broker, polls: LongPolls) -> list[Operation]:
    """The operations on a broker's transactions.

    Args:
        broker: the broker.
        polls: the requests that wait.
    """

    def handle(path: IdPath) -> Handle:
        return Handle(broker, path.transactional_id)

    do = _Handlers(broker)
    one = "/v1/transactions/{transactional_id}"
    return [
        Operation("GET", "/v1/transactions", do.list_transactions),
        Operation("GET", one, do.show_transaction, (404, 503)),
        *condition_operations(
            TransactionVerbs, IdPath, handle, polls, answer=TransactionRow
        ),
        *verb_operations(TransactionVerbs, IdPath, handle, answer=TransactionRow),
    ]


class _Handlers:
    """The handlers of the operations."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def _shards(self) -> TransactionShards:
        return self._broker.cluster.transactions

    async def list_transactions(self, query: IdsQuery) -> IdList:
        """Lists transactional ids, with their transactions."""
        rows = await in_turns(self._listed(query))
        total = sum(len(shard.states) for shard in self._shards)
        return {"transactions": rows, "total": total}

    def _listed(self, query: IdsQuery) -> Generator[None, None, list[TransactionRow]]:
        rows: list[TransactionRow] = []
        pace = Pace()
        least_ms = 0 if query.open_ms is UNSET else query.open_ms
        for shard in self._shards:
            # A copy: ids may come and go meanwhile.
            for each in [*shard.states.values()]:
                row = self._row(each, shard.node_id)
                is_open = row.open_ms is not None and row.open_ms >= least_ms
                is_wanted = query.open_ms is UNSET or is_open
                if is_wanted and query.state in {UNSET, each.state}:
                    rows.append(row)
                if len(rows) == query.limit:
                    return rows
                if pace.spend(_COST):
                    yield
        return rows

    async def show_transaction(self, path: IdPath) -> TransactionShown:
        """Shows a transactional id, and the partitions of its transaction."""
        name = path.transactional_id
        if len(self._shards):
            shard = self._shards.for_id(name)
            if shard.driver is None:
                raise web.HTTPServiceUnavailable(text=f"its coordinator: {shard.state}")
            found = shard.states.get(name)
            if found is not None:
                return TransactionShown(
                    **asdict(self._row(found, shard.node_id)),
                    timeout_ms=found.metadata.timeout_ms,
                    groups=sorted(found.metadata.groups),
                    partitions=await in_turns(self._partitions(found)),
                )
        raise web.HTTPNotFound(text=f"there is no transactional id {name!r}")

    def _row(self, each: TransactionMetadata, node_id: int) -> TransactionRow:
        return row_of(self._broker.cluster, each.transactional_id, each, node_id)

    def _partitions(
        self, transaction: TransactionMetadata
    ) -> Generator[None, None, list[HeldPartition]]:
        topics = self._broker.cluster.topics.by_name
        rows: list[HeldPartition] = []
        pace = Pace()
        is_ending = transaction.state in PREPARED
        for each in sorted(transaction.metadata.partitions):
            topic = topics.get(each.topic)
            stable = held_back = None
            if topic is not None and each.partition < len(topic.partitions):
                log = topic.partitions[each.partition]
                stable = log.last_stable_offset
                held_back = log.high_watermark - stable
            rows.append(
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "is_marked": is_ending and each not in transaction.missing,
                    "last_stable_offset": stable,
                    "held_back": held_back,
                }
            )
            if pace.spend(_COST):
                yield
        return rows
