"""SCRAM credentials are set, described and kept: the answers of Apache Kafka 4.3."""

from __future__ import annotations

import base64
import hmac
from hashlib import pbkdf2_hmac, sha256
from pathlib import Path

import pytest
from tests.broker.test_cluster import cluster
from tests.broker.test_restart import broker_on, killed, no_change_can_be_written
from tests.wire.client import WireClient, connected, served

from kohort.broker.cluster.scram import LARGEST
from kohort.broker.handlers.k51_alter_user_scram_credentials import LONGEST
from kohort.protocol.apis.k50_describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from kohort.protocol.apis.k50_describe_user_scram_credentials import (
    DescribeUserScramCredentialsResult as Described,
)
from kohort.protocol.apis.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kohort.protocol.errors import ErrorCode

SHA_256, SHA_512 = 1, 2
NOT_FOUND = ErrorCode.RESOURCE_NOT_FOUND
TWICE = ErrorCode.DUPLICATE_RESOURCE
UNACCEPTABLE = ErrorCode.UNACCEPTABLE_CREDENTIAL
UNKNOWN = ErrorCode.UNSUPPORTED_SASL_MECHANISM

Change = ScramCredentialDeletion | ScramCredentialUpsertion
Users = dict[str, list[tuple[int, int]]]


def put(
    name: str,
    mechanism: int = SHA_256,
    iterations: int = 4096,
    *,
    salt: bytes = b"salt",
    password: bytes = b"p" * 32,
) -> ScramCredentialUpsertion:
    """Sets a credential."""
    return ScramCredentialUpsertion(name, mechanism, iterations, salt, password)


def drop(name: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    """Removes a credential."""
    return ScramCredentialDeletion(name, mechanism)


async def alter(client: WireClient, *changes: Change) -> list[tuple[str, int]]:
    """Alters credentials; returns the users with their errors."""
    request = AlterUserScramCredentialsRequest(
        [each for each in changes if isinstance(each, ScramCredentialDeletion)],
        [each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    response = await client.call("AlterUserScramCredentials", 0, request)
    for row in response.results:
        has_reason = row.error_code not in {0, ErrorCode.UNKNOWN_SERVER_ERROR}
        assert (row.error_message is not None) == has_reason
    return [(row.user, row.error_code) for row in response.results]


async def describe(
    client: WireClient, *names: str
) -> DescribeUserScramCredentialsResponse:
    """Describes users; all of them without a name."""
    request = DescribeUserScramCredentialsRequest([UserName(name) for name in names])
    response: DescribeUserScramCredentialsResponse = await client.call(
        "DescribeUserScramCredentials", 0, request
    )
    return response


async def users(client: WireClient) -> Users:
    """Mechanisms and iterations of all users."""
    response = await client.call(
        "DescribeUserScramCredentials", 0, DescribeUserScramCredentialsRequest(None)
    )
    assert (response.error_code, response.error_message) == (0, "")
    return {
        row.user: [(info.mechanism, info.iterations) for info in row.credential_infos]
        for row in response.results
    }


async def test_credentials_are_set_and_removed() -> None:
    """A user has one credential of each mechanism."""
    async with served() as client:
        assert await alter(client, put("ana"), put("ben", SHA_512, 16384)) == [
            ("ana", 0),
            ("ben", 0),
        ]
        assert await alter(client, put("ana", SHA_512, 8192)) == [("ana", 0)]
        assert await alter(client, put("ana", SHA_256, 5000)) == [("ana", 0)]
        both = [(SHA_256, 5000), (SHA_512, 8192)]
        assert await users(client) == {"ana": both, "ben": [(SHA_512, 16384)]}
        assert await alter(client, drop("ana"), drop("ben", SHA_512)) == [
            ("ana", 0),
            ("ben", 0),
        ]
        assert await users(client) == {"ana": [(SHA_512, 8192)]}


async def test_descriptions() -> None:
    """Kafka's messages; a user that is named twice is described once, as an error."""
    missing = "Attempt to describe a user credential that does not exist: "
    twice = "Cannot describe SCRAM credentials for the same user twice in a single"
    async with served() as client:
        assert (await describe(client)).results == []
        await alter(client, put("ana"))
        ana = Described("ana", 0, "", [CredentialInfo(SHA_256, 4096)])
        assert (await describe(client)).results == [ana]
        found = await describe(client, "ben", "cleo", "ana", "cleo", "")
        assert found.results == [
            Described("ben", NOT_FOUND, missing + "ben", []),
            Described("cleo", TWICE, f"{twice} request: cleo", []),
            ana,
            Described("", NOT_FOUND, missing, []),
        ]
        again = await describe(client, "ana", "ana")
        assert [row.error_code for row in again.results] == [TWICE]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (put("c", SHA_256, 4095), UNACCEPTABLE),
        (put("c", SHA_512, 16385), UNACCEPTABLE),
        (put("c", SHA_256, -1), UNACCEPTABLE),
        (put("", SHA_256), UNACCEPTABLE),
        (put("", 0, 1), UNACCEPTABLE),
        (put("c", 0, 1), UNKNOWN),
        (put("c", 3), UNKNOWN),
        (put("c", password=b""), ErrorCode.UNKNOWN_SERVER_ERROR),
        (put("c", password=b"p" * (LONGEST + 1)), UNACCEPTABLE),
        (put("c", salt=b"s" * LARGEST), ErrorCode.POLICY_VIOLATION),
        (drop("c"), NOT_FOUND),
        (drop("ana", SHA_512), NOT_FOUND),
        (drop("ana", 9), UNKNOWN),
        (drop("", 0), UNACCEPTABLE),
    ],
)
async def test_refused_changes(change: Change, error: ErrorCode) -> None:
    """The other changes of the request are made, and answered first."""
    async with served() as client:
        await alter(client, put("ana"))
        found = await alter(client, change, put("ben"))
        assert sorted(found) == sorted([("ben", 0), (change.name, error)])
        assert set(await users(client)) == {"ana", "ben"}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([put("ana"), put("ana", SHA_512)], TWICE),
        ([put("ana"), put("ana", SHA_256, 1)], TWICE),
        ([put("ana", SHA_256, 1), put("ana")], UNACCEPTABLE),
        ([put("ana"), put("ana"), put("ana")], TWICE),
        ([put("ana", password=b""), put("ana")], TWICE),
        ([drop("ana"), put("ana", SHA_512)], TWICE),
        ([drop("ana"), drop("ana", SHA_512)], TWICE),
        ([drop("ana", SHA_512), drop("ana")], NOT_FOUND),
        ([drop("ana", 9), put("ana")], UNKNOWN),
    ],
)
async def test_a_user_twice_in_a_request(
    changes: list[Change], error: ErrorCode
) -> None:
    """Nothing changes. An error of the first change counts, not that of the second."""
    async with served() as client:
        await alter(client, put("ana", SHA_256, 5000))
        assert await alter(client, *changes) == [("ana", error)]
        assert await users(client) == {"ana": [(SHA_256, 5000)]}


async def test_credentials_have_a_limit() -> None:
    """At the limit, credentials can still be replaced and removed."""
    salt = b"s" * 20_000
    async with served() as client:
        many = [put(f"user{number:02}", salt=salt) for number in range(13)]
        found = await alter(client, *many)
        assert [error for _, error in found] == [0] * 12 + [ErrorCode.POLICY_VIOLATION]
        assert await alter(client, many[0]) == [("user00", 0)]
        assert await alter(client, many[-1]) == [("user12", ErrorCode.POLICY_VIOLATION)]
        assert await alter(client, drop("user00"), many[-1]) == [
            ("user00", 0),
            ("user12", 0),
        ]


async def test_keys_are_those_of_the_rfc() -> None:
    """A server with these keys completes the exchange in RFC 7677, section 3."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    password = pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    nonce = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = b"n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    message = b",".join([first, challenge, b"c=biws," + nonce])
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = base64.b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    async with cluster() as broker, connected(broker) as client:
        await alter(client, put("user", salt=salt, password=password))
        kept = broker.cluster.scram.users["user"][SHA_256]
    server_signature = hmac.digest(kept.server_key, message, "sha256")
    assert server_signature == signature
    client_signature = hmac.digest(kept.stored_key, message, "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, client_signature, strict=True))
    assert sha256(client_key).digest() == kept.stored_key
    assert (kept.salt, kept.iterations) == (salt, 4096)


async def test_all_nodes_have_the_credentials() -> None:
    """Any node alters them, and any describes them."""
    async with cluster() as broker:
        async with connected(broker, 2) as client:
            await alter(client, put("ana"))
        async with connected(broker, 3) as client:
            assert await users(client) == {"ana": [(SHA_256, 4096)]}


async def test_credentials_survive_a_restart(tmp_path: Path) -> None:
    """After a kill and after a stop, with the same keys; a removed one stays removed.

    After a kill they are read from cluster.log, after a stop from cluster.json.
    """
    path = tmp_path / "data"
    async with broker_on(path) as broker, connected(broker) as client:
        await alter(client, put("ana"), put("ben"), put("cleo", SHA_512))
        await alter(client, put("ana", SHA_512), drop("ben"))
        await alter(client, put("cleo", SHA_512, 5000))
        kept = dict(broker.cluster.scram.users)
        copy = killed(path)
    both = [(SHA_256, 4096), (SHA_512, 4096)]
    for folder in (copy, path, path):
        async with broker_on(folder) as broker, connected(broker) as client:
            assert await users(client) == {"ana": both, "cleo": [(SHA_512, 5000)]}
            assert broker.cluster.scram.users == kept


async def test_what_cannot_be_saved_is_not_changed(tmp_path: Path) -> None:
    """The accepted changes get the error of the disk, the others keep theirs."""
    path = tmp_path / "data"
    async with broker_on(path) as broker, connected(broker) as client:
        await alter(client, put("ana"))
        with no_change_can_be_written(path):
            assert await alter(client, drop("ana"), put("ben"), put("c", 9)) == [
                ("ana", ErrorCode.KAFKA_STORAGE_ERROR),
                ("ben", ErrorCode.KAFKA_STORAGE_ERROR),
                ("c", UNKNOWN),
            ]
        assert await users(client) == {"ana": [(SHA_256, 4096)]}
        assert await alter(client, put("ben")) == [("ben", 0)]
