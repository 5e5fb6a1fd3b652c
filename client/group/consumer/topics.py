"""The look-up of the topics in an assignment: they come as ids."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.protocol.slotted import slotted


@slotted
class FindTopics:
    """Find the names of topics; the result has those that were found, by id."""

    topic_ids: Sequence[bytes]
