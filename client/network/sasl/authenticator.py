"""The authentication of connections by `sasl_mechanism`."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from kohort.client.config import CommonConfig
from kohort.client.errors import KohortError
from kohort.client.network.sasl.exchange import exchange
from kohort.client.network.sasl.mechanisms import Mechanism, oauthbearer, plain
from kohort.client.network.sasl.scram import scram
from kohort.client.network.sasl.tokens import Tokens
from kohort.client.security import Authenticate, NewConnection, SaslMechanism
from kohort.protocol.apis.k17_sasl_handshake import SaslHandshakeRequest

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_NONCE_BYTES = 24


def authenticator(
    config: CommonConfig, mechanism: SaslMechanism, clock: Callable[[], float]
) -> Authenticate:
    """The authentication of a client's connections by a mechanism."""
    return _Sasl(config, mechanism, clock)


class _Sasl:
    def __init__(
        self, config: CommonConfig, name: str, clock: Callable[[], float]
    ) -> None:
        self._name = name
        self._username = config.sasl_username or ""
        self._password = config.sasl_password or ""
        provider = config.sasl_oauth_token_provider
        self._tokens = (
            None if provider is None else Tokens(provider, clock, config.client_id)
        )

    async def __call__(self, connection: NewConnection) -> int:
        steps = exchange(self._name, await self._mechanism())
        response: Any = None
        api = ""
        try:
            while True:
                request = steps.send(response)
                is_first = isinstance(request, SaslHandshakeRequest)
                api = "SaslHandshake" if is_first else "SaslAuthenticate"
                version = connection.version(api)
                response = await connection.send(api, version, request)
        except StopIteration as done:
            lifetime_ms: int = done.value
            return lifetime_ms
        except KohortError as error:
            error.fill(api=api)
            raise

    async def _mechanism(self) -> Mechanism:
        if self._tokens is not None:
            return oauthbearer(await self._tokens.get())
        if self._name == "PLAIN":
            return plain(self._username, self._password)
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        return scram(_HASHES[self._name], self._username, self._password, nonce)
