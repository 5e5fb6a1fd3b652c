"""Transactions of a running broker: over HTTP, in metrics, and in `kohort why`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.control.asking import Asking, asking
from tests.control.members import TOPIC, Member
from tests.control.transacting import Transacting
from tests.wire.client import connected

from kohort.control.group import Group


@pytest.fixture
async def client() -> AsyncIterator[Asking]:
    """A client of a broker whose clock stands still, with a topic."""
    async with asking(clock="manual") as found:
        found.broker.cluster.create_topic(TOPIC, 4, 1)
        yield found


async def rows(client: Asking, query: str = "") -> list[tuple[Any, ...]]:
    """The id, state, age and partitions of each listed transaction."""
    status, answer = await client.get(f"/v1/transactions{query}")
    assert status == 200
    names = ("transactional_id", "state", "open_ms", "partition_count")
    return [tuple(row[name] for name in names) for row in answer["transactions"]]


async def metric(client: Asking, name: str) -> Any:
    """A value of ``transactions`` in /metrics.json."""
    _, answer = await client.get("/metrics.json")
    return answer["transactions"][name]


async def test_transactions_are_listed(client: Asking) -> None:
    """By state and by age; before the first one there is none."""
    assert await rows(client) == []
    first, second = Transacting(client.broker, "a"), Transacting(client.broker, "b")
    await first.initialize()
    await second.initialize()
    await first.add(0, 3)
    await client.broker.clock.advance(5)
    await second.add(1)
    by_id = sorted(await rows(client))
    assert by_id == [("a", "Ongoing", 5_000, 2), ("b", "Ongoing", 0, 1)]
    assert [id_ for id_, *_ in await rows(client, "?open_ms=5000")] == ["a"]
    await second.end()
    done = [("b", "CompleteCommit", None, 0)]
    assert await rows(client, "?state=CompleteCommit") == done
    _, answer = await client.get("/v1/transactions?limit=1")
    assert (len(answer["transactions"]), answer["total"]) == (1, 2)


async def test_a_transaction_is_shown(client: Asking) -> None:
    """Its producer, its partitions, and the records that wait there."""
    producer = Transacting(client.broker)
    await producer.initialize()
    await producer.add(3)
    await producer.add(group="billing")
    producer.write(3, 7)
    status, shown = await client.get("/v1/transactions/tx")
    assert status == 200
    assert (shown["client_id"], shown["timeout_ms"]) == ("app", 60_000)
    assert (shown["groups"], shown["partition_count"]) == (["billing"], 2)
    (row,) = [each for each in shown["partitions"] if each["topic"] == TOPIC]
    assert row == {
        "topic": TOPIC,
        "partition": 3,
        "is_marked": False,
        "last_stable_offset": 0,
        "held_back": 7,
    }
    status, answer = await client.get("/v1/transactions/nope")
    assert (status, answer) == (
        404,
        {"error": "there is no transactional id 'nope'"},
    )


async def test_a_wait_over_http(client: Asking) -> None:
    """It ends in the state, or says which state the transaction is in."""
    one = "/v1/transactions/tx"
    await client.post(f"{one}/hold", {"state": "PrepareCommit"})
    producer = Transacting(client.broker)
    await producer.initialize()
    await producer.add(3)
    await producer.end()
    _, shown = await client.get(f"{one}/until?state=PrepareCommit")
    assert (shown["state"], shown["partition_count"]) == ("PrepareCommit", 1)
    assert shown["held"] == "PrepareCommit"
    assert "PrepareCommit" in await client.refusal(f"{one}/fence", None, 409)
    status, late = await client.get(f"{one}/until?state=Ongoing&timeout=0")
    assert (status, "it is PrepareCommit" in late["error"]) == (504, True)


async def test_transactions_are_counted(client: Asking) -> None:
    """States, the age of the oldest, ends by cause, records that waited."""
    producer = Transacting(client.broker)
    await producer.initialize()
    await producer.add(0)
    producer.write(0, 7)
    await client.broker.clock.advance(5)
    assert (await metric(client, "states"))["Ongoing"] == 1
    assert await metric(client, "open_seconds") == 5
    await producer.end()
    assert await metric(client, "held_back") == 7
    await producer.add(1)
    await client.broker.clock.advance(120)
    assert await metric(client, "ended") == [
        {"result": "aborted", "cause": "timeout", "count": 1},
        {"result": "committed", "cause": "client_committed", "count": 1},
    ]
    assert await metric(client, "open_seconds") == 0


async def test_why_a_group_waits(client: Asking) -> None:
    """In Python and over HTTP: the transaction, and how many records it holds back."""
    async with connected(client.broker) as connection:
        member = Member(connection)
        await member.join()
        await member.sync([0, 1, 2, 3])
        producer = Transacting(client.broker)
        await producer.initialize()
        await producer.add(3)
        producer.write(3, 7)
        await client.broker.clock.advance(2)
        title = (
            "An open transaction of tx has held the last stable offset of orders-3 for"
            " 2.0 s; 7 records wait for read_committed consumers"
        )
        (finding,) = Group(client.broker, "g").history().findings
        assert finding.title == title
        _, answer = await client.get("/why.json?group=g")
        assert [each["title"] for each in answer["findings"]] == [title]
        _, told = await client.get("/events.json?group=g&transactions=true")
        assert told["waiting"] == [{"topic": TOPIC, "partition": 3, "records": 7}]
        await producer.end()
        assert Group(client.broker, "g").history().findings == ()
