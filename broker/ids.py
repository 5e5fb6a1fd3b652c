"""Sources of ids: the only place in the broker that draws random numbers."""

from __future__ import annotations

import base64
import random
import uuid


def run_id() -> str:
    """The id of a start of the broker; unique even with a seed."""
    return str(uuid.uuid4())


class Ids:
    """A source of ids.

    Args:
        seed: the same seed gives the same ids in the same order; None for
            unpredictable ids.
    """

    def __init__(self, seed: int | None = None) -> None:
        source = random.SystemRandom() if seed is None else random.Random(seed)
        self._seed = seed
        self._bits = source.getrandbits

    def go_on(self, start: int) -> None:
        """Begins the ids of a later start: ids of earlier starts are still in use.

        Args:
            start: a number that no earlier start had.
        """
        if self._seed is not None:
            self._bits = random.Random(f"{self._seed}-{start}").getrandbits

    def _uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._bits(128), version=4)

    def member_id(self, prefix: str) -> str:
        """A member id: the client id, or the instance id, and a UUID."""
        return f"{prefix}-{self._uuid()}"

    def topic_id(self) -> bytes:
        """The 16 bytes of a topic id (KIP-516)."""
        return self._uuid().bytes

    def cluster_id(self) -> str:
        """A cluster id: 22 characters of base 64."""
        return base64.urlsafe_b64encode(self._uuid().bytes).decode().rstrip("=")

    def fetch_session_id(self) -> int:
        """A fetch session id: positive, 31 bits (KIP-227)."""
        return self._bits(31) or 1
