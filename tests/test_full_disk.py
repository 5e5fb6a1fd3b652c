"""A broker with a full disk: it logs that, damages nothing, and recovers."""

from __future__ import annotations

from pathlib import Path

from tests.broker.test_cluster import heartbeat, offsets, stable
from tests.broker.test_records_over_the_wire import batch
from tests.broker.test_restart import broker_on, committed, values
from tests.small_disk import on_a_small_disk
from tests.wire.client import WireClient, connected_to
from tests.wire.requests import produce

from kohort.protocol.errors import ErrorCode

LIMIT = 64 * 1024


async def append(client: WireClient, value: bytes) -> int:
    """Produces one record; returns the error code."""
    answer = await client.call("Produce", 9, produce((0, batch(value))))
    return int(answer.responses[0].partition_responses[0].error_code)


async def test_a_full_disk(tmp_path: Path) -> None:
    """Refused records are missing, acknowledged ones exist; one log line per log."""
    path = tmp_path / "data"
    async with broker_on(path) as broker:
        broker.cluster.create_topic("t", 1)
    written, last = 0, -1
    async with (
        on_a_small_disk(LIMIT, f"--data-dir={path}") as small,
        connected_to("127.0.0.1", small.port) as client,
    ):
        member_id = await stable(client)
        while (error := await append(client, b"x" * 10_000)) == ErrorCode.NONE:
            written += 1
        assert error == ErrorCode.KAFKA_STORAGE_ERROR
        assert written == LIMIT // 10_000
        # A shorter one still fits.
        assert await append(client, b"short") == ErrorCode.NONE
        offset = 0
        while True:
            answer = await client.call("OffsetCommit", 8, offsets(offset, group="g2"))
            if answer.topics[0].partitions[0].error_code:
                break
            last, offset = offset, offset + 1
        error = answer.topics[0].partitions[0].error_code
        assert error == ErrorCode.NOT_COORDINATOR
        # The coordinator is back at the log's state; other groups noticed nothing.
        assert await committed(client, "g2") == {"t": last}
        assert await heartbeat(client, member_id) == ErrorCode.NONE
        errors = await small.kill()
    assert errors.count("coordinator_reloads") == 1
    assert "Traceback" not in errors
    async with broker_on(path) as broker, connected_to("127.0.0.1", broker.port) as c:
        assert await values(c) == [b"x" * 10_000] * written + [b"short"]
        assert await committed(c, "g2") == {"t": last}
        assert await heartbeat(c, member_id) == ErrorCode.NONE
        assert await append(c, b"x" * 10_000) == ErrorCode.NONE
        answer = await c.call("OffsetCommit", 8, offsets(offset, group="g2"))
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


async def test_a_log_on_the_full_disk(tmp_path: Path) -> None:
    """A log line that cannot be written does not stop the undoing of a change."""
    path, log = tmp_path / "data", tmp_path / "log"
    log.write_bytes(b"\n" * LIMIT)
    async with broker_on(path) as broker:
        broker.cluster.create_topic("t", 1)
    last, offset = -1, 0
    async with (
        on_a_small_disk(LIMIT, f"--data-dir={path}", log=log) as small,
        connected_to("127.0.0.1", small.port) as client,
    ):
        while True:
            answer = await client.call("OffsetCommit", 8, offsets(offset, group="g2"))
            error = answer.topics[0].partitions[0].error_code
            if error:
                break
            last, offset = offset, offset + 1
        assert error == ErrorCode.NOT_COORDINATOR
        assert await committed(client, "g2") == {"t": last}
        await small.kill()
    assert log.stat().st_size == LIMIT
    async with broker_on(path) as broker, connected_to("127.0.0.1", broker.port) as c:
        assert await committed(c, "g2") == {"t": last}
