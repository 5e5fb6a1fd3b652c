"""Request counters per API: numbers, latencies, errors.

They count only while an HTTP port is open, as counting costs about a microsecond a
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
"""Seconds. A heartbeat takes about 0.0001; a join waits as long as its group does."""

ERROR_FIELDS: Final = ("error_code", "partition_error_code")
"""Names of the field with a message's error; AddPartitionsToTxn has the second one."""


class Histogram:
    """A histogram of observations by size.

    Attributes:
        bounds: the largest value of each bucket but the last, in ascending order.
        buckets: observations per bucket; one more bucket than there are bounds.
        total: the sum of all observations.
    """

    __slots__ = ("bounds", "buckets", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Counts one observation."""
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add(self, other: Histogram) -> None:
        """Adds the counts of a histogram with the same bounds."""
        self.buckets = [a + b for a, b in zip(self.buckets, other.buckets, strict=True)]
        self.total += other.total


class ApiCounts:
    """Counters of one API's responses.

    Attributes:
        seconds: time per request, from reading it until its response was handed to the
            socket; includes waiting on purpose (JoinGroup, SyncGroup, Fetch).
        errors: responses with an error, by error code; a response with several codes
            counts once for each.
        slow: requests that kept the event loop busy for too long at once.
    """

    __slots__ = ("errors", "seconds", "slow")

    def __init__(self) -> None:
        self.seconds = Histogram(LATENCY_BOUNDS)
        self.errors: dict[int, int] = {}
        self.slow = 0


class ApiCounters:
    """The counters of all APIs that have been called.

    Attributes:
        by_api: by API.
    """

    def __init__(self) -> None:
        self.by_api: dict[Api, ApiCounts] = {}

    def answered(self, api: Api, since: float, errors: AbstractSet[int]) -> None:
        """Counts a request that was answered.

        Args:
            api: the API of the request.
            since: when its handling began, on `time.monotonic`; 0 if not measured.
            errors: the error codes in the response.
        """
        counts = self.by_api.get(api)
        if counts is None:
            counts = self.by_api[api] = ApiCounts()
        if since:
            # The same as Histogram.observe, inlined: heartbeats take this path.
            seconds = counts.seconds
            took = monotonic() - since
            seconds.buckets[bisect_left(LATENCY_BOUNDS, took)] += 1
            seconds.total += took
        for code in errors:
            counts.errors[code] = counts.errors.get(code, 0) + 1

    def was_slow(self, api: Api) -> None:
        """Counts a request that kept the event loop busy for too long at once."""
        self.by_api.setdefault(api, ApiCounts()).slow += 1


def name_of(code: int) -> str:
    """Kafka's name of an error code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


# -- errors in answers


_NOTHING: Final[frozenset[int]] = frozenset()
_find: dict[type, Callable[[Any, set[int]], None] | None] = {}
"""Collectors of error codes by message type; None if a type has no error codes."""


def errors_in(message: Any) -> AbstractSet[int]:
    """The error codes in a response and in its rows; 0 counts as none."""
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
    """The same as `errors_in`, in pieces: for responses with many rows."""
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
        own, names = _shape(cls)
        if own is not None:
            found.add(getattr(row, own))
        rows += [iter(getattr(row, name) or ()) for name in names]
    found.discard(0)
    return found


@functools.cache
def _shape(cls: type) -> tuple[str | None, tuple[str, ...]]:
    """Returns the field with a message's error, and those whose rows may have one."""
    hints = typing.get_type_hints(cls)
    rows = ((name, _row_type(hint)) for name, hint in hints.items())
    with_errors = (name for name, row in rows if row is not None and _finder(row))
    own = next((name for name in ERROR_FIELDS if name in hints), None)
    return own, tuple(with_errors)


def _finder(cls: type) -> Callable[[Any, set[int]], None] | None:
    """Makes a function that collects a message's error codes, nested rows included."""
    own = None
    rows: list[tuple[str, Callable[[Any, set[int]], None]]] = []
    for name, hint in typing.get_type_hints(cls).items():
        if name in ERROR_FIELDS:
            own = name
        else:
            row = _row_type(hint)
            find = None if row is None else _finder(row)
            if find is not None:
                rows.append((name, find))
    if not rows and own is None:
        return None

    def find_all(message: Any, found: set[int]) -> None:
        if own is not None:
            found.add(getattr(message, own))
        for name, find in rows:
            for row in getattr(message, name) or ():
                find(row, found)

    return find_all


def _row_type(hint: object) -> type | None:
    """The message type of a field's rows; None if the field has no rows."""
    inner = typing.get_args(hint)
    if typing.get_origin(hint) is Sequence:
        return inner[0] if hasattr(inner[0], "__match_args__") else None
    # The field may be nullable.
    return next(filter(None, map(_row_type, inner)), None)
