"""The hooks for each record, and the counts of `metrics`."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.client.producer_stage import answering, made, producer

from kohort.broker.server import Broker
from kohort.client import (
    Consumer,
    KohortError,
    Producer,
    RecordMetadata,
    TopicPartition,
)
from kohort.client.errors import MessageTooLargeError
from kohort.protocol.errors import ErrorCode

HERE = TopicPartition("t", 0)


async def test_a_hook_hears_of_each_record() -> None:
    """In order, with its metadata; and a consumer's, by each way to get a record."""
    sent: list[tuple[RecordMetadata | None, KohortError | None]] = []
    received: list[Any] = []
    async with Broker() as broker:
        await made(broker)
        servers = broker.bootstrap_servers
        async with Producer(
            bootstrap_servers=servers, on_sent=lambda *each: sent.append(each)
        ) as producer:
            deliveries = [await producer.send("t", b"%d" % n) for n in range(9)]
            await producer.flush()
            assert [each for each, _ in sent] == [await d for d in deliveries]
            assert {error for _, error in sent} == {None}
            counts = producer.metrics()
        assert (counts["records_sent"], counts["records_failed"]) == (9, 0)
        assert 1 <= counts["batches_sent"] <= 9
        assert (counts["retries"], counts["bytes_waiting"]) == (0, 0)
        async with Consumer(
            bootstrap_servers=servers,
            auto_offset_reset="earliest",
            on_received=received.append,
        ) as consumer:
            consumer.assign([HERE])
            got = [await consumer.getone()]
            got += (await consumer.getmany(timeout_ms=9_000, max_records=3))[HERE]
            async for record in consumer:
                got.append(record)
                if len(got) == 9:
                    break
            assert received == got
            counts = consumer.metrics()
        assert counts["records_received"] == 9
        assert counts["fetches"] >= 1


async def test_a_hook_hears_of_a_record_that_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With the error; and its own error is logged, and changes nothing."""
    heard: list[Any] = []

    def on_sent(metadata: RecordMetadata | None, error: KohortError | None) -> None:
        heard.append((metadata, error))
        raise ZeroDivisionError

    async with (
        answering(ErrorCode.MESSAGE_TOO_LARGE) as leader,
        producer(leader, on_sent=on_sent) as sender,
    ):
        delivery = await sender.send("t", b"one")
        with pytest.raises(MessageTooLargeError), caplog.at_level(logging.ERROR):
            await delivery
        assert sender.metrics()["records_failed"] == 1
    ((metadata, error),) = heard
    assert metadata is None
    assert isinstance(error, MessageTooLargeError)
    assert "on_sent failed" in caplog.text
