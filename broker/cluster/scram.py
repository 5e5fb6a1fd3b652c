"""SCRAM credentials of users (KIP-554): stored and described.

No client has to prove one: kohort's listeners are PLAINTEXT.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kohort.broker.log.metadata import ScramCredential, ScramUsers

LARGEST: Final = 250_000
"""Bytes of all credentials, as `size_of` counts them: about 1,000 credentials. A
request that sets all of them takes 15 ms to save."""
_KEYS_SIZE: Final = 200
"""Bytes of a credential apart from its salt, at most."""


def size_of(user: str, credential: ScramCredential) -> int:
    """Bytes that a credential counts for."""
    return len(user) + len(credential.salt) + _KEYS_SIZE


class Scram:
    """The credentials of a cluster's users.

    Args:
        save: saves the users that change, with all their credentials; may raise
            StorageError.

    Attributes:
        users: credentials by mechanism, by user; each user has at least one.
    """

    def __init__(self, save: Callable[[ScramUsers], object]) -> None:
        self._save = save
        self.users: dict[str, Mapping[int, ScramCredential]] = {}
        self._size = 0

    def restore(self, users: ScramUsers) -> None:
        """Takes over the credentials saved in a data directory."""
        for user, credentials in users.items():
            self._put(user, credentials)

    def has_room(self, size: int) -> bool:
        """Returns whether credentials of this size can be added."""
        return self._size + size <= LARGEST

    def alter(
        self, changes: Mapping[str, Mapping[int, ScramCredential | None]]
    ) -> None:
        """Sets credentials by mechanism, by user; None removes one.

        Raises:
            StorageError: nothing has changed.
        """
        changed: dict[str, dict[int, ScramCredential]] = {}
        for user, of_user in changes.items():
            both = itertools.chain(self.users.get(user, {}).items(), of_user.items())
            changed[user] = {
                mechanism: credential
                for mechanism, credential in sorted(dict(both).items())
                if credential is not None
            }
        self._save(changed)
        for user, credentials in changed.items():
            self._put(user, credentials)

    def _put(self, user: str, credentials: Mapping[int, ScramCredential]) -> None:
        before = self.users.get(user, {})
        self._size -= sum(size_of(user, each) for each in before.values())
        self._size += sum(size_of(user, each) for each in credentials.values())
        if credentials:
            self.users[user] = credentials
        else:
            self.users.pop(user, None)
