"""A broker with too few file descriptors logs it, once, and continues."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.wire.client import connected, connected_to
from tests.wire.requests import create_topics

from kohort.broker import descriptors
from kohort.broker.dispatch import ROUTES
from kohort.broker.server import Broker
from kohort.protocol.apis.k18_api_versions import ApiVersionsRequest


@contextlib.contextmanager
def descriptors_for(connections: int) -> Iterator[None]:
    """Within it, connections can use this number of descriptors more than now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path(os.devnull).open() as lowest:
        used = lowest.fileno()
    limit = used + descriptors.RESERVE + descriptors.FEWEST_LOG_FILES + connections
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        while (
            limit - descriptors.RESERVE - descriptors.log_files() < used + connections
        ):
            # Earlier tests have left descriptors open; the log may use more, too.
            limit += 1
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def is_admitted(broker: Broker) -> bool:
    """Returns whether a new connection is answered."""
    async with connected_to(broker.host, broker.port) as client:
        request = ApiVersionsRequest("tests", "1")
        try:
            return not (await client.call("ApiVersions", 3, request)).error_code
        except (asyncio.IncompleteReadError, ConnectionError):
            return False


async def test_the_last_descriptors_are_not_for_clients(
    tmp_path: Path, capsys: Any
) -> None:
    """Clients are refused while a broker can still write; that is logged once."""
    async with (
        contextlib.AsyncExitStack() as clients,
        Broker(data_dir=tmp_path) as broker,
        connected(broker) as client,
    ):
        # Each connection has two ends here.
        with descriptors_for(7):
            for _ in range(4):
                await clients.enter_async_context(
                    connected_to(broker.host, broker.port)
                )
            assert [await is_admitted(broker) for _ in range(5)] == [False] * 5
            request = create_topics("t", partitions=20)
            answer = await client.call("CreateTopics", 5, request)
            assert answer.topics[0].error_code == 0
            await clients.aclose()
            assert await is_admitted(broker)
    said = capsys.readouterr()
    assert (said.out + said.err).count("too_few_file_descriptors") == 1


async def test_code_that_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """The requesting connection is closed, and the log line says why."""

    def fails(_: str) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async with Broker() as broker:
        with monkeypatch.context() as without:
            # As before the first request of that kind.
            for known in [*ROUTES]:
                without.delitem(ROUTES, known)
            without.setattr("importlib.import_module", fails)
            assert not await is_admitted(broker)
        assert await is_admitted(broker)
    said = capsys.readouterr()
    assert "ApiVersions cannot be loaded" in said.out + said.err


def test_as_many_descriptors_as_there_are() -> None:
    """A process may raise its own limit up to the system's."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
        before = descriptors.limit()
        assert descriptors.raise_limit() >= before
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == descriptors.limit()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
