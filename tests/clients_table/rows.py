"""The rows of the table: each a script of steps, as data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tests.clients_table.evidence import MEMBERS

Step = tuple[str, dict[str, Any]]
"""A verb, and its arguments.

Verbs of the group: `kick`, `expire`, `mute`, `unmute`, `rebalance`, `hold`, `release`,
`move`, `limit`, as in `kohort.control.group.Group`. Of nodes: `stop`, `start`,
`restart`; `node` is ``coordinator`` or ``leader`` (of the topic's first partition), as
of the beginning of the play. `fault` adds a rule, `clear` removes all. `struck` waits
until the rules have struck `times`, `wait` until the group is in `state`, `pause` for
`seconds`.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One power or fault.

    Attributes:
        name: for the command line and the results.
        section: its table.
        text: in a few words of Markdown.
        steps: the script. When it has ended, the power or fault is over.
        nodes: of the cluster.
        watch_s: minimum watch time from the beginning of the script: a client may
            notice late.
        rereads: the response itself sends clients back behind their commits.
    """

    name: str
    section: str
    text: str
    steps: tuple[Step, ...]
    nodes: int = 1
    watch_s: float = 0.0
    rereads: bool = False

    @property
    def is_fault(self) -> bool:
        """True if it is a rule that has to strike."""
        return any(verb == "struck" for verb, _ in self.steps)

    @property
    def is_producer(self) -> bool:
        """True if it is about a producer, in place of a group."""
        return any(verb == "produce" for verb, _ in self.steps)


def _do(verb: str, **words: Any) -> Step:
    return verb, words


REBALANCE = _do("rebalance", reason="table")
CLEAR = _do("clear")
# Both members look for their coordinator, or request metadata.
FIND_AGAIN = tuple(
    _do("fault", api="Heartbeat", error="NOT_COORDINATOR", client_id=each, once=True)
    for each in MEMBERS
)
LOOK_AGAIN = tuple(
    _do("fault", api="Fetch", error="NOT_LEADER_OR_FOLLOWER", client_id=each, once=True)
    for each in MEMBERS
)
LASTING_S = 3.0
# Requests that occur only on some event, and how to cause it.
_PROMPTS = {
    "JoinGroup": (REBALANCE,),
    "SyncGroup": (REBALANCE,),
    # kafka-python does not fetch offsets again for partitions that it had before.
    "OffsetFetch": (_do("kick", member="one"),),
    "FindCoordinator": FIND_AGAIN,
    "Metadata": LOOK_AGAIN,
}


def _pause(seconds: float) -> Step:
    return _do("pause", seconds=seconds)


def _struck(times: int = 1) -> Step:
    return _do("struck", times=times)


VERBS = (
    Row("kick", "Verbs", "`kick` one member", (_do("kick", member="one"),)),
    Row("expire", "Verbs", "`expire` one member", (_do("expire", member="one"),)),
    Row(
        "mute",
        "Verbs",
        "`mute` one member for 9 s, longer than its session",
        (_do("mute", member="one"), _pause(9), _do("unmute", member="one")),
    ),
    Row("rebalance", "Verbs", "`rebalance`", (REBALANCE,)),
    Row(
        "hold-join",
        "Verbs",
        "`hold` in PreparingRebalance for 3 s, `release`",
        (_do("hold", state="PreparingRebalance"), REBALANCE, _pause(3), _do("release")),
    ),
    Row(
        "hold-sync",
        "Verbs",
        "`hold` in CompletingRebalance for 3 s, `release`",
        (
            _do("hold", state="CompletingRebalance"),
            REBALANCE,
            _pause(3),
            _do("release"),
        ),
    ),
    Row(
        "move",
        "Verbs",
        "`move` the coordinator, group Stable",
        (_do("move"),),
        nodes=3,
    ),
    Row(
        "move-join",
        "Verbs",
        "`move` in PreparingRebalance, members waiting",
        (
            _do("hold", state="PreparingRebalance"),
            REBALANCE,
            _pause(1),
            _do("move"),
            _do("release"),
        ),
        nodes=3,
    ),
    Row(
        "move-sync",
        "Verbs",
        "`move` in CompletingRebalance, members waiting",
        (
            _do("hold", state="CompletingRebalance"),
            REBALANCE,
            _pause(1),
            _do("move"),
            _do("release"),
        ),
        nodes=3,
    ),
    Row(
        "stop-coordinator",
        "Verbs",
        "`stop` the coordinator's node for 3 s, `start`",
        (_do("stop", node="coordinator"), _pause(3), _do("start", node="coordinator")),
        nodes=3,
    ),
    Row(
        "stop-leader",
        "Verbs",
        "`stop` the node that leads a partition for 3 s, `start`",
        (_do("stop", node="leader"), _pause(3), _do("start", node="leader")),
        nodes=3,
    ),
    Row(
        "restart",
        "Verbs",
        "`restart` the only node",
        (_do("restart", node="coordinator"),),
    ),
    Row(
        "stop-all",
        "Verbs",
        "`stop` the only node for 8 s, longer than the session, `start`",
        (_do("stop", node="coordinator"), _pause(8), _do("start", node="coordinator")),
    ),
    Row(
        "limit",
        "Verbs",
        "`limit` to 1 of 2 members for 5 s",
        (_do("limit", max_size=1), _pause(5), _do("limit", max_size=None)),
    ),
)


def _rule(
    name: str, section: str, text: str, api: str, *steps: Step, **effect: Any
) -> Row:
    watch_s = effect.pop("watch_s", 0.0)
    rule = _do("fault", api=api, **effect)
    prompts = _PROMPTS.get(api, ())
    return Row(name, section, text, (rule, *prompts, *steps, CLEAR), watch_s=watch_s)


def _lasting(api: str, *errors: str) -> list[Row]:
    """Errors that a client should retry, to all members for a while."""
    return [
        _rule(
            f"{api}-{error}",
            f"Error codes of {api}",
            f"{error} for 3 s",
            api,
            _struck(),
            _pause(LASTING_S),
            error=error,
        )
        for error in errors
    ]


def _once(api: str, *errors: str) -> list[Row]:
    """Errors about one member, to one request of it."""
    return [
        _rule(
            f"{api}-{error}",
            f"Error codes of {api}",
            f"{error} once, to one member",
            api,
            _struck(),
            error=error,
            client_id="one",
            once=True,
        )
        for error in errors
    ]


LOADING = "COORDINATOR_LOAD_IN_PROGRESS"
GONE = "COORDINATOR_NOT_AVAILABLE"
ELSEWHERE = "NOT_COORDINATOR"
UNKNOWN = "UNKNOWN_MEMBER_ID"
GENERATION = "ILLEGAL_GENERATION"
REBALANCING = "REBALANCE_IN_PROGRESS"
FENCED = "FENCED_INSTANCE_ID"
GROUP_SECRET = "GROUP_AUTHORIZATION_FAILED"  # an error's name, no password
TOPIC_SECRET = "TOPIC_AUTHORIZATION_FAILED"
ODD = "UNKNOWN_SERVER_ERROR"

ERRORS = (
    *_lasting("JoinGroup", LOADING, GONE, ELSEWHERE),
    *_once(
        "JoinGroup",
        *(UNKNOWN, REBALANCING, "GROUP_MAX_SIZE_REACHED", FENCED),
        *("INCONSISTENT_GROUP_PROTOCOL", "INVALID_SESSION_TIMEOUT", GROUP_SECRET, ODD),
    ),
    *_lasting("SyncGroup", LOADING, GONE, ELSEWHERE),
    *_once("SyncGroup", UNKNOWN, GENERATION, REBALANCING, FENCED, GROUP_SECRET, ODD),
    *_lasting("Heartbeat", LOADING, GONE, ELSEWHERE),
    *_once("Heartbeat", UNKNOWN, GENERATION, REBALANCING, FENCED, GROUP_SECRET, ODD),
    *_lasting("OffsetCommit", LOADING, GONE, ELSEWHERE, "REQUEST_TIMED_OUT"),
    *_once(
        "OffsetCommit",
        *(UNKNOWN, GENERATION, REBALANCING, FENCED, "UNKNOWN_TOPIC_OR_PARTITION"),
        *("OFFSET_METADATA_TOO_LARGE", GROUP_SECRET, TOPIC_SECRET, ODD),
    ),
    *_lasting("OffsetFetch", LOADING, GONE, ELSEWHERE, "UNSTABLE_OFFSET_COMMIT"),
    _rule(
        "OffsetFetch-NOT_COORDINATOR-once",
        "Error codes of OffsetFetch",
        "NOT_COORDINATOR once, to one member",
        "OffsetFetch",
        _struck(),
        error=ELSEWHERE,
        client_id="one",
        once=True,
    ),
    *_once("OffsetFetch", GROUP_SECRET, ODD),
    *_lasting("FindCoordinator", LOADING, GONE),
    *_once("FindCoordinator", GROUP_SECRET, ODD),
    *_lasting("Metadata", "LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION"),
    *_once("Metadata", TOPIC_SECRET, ODD),
    *_lasting(
        "Fetch",
        *("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION"),
        *("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "KAFKA_STORAGE_ERROR"),
    ),
    *_once(
        "Fetch",
        *("OFFSET_OUT_OF_RANGE", "FETCH_SESSION_ID_NOT_FOUND", "CORRUPT_MESSAGE"),
        *(TOPIC_SECRET, ODD),
    ),
)

GROUP_APIS = ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch")


def _each(
    effect: str,
    section: str,
    text: str,
    apis: tuple[str, ...],
    *steps: Step,
    **words: Any,
) -> list[Row]:
    return [
        _rule(
            f"{effect}-{api}", section, text.format(api=api), api, *steps, **dict(words)
        )
        for api in apis
    ]


ONE = {"client_id": "one", "once": True}

WIRE = (
    *_each(
        "delay",
        "Late answers",
        "{api} answered 3 s late, to all for 4 s",
        (*GROUP_APIS, "Fetch", "FindCoordinator", "Metadata"),
        _struck(),
        _pause(4),
        delay_ms=3000,
        watch_s=8.0,
    ),
    *_each(
        "throttle",
        "Late answers",
        "throttle time of 2 s in {api}, once to one member",
        ("Heartbeat", "JoinGroup", "OffsetCommit", "Fetch"),
        _struck(),
        throttle_ms=2000,
        watch_s=4.0,
        **ONE,
    ),
    *_each(
        "disconnect-before",
        "Connections closed",
        "before {api} takes effect, once to one member",
        (*GROUP_APIS, "Fetch", "FindCoordinator"),
        _struck(),
        disconnect="before",
        **ONE,
    ),
    *_each(
        "disconnect-after",
        "Connections closed",
        "after {api} took effect, once to one member",
        (*GROUP_APIS, "Fetch"),
        _struck(),
        disconnect="after",
        **ONE,
    ),
    *_each(
        "swallow",
        "No answer",
        "{api} is never answered, nor those behind it, once, of one member",
        (*GROUP_APIS, "Fetch", "FindCoordinator", "Metadata"),
        _struck(),
        swallow=True,
        watch_s=12.0,
        **ONE,
    ),
    *_each(
        "duplicate",
        "Wrong answers",
        "{api} takes effect twice, once, of one member",
        ("Heartbeat", "OffsetCommit", "JoinGroup", "Fetch"),
        _struck(),
        duplicate=True,
        watch_s=4.0,
        **ONE,
    ),
    *(
        # The first response under the rule is the one that is repeated.
        _rule(
            f"stale-{api}",
            "Wrong answers",
            f"{api} has an earlier answer and no effect, to all for 3 s",
            api,
            _pause(2),
            *_PROMPTS.get(api, ()),
            _struck(),
            _pause(3),
            stale=True,
            watch_s=4.0,
        )
        for api in ("Heartbeat", "OffsetFetch", "JoinGroup", "SyncGroup", "Metadata")
    ),
    *_each(
        "corrupt",
        "Wrong answers",
        "three bytes of {api}'s answer are wrong, once to one member",
        ("Heartbeat", "OffsetCommit", "JoinGroup", "SyncGroup", "Fetch", "Metadata"),
        _struck(),
        corrupt=True,
        watch_s=8.0,
        **ONE,
    ),
    *_each(
        "truncate",
        "Wrong answers",
        "half of {api}'s answer, then closed, once to one member",
        ("Heartbeat", "JoinGroup", "Fetch"),
        _struck(),
        truncate=True,
        watch_s=12.0,
        **ONE,
    ),
    *_each(
        "trickle",
        "Slow and lost bytes",
        "{api}'s answer byte by byte, 5 ms apart, to all for 3 s",
        ("JoinGroup", "Fetch"),
        _struck(),
        _pause(3),
        trickle_ms=5,
        watch_s=4.0,
    ),
    Row(
        "jitter",
        "Slow and lost bytes",
        "jitter of up to 50 ms on all connections, in a rebalance and for 3 s",
        (_do("fault", jitter_ms=50), REBALANCE, _pause(3), CLEAR),
    ),
    Row(
        "hole-client",
        "Slow and lost bytes",
        "black hole for one client for 3 s",
        (_do("fault", client_id="one", black_hole=True), _pause(3), CLEAR),
        watch_s=12.0,
    ),
    Row(
        "hole-client-long",
        "Slow and lost bytes",
        "black hole for one client for 10 s, longer than its session",
        (_do("fault", client_id="one", black_hole=True), _pause(10), CLEAR),
        watch_s=16.0,
    ),
    Row(
        "hole-node",
        "Slow and lost bytes",
        "black hole for the coordinator's node for 3 s, of three",
        (_do("fault", node="coordinator", black_hole=True), _pause(3), CLEAR),
        nodes=3,
        watch_s=12.0,
    ),
    Row(
        "hole-node-long",
        "Slow and lost bytes",
        "black hole for the coordinator's node for 10 s, of three",
        (_do("fault", node="coordinator", black_hole=True), _pause(10), CLEAR),
        nodes=3,
        watch_s=16.0,
    ),
)

PRODUCERS = "Producers, 400 records"


def _produce(text: str, *steps: Step, api: str = "Produce", **effect: Any) -> Row:
    (kind, value), *_ = effect.items()
    name = f"{api}-{kind if kind != 'error' else value}"
    if kind == "disconnect":
        name = f"{api}-disconnect-{value}"
    rule = _do("fault", api=api, **effect)
    return Row(name, PRODUCERS, text, (rule, _do("produce"), _struck(), *steps, CLEAR))


PRODUCING = (
    *(
        _produce(f"{error} for 3 s", _pause(LASTING_S), error=error)
        for error in (
            "NOT_LEADER_OR_FOLLOWER",
            "UNKNOWN_TOPIC_OR_PARTITION",
            "NOT_ENOUGH_REPLICAS",
            "REQUEST_TIMED_OUT",
            "KAFKA_STORAGE_ERROR",
        )
    ),
    *(
        _produce(f"{error} once", error=error, once=True)
        for error in (
            *("OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"),
            *("INVALID_PRODUCER_EPOCH", "MESSAGE_TOO_LARGE", "CORRUPT_MESSAGE"),
            *("INVALID_RECORD", TOPIC_SECRET, ODD),
        )
    ),
    _produce(
        "InitProducerId: COORDINATOR_LOAD_IN_PROGRESS for 3 s",
        _pause(LASTING_S),
        api="InitProducerId",
        error=LOADING,
    ),
    _produce("Produce answered 3 s late", delay_ms=3000, times=2),
    replace(
        _produce("8 s late, request timeout 5 s", delay_ms=8000, times=2),
        name="Produce-delay-long",
    ),
    _produce("throttle time of 2 s", throttle_ms=2000, once=True),
    _produce("connection closed before Produce", disconnect="before", once=True),
    _produce("connection closed after Produce", disconnect="after", once=True),
    _produce("Produce and those behind it never answered", swallow=True, once=True),
    _produce("half of the answer, then closed", truncate=True, once=True),
    Row(
        "Produce-stop-leader",
        PRODUCERS,
        "`stop` the node that leads a partition, answers on their way",
        (
            _do("fault", api="Produce", delay_ms=1000),
            _do("produce"),
            _struck(),
            _do("stop", node="leader"),
            CLEAR,
            _pause(3),
            _do("start", node="leader"),
        ),
        nodes=3,
    ),
)

REREADS = {"Fetch-OFFSET_OUT_OF_RANGE", "stale-OffsetFetch"}
ROWS: tuple[Row, ...] = tuple(
    replace(row, rereads=row.name in REREADS)
    for row in (*VERBS, *ERRORS, *WIRE, *PRODUCING)
)
BY_NAME = {row.name: row for row in ROWS}
