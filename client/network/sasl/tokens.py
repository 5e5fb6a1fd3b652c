"""OAuth tokens: fetched when they are needed, and again before they expire."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kohort.client.errors import ConnectionFailedError, KohortError
from kohort.client.security import OAuthToken, TokenProvider

log = logging.getLogger("kohort.client")

REFRESH_AFTER = 0.8
"""Share of a token's lifetime after which the provider is asked again, as
``sasl.login.refresh.window.factor`` has it."""


class Tokens:
    """The newest token of a provider, for all connections of a client.

    Args:
        provider: called by one connection at a time.
        clock: in seconds.
        client_id: for log lines.
    """

    def __init__(
        self, provider: TokenProvider, clock: Callable[[], float], client_id: str
    ) -> None:
        self._provider = provider
        self._client_id = client_id
        self._clock = clock
        self._lock = asyncio.Lock()
        self._token = OAuthToken("")
        self._refresh_at = self._expires_at = float("-inf")

    async def get(self) -> OAuthToken:
        """A token that has not expired.

        If the provider fails, the token before is used until it expires.

        Raises:
            ConnectionFailedError: the provider failed; retriable for an `OSError`.
            KohortError: as the provider raised it.
        """
        async with self._lock:
            if self._clock() >= self._refresh_at:
                try:
                    await self._refresh()
                except KohortError as error:
                    if self._clock() >= self._expires_at:
                        raise
                    log.warning(
                        "%s: the token is used until it expires: %s",
                        self._client_id,
                        error,
                    )
            return self._token

    async def _refresh(self) -> None:
        asked_at = self._clock()
        try:
            token = await self._provider()
        except KohortError:
            raise
        except Exception as error:
            what = f"sasl_oauth_token_provider failed: {error!r}"
            is_retriable = isinstance(error, OSError)
            raise ConnectionFailedError(what, retriable=is_retriable) from error
        if isinstance(token, str):
            token = OAuthToken(token)
        if not isinstance(token, OAuthToken):
            what = f"sasl_oauth_token_provider returned a {type(token).__name__}"
            raise ConnectionFailedError(what, retriable=False)
        lifetime = (token.lifetime_ms or 0) / 1000
        self._token = token
        self._refresh_at = asked_at + lifetime * REFRESH_AFTER
        self._expires_at = asked_at + lifetime
