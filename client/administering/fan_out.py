"""Groups items into one request per node, and retries the failed ones alone."""

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
"""Attempts after which an unknown topic is an error: brokers learn of a new topic a
little after its creator does."""

NodeId = int | None
"""A node id; None for any node."""
Answers = Mapping[K, V | KohortError]
"""The value or the error of each item."""
Route = Callable[[Cluster, Sequence[K]], Awaitable[Answers[K, NodeId]]]
"""Finds the node of each item."""
Ask = Callable[[NodeId, Sequence[K]], Awaitable[Answers[K, V]]]
"""Sends the request for some items to a node."""
Where = Callable[[K], Mapping[str, Any]]
"""Attributes of `KohortError` to set in errors about an item."""


class Connected(Protocol):
    """A started admin client."""

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
    """The error in a response or a row of it; `fan_out` adds broker and item."""
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
    """Sends one request per node, until each item has its result.

    Items with a retriable error are retried until the deadline.

    Args:
        cluster: sends the requests.
        deadline: on the cluster's clock.
        items: topics, groups or partitions.
        route: as above.
        ask: as above.
        where: as above.
        patience: attempts until an unknown topic is an error.

    Raises:
        ConfigError: the items are one string in place of a list.
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


async def ask_all_brokers(
    admin: Connected,
    api: str,
    ask: Callable[[int], Awaitable[Mapping[K, V]]],
    timeout_ms: int | None,
) -> tuple[dict[K, V], dict[int, KohortError]]:
    """Sends a request to every broker, and retries it there.

    Args:
        admin: the client.
        api: of the request.
        ask: sends it to a node, once; returns the items that the node knows.
        timeout_ms: see `Admin`.

    Returns:
        All items, and the errors by node id.

    Raises:
        KohortError: no broker responds.
    """
    cluster = admin.cluster
    deadline = cluster.deadline(timeout_ms)
    await cluster.retrying(deadline, cluster.refresh, api="Metadata")

    async def answer_of(node_id: int) -> Mapping[K, V] | KohortError:
        where = {"api": api, "broker": cluster.name_of(node_id)}
        try:
            return await cluster.retrying(deadline, lambda: ask(node_id), **where)
        except KohortError as error:
            error.fill(**where)
            return error

    node_ids = list(cluster.metadata.nodes)
    answers = await asyncio.gather(*map(answer_of, node_ids))
    found: dict[K, V] = {}
    errors: dict[int, KohortError] = {}
    for node_id, answer in zip(node_ids, answers, strict=True):
        if isinstance(answer, KohortError):
            errors[node_id] = answer
        else:
            found |= answer
    if errors and len(errors) == len(node_ids):
        raise errors[node_ids[0]]
    return found, errors


def _with_place(found: V | KohortError, where: Mapping[str, Any]) -> V | KohortError:
    """An item's result; a shared error is copied."""
    return found.copy(**where) if isinstance(found, KohortError) else found


def _to_repeat(
    items: Sequence[K], found: Mapping[K, object], unknown_too: bool
) -> list[K]:
    """The items with retriable errors."""
    again = []
    for item in items:
        error = found[item]
        if not isinstance(error, KohortError) or not error.retriable:
            continue
        # The broker has stopped waiting for others; the change may still happen.
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
    """Sends the requests for some items once; stores each response as it comes."""
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
    """The results of one node; errors get its name."""
    try:
        if node_id is None:
            # One node for all items, so that errors can name it.
            node_id = (await cluster.connection(None)).node_id
        answers = await ask(node_id, items)
    except ClosedError:
        raise
    except KohortError as error:
        answers = dict.fromkeys(items, error)
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    missing = BrokerError("the response does not contain it", code=code)
    found = {item: answers.get(item, missing) for item in items}
    for answer in found.values():
        if isinstance(answer, KohortError) and node_id is not None:
            answer.fill(broker=cluster.name_of(node_id))
    return found
