"""What a member offers with a JoinGroup, apart from what it owns at the moment."""

from __future__ import annotations

from kohort.broker.coordinator.member import Protocols
from kohort.protocol.consumer import PROTOCOL_TYPE, decode_subscription
from kohort.protocol.messages import WireError


def is_same_offer(protocol_type: str | None, old: Protocols, new: Protocols) -> bool:
    """Whether a consumer names the same assignors and topics as before.

    The bytes differ by then: since KIP-429 and KIP-792 a subscription says what its
    member owns, and since which generation, and sticky assignors say it besides. That
    is news of the last rebalance, and no reason of its own for the next one.
    """
    if protocol_type != PROTOCOL_TYPE or len(old) != len(new):
        return False
    try:
        return all(
            before[0] == after[0] and _topics(before[1]) == _topics(after[1])
            for before, after in zip(old, new, strict=True)
        )
    except WireError:
        return False


def _topics(metadata: bytes) -> list[str]:
    return sorted(decode_subscription(metadata).topics)
