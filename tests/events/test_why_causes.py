"""Every cause, from a real coordinator: the cause, the culprit, and the words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import Member, assign, protocols
from tests.events.build import Stream, recorded

from kohort.control.why import history
from kohort.protocol.consumer import Subscription, TopicPartitions, encode


def joins(context: Context, ana: Member, ben: Member) -> Member:
    """Dora comes."""
    dora = context.member("dora")
    dora.enter()
    return dora


def leaves(context: Context, ana: Member, ben: Member) -> Member:
    """Ben sends LeaveGroup."""
    ben.leave()
    return ben


def is_removed(context: Context, ana: Member, ben: Member) -> Member:
    """An admin takes ben out, by its instance id."""
    context.leave(("", "i-ben"))
    return ben


def expires(context: Context, ana: Member, ben: Member) -> Member:
    """Ben is not heard of any more."""
    ana.keep_alive(30_000)
    return ben


def leads_again(context: Context, ana: Member, ben: Member) -> Member:
    """Ana, the leader, rejoins with the same protocols."""
    ana.join(reason="a topic is new")
    return ana


def subscribes_anew(context: Context, ana: Member, ben: Member) -> Member:
    """Ben rejoins with something else."""
    ben.join(protocols=protocols("range", metadata=b"other"))
    return ben


def does_not_sync(context: Context, ana: Member, ben: Member) -> Member:
    """Ben joins the next generation and does not fetch its assignment."""
    ana.join()
    ben.join()
    ana.sync(assign(ana, ben))
    for _ in range(2):
        context.sleep(15_000)
        ana.heartbeat()
        ben.heartbeat()
    return ben


def comes_back(context: Context, ana: Member, ben: Member) -> Member:
    """Ben comes back under a new id, while ana has yet to divide."""
    ana.join()
    ben.join()
    again = context.member("ben", instance="i-ben")
    again.enter()
    ana.join()
    return again


CAUSES = [
    (joins, False, "member_joined", "dora joined"),
    (leaves, False, "member_left", "ben left, no reason given"),
    (is_removed, True, "member_left", "an admin removed i-ben"),
    (
        expires,
        False,
        "session_expired",
        "ben's session expired 30.0 s after it was last heard of",
    ),
    (
        leads_again,
        False,
        "leader_rejoined",
        'the leader, ana, rejoined to reassign partitions (reason: "a topic is new")',
    ),
    (
        subscribes_anew,
        False,
        "metadata_changed",
        "ben rejoined with different protocols or subscriptions",
    ),
    (
        does_not_sync,
        False,
        "sync_timeout",
        "ben did not send SyncGroup in time and was removed",
    ),
    (
        comes_back,
        True,
        "static_member_replaced",
        (
            "the static member i-ben rejoined with a new member id, "
            "and the group needed a new assignment"
        ),
    ),
]


@pytest.mark.parametrize(
    ("play", "static", "cause", "words"), CAUSES, ids=[c[0].__name__ for c in CAUSES]
)
def test_a_cause(
    context: Context,
    play: Callable[[Context, Member, Member], Member],
    static: bool,
    cause: str,
    words: str,
) -> None:
    """The cause and the culprit are those of the scene."""
    ana, ben = context.stable_group("ana", "ben", static=static)
    culprit = play(context, ana, ben)
    found = history(recorded(context), "g")
    last = found.rebalances[-1]
    assert (last.cause, last.culprits) == (cause, (culprit.member_id,))
    assert f": {words};" in found.explain(last)


def offer(*owned: int) -> list[tuple[str, bytes]]:
    """A consumer's one assignor, with its owned partitions."""
    parts = [TopicPartitions("t", [*owned])] if owned else []
    return [("range", encode(Subscription(["t"], owned_partitions=parts)))]


def test_a_follower_that_says_the_same(context: Context) -> None:
    """Only the owned partitions differ, neither topics nor assignors."""
    members = [context.member(name, protocols=offer()) for name in ("ana", "ben")]
    context.form(members)
    members[1].join(protocols=offer(0, 1), reason="enforced")
    found = history(recorded(context), "g")
    last = found.rebalances[-1]
    assert (last.cause, last.is_same_offer) == ("metadata_changed", True)
    words = "ben rejoined with the same protocols and topics as before"
    assert f'{words} (reason: "enforced")' in found.explain(last)


def test_a_reason_that_only_says_that_an_id_was_given(context: Context) -> None:
    """kafka-clients sends it in the second JoinGroup of each new member."""
    members = [context.member("ana", protocols=offer())]
    context.form(members)
    members[0].join(
        protocols=offer(0), reason="need to re-join with the given member-id: ana-1"
    )
    found = history(recorded(context), "g")
    words = found.explain(found.rebalances[-1])
    assert "rejoined" in words
    assert "reason" not in words


@pytest.mark.parametrize(
    "reason",
    ["removed by an admin client", "member was removed by an admin: tidying up"],
)
def test_an_admin_that_removes_by_member_id(reason: str) -> None:
    """On the wire it is the member that leaves; kafka-clients and kohort say so."""
    stream = Stream()
    stream.comes("ana")
    stream.comes("ben")
    stream.rebalance("member_joined", "ana", joins={})
    stream.leaves("ben", reason)
    stream.rebalance("member_left", "ben")
    found = history(stream.events, "g")
    assert f': an admin removed ben (reason: "{reason}");' in found.explain(
        found.rebalances[-1]
    )


def test_several_culprits(context: Context) -> None:
    """Two that one LeaveGroup takes out are both to blame, in one rebalance."""
    _, ben, cleo = context.stable_group("ana", "ben", "cleo")
    context.leave((ben.member_id, None), (cleo.member_id, None))
    found = history(recorded(context), "g")
    last = found.rebalances[-1]
    assert last.culprits == (ben.member_id, cleo.member_id)
    assert ": ben and cleo left, no reason given;" in found.explain(last)


def test_a_group_over_its_limit(context: Context) -> None:
    """No member is the cause: the limit was lowered while the broker was down."""
    context.stable_group("ana", "ben", "cleo")
    context.restart(max_size=2)
    found = history(recorded(context), "g")
    last = found.rebalances[-1]
    assert (last.cause, last.culprits) == ("group_over_max_size", ())
    assert "loaded with more members than group.max.size" in found.explain(last)


def test_a_late_member_that_finds_no_room(context: Context) -> None:
    """It was a member, is refused, and the wait for it ends by that."""
    ana, ben, cleo = context.stable_group("ana", "ben", "cleo")
    context.configure(max_size=2)
    ana.join()
    context.sleep(1_000)
    ben.join()
    context.sleep(1_000)
    assert cleo.join().result.error_code == 81
    found = history(recorded(context), "g")
    last = found.rebalances[-1]
    assert [(r.who, r.cause) for r in last.refused] == [(cleo.member_id, "full")]
    assert "cleo was removed by the broker meanwhile" in found.explain(last)
