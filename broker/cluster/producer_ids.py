"""Producer ids: each is handed out once, also across restarts (KIP-98)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

PRODUCER_ID_BLOCK: Final = 1000
"""Producer ids reserved at once: one write for a thousand producers, and up to a
thousand unused ids lost when the process is killed."""


class ProducerIds:
    """Hands out producer ids from blocks that are reserved before use.

    Args:
        save: saves the first id behind a block; raises `StorageError`.

    Attributes:
        first_unused: the first id that was neither handed out nor reserved.
    """

    def __init__(self, save: Callable[[int], object]) -> None:
        self._save = save
        self._next = self.first_unused = 0

    def restore(self, first_unused: int) -> None:
        """Continues behind the blocks of earlier runs."""
        self._next = self.first_unused = first_unused

    def new(self) -> int:
        """Returns an unused producer id.

        Raises:
            StorageError: the next block could not be saved.
        """
        given = self._next
        if given == self.first_unused:
            self.first_unused = given + PRODUCER_ID_BLOCK
            try:
                self._save(self.first_unused)
            except BaseException:
                self.first_unused = given
                raise
        self._next = given + 1
        return given
