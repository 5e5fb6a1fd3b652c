"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), the client's side.

    client   n,,n=USER,r=NONCE
    broker   r=NONCE MORE,s=SALT,i=ITERATIONS
    client   c=biws,r=NONCE MORE,p=PROOF
    broker   v=SIGNATURE

PROOF and SIGNATURE are made of all messages before, with keys that are derived from
the password: each side proves that it knows the keys, and the password is never sent.

Passwords are used without SASLprep (RFC 4013). Apache Kafka derives its keys from the
UTF-8 bytes as they are, so a prepared password would not match.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

from kohort.client.errors import SaslAuthenticationError
from kohort.client.network.sasl.mechanisms import Mechanism

LEAST_ITERATIONS = 4_096
"""Apache Kafka's minimum (RFC 7677). With fewer, a password is easier to guess."""
MOST_ITERATIONS = 100_000
"""0.1 to 0.2 s of computing, during which the event loop stands still. The limit in
Apache Kafka is 16,384."""

# The value of "m" would be an extension that must be understood: it has no place here.
_SERVER_FIRST = re.compile(
    rb"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/]+=*),i=([1-9][0-9]{0,9})(?:,.*)?"
)
_SERVER_FINAL = re.compile(rb"([ev])=([^,]+)(?:,.*)?")


def scram(hash_name: str, username: str, password: str, nonce: str) -> Mechanism:
    """Two messages.

    Args:
        hash_name: "sha256" or "sha512".
        username: the user's name.
        password: the user's password.
        nonce: printable ASCII without a comma, used once, not to be guessed.

    Raises:
        SaslAuthenticationError: the broker answers something else, asks for too few
            or too many iterations, or does not prove that it knows the password.
    """

    def keyed(key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, hash_name)

    name = username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}".encode()
    server_first = yield b"n,," + first

    whole_nonce, salt, iterations = _server_first(server_first, nonce.encode())
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
    final = b"c=biws,r=" + whole_nonce
    exchanged = b",".join([first, server_first, final])
    client_key = keyed(salted, b"Client Key")
    stored_key = hashlib.new(hash_name, client_key).digest()
    signature = keyed(stored_key, exchanged)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = yield final + b",p=" + base64.b64encode(proof)

    expected = keyed(keyed(salted, b"Server Key"), exchanged)
    _check_server_final(server_final, base64.b64encode(expected))


def _server_first(message: bytes, nonce: bytes) -> tuple[bytes, bytes, int]:
    """The nonce of both sides, the salt, and the number of iterations."""
    found = _SERVER_FIRST.fullmatch(message)
    if found is None:
        raise _unreadable(message)
    whole_nonce, salt, iterations = found[1], found[2], int(found[3])
    if not whole_nonce.startswith(nonce) or len(whole_nonce) == len(nonce):
        raise SaslAuthenticationError("the broker's nonce does not extend the client's")
    if iterations < LEAST_ITERATIONS:
        raise SaslAuthenticationError(
            f"the broker asks for {iterations} iterations, "
            f"{LEAST_ITERATIONS} is the minimum"
        )
    if iterations > MOST_ITERATIONS:
        raise SaslAuthenticationError(
            f"the broker asks for {iterations} iterations, "
            f"{MOST_ITERATIONS} is the maximum"
        )
    try:
        return whole_nonce, base64.b64decode(salt, validate=True), iterations
    except ValueError:
        raise _unreadable(message) from None


def _check_server_final(message: bytes, signature: bytes) -> None:
    found = _SERVER_FINAL.fullmatch(message)
    if found is None:
        raise _unreadable(message)
    if found[1] == b"e":
        text = found[2][:200].decode(errors="replace")
        raise SaslAuthenticationError(f"the broker refused the proof: {text}")
    if not hmac.compare_digest(found[2], signature):
        raise SaslAuthenticationError(
            "the broker's signature is wrong: it does not know the password"
        )


def _unreadable(message: bytes) -> SaslAuthenticationError:
    return SaslAuthenticationError(
        f"the broker's response is not SCRAM: {message[:50]!r}"
    )
