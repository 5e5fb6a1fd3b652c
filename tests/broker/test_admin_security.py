"""ACLs and delegation tokens: the answers of Apache Kafka 4.3 without an authorizer."""

from __future__ import annotations

import pytest
from tests.wire.client import connected

from kohort.broker.server import Broker
from kohort.protocol.apis import k29_describe_acls as k29
from kohort.protocol.apis import k30_create_acls as k30
from kohort.protocol.apis import k31_delete_acls as k31
from kohort.protocol.apis import k38_create_delegation_token as k38
from kohort.protocol.apis import k39_renew_delegation_token as k39
from kohort.protocol.apis import k40_expire_delegation_token as k40
from kohort.protocol.apis import k41_describe_delegation_token as k41

ACL = k30.AclCreation(2, "t", 3, "User:a", "*", 3, 3)
ANY = k31.DeleteAclsFilter(1, None, 1, None, None, 1, 1)
ANONYMOUS = "User", "ANONYMOUS"
NEVER = -1, -1, -1
WHY = "No Authorizer is configured."


@pytest.mark.parametrize(
    ("name", "request_", "answer"),
    [
        (
            "DescribeAcls",
            k29.DescribeAclsRequest(1, None, 1, None, None, 1, 1),
            k29.DescribeAclsResponse(0, 54, WHY[:-1] + " on the broker", []),
        ),
        (
            "CreateAcls",
            k30.CreateAclsRequest([ACL, ACL]),
            k30.CreateAclsResponse(0, [k30.AclCreationResult(54, WHY)] * 2),
        ),
        (
            "DeleteAcls",
            k31.DeleteAclsRequest([ANY, ANY]),
            k31.DeleteAclsResponse(0, [k31.DeleteAclsFilterResult(54, WHY, [])] * 2),
        ),
        (
            "CreateDelegationToken",
            k38.CreateDelegationTokenRequest(),
            k38.CreateDelegationTokenResponse(64, *ANONYMOUS, *ANONYMOUS, *NEVER),
        ),
        (
            "CreateDelegationToken",
            k38.CreateDelegationTokenRequest("User", "ana"),
            k38.CreateDelegationTokenResponse(64, "User", "ana", *ANONYMOUS, *NEVER),
        ),
        (
            "RenewDelegationToken",
            k39.RenewDelegationTokenRequest(b"x", 1),
            k39.RenewDelegationTokenResponse(64, -1),
        ),
        (
            "ExpireDelegationToken",
            k40.ExpireDelegationTokenRequest(b"x", 1),
            k40.ExpireDelegationTokenResponse(64, -1),
        ),
        (
            "DescribeDelegationToken",
            k41.DescribeDelegationTokenRequest(None),
            k41.DescribeDelegationTokenResponse(64, []),
        ),
    ],
)
async def test_security_is_disabled(
    name: str, request_: object, answer: object
) -> None:
    """Clients get a reason, and not a closed connection."""
    newest = 2 if name.startswith(("Renew", "Expire")) else 3
    async with Broker() as broker, connected(broker) as client:
        assert await client.call(name, newest, request_) == answer
