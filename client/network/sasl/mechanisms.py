"""SASL PLAIN (RFC 4616) and OAUTHBEARER (RFC 7628), the client's side."""

from __future__ import annotations

import re
from collections.abc import Generator

from kohort.client.errors import SaslAuthenticationError
from kohort.client.security import OAuthToken

Mechanism = Generator[bytes, bytes, None]
"""Yields the client's messages, is sent the broker's."""

# The patterns of Apache Kafka's OAuthBearerClientInitialResponse.
_TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")


def plain(username: str, password: str) -> Mechanism:
    """One message: the credentials in plain text."""
    yield f"\0{username}\0{password}".encode()


def oauthbearer(token: OAuthToken) -> Mechanism:
    """One message: the token, with its extensions (KIP-342).

    A broker that refuses the token answers in JSON. It has to be sent one more byte
    before it says so with an error code.

    Raises:
        SaslAuthenticationError: the token cannot be sent, or was refused.
    """
    if not _TOKEN.fullmatch(token.value):
        raise SaslAuthenticationError("the token has characters that no token has")
    pairs = [f"auth=Bearer {token.value}"]
    for name, value in token.extensions.items():
        if not _EXTENSION_NAME.fullmatch(name) or name == "auth":
            raise SaslAuthenticationError(f"invalid name of an extension: {name!r}")
        if not _EXTENSION_VALUE.fullmatch(value):
            raise SaslAuthenticationError(f"invalid value of the extension {name!r}")
        pairs.append(f"{name}={value}")
    refusal = yield "\x01".join(["n,,", *pairs, "\x01"]).encode()
    if refusal:
        yield b"\x01"
        raise SaslAuthenticationError(
            f"the broker refused the token: {refusal[:200].decode(errors='replace')}"
        )
