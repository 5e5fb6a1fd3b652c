"""The causes of rebalances."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.notice import Who
from kohort.protocol.slotted import slotted


@slotted
class Cause:
    """The cause of a rebalance."""

    kind: str
    """A word such as ``member_joined``."""
    who: Who | None = None
    """The member that caused it; the first if there are several."""
    reason: str | None = None
    """The client's own words (KIP-800)."""
    culprits: Sequence[str | None] = ()
    """The ids of all members that caused it, if there are several."""
