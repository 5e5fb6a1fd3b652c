"""Transactions over HTTP: transactional ids, their partitions, and power over them.

`kohort.control.transaction` has the same in Python.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Annotated, Final, TypedDict, cast

from aiohttp import web
from msgspec import UNSET, Meta, UnsetType

from kohort.broker.long_work import Pace
from kohort.broker.server import Broker
from kohort.broker.transactions.state import ONGOING, PREPARED, TransactionState
from kohort.control.conditions import (
    PATIENCE_S,
    BrokerStoppedError,
    ConditionTimeout,
)
from kohort.control.http.group_types import MOST_WAIT_S, Count
from kohort.control.http.long_polls import LongPolls
from kohort.control.http.operations import Fields, Operation, Text, in_turns
from kohort.control.http.verb_routes import verb_operations
from kohort.control.transaction import Transaction as Handle
from kohort.control.transaction_verbs import TransactionVerbs

if TYPE_CHECKING:
    from kohort.broker.shards.transaction_shards import TransactionShards
    from kohort.broker.transactions.transaction import Transaction

MOST_ROWS: Final = 1_000
"""Most transactional ids of one list: they are collected in one go."""
_COST: Final = 1
"""Cost of one id, or one partition, as `Pace` counts."""

TransactionalId = Annotated[Text, Meta(description="A transactional.id.")]


class IdPath(Fields):
    """The path of a transactional id."""

    transactional_id: TransactionalId


class IdsQuery(Fields):
    """Which transactional ids are listed."""

    state: Annotated[
        TransactionState | UnsetType, Meta(description="Only ids in this state.")
    ] = UNSET
    open_ms: Annotated[
        Count | UnsetType,
        Meta(description="Only ids whose transaction has been open for this long."),
    ] = UNSET
    limit: Annotated[
        int, Meta(ge=1, le=MOST_ROWS, description="Largest number of ids to list.")
    ] = MOST_ROWS


class StateQuery(Fields):
    """The state that is awaited."""

    state: Annotated[
        TransactionState | UnsetType,
        Meta(description="The id is in this state; by default in any but Dead."),
    ] = UNSET
    timeout: Annotated[
        float, Meta(ge=0, le=MOST_WAIT_S, description="Seconds to wait.")
    ] = PATIENCE_S


class IdRow(TypedDict):
    """A transactional id in a list."""

    transactional_id: TransactionalId
    state: str
    producer_id: int
    producer_epoch: int
    client_id: Annotated[
        str | None, Meta(description="The producer's client.id; null: unknown.")
    ]
    open_ms: Annotated[
        int | None,
        Meta(description="Time since the transaction began; null: none is open."),
    ]
    partition_count: Annotated[
        int, Meta(description="Number of partitions of the transaction.")
    ]
    coordinator: Annotated[int, Meta(description="The id of a node.")]
    held: Annotated[
        str | None, Meta(description="The state of its hold; null: it is not held.")
    ]


class IdList(TypedDict):
    """Transactional ids, and their total number."""

    transactions: list[IdRow]
    total: Annotated[int, Meta(description="Total number of ids, in any state.")]


class HeldPartition(TypedDict):
    """A partition of a transaction."""

    topic: str
    partition: int
    is_marked: Annotated[bool, Meta(description="It has the marker.")]
    last_stable_offset: Annotated[
        int | None, Meta(description="Null: the partition does not exist.")
    ]
    held_back: Annotated[
        int | None,
        Meta(description="Records behind the last stable offset, for any reason."),
    ]


class IdShown(IdRow):
    """A transactional id and its transaction."""

    timeout_ms: Annotated[int, Meta(description="Its transaction.timeout.ms.")]
    groups: Annotated[
        list[str], Meta(description="Groups whose offsets are in the transaction.")
    ]
    partitions: list[HeldPartition]


def operations(broker: Broker, polls: LongPolls) -> list[Operation]:
    """The operations on a broker's transactions.

    Args:
        broker: the broker.
        polls: the requests that wait.
    """
    do = _Handlers(broker, polls)
    one = "/v1/transactions/{transactional_id}"
    return [
        Operation("GET", "/v1/transactions", do.list_transactions),
        Operation("GET", one, do.show_transaction, (404, 503)),
        Operation("GET", f"{one}/until", do.await_transaction, (503, 504)),
        *verb_operations(
            TransactionVerbs,
            one,
            IdPath,
            lambda path: Handle(broker, path.transactional_id),
            answer=IdRow,
        ),
    ]


class _Handlers:
    """The handlers of the operations."""

    def __init__(self, broker: Broker, polls: LongPolls) -> None:
        self._broker = broker
        self._polls = polls

    @property
    def _shards(self) -> TransactionShards:
        return self._broker.cluster.transactions

    async def list_transactions(self, query: IdsQuery) -> IdList:
        """Lists transactional ids, with their transactions."""
        rows = await in_turns(self._listed(query))
        total = sum(len(shard.transactions) for shard in self._shards)
        return {"transactions": rows, "total": total}

    def _listed(self, query: IdsQuery) -> Generator[None, None, list[IdRow]]:
        rows: list[IdRow] = []
        pace = Pace()
        least_ms = 0 if query.open_ms is UNSET else query.open_ms
        for shard in self._shards:
            # A copy: ids may come and go meanwhile.
            for each in [*shard.transactions.values()]:
                open_ms = self._open_ms(each)
                is_open = open_ms is not None and open_ms >= least_ms
                is_wanted = query.open_ms is UNSET or is_open
                if is_wanted and query.state in {UNSET, each.state}:
                    rows.append(self._row(each, shard.node_id, open_ms))
                if len(rows) == query.limit:
                    return rows
                if pace.spend(_COST):
                    yield
        return rows

    async def show_transaction(self, path: IdPath) -> IdShown:
        """Shows a transactional id, and the partitions of its transaction."""
        name = path.transactional_id
        if len(self._shards):
            shard = self._shards.for_id(name)
            if not shard.is_active:
                raise web.HTTPServiceUnavailable(text=f"its coordinator: {shard.state}")
            found = shard.transactions.get(name)
            if found is not None:
                row = self._row(found, shard.node_id, self._open_ms(found))
                partitions = await in_turns(self._partitions(found))
                return {
                    **row,
                    "timeout_ms": found.metadata.timeout_ms,
                    "groups": sorted(found.metadata.groups),
                    "partitions": partitions,
                }
        raise web.HTTPNotFound(text=f"there is no transactional id {name!r}")

    def _open_ms(self, transaction: Transaction) -> int | None:
        metadata = transaction.metadata
        if metadata.state is not ONGOING and metadata.state not in PREPARED:
            return None
        return max(self._broker.cluster.now_ms() - metadata.start_ms, 0)

    def _row(self, each: Transaction, node_id: int, open_ms: int | None) -> IdRow:
        metadata = each.metadata
        return {
            "transactional_id": each.transactional_id,
            "state": each.state.value,
            "producer_id": metadata.producer_id,
            "producer_epoch": metadata.producer_epoch,
            "client_id": each.client_id,
            "open_ms": open_ms,
            "partition_count": len(metadata.partitions),
            "coordinator": node_id,
            "held": self._shards.holds.get(each.transactional_id),
        }

    def _partitions(
        self, transaction: Transaction
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

    async def await_transaction(self, path: IdPath, query: StateQuery) -> IdRow:
        """Waits until a transactional id has a state.

        The state is checked at once, and then with each change. If the id does not have
        it in time, the answer is 504.
        """
        transaction = Handle(self._broker, path.transactional_id)
        state = None if query.state is UNSET else query.state.value
        wait = transaction.until(state=state, timeout=query.timeout)
        try:
            await self._polls.wait(wait)
        except ConditionTimeout as error:
            raise web.HTTPGatewayTimeout(text=str(error)) from None
        except BrokerStoppedError as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from None
        return _described(transaction)


def _described(transaction: Handle) -> IdRow:
    return cast(IdRow, transaction.describe())
