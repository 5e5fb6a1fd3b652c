"""Client quotas: their values, the clients they apply to, and the throttle times.

As in Kafka, a client that exceeds a quota gets its response at once, with the time to
wait in ``throttle_time_ms``. The broker reads nothing from it until then (KIP-219). The
user of each client is ANONYMOUS, as kohort does not authenticate.

- ``producer_byte_rate``, ``consumer_byte_rate``: bytes a second, over the last
  ``quota.window.num`` windows of ``quota.window.size.seconds``.
- ``request_percentage``: time in which the event loop works for the client, in percent
  of a second. A request counts when it has been handled, so the next one is throttled.
- ``controller_mutation_rate``: partitions created and deleted in a second (KIP-599).
- ``connection_creation_rate`` of addresses is stored and described, and has no effect.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from kohort.broker.clock import Clock
from kohort.broker.config import Config

if TYPE_CHECKING:
    from kohort.broker.log.metadata import Entity, QuotaValues

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ANONYMOUS: Final = "ANONYMOUS"

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATION: Final = "controller_mutation_rate"
CONNECTION: Final = "connection_creation_rate"

MOST_CLIENTS: Final = 10_000
"""Clients whose rates are kept, per quota; the one idle for longest is forgotten first.
Client ids come from outside, so their number has no other limit."""

MOST_ENTITIES: Final = 5_000
"""Entities that may have quotas; each change writes all of them, in 10 ms."""

LONGEST_MS: Final = 2**31 - 1
"""The longest ``throttle_time_ms``, which is an int32."""

_Client = tuple[str, str, str]
"""(quota, user, client id) that an amount is counted for; empty texts for all."""


class Quotas:
    """The quotas of a cluster, and the rates of its clients.

    Args:
        config: the broker's configuration.
        clock: times the rates.
        save: saves the values.

    Attributes:
        values: quotas by entity.
        is_used: whether there are any quotas; if not, no request is counted.
    """

    def __init__(
        self, config: Config, clock: Clock, save: Callable[[], object]
    ) -> None:
        self._config = config
        self._clock = clock
        self._save = save
        self.values: dict[Entity, dict[str, float]] = {}
        self.is_used = False
        self._rates: dict[_Client, Rate] = {}
        self._buckets: dict[_Client, Bucket] = {}

    def restore(self, values: QuotaValues) -> None:
        """Takes over the quotas saved in a data directory."""
        self.values.update((entity, dict(of)) for entity, of in values.items())
        self.is_used = bool(self.values)

    def alter(self, changes: Mapping[Entity, Mapping[str, float | None]]) -> None:
        """Sets quotas; None removes one.

        Raises:
            StorageError: the quotas apply, but could not be saved.
        """
        for entity, of_entity in changes.items():
            values = self.values.setdefault(entity, {})
            for key, value in of_entity.items():
                if value is None:
                    values.pop(key, None)
                else:
                    values[key] = value
            if not values:
                del self.values[entity]
        self.is_used = bool(self.values)
        self._save()

    # -- throttling

    def count(self, key: str, client_id: str, amount: float) -> None:
        """Counts a client's bytes, or takes back some that were not sent."""
        found = self._bound(key, client_id)
        if found is not None:
            self._rate(found[1]).record(amount, self._now_ms())

    def count_seconds(self, client_id: str, seconds: float) -> None:
        """Counts time that the event loop worked for a client."""
        self.count(REQUEST, client_id, 100 * seconds)

    def throttle_ms(self, key: str, client_id: str) -> int:
        """Returns how long a client has to wait after what was counted."""
        found = self._bound(key, client_id)
        if found is None:
            return 0
        bound, client = found
        wait_ms = self._rate(client).throttle_ms(bound, self._now_ms())
        if key == REQUEST:
            window_ms: int = 1000 * self._config["quota.window.size.seconds"]
            return min(wait_ms, window_ms)
        return wait_ms

    def most_bytes(self, client_id: str) -> float:
        """Bytes of the longest Fetch response that is certainly not throttled."""
        found = self._bound(FETCH, client_id)
        if found is None:
            return math.inf
        windows: int = self._config["quota.window.num"] - 1
        seconds: int = self._config["quota.window.size.seconds"]
        return found[0] * windows * seconds

    def mutate(self, client_id: str, partitions: int, *, strict: bool) -> int:
        """Takes tokens for changes of partitions; returns the client's wait in ms.

        Args:
            client_id: the client id of the request.
            partitions: the number of partitions created or deleted.
            strict: if tokens are missing, takes none, and the change is not made.
                Otherwise the change is made, and the client waits afterwards.
        """
        found = self._bound(MUTATION, client_id)
        if found is None:
            return 0
        bound, client = found
        seconds = (
            self._config["controller.quota.window.num"]
            * self._config["controller.quota.window.size.seconds"]
        )
        bucket = self._buckets.pop(client, None) or Bucket()
        self._buckets[client] = bucket
        _forget_idle(self._buckets)
        bucket.refill(bound, bound * seconds, self._clock.now())
        wait_ms = bucket.throttle_ms(bound)
        if strict and wait_ms:
            return wait_ms
        bucket.tokens -= partitions
        return 0 if strict else bucket.throttle_ms(bound)

    def _bound(self, key: str, client_id: str) -> tuple[float, _Client] | None:
        """A client's quota and the key of the rate that it limits, or None."""
        values = self.values
        for user in (ANONYMOUS, None, ""):
            for client in (client_id, None, ""):
                # Kafka's order: user and client id, user, client id; a client's own
                # names before the defaults.
                entity = _entity(user, client)
                if entity in values and key in values[entity]:
                    counted = (
                        key,
                        "" if user == "" else ANONYMOUS,
                        "" if client == "" else client_id,
                    )
                    return values[entity][key], counted
        return None

    def _rate(self, client: _Client) -> Rate:
        rate = self._rates.pop(client, None)
        if rate is None:
            seconds = self._config["quota.window.size.seconds"]
            rate = Rate(self._config["quota.window.num"], 1000 * seconds)
        self._rates[client] = rate
        _forget_idle(self._rates)
        return rate

    def _now_ms(self) -> int:
        return int(self._clock.now() * 1000)


def _entity(user: str | None, client_id: str | None) -> Entity:
    """The entity of a user and a client id: None is the default, "" is absent."""
    names = ((CLIENT_ID, client_id), (USER, user))
    return tuple((kind, name) for kind, name in names if name != "")


def _forget_idle(clients: dict[_Client, Rate] | dict[_Client, Bucket]) -> None:
    if len(clients) > MOST_CLIENTS:
        del clients[next(iter(clients))]


def _whole_ms(wait_ms: float) -> int:
    """Rounds a wait to an int32 of milliseconds; NaN, from a quota of NaN, gives 0."""
    return math.floor(min(wait_ms, LONGEST_MS) + 0.5) if wait_ms > 0 else 0


class Rate:
    """An amount a second over some windows of time, as Kafka measures it.

    Args:
        count: the number of windows.
        window_ms: the length of each.
    """

    __slots__ = ("_count", "_samples", "_window_ms")

    def __init__(self, count: int, window_ms: int) -> None:
        self._count = count
        self._window_ms = window_ms
        # [start, last amount, sum] each, the oldest first; one more than the windows,
        # as the oldest may have begun before them.
        self._samples: deque[list[float]] = deque(maxlen=count + 1)

    def record(self, amount: float, now_ms: int) -> None:
        """Adds an amount."""
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self._window_ms:
            samples.append([now_ms, now_ms, 0.0])
        samples[-1][1] = now_ms
        samples[-1][2] += amount

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Milliseconds until the rate is back at the bound, if nothing is added."""
        samples, window_ms = self._samples, self._window_ms
        while samples and now_ms - samples[0][1] >= self._count * window_ms:
            samples.popleft()
        if not samples:
            return 0
        elapsed_ms = now_ms - samples[0][0]
        # A rate over a short time would be high: all windows but the last are full.
        elapsed_ms += max(self._count - 1 - elapsed_ms // window_ms, 0) * window_ms
        elapsed_ms = max(elapsed_ms, 1)
        rate = sum(sample[2] for sample in samples) / elapsed_ms * 1000
        if rate <= bound:
            return 0
        return _whole_ms((rate - bound) / bound * elapsed_ms)


class Bucket:
    """A token bucket, refilled at the rate of a quota up to a burst of some seconds.

    Attributes:
        tokens: the tokens left; negative after the client has taken too many.
    """

    __slots__ = ("_refilled_at", "tokens")

    def __init__(self) -> None:
        self.tokens = 0.0
        self._refilled_at = 0.0

    def refill(self, bound: float, burst: float, now: float) -> None:
        """Adds the tokens of the time since the last call."""
        added = bound * (now - self._refilled_at)
        self.tokens, self._refilled_at = min(burst, self.tokens + added), now

    def throttle_ms(self, bound: float) -> int:
        """Milliseconds until no tokens are missing."""
        return _whole_ms(-self.tokens / bound * 1000)
