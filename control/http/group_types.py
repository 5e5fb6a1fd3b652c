"""The JSON of groups: bodies of requests and responses."""

from __future__ import annotations

from typing import Annotated, Final, TypedDict

from msgspec import UNSET, Meta, UnsetType

from kohort.broker.coordinator.state import GroupState
from kohort.broker.events.delivery.values import Again, Open, Skipped, WentBack
from kohort.control.http.operations import Fields, Text
from kohort.control.verbs import PATIENCE_S

MOST_WAIT_S: Final = 3_600.0
"""The longest wait for a condition: connections that are silent for longer break."""
MOST_GROUPS: Final = 1_000
"""Most groups of one list: they are collected in one go."""

GroupId = Annotated[Text, Meta(description="The id of a group.")]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


# -- requests


class GroupPath(Fields):
    """The path of a group."""

    group: GroupId


class GroupsQuery(Fields):
    """Which groups are listed.

    Attributes:
        state: only groups in this state.
        limit: largest number of groups to list.
    """

    state: GroupState | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=MOST_GROUPS)] = MOST_GROUPS


class DeliveryQuery(Fields):
    """How long the account of delivery may take.

    Attributes:
        peek: answers at once; `open` has the partitions that moved and were not fetched
            since.
        timeout: seconds of real time until the answer is 504.
    """

    peek: bool = False
    timeout: Annotated[float, Meta(ge=0, le=MOST_WAIT_S)] = PATIENCE_S


# -- answers


class GroupRow(TypedDict):
    """A group in a list.

    Attributes:
        members: the number of its members.
        coordinator: the id of a node.
    """

    group: GroupId
    state: str
    generation: int
    protocol: str | None
    members: int
    coordinator: int


class OffsetRow(TypedDict):
    """A partition that a group reads or has read.

    Attributes:
        committed: the committed offset.
        end: the offset of the next record.
        lag: records behind the commit; without one, all of them.
    """

    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int


class GroupOffsets(TypedDict):
    """The partitions of a group."""

    offsets: list[OffsetRow]


class DeliveryShown(TypedDict):
    """The account of the records that a group was sent.

    Attributes:
        words: the account in one sentence.
        records: different records that were received.
        committed: those of them below a commit.
        uncommitted: those that are neither committed nor given back.
        sent: records in responses.
        unknown: records sent to readers that may be another group's.
        complete_from: by topic-partition: the offset from which on the account is
            complete.
        is_settled: `open` is empty.
    """

    words: str
    group: GroupId
    records: int
    committed: int
    uncommitted: int
    sent: int
    unknown: int
    again: list[Again]
    skipped: list[Skipped]
    went_back: list[WentBack]
    open: list[Open]
    complete_from: dict[str, int]
    again_certain: int
    again_possible: int
    skipped_records: int
    is_settled: bool


class GroupList(TypedDict):
    """Groups, and their total number.

    Attributes:
        total: total number of groups, in any state.
    """

    groups: list[GroupRow]
    total: int
