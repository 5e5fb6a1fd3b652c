"""Every cause that there is, from a real coordinator: cause, culprit, and the words."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tests.coordinator.context import Context, Member, assign, protocols
from tests.events.build import Stream, recorded

from kohort.control.why import History, history
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
    """Ana, who leads, rejoins with what she had said before."""
    ana.join(reason="a topic is new")
    return ana


def subscribes_anew(context: Context, ana: Member, ben: Member) -> Member:
    """Ben rejoins with something else."""
    ben.join(protocols=protocols("range", metadata=b"other"))
    return ben


def does_not_sync(context: Context, ana: Member, ben: Member) -> Member:
    """Ben joins the next generation, and does not fetch what it has in it."""
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
        'the leader, ana, rejoined: it wants to divide (it said: "a topic is new")',
    ),
    (
        subscribes_anew,
        False,
        "metadata_changed",
        "ben rejoined with other protocols or subscriptions than before",
    ),
    (
        does_not_sync,
        False,
        "sync_timeout",
        "ben did not fetch what was assigned in time, and was taken out",
    ),
    (
        comes_back,
        True,
        "static_member_replaced",
        (
            "the static member i-ben came back under a new id, "
            "and a new assignment was necessary"
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
    """A consumer's one assignor, with what it owns."""
    parts = [TopicPartitions("t", [*owned])] if owned else []
    return [("range", encode(Subscription(["t"], owned_partitions=parts)))]


def test_a_follower_that_says_the_same(context: Context) -> None:
    """What differs is what it owns, or the like: neither topics nor assignors."""
    members = [context.member(name, protocols=offer()) for name in ("ana", "ben")]
    context.form(members)
    members[1].join(protocols=offer(0, 1), reason="enforced")
    found = history(recorded(context), "g")
    last = found.rebalances[-1]
    assert (last.cause, last.is_same_offer) == ("metadata_changed", True)
    words = "ben rejoined with the same protocols and topics as before"
    assert f'{words} (it said: "enforced")' in found.explain(last)


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
    assert f': an admin removed ben (it said: "{reason}");' in found.explain(
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
    """Nobody's doing: the limit was lowered while the broker was away."""
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
    assert last.refused == ((cleo.member_id, "full"),)
    assert "cleo was taken out meanwhile" in found.explain(last)


# -- whatever happens


def turmoil(context: Context, seed: int) -> None:
    """Members come, go, fall silent and work on, in an order that a seed decides."""
    dice = random.Random(seed)
    members: list[Member] = []
    for _ in range(dice.randint(20, 120)):
        context.sleep(dice.choice([0, 1, 50, 700, 4_000]))
        if not members or dice.random() < 0.15:
            number = dice.randint(0, 5)
            instance = f"i-{number}" if dice.random() < 0.3 else None
            members.append(
                context.member(
                    f"m{number}",
                    instance=instance,
                    session_ms=dice.choice([6_000, 30_000]),
                    rebalance_ms=dice.choice([3_000, 30_000]),
                )
            )
        member = dice.choice(members)
        if member.heartbeat() == 25:
            member.member_id = ""
        act = dice.random()
        if act < 0.6:
            member.enter()
        elif act < 0.9:
            member.sync(assign(*members))
        elif act < 0.95:
            member.leave()
        else:
            members.remove(member)
    context.sleep(60_000)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("delay_ms", [0, 3_000])
def test_waits_add_up(seed: int, delay_ms: int) -> None:
    """Whatever happens, pieces add up to the ns, and agree with the coordinator."""
    context = Context(initial_rebalance_delay_ms=delay_ms)
    turmoil(context, seed)
    events = recorded(context)
    found = history(events, "g")
    started = [e for e in events if e["kind"] == "rebalance_started"]
    assert [r.sequence for r in found.rebalances] == [e["sequence"] for e in started]
    completed = {e["generation"]: e for e in events if e["kind"] == "join_completed"}
    for each in found.rebalances:
        check_pieces(found, each.sequence)
        if each.generation is None:
            continue
        told = completed[each.generation]
        assert each.join_ns == told["duration_ns"]
        assert {*each.members} == {*told["members"]}
        # A wait that the coordinator tells of ends where a piece of it does.
        ends = {w.until_ns - each.started_ns for w in each.waits} | {0}
        assert {row["waited_ns"] for row in told["waits"]} <= ends
    made = [e for e in events if e["kind"] == "assignment_made"]
    whole = [r for r in found.rebalances if r.outcome == "completed"]
    assert [r.sync_ns for r in whole] == [e["duration_ns"] for e in made]
    assert found.text()


def check_pieces(found: History, sequence: int) -> None:
    """Pieces follow each other from its start to its end; so do rows of members."""
    (each,) = (r for r in found.rebalances if r.sequence == sequence)
    at_ns = each.started_ns
    for wait in each.waits:
        assert wait.since_ns == at_ns
        at_ns = wait.until_ns
    assert at_ns == each.ended_ns
    for row in each.stand_stills:
        assert each.started_ns <= row.since_ns <= row.until_ns


def test_many_events() -> None:
    """Forty rebalances of sixty members: all of them, and what is behind them."""
    context = Context()
    members = context.stable_group(*(f"m{n}" for n in range(60)), session_ms=600_000)
    for _ in range(40):
        context.sleep(10)
        for member in members:
            member.join()
        context.sync_all(members)
    events = recorded(context)
    found = history(events, "g")
    assert len(found.rebalances) >= 40
    assert "leader-rejoins" in {f.code for f in found.findings}
