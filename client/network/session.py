"""A connection's session: begins with authentication, and may end (KIP-368)."""

from __future__ import annotations

import random
from collections.abc import Callable

from kohort.client.errors import ConnectionFailedError, KohortError
from kohort.client.security import Authenticate, NewConnection

SHARES = (0.85, 0.95)
"""Share of a session's lifetime after which the connection authenticates again, chosen
at random between these, as in the Java client."""
LEAST_S = 1.0
"""Apache Kafka takes no second authentication within a second. Where sessions are
shorter it closes the connection, and a new one is made."""

_NEVER = float("inf")


class Session:
    """The session of one connection.

    Args:
        authenticate: begins a session; None for one without authentication or end.
        clock: in seconds.
    """

    __slots__ = ("_authenticate", "_clock", "_ends_at")

    def __init__(
        self, authenticate: Authenticate | None, clock: Callable[[], float]
    ) -> None:
        self._authenticate = authenticate
        self._clock = clock
        self._ends_at = _NEVER

    @property
    def is_needed(self) -> bool:
        """True if the connection authenticates."""
        return self._authenticate is not None

    @property
    def is_over(self) -> bool:
        """True if the connection has to authenticate again."""
        ends_at = self._ends_at
        return ends_at != _NEVER and self._clock() >= ends_at

    async def authenticate(self, connection: NewConnection) -> None:
        """Begins a session, the first or a new one.

        Raises:
            ConnectionFailedError: `authenticate` failed; not retriable.
            OSError: as `authenticate` raised it.
            KohortError: likewise.
        """
        if self._authenticate is None:
            return
        self._ends_at = _NEVER
        try:
            lifetime_ms = await self._authenticate(connection)
            seconds = (lifetime_ms or 0) / 1000 * random.uniform(*SHARES)
        except (KohortError, OSError):
            raise
        except Exception as error:
            what = f"authenticate failed: {error!r}"
            raise ConnectionFailedError(what, retriable=False) from error
        if seconds > 0:
            self._ends_at = self._clock() + max(seconds, LEAST_S)
