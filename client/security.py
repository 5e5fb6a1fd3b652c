"""Types of the settings for authentication (SASL)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from kohort.client.errors import KohortError

SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]

_PASSWORD = ("sasl_username", "sasl_password")
NEEDED: Mapping[SaslMechanism, tuple[str, ...]] = {
    "PLAIN": _PASSWORD,
    "SCRAM-SHA-256": _PASSWORD,
    "SCRAM-SHA-512": _PASSWORD,
    "OAUTHBEARER": ("sasl_oauth_token_provider",),
}
"""The credentials of each mechanism, as settings."""

MECHANISMS = tuple(NEEDED)


class NewConnection(Protocol):
    """A connection on which only authentication may send requests."""

    def version(self, api_name: str) -> int:
        """The newest version of an API that both sides have."""

    async def send(self, api_name: str, version: int, message: object) -> Any:
        """Sends a request; returns its response."""

    def error_of(
        self, code: int, api_name: str, message: str | None = None
    ) -> KohortError:
        """The error that an error code of this broker stands for."""


Authenticate = Callable[[NewConnection], Awaitable[int | None]]
"""Authenticates the client by requests on a connection.

Returns the session's lifetime in milliseconds (KIP-368): before it ends, the
connection is authenticated again. 0 or None if the session has no end.
"""


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """A token for SASL OAUTHBEARER.

    Attributes:
        value: the token as the broker gets it, usually a JWT.
        lifetime_ms: how long it is valid, from now on. After 80 % of that the
            provider is called again. None calls the provider for every authentication.
        extensions: names and values for the broker (KIP-342).
    """

    value: str = field(repr=False)
    lifetime_ms: int | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)


TokenProvider = Callable[[], Awaitable[OAuthToken | str]]
"""Gets a token; text is a token without a known lifetime and extensions."""

OTHER_NAMES: Mapping[str, str] = {
    "oauth_cb": "the setting is sasl_oauth_token_provider, an async function",
    "sasl_jaas_config": "kohort does not read JAAS; set sasl_mechanism, and "
    "sasl_username and sasl_password or sasl_oauth_token_provider",
    "sasl_kerberos_service_name": "GSSAPI (Kerberos) is not included; "
    "authenticate takes a function of your own",
    "sasl_login_callback_handler_class": "the setting is sasl_oauth_token_provider, "
    "an async function",
    "sasl_mechanisms": "the setting is sasl_mechanism, with one mechanism",
    "sasl_oauthbearer_config": "the setting is sasl_oauth_token_provider, "
    "an async function",
    "sasl_oauthbearer_token_endpoint_url": "kohort does not ask a token endpoint; "
    "sasl_oauth_token_provider is an async function that does",
    "sasl_plain_password": "the setting is sasl_password",
    "sasl_plain_username": "the setting is sasl_username",
}
"""Settings of other clients, with underscores, and what to set here."""
