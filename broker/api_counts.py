"""Counters of requests: their number, their time, their errors.

Counted only if an HTTP port is open, since counting costs about a microsecond a
request. Counters are plain numbers; each view converts them when it is requested.
"""

from __future__ import annotations

import functools
import typing
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Sequence
from collections.abc import Set as AbstractSet
from time import monotonic
from typing import Any, Final

from kohort.protocol.errors import ErrorCode
from kohort.protocol.generated_calls import PIECE
from kohort.protocol.registry import Api

LATENCY_BOUNDS: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
"""Seconds: heartbeats take some 0.0001, and joins wait as long as a group does."""

_MOST_BODIES: Final = 1000
"""Encoded bodies whose errors are remembered: a few versions times a few errors."""


class Histogram:
    """How many observations there were, by size.

    Attributes:
        bounds: the largest value of each bucket but the last, in order.
        buckets: how many are in each, one more than there are bounds.
        total: the sum of all.
    """

    __slots__ = ("bounds", "buckets", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Counts one more."""
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add(self, other: Histogram) -> None:
        """Adds the counts of another one of the same bounds."""
        self.buckets = [a + b for a, b in zip(self.buckets, other.buckets, strict=True)]
        self.total += other.total


class ApiCounts:
    """Counts of one API's answers.

    Attributes:
        seconds: how long requests took, from when they were read until their
            answers were handed to the socket; waiting on purpose (JoinGroup,
            SyncGroup, Fetch) is part of it.
        errors: how many answers had an error in them, by its code; an answer with
            several of them counts for each.
        slow: how often a request kept the event loop for too long at once.
        clean: the last encoded answer without errors: it is mostly the same one.
    """

    __slots__ = ("clean", "errors", "seconds", "slow")

    def __init__(self) -> None:
        self.clean = b""
        self.seconds = Histogram(LATENCY_BOUNDS)
        self.errors: dict[int, int] = {}
        self.slow = 0

    def add_errors(self, codes: AbstractSet[int]) -> None:
        """Counts an answer with these errors."""
        for code in codes:
            self.errors[code] = self.errors.get(code, 0) + 1


class ApiCounters:
    """The counts of all APIs that have been called.

    Attributes:
        by_api: by API.
    """

    def __init__(self) -> None:
        self.by_api: dict[Api, ApiCounts] = {}
        # Of answers that are encoded once and for all.
        self._bodies: dict[tuple[Api, int, bytes], frozenset[int]] = {}

    def answered(self, api: Api, version: int, since: float, response: Any) -> None:
        """Counts a request that is answered.

        Args:
            api: of the request.
            version: of the request.
            since: when its handling began, on `time.monotonic`; 0 if not measured.
            response: a message, bytes of a body that is encoded, or None.
        """
        counts = self.by_api.get(api)
        if counts is None:
            counts = self.by_api[api] = ApiCounts()
        if since:
            # As in Histogram.observe: heartbeats come this way.
            seconds = counts.seconds
            took = monotonic() - since
            seconds.buckets[bisect_left(LATENCY_BOUNDS, took)] += 1
            seconds.total += took
        if response is counts.clean:
            return
        if type(response) is bytes:
            found = self._of_body(api, version, response)
            if not found:
                counts.clean = response
        else:
            found = errors_in(response)
        counts.add_errors(found)

    def answered_with(self, api: Api, since: float, errors: AbstractSet[int]) -> None:
        """Counts a request that is answered, with these errors."""
        counts = self.by_api.setdefault(api, ApiCounts())
        if since:
            counts.seconds.observe(monotonic() - since)
        counts.add_errors(errors)

    def was_slow(self, api: Api) -> None:
        """Counts a request that kept the event loop for too long at once."""
        self.by_api.setdefault(api, ApiCounts()).slow += 1

    def _of_body(self, api: Api, version: int, body: bytes) -> AbstractSet[int]:
        key = api, version, body
        found = self._bodies.get(key)
        if found is None:
            message, _ = api.response(version).decode(body, 0, len(body))
            found = frozenset(errors_in(message))
            if len(self._bodies) < _MOST_BODIES:
                self._bodies[key] = found
        return found


def name_of(code: int) -> str:
    """An error's name, as Kafka spells it."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


# -- errors in answers


_NOTHING: Final[frozenset[int]] = frozenset()
_find: dict[type, Callable[[Any, set[int]], None] | None] = {}
"""Collectors of error codes by message type; None if a type has no error codes."""


def errors_in(message: Any) -> AbstractSet[int]:
    """The error codes in an answer, those of its rows included; 0 is none."""
    if message is None:
        return _NOTHING
    found: set[int] = set()
    cls = type(message)
    if cls not in _find:
        _find[cls] = _finder(cls)
    find = _find[cls]
    if find is not None:
        find(message, found)
        found.discard(0)
    return found


def errors_in_pieces(message: Any) -> Generator[None, None, AbstractSet[int]]:
    """Like `errors_in`, a piece at a time: for answers of many rows."""
    found: set[int] = set()
    rows: list[Iterator[Any]] = [iter((message,))]
    left = PIECE
    while rows:
        row = next(rows[-1], None)
        if row is None:
            rows.pop()
            continue
        if left == 0:
            left = PIECE
            yield
        left -= 1
        cls: type = type(row)
        has_own, names = _shape(cls)
        if has_own:
            found.add(row.error_code)
        rows += [iter(getattr(row, name) or ()) for name in names]
    found.discard(0)
    return found


@functools.cache
def _shape(cls: type) -> tuple[bool, tuple[str, ...]]:
    """Whether a message has an error code, and its fields with rows that may."""
    hints = typing.get_type_hints(cls)
    rows = ((name, _row_type(hint)) for name, hint in hints.items())
    with_errors = (name for name, row in rows if row is not None and _finder(row))
    return "error_code" in hints, tuple(with_errors)


def _finder(cls: type) -> Callable[[Any, set[int]], None] | None:
    """Makes a function that collects a message's error codes, nested rows included."""
    own = False
    rows: list[tuple[str, Callable[[Any, set[int]], None]]] = []
    for name, hint in typing.get_type_hints(cls).items():
        if name == "error_code":
            own = True
        else:
            row = _row_type(hint)
            find = None if row is None else _finder(row)
            if find is not None:
                rows.append((name, find))
    if not rows:
        return _own if own else None

    def find_all(message: Any, found: set[int]) -> None:
        if own:
            found.add(message.error_code)
        for name, find in rows:
            for row in getattr(message, name) or ():
                find(row, found)

    return find_all


def _own(message: Any, found: set[int]) -> None:
    found.add(message.error_code)


def _row_type(hint: object) -> type | None:
    """The message that a field has rows of; None if it is another field."""
    inner = typing.get_args(hint)
    if typing.get_origin(hint) is Sequence:
        return inner[0] if hasattr(inner[0], "__match_args__") else None
    # It may be null.
    return next(filter(None, map(_row_type, inner)), None)
