"""Events about coordinators, faults, nodes, and the stream of events."""

from __future__ import annotations

from kohort.broker.events import words
from kohort.broker.events.fields import ERROR, STATE, Field, Kind, always

KINDS: tuple[Kind, ...] = (
    # -- coordinators and nodes
    Kind(
        "group_loaded",
        "A coordinator read a group from its log.",
        (
            STATE,
            always("members", "[string]", "members, in Kafka's order"),
            Field("protocol", "string", "the assignor's name"),
            Field("leader", "string", "the leader"),
        ),
    ),
    Kind(
        "shard_loaded",
        "A node coordinates the groups of a partition of __consumer_offsets.",
        (
            always("partition", "int", "partition of __consumer_offsets"),
            always("groups", "int", "number of groups in it"),
            always("duration_ns", "long", "time it took to load"),
        ),
    ),
    Kind(
        "shard_unloaded",
        "A node no longer coordinates the groups of a partition.",
        (always("partition", "int", "partition of __consumer_offsets"),),
        {
            "moved": "another node coordinates them",
            "stopped": "the node was stopped",
            "failed": "its log failed",
            "deleted": "__consumer_offsets was deleted",
        },
    ),
    Kind(
        "fault_struck",
        "A rule of the fault plan, or a function of a test, struck a request. Black"
        " holes and jitter strike connections, and are published once for each."
        " `client_id`, `host` and `connection` are the request's.",
        (
            always("fault_id", "int", "the number of the rule or the function, from 1"),
            always(
                "fault",
                "string",
                "the rule's name, or `fault` and its id; `on(...)` of a function",
            ),
            Field("api", "string", "the request's API; null: the whole connection"),
            Field("error", ERROR.type, ERROR.says),
        ),
        words.FAULT_EFFECTS,
    ),
    Kind(
        "clock_advanced",
        "A test moves the broker's [clock](clock.md) ahead; events of its effects"
        " follow. Clients have no time to send anything meanwhile.",
        (
            always("until_ns", "long", "the broker's time at the end of the advance"),
            always(
                "credits_heartbeats",
                "boolean",
                "whether members with an open connection count as heard from up to the"
                " end; false: their sessions expire",
            ),
        ),
    ),
    Kind("node_started", "A node accepts connections."),
    Kind("node_stopped", "A node no longer accepts connections."),
    # -- the stream
    Kind(
        "events_lost",
        "This reader was too slow: events are missing here, but not for other readers."
        " It has the number and the times of the last missing event.",
        (
            always("first", "long", "`sequence` of the first missing event"),
            always("last", "long", "`sequence` of the last missing event"),
        ),
    ),
)
