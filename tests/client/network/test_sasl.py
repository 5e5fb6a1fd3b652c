"""SASL mechanisms without a connection: test vectors, and dishonest peers."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest

from kohort.client.errors import (
    BrokerError,
    ConnectionFailedError,
    KohortError,
    SaslAuthenticationError,
)
from kohort.client.network.sasl.exchange import exchange
from kohort.client.network.sasl.mechanisms import Mechanism, oauthbearer, plain
from kohort.client.network.sasl.scram import (
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    scram,
)
from kohort.client.network.sasl.tokens import Tokens
from kohort.client.security import OAuthToken
from kohort.protocol.apis.k17_sasl_handshake import SaslHandshakeResponse
from kohort.protocol.apis.k36_sasl_authenticate import SaslAuthenticateResponse
from kohort.protocol.errors import ErrorCode

NONCE = "rOprNGfwEbeRWgbNEkqO"
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="
SERVER_FIRST = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s={SALT},i=4096".encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def pencil() -> Mechanism:
    """The client of RFC 7677, started."""
    mechanism = scram("sha256", "user", "pencil", NONCE)
    assert next(mechanism) == f"n,,n=user,r={NONCE}".encode()
    return mechanism


def test_scram_is_that_of_rfc_7677() -> None:
    """The example of section 3, byte by byte."""
    mechanism = pencil()
    assert mechanism.send(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    with pytest.raises(StopIteration):
        mechanism.send(SERVER_FINAL)


@pytest.mark.parametrize("size", [256, 512])
def test_scram_agrees_with_a_server_that_stores_keys(size: int) -> None:
    """Verified as by a broker: with StoredKey and ServerKey (RFC 5802, section 3)."""

    def keyed(key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, f"sha{size}").digest()

    def digest(message: bytes) -> bytes:
        return hashlib.new(f"sha{size}", message).digest()

    password, salt, iterations = "pass=wört, ⅸ", b"salty", 5_000
    salted = hashlib.pbkdf2_hmac(f"sha{size}", password.encode(), salt, iterations)
    stored_key = digest(keyed(salted, b"Client Key"))

    mechanism = scram(f"sha{size}", "a=b,c", password, "abc")
    first = next(mechanism)
    assert first == b"n,,n=a=3Db=2Cc,r=abc"
    server_first = f"r=abcdef,s={base64.b64encode(salt).decode()},i={iterations}"
    without_proof, _, proof = mechanism.send(server_first.encode()).partition(b",p=")
    said = b",".join([first[3:], server_first.encode(), without_proof])
    pairs = zip(base64.b64decode(proof), keyed(stored_key, said), strict=True)
    assert digest(bytes(a ^ b for a, b in pairs)) == stored_key
    signature = keyed(keyed(salted, b"Server Key"), said)
    with pytest.raises(StopIteration):
        mechanism.send(b"v=" + base64.b64encode(signature))


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (SERVER_FIRST.replace(b"r=rO", b"r=xx"), "nonce does not extend"),
        (f"r={NONCE},s={SALT},i=4096".encode(), "nonce does not extend"),
        (SERVER_FIRST.replace(b"4096", b"%d" % (LEAST_ITERATIONS - 1)), "minimum"),
        (SERVER_FIRST.replace(b"4096", b"%d" % (MOST_ITERATIONS + 1)), "maximum"),
        (SERVER_FIRST.replace(b"4096", b"1" * 1_000), "not SCRAM"),
        (SERVER_FIRST.replace(b"4096", b"-1"), "not SCRAM"),
        (SERVER_FIRST.replace(b"W22", b"W2"), "not SCRAM"),
        (b"m=mandatory," + SERVER_FIRST, "not SCRAM"),
        (b"e=other-error", "not SCRAM"),
        (b"", "not SCRAM"),
        (b"\xff" * 1_000_000, "not SCRAM"),
    ],
)
def test_scram_refuses_a_bad_first_answer(message: bytes, error: str) -> None:
    """Before anything is derived from the password."""
    with pytest.raises(SaslAuthenticationError, match=error) as caught:
        pencil().send(message)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (SERVER_FINAL.replace(b"6rr", b"7rr"), "signature is wrong"),
        (b"v=" + b"A" * 44, "signature is wrong"),
        (b"v=\xff\xfe", "signature is wrong"),
        (b"e=invalid-proof", "refused the proof: invalid-proof"),
        (b"", "not SCRAM"),
        (SERVER_FIRST, "not SCRAM"),
    ],
)
def test_scram_refuses_a_broker_that_does_not_know_the_password(
    message: bytes, error: str
) -> None:
    """It reported success; only its signature would prove it."""
    mechanism = pencil()
    mechanism.send(SERVER_FIRST)
    with pytest.raises(SaslAuthenticationError, match=error):
        mechanism.send(message)


def test_oauthbearer_sends_extensions() -> None:
    """RFC 7628 with KIP-342; an empty response is success."""
    mechanism = oauthbearer(OAuthToken("a.b-c_d", extensions={"one": "1", "two": "2"}))
    assert next(mechanism) == b"n,,\1auth=Bearer a.b-c_d\1one=1\1two=2\1\1"
    with pytest.raises(StopIteration):
        mechanism.send(b"")


def test_a_refused_token_is_answered_once_more() -> None:
    """Kafka waits for one byte before it sends the error code for the token."""
    mechanism = oauthbearer(OAuthToken("abc"))
    next(mechanism)
    assert mechanism.send(b'{"status":"invalid_token"}') == b"\1"
    with pytest.raises(SaslAuthenticationError, match="invalid_token"):
        mechanism.send(b"")


@pytest.mark.parametrize(
    "token",
    [
        OAuthToken(""),
        OAuthToken("secret\1user=root"),
        OAuthToken("secret", extensions={"auth": "Bearer x"}),
        OAuthToken("secret", extensions={"no_underscores": "x"}),
        OAuthToken("secret", extensions={"name": "value\1more=1"}),
        OAuthToken("secret", extensions={"name": ""}),
    ],
)
def test_a_token_that_cannot_be_sent_is_refused(token: OAuthToken) -> None:
    """Separators could turn one value into several."""
    with pytest.raises(SaslAuthenticationError) as caught:
        next(oauthbearer(token))
    assert "secret" not in str(caught.value)


# -- the exchange


def refused(*responses: Any) -> KohortError:
    """The error of PLAIN after these responses."""
    steps = exchange("PLAIN", plain("alice", "s3cret"))
    for response in (None, *responses[:-1]):
        steps.send(response)
    with pytest.raises(KohortError) as caught:
        steps.send(responses[-1])
    assert not caught.value.retriable
    assert "s3cret" not in str(caught.value)
    return caught.value


def test_an_exchange_ends_with_the_sessions_lifetime() -> None:
    """A request for the mechanism, then one for each of its messages."""
    steps = exchange("PLAIN", plain("alice", "s3cret"))
    requests = [steps.send(None), steps.send(SaslHandshakeResponse(0, ["PLAIN"]))]
    with pytest.raises(StopIteration) as done:
        steps.send(SaslAuthenticateResponse(session_lifetime_ms=5_000))
    assert done.value.value == 5_000
    handshake, authenticate = requests
    assert getattr(handshake, "mechanism", None) == "PLAIN"
    assert getattr(authenticate, "auth_bytes", None) == b"\0alice\0s3cret"
    assert "s3cret" not in repr(authenticate)


def test_a_mechanism_that_is_not_enabled() -> None:
    """The error lists the enabled ones."""
    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
    error = refused(SaslHandshakeResponse(code, ["SCRAM-SHA-256", "OAUTHBEARER"]))
    assert isinstance(error, SaslAuthenticationError)
    assert error.code is code
    assert error.message == (
        "the broker does not offer PLAIN, it offers SCRAM-SHA-256, OAUTHBEARER"
    )


def test_a_listener_without_sasl() -> None:
    """The error says so; Kafka's own message would be ILLEGAL_SASL_STATE."""
    error = refused(SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE))
    assert isinstance(error, SaslAuthenticationError)
    assert error.message.startswith("PLAIN: this listener has no SASL")


def test_what_the_broker_says_is_in_the_error() -> None:
    """With the mechanism's name and the error code."""
    enabled = SaslHandshakeResponse(0, ["PLAIN"])
    code = ErrorCode.SASL_AUTHENTICATION_FAILED
    error = refused(enabled, SaslAuthenticateResponse(code, "Invalid username"))
    assert isinstance(error, SaslAuthenticationError)
    assert str(error) == "PLAIN: Invalid username (SASL_AUTHENTICATION_FAILED)"
    error = refused(enabled, SaslAuthenticateResponse(code, None))
    assert "PLAIN: the broker gives no reason" in str(error)
    error = refused(enabled, SaslAuthenticateResponse(-1, "out of order"))
    assert type(error) is BrokerError


def test_an_error_of_the_mechanism_names_it() -> None:
    """It has no code: the broker had reported success."""
    steps = exchange("SCRAM-SHA-256", scram("sha256", "user", "pencil", NONCE))
    steps.send(None)
    steps.send(SaslHandshakeResponse(0, ["SCRAM-SHA-256"]))
    with pytest.raises(SaslAuthenticationError, match=r"^SCRAM-SHA-256: .* not SCRAM"):
        steps.send(SaslAuthenticateResponse(auth_bytes=b"hi"))


# -- tokens


class Provider:
    """Returns numbered tokens of 100 s, or fails."""

    def __init__(self) -> None:
        self.calls = 0
        self.now = 1_000.0
        self.error: Exception | None = None
        self.tokens = Tokens(self, lambda: self.now, "me")

    async def __call__(self) -> OAuthToken:
        """Returns one."""
        self.calls += 1
        if self.error is not None:
            raise self.error
        return OAuthToken(f"t{self.calls}", lifetime_ms=100_000)

    async def token_at(self, now: float) -> str:
        """The token for a connection that is opened now."""
        self.now = 1_000.0 + now
        return (await self.tokens.get()).value


async def test_a_token_is_shared_until_it_has_to_be_refreshed() -> None:
    """After 80 % of its lifetime, as in the Java client."""
    provider = Provider()
    assert [await provider.token_at(now) for now in (0, 79, 81, 160, 162)] == [
        *("t1", "t1", "t2", "t2", "t3")
    ]


async def test_a_token_outlives_a_provider_that_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Until it expires; each authentication tries again."""
    provider = Provider()
    await provider.token_at(0)
    provider.error = OSError("no route")
    assert await provider.token_at(99) == "t1"
    assert "sasl_oauth_token_provider failed: OSError('no route')" in caplog.text
    with pytest.raises(ConnectionFailedError) as caught:
        await provider.token_at(101)
    assert caught.value.retriable
    provider.error = None
    assert await provider.token_at(102) == "t4"


async def test_a_provider_that_is_broken_is_not_tried_again() -> None:
    """The provider's own error is the cause."""
    provider = Provider()
    provider.error = KeyError("access_token")
    with pytest.raises(ConnectionFailedError) as caught:
        await provider.token_at(0)
    assert not caught.value.retriable
    assert caught.value.__cause__ is provider.error


async def test_a_token_without_a_lifetime_is_used_once() -> None:
    """The provider may cache it, and knows its lifetime."""
    calls = iter(["a", "b"])

    async def text() -> str:
        return next(calls)

    tokens = Tokens(text, lambda: 0.0, "me")
    assert [(await tokens.get()).value for _ in range(2)] == ["a", "b"]


async def test_a_provider_that_returns_something_else() -> None:
    """The error has the type, not the value."""

    async def pair() -> Any:
        return "secret", 3_600

    with pytest.raises(ConnectionFailedError, match="returned a tuple"):
        await Tokens(pair, lambda: 0.0, "me").get()
