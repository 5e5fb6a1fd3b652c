"""Events about members, commands and leaders."""

from __future__ import annotations

from kohort.broker.events import words
from kohort.broker.events.fields import ERROR, SILENT, Field, Kind, always

_WAS_PENDING = always(
    "was_pending",
    "boolean",
    "it was a pending member: it had an id and had not joined yet",
)
_OFFER = (
    always("session_timeout_ms", "long", "its session.timeout.ms"),
    always(
        "rebalance_timeout_ms",
        "long",
        "its rebalance timeout: the time it has to rejoin",
    ),
    always("protocols", "[string]", "its assignors, the preferred one first"),
    Field("topics", "[string]", "its subscription; null: not a consumer"),
    Field(
        "group_type",
        "string",
        "the protocol by which it joined: classic, or consumer (KIP-848); null:"
        " classic, from an older kohort",
    ),
)

KINDS: tuple[Kind, ...] = (
    Kind("member_id_given", "A client got a member id to join with (KIP-394)."),
    Kind("pending_member_expired", "A pending member did not join in time."),
    Kind(
        "member_joined",
        "A JoinGroup was accepted; or a heartbeat of epoch 0, or with another"
        " subscription (KIP-848).",
        (always("is_first", "boolean", "false: it was a member already"), *_OFFER),
        {
            "new": "the member is new",
            "rejoin": "the group is rebalancing, and the member takes part",
            "metadata_changed": "its protocols or subscriptions have changed",
            "leader": "it is the leader and requests a rebalance",
            "repeated": "nothing changed: it gets the same response as before",
        },
    ),
    Kind(
        "member_refused",
        "A JoinGroup was refused, or a heartbeat of a consumer group (KIP-848).",
        (ERROR,),
        {
            "full": "group.max.size, or group.consumer.max.size, is reached (KIP-389)",
            "fenced": "another process has its instance id (KIP-345)",
            "inconsistent": "its protocols do not fit the group's",
            "unknown": "its member id is unknown",
            "unsupported": "it is for a share group (KIP-932) or a streams group"
            " (KIP-1071), which kohort does not have, or for a consumer group (KIP-848)"
            " where they are disabled",
            "too_large": "the log refuses the records that the group needs for it; see"
            " `append_failed`",
            "invalid": "the request is invalid: the error says why",
        },
    ),
    Kind(
        "member_left",
        "A member or pending member was removed by LeaveGroup, or by its own heartbeat"
        " of epoch -1 (KIP-848).",
        (
            _WAS_PENDING,
            Field(
                "software",
                "string",
                "name of its client's library (KIP-511); null: unknown",
            ),
        ),
        {
            "left": "it left on its own; `reason` is null if it gave none",
            "removed": "an admin removed it",
        },
    ),
    Kind(
        "member_expired",
        "A member's session ended.",
        (
            SILENT,
            Field(
                "is_connected",
                "boolean",
                "whether the connection of its last JoinGroup was still open; after a"
                " move of the coordinator, whether one of its client was. Null:"
                " unknown, as where another member has joined on that connection",
            ),
            Field(
                "is_active",
                "boolean",
                "whether a request of its client, such as a Fetch, waited for an answer"
                " on a connection: the process went on. Null: unknown, as for several"
                " clients that look the same",
            ),
        ),
        {
            "silent": "it sent no heartbeat for its session timeout",
            "commanded": "a command ended it, or a command had muted the member",
        },
    ),
    Kind(
        "member_kicked",
        "The broker removed a member or a pending member.",
        (_WAS_PENDING, SILENT),
        {
            "full": "it rejoined late, when the group was already full (KIP-389)",
            "did_not_join_in_time": "it missed the join phase",
            "did_not_sync_in_time": "it did not send SyncGroup in time",
            "did_not_revoke_in_time": "it did not give up its partitions within its"
            " rebalance timeout (KIP-848)",
            "group_over_max_size": "the group was too large (KIP-389)",
            "commanded": "a command (`commanded`)",
        },
    ),
    Kind(
        "member_replaced",
        "A static member came back under a new id; the old one is fenced (KIP-345).",
        (always("replaced_member_id", "string", "its old id"), SILENT, *_OFFER),
    ),
    Kind(
        "member_fenced",
        "A heartbeat was refused because another process has the member's instance id"
        " (KIP-345), or because its epoch is not the member's (KIP-848). `member_id` is"
        " that of the heartbeat.",
        (ERROR,),
    ),
    Kind(
        "member_disconnected",
        "The connection of a member is closed, and the member has not left its group.",
        (),
        {
            "closed": "the connection was closed just now; the member may have another",
            "away": "the broker stops, and no request of the member has come since",
        },
    ),
    Kind(
        "commanded",
        "A test or an operator uses power over a group; events of its effects follow.",
        (
            Field(
                "held_in",
                "string",
                "`hold`, `release`: the state that the group is held in",
            ),
            Field(
                "max_size",
                "int",
                "`limit`: number of members; null: group.max.size applies again",
            ),
        ),
        words.COMMANDS,
    ),
    Kind(
        "leader_chosen",
        "A group has another leader.",
        (Field("previous_leader", "string", "the previous leader"),),
        words.LEADER_CAUSES,
    ),
    Kind(
        "heartbeat",
        "A heartbeat. Published only if the broker was started with heartbeat events.",
        (ERROR,),
    ),
)
