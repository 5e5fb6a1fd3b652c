"""AlterUserScramCredentials: sets and removes credentials of users (KIP-554).

As in Kafka, a request may alter one credential of each user. Deletions are checked
before upsertions, and the first error of a user counts.
"""

from __future__ import annotations

import hmac
from hashlib import new as hashed
from itertools import chain
from typing import Final

from kohort.broker.cluster.scram import LARGEST, Scram, size_of
from kohort.broker.handlers.refusal import RefusedError
from kohort.broker.log.metadata import ScramCredential
from kohort.broker.log.store import StorageError
from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.protocol.apis.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kohort.protocol.errors import ErrorCode

_HASHES: Final = {1: "sha256", 2: "sha512"}
"""The hash function of each mechanism: SCRAM-SHA-256 and SCRAM-SHA-512."""
_ROW_COST = 5
"""Cost of one change, as `Pace` counts."""
_DERIVED_COST = 20
"""Cost of deriving a credential."""
_FEWEST, _MOST = 4096, 16384
"""Iterations of a credential."""
LONGEST = 10_000
"""Bytes of a salted password, which is hashed at once. A client's has 32 or 64."""

_Change = ScramCredentialDeletion | ScramCredentialUpsertion
_Results = dict[str, RefusedError | None]


def handle(request: Request) -> None:
    """Alters the credentials that pass all checks, at once."""
    request.node.cluster.controller.submit(_alter(request), request.failed)


def _alter(request: Request) -> Work:
    message: AlterUserScramCredentialsRequest = request.message
    scram = request.node.cluster.scram
    pace = Pace()
    accepted: dict[str, _Change] = {}
    refused: dict[str, RefusedError] = {}
    for change in chain[_Change](message.deletions, message.upsertions):
        if change.name not in refused:
            try:
                if accepted.pop(change.name, None) is not None:
                    raise _TWICE
                _check(scram, change)
                accepted[change.name] = change
            except RefusedError as refusal:
                refused[change.name] = refusal
        if pace.spend(_ROW_COST):
            yield
    results: _Results = {}
    yield from _changed(scram, accepted, results, pace)
    rows = []
    for name, error in chain(results.items(), refused.items()):
        rows.append(_row(name, error))
        if pace.spend(1):
            yield
    response = AlterUserScramCredentialsResponse(0, rows)
    yield from request.finish_in_pieces(response, pace)


def _check(scram: Scram, change: _Change) -> None:
    """Checks one change.

    Raises:
        RefusedError: the user, the mechanism or the iterations are invalid.
    """
    if not change.name:
        raise _unacceptable("Username must not be empty")
    if change.mechanism not in _HASHES:
        why = "Unknown SCRAM mechanism"
        raise RefusedError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, why)
    if isinstance(change, ScramCredentialDeletion):
        if change.mechanism not in scram.users.get(change.name, ()):
            why = "Attempt to delete a user credential that does not exist"
            raise RefusedError(ErrorCode.RESOURCE_NOT_FOUND, why)
    elif change.iterations < _FEWEST:
        raise _unacceptable("Too few iterations")
    elif change.iterations > _MOST:
        raise _unacceptable("Too many iterations")


def _changed(
    scram: Scram, accepted: dict[str, _Change], results: _Results, pace: Pace
) -> Work:
    """Makes the changes, and adds the result of each."""
    made: dict[str, dict[int, ScramCredential | None]] = {}
    size = 0
    for name, change in accepted.items():
        before = scram.users.get(name, {}).get(change.mechanism)
        growth = 0 if before is None else -size_of(name, before)
        try:
            credential = None
            if isinstance(change, ScramCredentialUpsertion):
                credential = _credential(change)
                growth += size_of(name, credential)
                if not scram.has_room(size + growth):
                    raise _full()
            made[name] = {change.mechanism: credential}
            results[name] = None
            size += growth
        except RefusedError as refusal:
            results[name] = refusal
        if pace.spend(_DERIVED_COST):
            yield
    if made:
        try:
            scram.alter(made)
        except StorageError as error:
            failure = RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            results.update(dict.fromkeys(made, failure))


def _credential(change: ScramCredentialUpsertion) -> ScramCredential:
    """The credential that a change sets: the keys that check a password (RFC 5802).

    Raises:
        RefusedError: the salted password is empty or too long.
    """
    if not change.salted_password:
        # Java has no key of no bytes, and Kafka no better error for that.
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    if len(change.salted_password) > LONGEST:
        raise _unacceptable(f"The salted password is longer than {LONGEST} bytes")
    name, password = _HASHES[change.mechanism], change.salted_password
    client_key = hmac.digest(password, b"Client Key", name)
    return ScramCredential(
        bytes(change.salt),
        hashed(name, client_key).digest(),
        hmac.digest(password, b"Server Key", name),
        change.iterations,
    )


def _row(name: str, error: RefusedError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(name, 0, None)
    return AlterUserScramCredentialsResult(name, error.code, error.why)


def _unacceptable(why: str) -> RefusedError:
    return RefusedError(ErrorCode.UNACCEPTABLE_CREDENTIAL, why)


def _full() -> RefusedError:
    why = f"all credentials together have more than {LARGEST} bytes"
    return RefusedError(ErrorCode.POLICY_VIOLATION, why)


_TWICE = RefusedError(
    ErrorCode.DUPLICATE_RESOURCE,
    "A user credential cannot be altered twice in the same request",
)
