"""Rebalances of known cause on real clients: their events and sentences.

A row brings a group to rest, does one thing to it, and waits until it is at rest
again. The script knows the culprit, whose member id is looked up by its client id or
instance id with DescribeGroups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest
from tests.events.causes import scripts
from tests.events.causes.clients import (
    AiokafkaClient,
    KohortClient,
    LibrdkafkaClient,
    kafka_python,
    slow_leader,
)
from tests.events.causes.processes import ProcessClient
from tests.events.causes.scene import GROUP, MakeClient, Scene, playing
from tests.workers import libraries

from kohort.client.administering.values import MemberDescription
from kohort.control.why import Account, history

MILLISECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Told:
    """The expected account of one rebalance.

    Attributes:
        cause: as in the schema.
        culprits: the client ids, or instance ids, of the members that caused it.
        words: the start of its sentence.
        ended_by: the end of the join phase.
        outcome: its outcome.
    """

    cause: str
    culprits: tuple[str, ...]
    words: str
    ended_by: str | None = "all_joined"
    outcome: str = "completed"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table.

    Attributes:
        library: the culprit's client library.
        script: its act.
        told: the expected rebalances, all of them.
        config: the broker's.
        nodes: the number of nodes.
        is_kept: True if its groups survive a restart.
    """

    library: str
    script: Callable[[Scene, MakeClient], scripts.Script]
    told: Sequence[Told] = ()
    config: Mapping[str, object] = field(default_factory=dict)
    nodes: int = 1
    is_kept: bool = False


LIBRARIES: Mapping[str, MakeClient] = {
    "kohort": KohortClient,
    "aiokafka": AiokafkaClient,
    "librdkafka": LibrdkafkaClient,
    "kafka-python": kafka_python,
    "kafka-python, held": slow_leader,
    "librdkafka, killed": partial(ProcessClient, libraries.CONFLUENT),
    "kafka-clients": partial(ProcessClient, libraries.JAVA),
    "franz-go": partial(ProcessClient, libraries.FRANZ_GO),
}

FULL = {"group.max.size": 1}
DELAY = {"group.initial.rebalance.delay.ms": 1_000}

# Expected accounts.
FIRST = Told("member_joined", ("ben",), "ben was the first to join", "initial_delay")
JOINED = Told("member_joined", ("ben",), "ben joined")
STATIC = Told("member_joined", ("i-ben",), "i-ben joined")
CLEO = Told("member_joined", ("cleo",), "cleo joined")
LEFT = Told("member_left", ("ben",), "ben left, no reason given")
LAST = Told(
    "member_left", ("ben",), "ben left, no reason given", "nobody_left", "emptied"
)
AWAY = Told("session_expired", ("i-ben",), "i-ben's session expired")
DEAD = Told("session_expired", ("ben",), "ben's session expired")
REMOVED = Told("member_left", ("i-ben",), "an admin removed i-ben")
CHANGED = Told(
    "metadata_changed",
    ("ben",),
    "ben rejoined with different protocols or subscriptions",
)
LED = Told("leader_rejoined", ("ben",), "the leader, ben, rejoined")
GAVE_UP = "ben rejoined after revoking partitions, so that they can be assigned"
LED_AGAIN = Told("leader_rejoined", ("ben",), GAVE_UP)
CAME_AGAIN = Told("metadata_changed", ("ben",), GAVE_UP)
REPLACED = Told(
    "static_member_replaced",
    ("i-ben",),
    "the static member i-ben rejoined with a new member id, and the group needed a new "
    "assignment",
)


def _left(reason: str) -> Told:
    return Told("member_left", ("ben",), f'ben left (reason: "{reason}')


CLOSED = "the consumer is being closed"

TABLE = [
    # -- a member joins
    Row("kohort", scripts.comes_first, [FIRST]),
    Row("kohort", scripts.comes_second, [JOINED]),
    Row("kafka-python", scripts.comes_second, [JOINED]),
    Row("kohort", scripts.comes_static, [STATIC]),
    Row("librdkafka", scripts.comes_static, [STATIC]),
    Row(
        "kohort",
        scripts.come_together,
        [FIRST],
        DELAY,
    ),
    Row("kohort", scripts.comes_before_another, [JOINED]),
    # -- a member leaves
    Row("kohort", scripts.closes, [_left(CLOSED)]),
    Row("librdkafka", scripts.closes, [LEFT]),
    Row("librdkafka", scripts.closes_last, [LAST]),
    Row("kohort", scripts.unsubscribes, [_left("the consumer has unsubscribed")]),
    Row("librdkafka", scripts.unsubscribes, [LEFT]),
    Row(
        "kohort",
        scripts.does_not_poll,
        [_left("no poll within max.poll.interval.ms (1500 ms)")],
    ),
    Row("librdkafka", scripts.does_not_poll, [LEFT]),
    # -- a member is silent
    Row("kohort", scripts.dies, [DEAD]),
    Row("librdkafka", scripts.stays_away, [AWAY]),
    Row("librdkafka, killed", scripts.dies, [DEAD]),
    # -- an admin removes a member
    Row("librdkafka", scripts.is_removed, [REMOVED]),
    Row(
        "aiokafka",
        scripts.are_removed,
        [Told("member_left", ("i-ben", "i-cleo"), "an admin removed i-ben and i-cleo")],
    ),
    Row(
        "kohort",
        scripts.is_removed_by_id,
        [Told("member_left", ("ben",), "an admin removed ben")],
    ),
    # -- a member rejoins
    Row("kohort", scripts.subscribes_anew, [CHANGED]),
    Row("librdkafka", scripts.subscribes_anew, [CHANGED]),
    Row("kohort", scripts.finds_a_topic, [CHANGED]),
    Row("librdkafka", scripts.finds_a_topic, [CHANGED]),
    Row("kohort", scripts.finds_partitions, [LED]),
    Row("librdkafka", scripts.finds_partitions, [LED]),
    Row("kohort", scripts.leader_wants_one, [LED]),
    Row(
        "kohort",
        scripts.follower_wants_one,
        [
            replace(
                CHANGED,
                words="ben rejoined with the same protocols and topics as before",
            )
        ],
    ),
    Row("kohort", scripts.gives_up_leading, [CLEO, LED_AGAIN]),
    Row("librdkafka", scripts.gives_up_leading, [CLEO, LED_AGAIN]),
    Row("kohort", scripts.gives_up_following, [CLEO, CAME_AGAIN]),
    Row("kafka-python", scripts.gives_up_following, [CLEO, CAME_AGAIN]),
    # -- a static member comes back
    Row("kohort", scripts.restarts),
    Row("librdkafka", scripts.restarts),
    Row("kohort", scripts.restarts_changed, [REPLACED]),
    Row("librdkafka", scripts.restarts_changed, [REPLACED]),
    Row("kohort", scripts.restarts_between, [REPLACED]),
    Row("librdkafka", scripts.is_twice),
    # -- time is up
    Row(
        "librdkafka",
        scripts.is_not_waited_for,
        [replace(JOINED, ended_by="rebalance_timeout")],
    ),
    Row(
        "kafka-python, held",
        scripts.divides_too_late,
        [
            Told("member_joined", ("ana",), "ana joined", outcome="interrupted"),
            Told("sync_timeout", ("ben",), "ben did not send SyncGroup in time"),
        ],
    ),
    # -- coordinators
    Row("librdkafka", scripts.is_moved, nodes=2),
    Row("aiokafka", scripts.closes_after_a_move, [LEFT], nodes=2),
    Row(
        "kohort",
        scripts.is_moved_between,
        [replace(JOINED, ended_by=None, outcome="moved"), JOINED],
        nodes=2,
    ),
    Row(
        "kohort",
        scripts.is_too_large,
        [
            Told(
                "group_over_max_size",
                (),
                "the group was loaded with more members than group.max.size",
                "rebalance_timeout",
            )
        ],
        is_kept=True,
    ),
    # -- a member is refused: nothing happens to the others
    Row("kohort", scripts.is_refused, config=FULL),
    Row("librdkafka", scripts.does_not_fit),
]

# Rows that need another toolchain than Python.
OTHER_LANGUAGES = [
    Row("kafka-clients", scripts.comes_second, [JOINED]),
    Row("kafka-clients", scripts.comes_static, [STATIC]),
    Row("kafka-clients", scripts.closes, [_left(CLOSED)]),
    Row("kafka-clients", scripts.dies, [DEAD]),
    Row("kafka-clients", scripts.gives_up_leading, [CLEO, LED_AGAIN]),
    Row("kafka-clients", scripts.restarts),
    Row("franz-go", scripts.closes, [_left("client leaving group per normal")]),
    Row("franz-go", scripts.gives_up_leading, [CLEO, LED_AGAIN]),
]
ROWS = [
    *TABLE,
    *(pytest.param(row, marks=pytest.mark.interop) for row in OTHER_LANGUAGES),
]


def _id(row: Row) -> str:
    return f"{row.script.__name__}, {row.library}"


@pytest.mark.parametrize("row", ROWS, ids=_id)
async def test_what_is_said(row: Row, tmp_path: Path) -> None:
    """The causes and the culprits are those of the script."""
    async with playing(tmp_path, row.config, row.nodes, row.is_kept) as scene:
        script = row.script(scene, LIBRARIES[row.library])
        await anext(script)
        await scene.begin()
        await anext(script, None)
        await scene.until_at_rest(len(row.told))
        check(row, scene, await scene.members())


def check(row: Row, scene: Scene, after: Sequence[MemberDescription]) -> None:
    """The events since the act are exactly those of the row."""
    started = scene.started()
    causes = [(event["cause"], event["culprits"]) for event in started]
    wanted = [(told.cause, _ids(told, scene, after)) for told in row.told]
    assert causes == wanted, scene.story()
    found = history(scene.recent(), GROUP)
    begun = {(event["run"], event["node"], event["sequence"]) for event in started}
    new = [r for r in found.rebalances if (r.run, r.node, r.started_sequence) in begun]
    assert [(r.cause, [*r.culprits]) for r in new] == wanted
    for told, rebalance in zip(row.told, new, strict=True):
        assert tuple(map(found.names.of, rebalance.culprits)) == told.culprits
        assert f": {told.words}" in found.explain(rebalance)
        assert rebalance.join_ended_by == told.ended_by
        assert rebalance.outcome == told.outcome
    for rebalance in found.rebalances:
        check_times(rebalance, scene)


def _ids(told: Told, scene: Scene, after: Sequence[MemberDescription]) -> list[str]:
    """The member ids of the culprits, from DescribeGroups.

    A joining member is listed afterwards, unless a coordinator has forgotten it;
    any other member was listed before.
    """
    members = scene.before
    if told.outcome == "moved":
        members = scene.between
    elif told.cause in {"member_joined", "static_member_replaced"}:
        members = after
    listed = {m.group_instance_id or m.client_id: m.member_id for m in members}
    return [listed[name] for name in told.culprits]


def check_times(rebalance: Account, scene: Scene) -> None:
    """The waits add up to the duration, and that to the times of the events."""
    waited_ns = sum(wait.duration_ns for wait in rebalance.pieces)
    assert abs(waited_ns - rebalance.duration_ns) < MILLISECOND
    took_ns = scene.took_ns(rebalance.run, rebalance.node, rebalance.started_sequence)
    assert abs(took_ns - rebalance.duration_ns) < MILLISECOND
