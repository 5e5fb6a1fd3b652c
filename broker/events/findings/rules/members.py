"""Findings about members: restarts, crash loops, idle members."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kohort.broker.events.account import Account, reasons
from kohort.broker.events.account.membership import Life
from kohort.broker.events.account.values import Gone, Outcome, Return
from kohort.broker.events.findings import savings
from kohort.broker.events.findings.facts import Facts
from kohort.broker.events.findings.finding import (
    MINUTE,
    SECOND,
    Cost,
    Evidence,
    Finding,
    Setting,
    cost,
    gone,
    of_rebalance,
)
from kohort.broker.events.findings.names import Names, cut
from kohort.broker.events.findings.rules.polling import at_work_after_leaving
from kohort.broker.events.findings.rules.refusals import (
    is_there,
    refused_again,
)
from kohort.broker.events.findings.rules.sessions import (
    cost_of,
    unread_of,
)
from kohort.broker.events.findings.words import (
    duration,
    how,
    many,
    product,
    said,
)

ROLLING_STEPS = 2
"""Restarts of different members in a row that make a rolling restart: a group of two
has no more, and one is an accident."""
ROLLING_GAP_NS = 5 * MINUTE
"""The longest pause between two steps of a rolling restart: Kubernetes waits for
readiness, and its default progress deadline is 10 minutes for the whole."""
CRASH_LOOP = 3
"""Short lives in a row that make a crash loop: two are a restart that went wrong."""
SHORT_LIFE_NS = 10 * MINUTE
"""The longest life in a crash loop: Kubernetes counts a container that ran for 10
minutes as one that works, and begins its back-off again."""
GHOSTS = 2
"""Crashed members that rebalances still waited for when their successors had joined:
one crash is an accident, and no reason to change a timeout."""
IDS_NOT_USED = 3
"""Pending members that never joined: one or two are clients that were stopped."""


# -- restarts


@dataclass(frozen=True, slots=True)
class _Restart:
    """The life of a member, and the return of its process."""

    old: Life
    back: Return


def _restarts(facts: Facts, *, static: bool) -> list[_Restart]:
    """Restarts of members that left or expired, in the order of their returns."""
    old = {life.member_id: life for life in facts.lives}
    found = [
        _Restart(old[row.previous_id], row)
        for row in facts.returns.values()
        if row.is_restart
        and row.how in {Gone.LEFT, Gone.EXPIRED}
        and row.previous_id in old
        and row.previous_id not in facts.ended_by_test
        and not old[row.previous_id].is_connected  # it hung, and was not restarted
        and (facts.members[row.previous_id].instance_id is not None) == static
    ]
    return sorted(found, key=lambda restart: restart.back.until_ns)


def rolling_restart(facts: Facts, names: Names) -> Iterator[Finding]:
    """Dynamic members that restart one by one, with one or two rebalances each."""
    rolls = [*_rolls(facts)]
    if not rolls:
        return
    steps = [step for chain, _ in rolls for step in chain]
    rebalances = [each for _, caused in rolls for each in caused]
    # If several members look the same, some may have gone and others come.
    is_sure = all(
        len({facts.members[step.old.member_id].process for step in chain}) == len(chain)
        for chain, _ in rolls
    )
    perhaps = "" if is_sure else "perhaps "
    times = f", in {len(rolls)} rolling restarts," if len(rolls) > 1 else ""
    returns = [step.back for step in steps]
    away_ns = max(row.duration_ns for row in returns)
    setting = savings.of_static(facts, returns, rebalances)
    yield Finding(
        "rolling-restart",
        f"{many(len(steps), 'member')} {perhaps}restarted one after the "
        f"other{times} and caused {many(len(rebalances), 'rebalance')}; "
        f"{cost(rebalances)}",
        _static(away_ns) if setting else _dynamic(savings.waiting(facts, returns)),
        tuple(of_rebalance(each, names) for each in rebalances),
        is_sure,
        cost=Cost.of(rebalances),
        setting=setting,
    )


def _static(away_ns: int) -> str:
    least = -(-away_ns // SECOND) + 1
    return (
        "Give each member its own group.instance.id (KIP-345): a static member "
        "that is back within its session.timeout.ms takes its old place without a "
        f"rebalance. They were away for up to {duration(away_ns)}, so set "
        f"session.timeout.ms above {least} s plus the time that the shutdown takes."
    )


def _dynamic(waiting_ns: int) -> str:
    return (
        "Do not make them static (group.instance.id, KIP-345): the rebalances cost "
        "less. The partitions of a static member wait for it while it restarts, here "
        f"for {product(waiting_ns, 'partition')}. Restart faster, or one by one with "
        "a cooperative assignor, to make each rebalance cheaper."
    )


def _rolls(facts: Facts) -> Iterator[tuple[list[_Restart], list[Account]]]:
    """The steps of each rolling restart, and the rebalances that they caused."""
    chain: list[_Restart] = []
    for restart in [*_without_stops(facts), None]:
        if restart is not None and _is_next_step(chain, restart):
            chain.append(restart)
            continue
        if len(chain) >= ROLLING_STEPS:
            rebalances = savings.caused_by(facts, (step.old for step in chain))
            if len(rebalances) >= len(chain):
                yield chain, rebalances
        chain = [] if restart is None or not _is_next_step([], restart) else [restart]


def _without_stops(facts: Facts) -> list[_Restart]:
    """Restarts while other members went on, without those of a group that was Empty."""
    stops = [r.ended_ns for r in facts.rebalances if r.outcome is Outcome.EMPTIED]
    return [
        step
        for step in _restarts(facts, static=False)
        if bisect_left(stops, step.old.until_ns or 0)
        == bisect_right(stops, step.back.until_ns)
    ]


def _is_next_step(chain: list[_Restart], restart: _Restart) -> bool:
    if reasons.is_poll_interval(restart.old.reason):
        return False
    if any(restart.old.member_id == step.back.member_id for step in chain):
        return False  # the same process again: a crash loop, not a rolling restart
    last = chain[-1].back.until_ns if chain else None
    return last is None or (restart.old.until_ns or 0) - last <= ROLLING_GAP_NS


def static_member_expired(facts: Facts, names: Names) -> Iterator[Finding]:
    """Static members whose sessions ended before their processes were back.

    Without members that were back in time but refused because the group was full.
    """
    kept_out = {x.member_id for r, x in refused_again(facts) if is_there(x, r)}
    found = [
        restart
        for restart in _restarts(facts, static=True)
        if restart.old.how is Gone.EXPIRED and restart.old.member_id not in kept_out
    ]
    if not found:
        return
    sessions = [facts.members[r.old.member_id].session_timeout_ms or 0 for r in found]
    away_ms = max(r.back.duration_ns for r in found) // 1_000_000
    was = f" (it was {max(sessions)})" if max(sessions) else ""
    yield Finding(
        "static-member-expired",
        f"Static members were not back in time after a restart: "
        f"{many(len(found), 'time')}",
        f"Set session.timeout.ms above the time of a restart: above {away_ms}{was}. "
        "The price: the group notices a crashed member later. The limit is "
        "group.max.session.timeout.ms on the brokers.",
        tuple(
            gone(
                r.old,
                f"{names.of(r.old.member_id)}'s session expired, and it rejoined "
                f"{duration(r.back.until_ns - (r.old.until_ns or 0))} later as a new "
                "member",
                names,
            )
            for r in found
        ),
        cost=cost_of(unread_of(facts, Gone.EXPIRED), [r.old.member_id for r in found]),
        setting=savings.longer_session(
            facts, {r.old.member_id: r.back.duration_ns for r in found}
        ),
    )


def static_member_left(facts: Facts, names: Names) -> Iterator[Finding]:
    """Static members that leave the group when they stop."""
    found = [
        life
        for life in facts.lives
        if life.how is Gone.LEFT
        and facts.members[life.member_id].instance_id is not None
    ]
    if found:
        yield Finding(
            "static-member-left",
            f"Static members sent LeaveGroup: {many(len(found), 'time')}",
            "A static member that leaves loses its place at once, so its restart "
            "causes two rebalances, as without group.instance.id. Stop the process "
            "without leaving: static consumers of kafka-clients, librdkafka, franz-go "
            "and kohort do so by default.",
            tuple(
                gone(life, f"{names.of(life.member_id)} left{said(life.reason)}", names)
                for life in found
            ),
        )


# -- crashes


def crash_loop(facts: Facts, names: Names) -> Iterator[Finding]:
    """A process that keeps joining and leaving, and is not a slow poller.

    Its members are followed from restart to restart, so that several processes that
    look the same do not add up to a loop. The end of a group is no evidence.
    """
    at_work = (member_id for member_id, _ in at_work_after_leaving(facts))
    no_crash = {*at_work, *facts.ended_by_test}
    no_crash |= savings.at_the_end(facts) | _closed_last(facts)
    lives = {life.member_id: life for life in facts.lives}
    again = {r.previous_id: r.member_id for r in facts.returns.values() if r.is_restart}
    again |= {each.old: each.new for each in facts.replacements}
    later = {*again.values()}
    for first in facts.lives:
        if first.member_id in later:
            continue
        loop: list[Life] = []
        life: Life | None = first
        while life is not None:
            if life.member_id not in no_crash and _is_crash(life):
                loop.append(life)
            else:
                yield from _looped(facts, loop, names)
                loop = []
            life = lives.get(again.pop(life.member_id, ""))
        yield from _looped(facts, loop, names)


def _closed_last(facts: Facts) -> set[str]:
    """Members that left before the group was Empty, after the last one had come.

    That is the end of a test, or of a job, and the next one may follow.
    """
    came = sorted(life.since_ns or 0 for life in facts.lives)
    stops = [r.ended_ns for r in facts.rebalances if r.outcome is Outcome.EMPTIED]
    found = set()
    for life in facts.lives:
        if life.how is Gone.LEFT and life.until_ns is not None:
            stop = bisect_left(stops, life.until_ns)
            # Those that came by then had also come before the group was Empty.
            is_last = stop < len(stops) and bisect_right(
                came, life.until_ns
            ) == bisect_right(came, stops[stop])
            found |= {life.member_id} if is_last else set()
    return found


def _is_crash(life: Life) -> bool:
    if life.since_ns is None or life.until_ns is None:
        return False
    if life.how is Gone.EXPIRED and life.is_connected:
        return False  # it hung: its process goes on
    was_short = life.until_ns - life.since_ns <= SHORT_LIFE_NS
    is_own_doing = life.how in {Gone.LEFT, Gone.EXPIRED, Gone.KICKED, Gone.REPLACED}
    return was_short and is_own_doing and not reasons.is_poll_interval(life.reason)


_DIES = (
    "A process that dies soon after it joined makes the whole group rebalance up to "
    "twice each time. Find out why it dies. Until then, let it wait longer before it "
    "restarts"
)
_LEAVES = (
    "It left each time, which makes the whole group rebalance up to twice. If the "
    "process keeps running, its application probably did not poll within "
    "max.poll.interval.ms (librdkafka, aiokafka and kafka-python then leave without a "
    "reason, but log it): take fewer records at a time, or raise the interval. If the "
    "process exits, find out why; until then, let it wait longer before it restarts."
)


def _looped(facts: Facts, lives: list[Life], names: Names) -> Iterator[Finding]:
    if len(lives) < CRASH_LOOP:
        return
    ids = {life.member_id for life in lives}
    caused = [r for r in facts.rebalances if ids.intersection(r.culprits)]
    # A member that closes its consumer each time may do it on purpose.
    is_sure = any(life.how is not Gone.LEFT for life in lives)
    perhaps = "" if is_sure else "Perhaps no crash: "
    restarts = _between(facts, lives)
    static = savings.of_static(
        facts,
        [each.back for each in restarts],
        savings.caused_by(facts, (each.old for each in restarts)),
    )
    in_time = all(_is_in_time(facts, each) for each in restarts)
    setting = static if is_sure and in_time else None
    yield Finding(
        "crash-loop",
        f"{perhaps}{names.of(lives[0].member_id)} came and went {len(lives)} times "
        f"and caused {many(len(caused), 'rebalance')}; {cost(caused)}",
        f"{_DIES}{_meanwhile(facts, restarts, setting)}" if is_sure else _LEAVES,
        tuple(
            gone(
                life,
                f"{names.of(life.member_id)} was a member for "
                f"{duration((life.until_ns or 0) - (life.since_ns or 0))}: "
                f"it {how(life.how)}{said(life.reason)}",
                names,
            )
            for life in lives
        ),
        is_sure,
        lives[0].member_id,
        Cost.of(caused),
        setting,
    )


def _between(facts: Facts, lives: Sequence[Life]) -> list[_Restart]:
    """The restarts of the process of these lives."""
    returns = ((life, facts.returns.get(life.member_id)) for life in lives)
    return [_Restart(life, back) for life, back in returns if back is not None]


def _is_in_time(facts: Facts, restart: _Restart) -> bool:
    """True if a static member would have been back before its session ended."""
    session_ms = facts.members[restart.old.member_id].session_timeout_ms
    return session_ms is None or restart.back.duration_ns <= session_ms * 1_000_000


def _meanwhile(
    facts: Facts, restarts: Sequence[_Restart], setting: Setting | None
) -> str:
    """The rest of the advice: whether static membership helps until it is mended."""
    away_ns = max((each.back.duration_ns for each in restarts), default=0)
    if setting is not None:
        return (
            ", and make it static (group.instance.id, KIP-345): it was back after "
            f"{duration(away_ns)} at most, before its session ended, so the other "
            "members would not have rebalanced."
        )
    is_static = any(facts.members[r.old.member_id].instance_id for r in restarts)
    if is_static or not restarts:
        return "."
    why = "its session would end before it is back"
    if all(_is_in_time(facts, each) for each in restarts):
        why = "its partitions would wait for longer than the rebalances take"
    return (
        f". Static membership (group.instance.id) does not help: it was away for up "
        f"to {duration(away_ns)}, and {why}."
    )


# -- session timeouts


def session_too_long(facts: Facts, names: Names) -> Iterator[Finding]:
    """Crashed members that were still in the group when their processes were back."""
    found = []
    for restart in _restarts(facts, static=False):
        ghost, back = restart.old, restart.back
        waited = (ghost.until_ns or 0) - back.until_ns
        if ghost.how is Gone.EXPIRED and waited > 0:
            text = (
                f"{names.of(ghost.member_id)}'s session expired {duration(waited)} "
                f"after {names.of(back.member_id)} had joined in its place"
            )
            found.append(gone(ghost, text, names))
    if len(found) >= GHOSTS:
        yield Finding(
            "session-too-long",
            "Crashed members were perhaps still in the group when their "
            f"processes were back: {many(len(found), 'time')}",
            "Until its session expires, a dead member keeps its partitions, and every "
            "rebalance waits for it; then the group rebalances once more. Close the "
            "consumer when the process stops, make it static (group.instance.id, "
            "KIP-345), so that the new process takes its place at once, or lower "
            "session.timeout.ms.",
            tuple(found),
            is_sure=False,
        )


# -- others


def ids_not_used(facts: Facts, names: Names) -> Iterator[Finding]:
    """Pending members that never joined (KIP-394)."""
    if len(facts.unused_ids) >= IDS_NOT_USED:
        yield Finding(
            "ids-not-used",
            f"{len(facts.unused_ids)} pending members never joined",
            "A pending member has a member id from its first JoinGroup and has not "
            "joined with it. Each rebalance within its session timeout waited for it. "
            "Such clients die or give up right after their first JoinGroup: a probe "
            "that starts a consumer, or an interrupted start.",
            tuple(
                Evidence(
                    at_ns,
                    f"pending member {names.of(member_id)} expired",
                    sequence,
                    members=(names.of(member_id),),
                )
                for at_ns, sequence, member_id in facts.unused_ids
            ),
        )


def idle_members(facts: Facts, names: Names) -> Iterator[Finding]:
    """More members than partitions: some are idle."""
    if facts.owned is None or not facts.rebalances or facts.until_ns is None:
        return
    last = facts.rebalances[-1]
    settled = last.moves is not None and not last.given_up
    idle = [member_id for member_id, count in facts.owned.items() if not count]
    partitions = sum(facts.owned.values())
    if settled and partitions and idle and len(facts.owned) > partitions:
        yield Finding(
            "idle-members",
            f"{len(idle)} of {len(facts.owned)} members are idle: there "
            f"{'is' if partitions == 1 else 'are'} {many(partitions, 'partition')}",
            "Each partition is assigned to one member. Run at most as many members as "
            "there are partitions, unless the rest are spares; or add partitions to "
            "the topic, which moves keys to other partitions.",
            (
                Evidence(
                    facts.until_ns,
                    f"no partitions: {names.list(idle, most=10)}",
                    generation=last.generation,
                    members=tuple(map(names.of, idle)),
                ),
            ),
        )


def one_has_all(facts: Facts, names: Names) -> Iterator[Finding]:
    """One member has all partitions, of several topics, and the others have none."""
    owned = facts.owned
    if not owned or not facts.rebalances or facts.until_ns is None:
        return
    last = facts.rebalances[-1]
    wanted = {facts.members[member_id].topics for member_id in owned}
    total = sum(owned.values())
    busy = [member_id for member_id, count in owned.items() if count]
    if len(busy) != 1 or len(owned) < 2 or facts.owned_topics < 2 or len(wanted) > 1:
        return
    if last.outcome is not Outcome.COMPLETED or last.given_up:
        return
    assignor = cut(last.protocol or "")
    advice = f"Look at the assignor ({assignor}). "
    if assignor == "range":
        advice = (
            "The assignor range divides each topic by itself, and gives the first "
            "members one more: of topics with one partition each, one member gets all. "
        )
    idle = [member_id for member_id in owned if member_id not in busy]
    yield Finding(
        "one-has-all",
        f"{names.of(busy[0])} has all {total} partitions of {facts.owned_topics} "
        f"topics, and {many(len(idle), 'member')} {'has' if len(idle) == 1 else 'have'}"
        f" none ({assignor})",
        f"{advice}Set partition.assignment.strategy to cooperative-sticky (KIP-429) or "
        "roundrobin, which divide all partitions together, or give the topics more "
        "partitions.",
        (
            Evidence(
                facts.until_ns,
                f"no partitions: {names.list(idle, most=10)}",
                generation=last.generation,
                members=tuple(names.of(each) for each in idle),
            ),
        ),
        setting=Setting("partition.assignment.strategy", "cooperative-sticky"),
        others=(names.of(busy[0]),),
    )
