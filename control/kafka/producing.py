"""Producing, for ``kohort produce``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from kohort.client.config import ProducerConfig
from kohort.client.errors import KohortError
from kohort.client.producer import Producer
from kohort.client.producing.results import Delivery
from kohort.control.kafka.options import Access, say
from kohort.control.kafka.rendering import from_json
from kohort.control.kafka.streams import Stream, lines
from kohort.control.kafka.times import time_ms
from kohort.control.terminal import fail

STDIN = 0
_ARGUMENTS = "argument"


def config_of(access: Access, **said: Any) -> ProducerConfig:
    """The producer's settings."""
    usual = {"client_id": "kohort-produce", "max_block_ms": access.timeout_ms}
    return access.config(ProducerConfig, usual=usual, **said)


@dataclass(frozen=True)
class Template:
    """The parts of records that are not in their line; see the options."""

    key: bytes | None
    separator: bytes | None
    headers: Sequence[tuple[str, bytes]]
    partition: int | None
    timestamp_ms: int | None
    null: bytes | None
    is_json: bool

    def record(self, line: bytes) -> dict[str, Any]:
        """The arguments for `Producer.send`.

        Raises:
            ValueError: the line is no record.
        """
        if self.is_json:
            found = from_json(line)
            found["headers"] = [*self.headers, *found.get("headers", ())]
            return found
        key, value = self.key, line
        if self.separator is not None:
            key, separator, value = line.partition(self.separator)
            if not separator:
                raise ValueError("has no key separator")
        return {
            "key": None if key == self.null else key,
            "value": None if value == self.null else value,
            "headers": self.headers,
            "partition": self.partition,
            "timestamp_ms": self.timestamp_ms,
        }


def template_of(
    *,
    key: str | None,
    separator: str | None,
    headers: Sequence[str],
    partition: int | None,
    timestamp: str | None,
    null: str | None,
    as_json: bool,
) -> Template:
    """Parses options; ends the command if they are invalid."""
    pairs = []
    for text in headers:
        name, equals, value = text.partition("=")
        if not equals:
            fail(f"--header {text!r}: must be NAME=VALUE", 2)
        pairs.append((name, os.fsencode(value)))
    try:
        at = None if timestamp is None else time_ms(timestamp)
    except ValueError as error:
        fail(f"--timestamp {error}", 2)
    return Template(
        _bytes(key), _bytes(separator), pairs, partition, at, _bytes(null), as_json
    )


def _bytes(text: str | None) -> bytes | None:
    """An argument as it was before Python made text of it."""
    return None if text is None else os.fsencode(text)


async def produce(
    config: ProducerConfig,
    topic: str,
    values: Sequence[str],
    files: Sequence[str],
    template: Template,
    *,
    is_quiet: bool,
) -> int:
    """Sends records, in one transaction with a ``transactional.id``; the exit code."""
    producer = Producer(config)
    sending = _Sending(producer, topic, template)
    await producer.start()
    failure: str | None = None
    try:
        await sending.begin()
        with _progress(sending, is_wanted=not is_quiet and not values):
            if values:
                await sending.send_all(_ARGUMENTS, 1, [*map(os.fsencode, values)])
            for name in () if values else files or ("-",):
                await sending.send_lines(name)
            await sending.end()
    except asyncio.CancelledError:
        failure = "interrupted"
    except OSError as error:
        failure = f"cannot read: {error.strerror or error}"
    finally:
        # Sends the records taken so far, even after an error; or aborts.
        patience_ms = config.delivery_timeout_ms
        await producer.close(config.max_block_ms if failure else patience_ms)
    # Callbacks of the last failed records run in the next turn of the loop.
    await asyncio.sleep(0)
    for text in (failure, sending.first_failure):
        if text is not None:
            say(text)
    if not is_quiet or sending.failed:
        say(sending.summary)
    return int(failure is not None or sending.first_failure is not None)


class _Sending:
    """Sends records, and counts the delivered and the failed ones.

    Attributes:
        taken: records that were given to the producer.
        delivered: of those.
        failed: of those.
        first_failure: the one that came first in the input, and why.
    """

    def __init__(self, producer: Producer, topic: str, template: Template) -> None:
        self._producer = producer
        self._topic = topic
        self._template = template
        self._stream: Stream | None = None
        self.taken = 0
        self.delivered = 0
        self.failed = 0
        self.first_failure: str | None = None
        self._is_open = False
        self._first = sys.maxsize

    @property
    def summary(self) -> str:
        """The number of delivered records."""
        if self._is_open:
            return f"no record to {self._topic}: the transaction was aborted"
        of = f" of {self.taken}" if self.taken != self.delivered else ""
        plural = "" if self.taken == 1 else "s"
        return f"{self.delivered}{of} record{plural} to {self._topic}"

    async def begin(self) -> None:
        """Begins the transaction, if there is a ``transactional.id``."""
        if self._producer.config.transactional_id is not None:
            await self._producer.begin_transaction()
            self._is_open = True

    async def end(self) -> None:
        """Waits for the records, and commits if all were delivered."""
        await self._producer.flush()
        await asyncio.sleep(0)  # callbacks of the last failed records
        if self._is_open and not self._has_failed():
            await self._producer.commit_transaction()
            self._is_open = False

    def _has_failed(self) -> bool:
        return self.first_failure is not None

    async def send_lines(self, name: str) -> None:
        """Sends the lines of a file, of stdin if it is "-"."""
        if self._has_failed():
            return
        fd = STDIN if name == "-" else os.open(name, os.O_RDONLY)
        where = "line" if name == "-" else f"{name}, line"
        self._stream = Stream(fd, writes=False)
        number = 1
        try:
            async for some in lines(self._stream, self._has_failed):
                await self.send_all(where, number, some)
                number += len(some)
        except ValueError as error:
            self._fail(self.taken, f"{where} {number}", str(error))
        finally:
            self._stream = None
            if fd != STDIN:
                os.close(fd)

    async def send_all(self, where: str, number: int, some: list[bytes]) -> None:
        """Sends records, until one fails.

        Args:
            where: name of the input.
            number: of the first one there.
            some: the records.
        """
        for index, line in enumerate(some, number):
            if self._has_failed():
                return
            order, place = self.taken, f"{where} {index}"
            try:
                record = self._template.record(line)
            except ValueError as error:
                self._fail(order, place, str(error))
                return
            self.taken += 1
            try:
                delivery = await self._producer.send(self._topic, **record)
            except KohortError as error:
                self.failed += 1
                self._fail(order, place, str(error))
                return
            delivery.add_done_callback(self._noting(order, place))

    def _noting(self, order: int, place: str) -> Callable[[Delivery], None]:
        """Returns the callback for the outcome of a record."""

        def note(delivery: Delivery) -> None:
            error = delivery.exception()
            if error is None:
                self.delivered += 1
            else:
                self.failed += 1
                self._fail(order, place, str(error))

        return note

    def _fail(self, order: int, place: str, why: str) -> None:
        if order < self._first:
            self._first = order
            self.first_failure = f"{place}: {why}"
        if self._stream is not None:
            self._stream.stop()


@contextlib.contextmanager
def _progress(sending: _Sending, *, is_wanted: bool) -> Iterator[None]:
    """Shows the count on the terminal, unless records are typed there."""
    if not is_wanted or not sys.stderr.isatty() or sys.stdin.isatty():
        yield
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed:,} of {task.total:,} records delivered"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=0)

        def show() -> None:
            progress.update(task, completed=sending.delivered, total=sending.taken)

        showing = asyncio.create_task(_every(0.2, show))
        try:
            yield
        finally:
            showing.cancel()


async def _every(seconds: float, call: Callable[[], None]) -> None:
    while True:
        call()
        await asyncio.sleep(seconds)
