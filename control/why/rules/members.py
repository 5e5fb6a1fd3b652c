"""Findings about members: how they come, stay and go."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kohort.control.why import reasons
from kohort.control.why.findings import (
    MINUTE,
    SECOND,
    Evidence,
    Finding,
    of_rebalance,
    stood_still,
)
from kohort.control.why.model import Facts, Gone, Life, Outcome, Rebalance
from kohort.control.why.names import Names
from kohort.control.why.rules.refusals import (
    commits_after_leaving,
    is_there,
    refused_again,
)
from kohort.control.why.words import duration, how, many, said

RESTART_NS = 10 * MINUTE
"""A process that is back within this time was restarted: longer than a slow start of
a large JVM service, shorter than between deployments."""
ROLLING_STEPS = 2
"""Restarts of different members in a row that make a rolling restart: a group of two
has no more, and one is an accident."""
ROLLING_GAP_NS = 5 * MINUTE
"""The longest pause between two steps of a roll: Kubernetes waits for readiness, and
its default deadline for progress is 10 minutes for all."""
CRASH_LOOP = 3
"""Short lives in a row that make a crash loop: two are a restart that went wrong."""
SHORT_LIFE_NS = 2 * MINUTE
"""The longest life in a crash loop. A process that dies at once is noticed after its
session timeout, 45 s by default, and one that leaves is noticed at once; twice the
default, and something to start in."""
GHOSTS = 2
"""Crashed members that were still waited for when their successors were there: one
crash is an accident, and no reason to change a timeout."""
IDS_NOT_USED = 3
"""Ids that were given out and not used: one or two are clients that were stopped."""


# -- max.poll.interval.ms


def max_poll_interval(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that left because their applications did not poll in time.

    kafka-clients and kohort say so. The others give no reason: one that tries to
    commit after it has left was at work all the time, and is such a one perhaps
    (aiokafka does so without its member id).
    """
    late = _committed_after_leaving(facts)
    told, guessed = [], []
    for life in facts.lives:
        if life.how is not Gone.LEFT or life.until_ns is None:
            continue
        name = names.of(life.member_id)
        if reasons.is_poll_interval(life.reason):
            told.append(_gone(life, f"{name} left{said(life.reason)}"))
        elif life.member_id in late:
            after = duration(late[life.member_id])
            text = f"{name} left, no reason given, and committed {after}"
            guessed.append(_gone(life, f"{text} later, which was refused"))
    for evidence, is_sure in ((told, True), (guessed, False)):
        if evidence:
            verb = "were" if is_sure else "were perhaps"
            yield Finding(
                "max-poll-interval",
                f"Members {verb} out because their applications did not poll within "
                f"max.poll.interval.ms: {many(len(evidence), 'time')}",
                "Work that takes longer between two polls than max.poll.interval.ms "
                "costs the membership, two rebalances, and all work since the last "
                "commit. Take fewer records at a time (max.poll.records), raise "
                "max.poll.interval.ms above the longest batch, or pause the partitions "
                "and work in another thread while polling goes on.",
                tuple(evidence),
                is_sure,
            )


def _committed_after_leaving(facts: Facts) -> dict[str, int]:
    """Members that left without a reason, and how long after, in ns, they committed."""
    late = {
        r.member_id: r.at_ns
        for r in reversed(facts.refusals)
        if r.cause == "commit" and r.error == "UNKNOWN_MEMBER_ID"
    }
    for refusal, left in commits_after_leaving(facts):
        late.setdefault(left.member_id, refusal.at_ns)
    return {
        life.member_id: late[life.member_id] - life.until_ns
        for life in facts.lives
        if life.how is Gone.LEFT
        and life.until_ns is not None
        and not life.reason
        and late.get(life.member_id, -1) >= life.until_ns
    }


def _gone(life: Life, text: str) -> Evidence:
    assert life.until_ns is not None  # noqa: S101 - by whoever calls
    return Evidence(life.until_ns, text, life.until_sequence)


# -- restarts


@dataclass(frozen=True, slots=True)
class _Restart:
    """A process that went and came again: its lives before and after."""

    old: Life
    new: Life
    away_ns: int


def _restarts(facts: Facts, *, static: bool) -> list[_Restart]:
    """Members that came back under new ids, the first that went first.

    Where several processes look the same (see `Member.process`) the first to come is
    taken for the first that went.
    """
    waiting: dict[tuple[str, str], list[Life]] = {}
    found = []
    for at_ns, is_birth, life in _moments(facts.lives):
        member = facts.members[life.member_id]
        if (member.instance_id is not None) != static:
            continue
        queue = waiting.setdefault(member.process, [])
        if not is_birth:
            if life.how in {Gone.LEFT, Gone.EXPIRED}:
                queue.append(life)
            continue
        while queue and at_ns - (queue[0].until_ns or 0) > RESTART_NS:
            queue.pop(0)
        if queue:
            old = queue.pop(0)
            found.append(_Restart(old, life, at_ns - (old.until_ns or 0)))
    return found


def _moments(lives: Iterable[Life]) -> list[tuple[int, bool, Life]]:
    births = [(x.since_ns, True, x) for x in lives if x.since_ns is not None]
    deaths = [(x.until_ns, False, x) for x in lives if x.until_ns is not None]
    return sorted([*births, *deaths], key=lambda moment: moment[:2])


def _caused_by(facts: Facts, restarts: Iterable[_Restart]) -> list[Rebalance]:
    # A rebalance begins in the same turn as what it is for.
    moments = {(r.old.member_id, r.old.until_ns) for r in restarts}
    moments |= {(r.new.member_id, r.new.since_ns) for r in restarts}
    caused: list[Rebalance] = []
    last: Rebalance | None = None
    for each in facts.rebalances:
        if each.is_second_half:
            is_one = last is not None and last in caused[-1:]
        else:
            is_one = any((m, each.started_ns) in moments for m in each.culprits)
        if is_one:
            caused.append(each)
        last = each
    return caused


def rolling_restart(facts: Facts, names: Names) -> Iterator[Finding]:
    """Dynamic members that are restarted one by one, each at a rebalance or two."""
    rolls = [*_rolls(facts)]
    if not rolls:
        return
    steps = [step for chain, _ in rolls for step in chain]
    rebalances = [each for _, caused in rolls for each in caused]
    # Of members that look the same some may have gone, and others come.
    is_sure = all(
        len({facts.members[step.old.member_id].process for step in chain}) == len(chain)
        for chain, _ in rolls
    )
    perhaps = "" if is_sure else "perhaps "
    times = f", in {len(rolls)} rolling restarts" if len(rolls) > 1 else ""
    away_ns = max(step.away_ns for step in steps)
    least = -(-away_ns // SECOND) + 1
    yield Finding(
        "rolling-restart",
        f"{many(len(steps), 'member')} {perhaps}went and came again one after the "
        f"other{times}, and that was {many(len(rebalances), 'rebalance')}; "
        f"{stood_still(rebalances)}",
        "Give each member a group.instance.id of its own (KIP-345): a static member "
        "that is back within its session.timeout.ms takes its old place, without a "
        f"rebalance. They were back {duration(away_ns)} at most after the group had "
        f"noticed that they were gone, so session.timeout.ms has to be above {least} "
        "s, and above that by the time that stopping takes.",
        tuple(of_rebalance(each, names) for each in rebalances),
        is_sure,
    )


def _rolls(facts: Facts) -> Iterator[tuple[list[_Restart], list[Rebalance]]]:
    """The steps of each rolling restart, and the rebalances that they were."""
    chain: list[_Restart] = []
    for restart in [*_without_stops(facts), None]:
        if restart is not None and _is_next_step(chain, restart):
            chain.append(restart)
            continue
        rebalances = _caused_by(facts, chain)
        if len(chain) >= ROLLING_STEPS and len(rebalances) >= len(chain):
            yield chain, rebalances
        chain = [] if restart is None or not _is_next_step([], restart) else [restart]


def _without_stops(facts: Facts) -> list[_Restart]:
    """Restarts while others worked on: a group that was Empty was stopped as one."""
    stops = [r.ended_ns for r in facts.rebalances if r.outcome is Outcome.EMPTIED]
    return [
        step
        for step in _restarts(facts, static=False)
        if bisect_left(stops, step.old.until_ns or 0)
        == bisect_right(stops, step.new.since_ns or 0)
    ]


def _is_next_step(chain: list[_Restart], restart: _Restart) -> bool:
    if reasons.is_poll_interval(restart.old.reason):
        return False
    if any(restart.old.member_id == step.new.member_id for step in chain):
        return False  # the same process again: a loop, no roll
    last = chain[-1].new.since_ns if chain else None
    return last is None or (restart.old.until_ns or 0) - last <= ROLLING_GAP_NS


def static_member_expired(facts: Facts, names: Names) -> Iterator[Finding]:
    """Static members whose sessions ended before their processes were back.

    Not those that were back in time, and were refused as the group was full.
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
    away_ms = max(
        session + r.away_ns // 1_000_000
        for r, session in zip(found, sessions, strict=True)
    )
    was = f" (it was {max(sessions)})" if max(sessions) else ""
    yield Finding(
        "static-member-expired",
        f"Static members were not back in time after a restart: "
        f"{many(len(found), 'time')}",
        f"session.timeout.ms has to be longer than a restart: above {away_ms}{was}. "
        "The price is that a member that has really crashed is noticed later. "
        "group.max.session.timeout.ms of the brokers is the limit.",
        tuple(
            _gone(
                r.old,
                f"{names.of(r.old.member_id)} expired, and was back "
                f"{duration(r.away_ns)} later, as a new member",
            )
            for r in found
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
            "A static member that leaves is forgotten at once, so its restart is two "
            "rebalances, as without a group.instance.id. Stop the process without "
            "leaving: the consumers of kafka-clients, librdkafka, franz-go and kohort "
            "do so of themselves where they are static, unless they are told to leave.",
            tuple(
                _gone(
                    life,
                    f"{names.of(life.member_id)} left{said(life.reason)}",
                )
                for life in found
            ),
        )


# -- crashes


def crash_loop(facts: Facts, names: Names) -> Iterator[Finding]:
    """A process that comes and goes again and again, and not as it did not poll."""
    slow = _committed_after_leaving(facts)
    short: dict[tuple[str, str], list[Life]] = {}
    for life in facts.lives:
        process = facts.members[life.member_id].process
        if life.since_ns is None:
            continue
        before = short.setdefault(process, [])
        if before and life.since_ns < (before[-1].until_ns or 0):
            continue  # another process that looks the same
        if life.member_id not in slow and _is_crash(life):
            before.append(life)
            continue
        yield from _looped(facts, short.pop(process, []), names)
    for lives in short.values():
        yield from _looped(facts, lives, names)


def _is_crash(life: Life) -> bool:
    if life.since_ns is None or life.until_ns is None:
        return False
    was_short = life.until_ns - life.since_ns <= SHORT_LIFE_NS
    is_own_doing = life.how in {Gone.LEFT, Gone.EXPIRED, Gone.KICKED, Gone.REPLACED}
    return was_short and is_own_doing and not reasons.is_poll_interval(life.reason)


_DIES = (
    "A process that dies soon after it has joined makes the whole group rebalance up "
    "to twice each time. Find out why it dies. Until then: let it wait longer before "
    "it starts again, and make it static (group.instance.id, KIP-345), so that the "
    "others are left alone."
)
_LEAVES = (
    "It left each time, which makes the whole group rebalance up to twice. If the "
    "process goes on meanwhile, its application most probably did not poll within "
    "max.poll.interval.ms (librdkafka, aiokafka and kafka-python leave then without a "
    "reason; their logs have it): take fewer records at a time, or raise it. If the "
    "process ends, find out what ends it; until then let it wait longer before it "
    "starts again."
)


def _looped(facts: Facts, lives: list[Life], names: Names) -> Iterator[Finding]:
    if len(lives) < CRASH_LOOP:
        return
    ids = {life.member_id for life in lives}
    caused = [r for r in facts.rebalances if ids.intersection(r.culprits)]
    # Who closes its consumer each time may want to.
    is_sure = any(life.how is not Gone.LEFT for life in lives)
    perhaps = "" if is_sure else "Perhaps no crash: "
    yield Finding(
        "crash-loop",
        f"{perhaps}{names.of(lives[0].member_id)} came and went {len(lives)} times, "
        f"and that was {many(len(caused), 'rebalance')}; {stood_still(caused)}",
        _DIES if is_sure else _LEAVES,
        tuple(
            _gone(
                life,
                f"{names.of(life.member_id)} was there for "
                f"{duration((life.until_ns or 0) - (life.since_ns or 0))}: "
                f"it {how(life.how)}{said(life.reason)}",
            )
            for life in lives
        ),
        is_sure,
    )


# -- session timeouts


def session_too_short(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members whose sessions expired, and that were alive: they asked again."""
    dead = {
        life.member_id: life
        for life in facts.lives
        if life.how is Gone.EXPIRED and life.until_ns is not None
    }
    found: dict[str, Evidence] = {}
    for refusal in facts.refusals:
        life = dead.get(refusal.member_id)
        if life is None or life.until_ns is None or refusal.member_id in found:
            continue
        if refusal.error == "UNKNOWN_MEMBER_ID" and refusal.at_ns >= life.until_ns:
            what = "committed" if refusal.cause == "commit" else "asked to join"
            after = duration(refusal.at_ns - life.until_ns)
            text = f"{names.of(refusal.member_id)}'s session expired, and it {what}"
            found[refusal.member_id] = _gone(life, f"{text} {after} later")
    if not found:
        return
    sessions = [facts.members[member_id].session_timeout_ms or 0 for member_id in found]
    was = f" (it was {min(sessions)})" if min(sessions) else ""
    yield Finding(
        "session-too-short",
        f"Sessions of members that were alive expired: {many(len(found), 'time')}",
        "Something kept heartbeats back: a pause (garbage collection, a stopped "
        "container), a network that was away, or a client that only sends them while "
        "it is polled. Raise session.timeout.ms above the longest such pause"
        f"{was}, with heartbeat.interval.ms at a third of it or less.",
        tuple(found.values()),
    )


def session_too_long(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that had crashed, and were still members when their successors came."""
    found = []
    lives: dict[tuple[str, str], list[Life]] = {}
    for life in facts.lives:
        lives.setdefault(facts.members[life.member_id].process, []).append(life)
    for ghost in facts.lives:
        member = facts.members[ghost.member_id]
        timeout_ms = member.session_timeout_ms
        if ghost.how is not Gone.EXPIRED or not timeout_ms or member.instance_id:
            continue
        until_ns = ghost.until_ns or 0
        silent_since = until_ns - timeout_ms * 1_000_000
        mine = lives[member.process]
        after = bisect_right(mine, silent_since, key=lambda life: life.since_ns or 0)
        for life in mine[after : after + 1]:
            waited = until_ns - (life.since_ns or 0)
            if waited > 0:
                text = (
                    f"{names.of(ghost.member_id)}'s session expired {duration(waited)} "
                    f"after {names.of(life.member_id)} had come in its place"
                )
                found.append(_gone(ghost, text))
    if len(found) >= GHOSTS:
        yield Finding(
            "session-too-long",
            "Members that had crashed were perhaps still members when their "
            f"processes were back: {many(len(found), 'time')}",
            "Until its session expires, a dead member keeps its partitions, and every "
            "rebalance waits for it; then the group rebalances once more. Have the "
            "process leave when it stops, make it static (group.instance.id, "
            "KIP-345), so that its successor takes its place at once, or lower "
            "session.timeout.ms.",
            tuple(found),
            is_sure=False,
        )


# -- others


def ids_not_used(facts: Facts, names: Names) -> Iterator[Finding]:
    """Ids that were given out (KIP-394) and that nobody joined with."""
    if len(facts.unused_ids) >= IDS_NOT_USED:
        yield Finding(
            "ids-not-used",
            f"{len(facts.unused_ids)} clients took a member id and did not join with "
            "it",
            "Each of them was waited for by the rebalances of its session timeout. "
            "Clients that die or give up right after their first JoinGroup do that: a "
            "probe that starts a consumer, or a start that is cut short.",
            tuple(
                Evidence(at_ns, f"{names.of(member_id)} was forgotten", sequence)
                for at_ns, sequence, member_id in facts.unused_ids
            ),
        )


def idle_members(facts: Facts, names: Names) -> Iterator[Finding]:
    """More members than partitions: some have nothing to do."""
    if facts.owned is None or not facts.rebalances or facts.until_ns is None:
        return
    last = facts.rebalances[-1]
    settled = last.moves is not None and not last.moves.given_up
    idle = [member_id for member_id, count in facts.owned.items() if not count]
    partitions = sum(facts.owned.values())
    if settled and partitions and idle and len(facts.owned) > partitions:
        yield Finding(
            "idle-members",
            f"{len(idle)} of {len(facts.owned)} members have nothing to do: there are "
            f"{many(partitions, 'partition')}",
            "A partition goes to one member at most. Run as many members as there are "
            "partitions, or fewer, unless the rest is there to step in; or give the "
            "topic more partitions, which moves keys.",
            (
                Evidence(
                    facts.until_ns,
                    f"no partitions: {names.list(idle, most=10)}",
                    generation=last.generation,
                ),
            ),
        )
