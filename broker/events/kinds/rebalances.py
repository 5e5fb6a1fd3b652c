"""Events about rebalances, as they happen."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.broker.events import words
from kohort.broker.events.fields import PREVIOUS_STATE, STATE, Field, Kind, always

CULPRITS = always(
    "culprits",
    "[string]",
    "ids of all members that caused it; `member_id` is the first",
)
MEMBERS = always("members", "[string]", "members of the generation, in Kafka's order")
GAINED = always("gained", "[string]", "members that were not in the last generation")
LOST = always("lost", "[string]", "members of the last generation that are not in it")
BYTES = Field("bytes", "long", "size of all assignments; null: there are none")
METADATA_BYTES = Field(
    "metadata_bytes", "long", "size of all subscriptions; null: there is no assignment"
)
WAITS = always("waits", "[wait]", "members that the group waited for")

ROWS: Mapping[str, tuple[Field, ...]] = {
    "wait": (
        always("member_id", "string", "the member that the group waited for"),
        always(
            "waited_ns",
            "long",
            "from the start of the rebalance to its join; if it did not join, until"
            " it was gone, or to the end of the join phase",
        ),
        always("came", "boolean", "whether it joined"),
        Field(
            "told_ns",
            "long",
            "from the start of the rebalance to the member's first heartbeat, whose"
            " answer told it of the rebalance; null: it sent none before it joined",
        ),
    ),
    "part": (
        always("topic", "string", "a topic"),
        always("partitions", "[int]", "its partitions, in order"),
    ),
}

KINDS: tuple[Kind, ...] = (
    Kind(
        "group_state",
        "The state of a group changed.",
        (STATE, PREVIOUS_STATE),
    ),
    Kind(
        "group_converted",
        "A group changed its protocol; its offsets stay. `member_id` is the member that"
        " caused it; null: it has no id yet.",
        (always("group_type", "string", "its protocol from now on"),),
        words.CONVERSIONS,
    ),
    Kind(
        "rebalance_started",
        "A group waits for its members to rejoin; or the epoch of a consumer group is"
        " bumped (KIP-848), and no member has to join.",
        (
            Field(
                "group_type",
                "string",
                "classic, or consumer (KIP-848); null: classic, from an older kohort",
            ),
            PREVIOUS_STATE,
            always(
                "members", "[string]", "members that have to join, in Kafka's order"
            ),
            CULPRITS,
        ),
        words.REBALANCE_CAUSES,
    ),
    Kind(
        "window_opened",
        "A new group waits for more members (KIP-134).",
        (
            always("delay_ms", "long", "length of the window"),
            always(
                "remaining_ms", "long", "time by which further windows may extend it"
            ),
        ),
        {
            "first": "the first member joined",
            "extended": "members joined in the last one",
        },
    ),
    Kind(
        "join_completed",
        "The join phase has ended: the members that joined are the next generation. Or"
        " a consumer group is about to get a target assignment (KIP-848).",
        (
            MEMBERS,
            GAINED,
            LOST,
            WAITS,
            always("duration_ns", "long", "time since the rebalance started"),
            Field(
                "protocol", "string", "the assignor's name; null: the group is Empty"
            ),
            Field(
                "leader",
                "string",
                "the leader; null: the group is Empty, or a consumer group",
            ),
        ),
        {
            "all_joined": "all members have joined",
            "rebalance_timeout": "the longest rebalance timeout of a member was over",
            "initial_delay": "the initial delay was over (KIP-134)",
            "nobody_left": "all members are gone",
            "target_due": "a heartbeat came when the target assignment was older than"
            " the group (KIP-848)",
        },
    ),
    Kind(
        "assignment_made",
        "The leader has sent the assignment: the group is Stable. Or the coordinator"
        " has computed the target assignment of a consumer group (KIP-848).",
        (
            always("protocol", "string", "the assignor's name"),
            Field(
                "leader", "string", "the leader that sent it; null: the coordinator did"
            ),
            BYTES,
            METADATA_BYTES,
            always("duration_ns", "long", "time since the end of the join phase"),
        ),
    ),
    Kind(
        "member_synced",
        "A member got its assignment; in a consumer group, all of it (KIP-848).",
        (
            always(
                "waited_ns",
                "long",
                "time since the response to its JoinGroup, or since the target"
                " assignment was computed",
            ),
        ),
    ),
    Kind(
        "member_reconciled",
        "A member of a consumer group took a step to its target assignment (KIP-848).",
        (
            always(
                "member_epoch", "int", "its epoch now; -2: it left and will be back"
            ),
            always("target_epoch", "int", "the epoch of the target assignment"),
            always("revoking", "[part]", "partitions that it has to give up"),
            always(
                "awaited", "[part]", "partitions of its target that it does not have"
            ),
            always("holders", "[string]", "members that hold them"),
        ),
        {
            "stable": "it has its partitions of the target, or follows an older one",
            "unrevoked_partitions": "it has to give up partitions first",
            "unreleased_partitions": "other members hold partitions of its target",
        },
    ),
    Kind(
        "partitions_changed",
        "A member's assignment has changed. If its partitions are the same and only"
        " other bytes differ, `partitions_gained` and `partitions_lost` are empty.",
        (
            always("owned", "[part]", "its partitions now"),
            always("partitions_gained", "[part]", "new partitions"),
            always("partitions_lost", "[part]", "partitions it no longer has"),
        ),
        {
            "assigned": "the leader's assignment, or a step of reconciliation",
            "gone": "it is no longer a member",
            "replaced": "a static member came back: they moved to its new id",
            "loaded": "the coordinator read it from its log; nothing is gained or lost",
        },
    ),
)
