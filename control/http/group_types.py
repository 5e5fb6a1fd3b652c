"""The JSON of groups: bodies of requests and responses."""

from __future__ import annotations

from typing import Annotated, Final, TypedDict

from msgspec import UNSET, Meta, UnsetType

from kohort.broker.coordinator.state import GroupState
from kohort.broker.events.delivery.values import Again, Open, Skipped, WentBack
from kohort.control.conditions import PATIENCE_S
from kohort.control.http.operations import Fields, Text

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
    """Which groups are listed."""

    state: Annotated[
        GroupState | UnsetType, Meta(description="Only groups in this state.")
    ] = UNSET
    limit: Annotated[
        int, Meta(ge=1, le=MOST_GROUPS, description="Largest number of groups to list.")
    ] = MOST_GROUPS


class UntilQuery(Fields):
    """The conditions that are awaited, all at the same time."""

    state: Annotated[
        GroupState | UnsetType, Meta(description="The group is in this state.")
    ] = UNSET
    members: Annotated[
        Count | UnsetType, Meta(description="It has this many members.")
    ] = UNSET
    generation: Annotated[
        Count | UnsetType, Meta(description="It is in this generation or a later one.")
    ] = UNSET
    rebalances: Annotated[
        Count | UnsetType,
        Meta(
            description="It has had this many rebalances since the broker started, and "
            "the last one is over."
        ),
    ] = UNSET
    assigned: Annotated[
        bool,
        Meta(description="It is Stable, and each member, or `member`, has partitions."),
    ] = False
    member: Annotated[
        Text | UnsetType,
        Meta(
            description="With `assigned`: the member id, group.instance.id or client.id"
            " of a member."
        ),
    ] = UNSET
    partitions: Annotated[
        Count | UnsetType,
        Meta(
            description="With `assigned`: the number of partitions, of `member` or of "
            "all members together."
        ),
    ] = UNSET
    topic: Annotated[
        Text | UnsetType, Meta(description="With `partition` and `offset`.")
    ] = UNSET
    partition: Annotated[
        Count | UnsetType, Meta(description="With `topic` and `offset`.")
    ] = UNSET
    offset: Annotated[
        Count | UnsetType,
        Meta(
            description="This offset, or a later one, is committed for `partition` of "
            "`topic`."
        ),
    ] = UNSET
    lag: Annotated[
        Count | UnsetType,
        Meta(description="At most this many records are behind the committed offsets."),
    ] = UNSET
    timeout: Annotated[
        float,
        Meta(
            ge=0,
            le=MOST_WAIT_S,
            description="Seconds of real time until the answer is 504.",
        ),
    ] = PATIENCE_S


class DeliveryQuery(Fields):
    """How long the account of delivery may take."""

    peek: Annotated[
        bool,
        Meta(
            description="Answers at once; `open` has the partitions that moved and were"
            " not fetched since."
        ),
    ] = False
    timeout: Annotated[
        float,
        Meta(
            ge=0,
            le=MOST_WAIT_S,
            description="Seconds of real time until the answer is 504.",
        ),
    ] = PATIENCE_S


# -- answers


class GroupRow(TypedDict):
    """A group in a list."""

    group: GroupId
    state: str
    generation: int
    protocol: str | None
    members: Annotated[int, Meta(description="The number of its members.")]
    coordinator: Annotated[int, Meta(description="The id of a node.")]


class OffsetRow(TypedDict):
    """A partition that a group reads or has read."""

    topic: str
    partition: int
    committed: Annotated[int | None, Meta(description="The committed offset.")]
    end: Annotated[int, Meta(description="The offset of the next record.")]
    lag: Annotated[
        int, Meta(description="Records behind the commit; without one, all of them.")
    ]


class GroupOffsets(TypedDict):
    """The partitions of a group."""

    offsets: list[OffsetRow]


class DeliveryShown(TypedDict):
    """What became of the records that a group was sent."""

    words: Annotated[str, Meta(description="The account in one sentence.")]
    group: GroupId
    records: Annotated[int, Meta(description="Different records that were received.")]
    committed: Annotated[int, Meta(description="Those of them below a commit.")]
    uncommitted: Annotated[
        int, Meta(description="Those that are neither committed nor given back.")
    ]
    sent: Annotated[int, Meta(description="Records in responses.")]
    unknown: Annotated[
        int, Meta(description="Records sent to readers that may be another group's.")
    ]
    again: list[Again]
    skipped: list[Skipped]
    went_back: list[WentBack]
    open: list[Open]
    complete_from: Annotated[
        dict[str, int],
        Meta(
            description="By topic-partition: the offset from which on the account is"
            " complete."
        ),
    ]
    again_certain: int
    again_possible: int
    skipped_records: int
    is_settled: Annotated[bool, Meta(description="`open` is empty.")]


class GroupList(TypedDict):
    """Groups, and their total number."""

    groups: list[GroupRow]
    total: Annotated[int, Meta(description="Total number of groups, in any state.")]
