"""Many items, each with the node that can do it: asked together, tried again alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from kohort.client.administering.values import Results
from kohort.client.errors import (
    BrokerError,
    ClosedError,
    ConfigError,
    KohortError,
    RequestTimedOutError,
    UnknownTopicError,
    error_of,
)
from kohort.client.network.cluster import Cluster
from kohort.protocol.errors import ErrorCode

K = TypeVar("K")
V = TypeVar("V")

UNKNOWN_TOPIC_ATTEMPTS = 5
"""Attempts after which an unknown topic is missing for good: brokers hear of a new
one a little after its creator does."""

NodeId = int | None
"""The id of a node; None stands for any."""
Answers = Mapping[K, V | KohortError]
"""By item its value or its error."""
Route = Callable[[Cluster, Sequence[K]], Awaitable[Answers[K, NodeId]]]
"""Finds the node of each item."""
Ask = Callable[[NodeId, Sequence[K]], Awaitable[Answers[K, V]]]
"""Asks a node about some items."""
Where = Callable[[K], Mapping[str, Any]]
"""Attributes, by `KohortError`'s names, for errors about an item that lack them."""


class Connected(Protocol):
    """An admin client that was started."""

    @property
    def cluster(self) -> Cluster:
        """The connections."""


def for_topics(api: str) -> Where[str]:
    """Items are names of topics."""
    return lambda topic: {"api": api, "topic": topic}


def for_groups(api: str) -> Where[str]:
    """Items are group ids."""
    return lambda group: {"api": api, "group": group}


def for_partitions(api: str, group: str | None = None) -> Where[tuple[str, int]]:
    """Items are partitions, of a group's offsets or of logs."""
    return lambda p: {"api": api, "group": group, "topic": p[0], "partition": p[1]}


def error_in(row: Any) -> KohortError | None:
    """The error in a response or a row of it; `fan_out` adds where it happened."""
    message = getattr(row, "error_message", None)
    return error_of(row.error_code, message) if row.error_code else None


async def fan_out(
    cluster: Cluster,
    deadline: float,
    items: Iterable[K],
    route: Route[K],
    ask: Ask[K, V],
    where: Where[K],
    *,
    patience: int = 1,
) -> Results[K, V]:
    """Asks about all items, one request per node, until each has its result.

    Items whose error is retriable are tried again while there is time.

    Args:
        cluster: sends the requests.
        deadline: on the cluster's clock.
        items: topics, groups or partitions to ask about.
        route: as above.
        ask: as above.
        where: as above.
        patience: attempts until an unknown topic is final.

    Raises:
        ConfigError: the items are a text, which is to be one name, not its letters.
    """
    if isinstance(items, str):
        raise ConfigError(f"{items!r} is text, not a list of names")
    wanted = list(dict.fromkeys(items))
    found: dict[K, V | KohortError] = {}
    pending = wanted
    attempts = 0
    try:
        async with asyncio.timeout(max(0.0, deadline - cluster.clock())):
            while pending:
                await _round(cluster, pending, found, route, ask)
                attempts += 1
                pending = _to_repeat(pending, found, attempts < patience)
                if pending:
                    for item in pending:
                        error = _with_place(found[item], where(item))
                        assert isinstance(error, KohortError)
                        cluster.note(error)
                    await cluster.back_off(attempts)
    except TimeoutError:
        for item in pending:
            last = found.get(item)
            if last is None and item not in found:
                found[item] = RequestTimedOutError.after(None)
            elif isinstance(last, KohortError) and last.retriable:
                found[item] = RequestTimedOutError.after(last)
    return Results({item: _with_place(found[item], where(item)) for item in wanted})


def _with_place(found: V | KohortError, where: Mapping[str, Any]) -> V | KohortError:
    """An item's result; of an error that several share it has its own."""
    return found.copy(**where) if isinstance(found, KohortError) else found


def _to_repeat(
    items: Sequence[K], found: Mapping[K, object], unknown_too: bool
) -> list[K]:
    """The items whose errors may go away."""
    again = []
    for item in items:
        error = found[item]
        if not isinstance(error, KohortError) or not error.retriable:
            continue
        # The broker has given up waiting for others; it may have done it all the same.
        if error.code == ErrorCode.REQUEST_TIMED_OUT:
            continue
        if unknown_too or not isinstance(error, UnknownTopicError):
            again.append(item)
    return again


async def _round(
    cluster: Cluster,
    items: Sequence[K],
    found: dict[K, V | KohortError],
    route: Route[K],
    ask: Ask[K, V],
) -> None:
    """Asks about some items once; the answers of a node are kept as they come."""
    try:
        nodes = await route(cluster, items)
    except ClosedError:
        raise
    except KohortError as error:
        found.update(dict.fromkeys(items, error))
        return
    by_node: dict[int | None, list[K]] = {}
    for item in items:
        node_id = nodes[item]
        if isinstance(node_id, KohortError):
            found[item] = node_id
        else:
            by_node.setdefault(node_id, []).append(item)

    async def one(node_id: int | None, some: Sequence[K]) -> None:
        found.update(await _answers(cluster, node_id, some, ask))

    await asyncio.gather(*(one(*each) for each in by_node.items()))


async def _answers(
    cluster: Cluster, node_id: NodeId, items: Sequence[K], ask: Ask[K, V]
) -> dict[K, V | KohortError]:
    """The answers of one node, whose name their errors get."""
    try:
        if node_id is None:
            # Errors name the broker that was asked: pick one node for all items.
            node_id = (await cluster.connection(None)).node_id
        answers = await ask(node_id, items)
    except ClosedError:
        raise
    except KohortError as error:
        answers = dict.fromkeys(items, error)
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    missing = BrokerError("the answer does not name it", code=code)
    found = {item: answers.get(item, missing) for item in items}
    for answer in found.values():
        if isinstance(answer, KohortError) and node_id is not None:
            answer.fill(broker=cluster.name_of(node_id))
    return found
