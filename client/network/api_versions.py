"""ApiVersions: the versions that a broker supports, and the one to use (KIP-35)."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from kohort.client.errors import UnsupportedVersionError
from kohort.client.security import NewConnection
from kohort.protocol.apis.k18_api_versions import ApiVersionsRequest
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import API_VERSIONS, BY_KEY, BY_NAME
from kohort.protocol.slotted import slotted

SOFTWARE_NAME = "kohort"
"""Software name in ApiVersions (KIP-511). A kohort broker answers it with KIP-389's
error number, if it is configured to."""

Versions = tuple[int, int]
"""(lowest, highest), both included."""


@functools.cache
def software_version() -> str:
    """The version of kohort, as sent to brokers (KIP-511)."""
    # Slow to load: it reads all kinds of archives and mails.
    from importlib import metadata

    try:
        return metadata.version(SOFTWARE_NAME)
    except metadata.PackageNotFoundError:
        return "unknown"


@slotted
class Supported:
    """The answer to ApiVersions.

    Attributes:
        versions: (lowest, highest) by API key.
        features: the finalized level of each feature (KIP-584).
        features_epoch: grows with each change of them; -1 if unknown.
    """

    versions: Mapping[int, Versions]
    features: Mapping[str, int]
    features_epoch: int


async def ask_versions(connection: NewConnection) -> Supported:
    """Asks a broker for its versions and features.

    Raises:
        KohortError: no response, or one with an error.
    """
    newest = BY_KEY[API_VERSIONS].newest
    request = ApiVersionsRequest(SOFTWARE_NAME, software_version())
    response = await connection.send("ApiVersions", newest, request)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        # KIP-511: the response lists the broker's versions; before 2.4 it had none.
        theirs = {a.api_key: a.max_version for a in response.api_keys}
        version = min(theirs.get(API_VERSIONS, 0), newest)
        response = await connection.send("ApiVersions", version, request)
    if response.error_code:
        raise connection.error_of(response.error_code, "ApiVersions")
    return Supported(
        {a.api_key: (a.min_version, a.max_version) for a in response.api_keys},
        {f.name: f.max_version_level for f in response.finalized_features},
        response.finalized_features_epoch,
    )


def newest_common(
    api_name: str, ours: Versions | None, theirs: Mapping[int, Versions], broker: str
) -> int:
    """The newest version of an API that client and broker have.

    Args:
        api_name: Kafka's name, as in ``JoinGroup``.
        ours: (lowest, highest) to use; None for all that kohort has.
        theirs: the broker's, by API key.
        broker: its name in the error.

    Raises:
        UnsupportedVersionError: there is none.
    """
    api = BY_NAME[api_name]
    lowest, highest = api.oldest, api.newest
    if ours is not None:
        lowest, highest = max(lowest, ours[0]), min(highest, ours[1])
    supported = theirs.get(api.key)
    if supported is None:
        what = "the broker does not support this API"
        raise UnsupportedVersionError(what, api=api_name, broker=broker)
    version = min(highest, supported[1])
    if version < max(lowest, supported[0]):
        raise UnsupportedVersionError(
            f"the broker supports versions {supported[0]} to {supported[1]}, "
            f"the client {lowest} to {highest}",
            api=api_name,
            broker=broker,
        )
    return version
