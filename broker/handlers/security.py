"""ACLs and delegation tokens, as in a Kafka without an authorizer, on PLAINTEXT.

Nothing is stored: everything is allowed, and every client is User:ANONYMOUS, who may
have no token (KIP-48).
"""

from __future__ import annotations

from typing import Any, Final

from kohort.broker.long_work import Work
from kohort.broker.request import Request
from kohort.protocol.apis.k29_describe_acls import DescribeAclsResponse
from kohort.protocol.apis.k30_create_acls import AclCreationResult, CreateAclsResponse
from kohort.protocol.apis.k31_delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsResponse,
)
from kohort.protocol.apis.k38_create_delegation_token import (
    CreateDelegationTokenResponse,
)
from kohort.protocol.apis.k39_renew_delegation_token import RenewDelegationTokenResponse
from kohort.protocol.apis.k40_expire_delegation_token import (
    ExpireDelegationTokenResponse,
)
from kohort.protocol.apis.k41_describe_delegation_token import (
    DescribeDelegationTokenResponse,
)
from kohort.protocol.errors import ErrorCode

_DISABLED: Final = ErrorCode.SECURITY_DISABLED
_REFUSED: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
_WHY: Final = "No Authorizer is configured."
_NEVER: Final = -1
"""A time that a response does not have."""
_ANONYMOUS: Final = ("User", "ANONYMOUS")

_ANSWERS: Final[dict[str, Any]] = {
    "DescribeAcls": DescribeAclsResponse(
        0, _DISABLED, "No Authorizer is configured on the broker"
    ),
    "RenewDelegationToken": RenewDelegationTokenResponse(_REFUSED, _NEVER),
    "ExpireDelegationToken": ExpireDelegationTokenResponse(_REFUSED, _NEVER),
    "DescribeDelegationToken": DescribeDelegationTokenResponse(_REFUSED),
}


def handle(request: Request) -> Work:
    """Refuses the request; for ACLs, each row of it."""
    message, response = request.message, _ANSWERS.get(request.api.name)
    if request.api.name == "CreateAcls":
        created = [AclCreationResult(_DISABLED, _WHY)] * len(message.creations)
        response = CreateAclsResponse(0, created)
    elif request.api.name == "DeleteAcls":
        deleted = [DeleteAclsFilterResult(_DISABLED, _WHY)] * len(message.filters)
        response = DeleteAclsResponse(0, deleted)
    elif request.api.name == "CreateDelegationToken":
        kind, name = _ANONYMOUS
        if message.owner_principal_name:
            kind = message.owner_principal_type or ""
            name = message.owner_principal_name
        times = _NEVER, _NEVER, _NEVER
        response = CreateDelegationTokenResponse(
            _REFUSED, kind, name, *_ANONYMOUS, *times
        )
    yield from request.finish_in_pieces(response)
