"""DescribeUserScramCredentials: the mechanisms and iterations of users (KIP-554)."""

from __future__ import annotations

from kohort.broker.long_work import Pace, Work, count_values
from kohort.broker.request import Request
from kohort.protocol.apis.k50_describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kohort.protocol.errors import ErrorCode

_ROW_COST = 3
"""Cost of one user, as `Pace` counts."""
_MISSING = "Attempt to describe a user credential that does not exist: "
_TWICE = (
    "Cannot describe SCRAM credentials for the same user twice in a single request: "
)


def handle(request: Request) -> Work:
    """Describes the users of the request, or all if it names none."""
    message: DescribeUserScramCredentialsRequest = request.message
    pace = Pace()
    times = yield from count_values((each.name for each in message.users or ()), pace)
    results = []
    for name in list(times or request.node.cluster.scram.users):
        results.append(_described(request, name, is_repeated=times[name] > 1))
        if pace.spend(_ROW_COST):
            yield
    response = DescribeUserScramCredentialsResponse(results=results)
    yield from request.finish_in_pieces(response, pace)


def _described(
    request: Request, name: str, *, is_repeated: bool
) -> DescribeUserScramCredentialsResult:
    if is_repeated:
        return DescribeUserScramCredentialsResult(
            name, ErrorCode.DUPLICATE_RESOURCE, _TWICE + name
        )
    credentials = request.node.cluster.scram.users.get(name)
    if credentials is None:
        return DescribeUserScramCredentialsResult(
            name, ErrorCode.RESOURCE_NOT_FOUND, _MISSING + name
        )
    rows = [
        CredentialInfo(mechanism, credential.iterations)
        for mechanism, credential in credentials.items()
    ]
    return DescribeUserScramCredentialsResult(name, 0, "", rows)
