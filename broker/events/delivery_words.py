"""The reasons in the account of delivery, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REASONS: Final[Mapping[str, str]] = {
    "rebalance": "a rebalance took the partition from its reader",
    "seek": "the reader went back: a seek, or a restart on the same connection",
    "out_of_range": "its offset was out of range, and auto.offset.reset took effect",
    "went_back": "a commit below the committed offset",
    "commit_refused": "the commit of these records was refused",
    "offset_deleted": "the committed offset was deleted, or expired",
    "admin": "an admin reset the offset",
    "left": "the reader left the group",
    "removed": "an admin removed the reader",
    "expired": "the reader's session expired",
    "kicked": "the broker removed the reader",
    "commanded": "a test removed the reader",
    "replaced": "the static member came back under a new member id",
    "unseen": "the reader went unseen",
}
"""Why records were sent again."""
SKIP_REASONS: Final[Mapping[str, str]] = {
    "reset": "no offset was committed, and auto.offset.reset=latest took effect",
    "out_of_range": "the offset was out of range, and auto.offset.reset took effect",
    "deleted": "they were deleted, by retention or DeleteRecords",
    "commit_ahead": "a commit above the records that were sent",
    "found_late": "the partition was new, and was read from its end",
    "seek": "the reader began further on: a seek",
}
"""Why records were skipped."""
WENT_BACK: Final[Mapping[str, str]] = {
    "commit": "a commit of a member, or of a client outside the group",
    "transaction": "a commit in a transaction",
    "admin": "a reset by an admin, while the group had no members",
}
"""How a committed offset went back."""
