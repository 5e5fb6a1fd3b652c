"""Findings about members: restarts, crashes, missed polls and idle members."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kohort.broker.events.account import Account, reasons
from kohort.broker.events.account.membership import Life, Member
from kohort.broker.events.account.values import Gone, Outcome, Return, Unread
from kohort.control.why.facts import Facts
from kohort.control.why.findings import (
    MINUTE,
    SECOND,
    Evidence,
    Finding,
    cost,
    of_rebalance,
)
from kohort.control.why.names import Names
from kohort.control.why.rules.refusals import (
    commits_of_members,
    is_there,
    refused_again,
)
from kohort.control.why.words import (
    duration,
    how,
    many,
    partition_count,
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
SHORT_LIFE_NS = 2 * MINUTE
"""The longest life in a crash loop. The group notices a dead process after its session
timeout, 45 s by default: twice that, and some time to start in."""
GHOSTS = 2
"""Crashed members that rebalances still waited for when their successors had joined:
one crash is an accident, and no reason to change a timeout."""
IDS_NOT_USED = 3
"""Pending members that never joined: one or two are clients that were stopped."""


# -- max.poll.interval.ms


def max_poll_interval(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that left because their applications did not poll in time.

    kafka-clients and kohort send that reason. Other clients send none, but their
    process goes on: it commits or rejoins on the same connection (librdkafka), or
    commits without a member id right after it left (aiokafka).
    """
    at_work = _at_work_after_leaving(facts)
    told: dict[str, Evidence] = {}
    guessed: dict[str, Evidence] = {}
    unread = _unread(facts, Gone.LEFT)
    for life in facts.lives:
        if life.how is not Gone.LEFT or life.until_ns is None:
            continue
        text = f"{names.of(life.member_id)} left{said(life.reason)}"
        is_sure = reasons.is_poll_interval(life.reason)
        if not is_sure:
            if life.member_id not in at_work:
                continue
            what, is_sure = at_work[life.member_id]
            text += f", no reason given, and {what}"
        text += _not_polled(facts.members[life.member_id], unread[life.member_id])
        (told if is_sure else guessed)[life.member_id] = _gone(life, text)
    for found, is_sure in ((told, True), (guessed, False)):
        if found:
            why = "because" if is_sure else "perhaps because"
            yield Finding(
                "max-poll-interval",
                f"Members left {why} their applications did not poll within "
                f"max.poll.interval.ms: {many(len(found), 'time')}"
                f"{_without_reader(unread, found)}",
                "An application that works longer than max.poll.interval.ms between "
                "two polls loses its membership and all work since the last commit, "
                "and causes two rebalances. Take fewer records at a time "
                "(max.poll.records), raise max.poll.interval.ms above the longest "
                "batch, or pause the partitions and process in another thread while "
                "you keep polling.",
                tuple(found.values()),
                is_sure,
            )


def _not_polled(member: Member, unread: Sequence[Unread]) -> str:
    """The time before a slow poller left, which is not in the account."""
    if not (unread and member.rebalance_timeout_ms):
        return ""
    partitions = many(partition_count(unread), "partition")
    waited = duration(member.rebalance_timeout_ms * 1_000_000)
    return f"; it did not process its {partitions} for {waited} before it left"


def _at_work_after_leaving(facts: Facts) -> dict[str, tuple[str, bool]]:
    """Members that left without a reason while their process went on.

    By member id: its later activity in words, and True if that is certain.
    """
    left = {
        life.member_id: life.until_ns
        for life in facts.lives
        if life.how is Gone.LEFT and life.until_ns is not None and not life.reason
    }
    found: dict[str, tuple[str, bool]] = {}
    for refusal, member_id in commits_of_members(facts):
        if refusal.at_ns >= left.get(member_id, refusal.at_ns + 1):
            after = duration(refusal.at_ns - left[member_id])
            is_sure = refusal.sender == member_id
            where = " on the same connection" if is_sure else ""
            text = f"its commit {after} later{where} was refused"
            found.setdefault(member_id, (text, is_sure))
    for again in facts.lives:
        before = facts.members[again.member_id].previous_id
        if before in left and again.since_ns is not None:
            after = duration(max(again.since_ns - left[before], 0))
            text = f"it rejoined {after} later on the same connection"
            found.setdefault(before, (text, False))
    return found


def _gone(life: Life, text: str) -> Evidence:
    assert life.until_ns is not None
    return Evidence(life.until_ns, text, life.until_sequence)


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
        and (facts.members[row.previous_id].instance_id is not None) == static
    ]
    return sorted(found, key=lambda restart: restart.back.until_ns)


def _caused_by(facts: Facts, restarts: Iterable[_Restart]) -> list[Account]:
    # A rebalance begins in the same turn as its cause.
    moments = {(r.old.member_id, r.old.until_ns) for r in restarts}
    moments |= {(r.back.member_id, r.back.until_ns) for r in restarts}
    caused: list[Account] = []
    last: Account | None = None
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
    away_ns = max(step.back.duration_ns for step in steps)
    least = -(-away_ns // SECOND) + 1
    yield Finding(
        "rolling-restart",
        f"{many(len(steps), 'member')} {perhaps}restarted one after the "
        f"other{times} and caused {many(len(rebalances), 'rebalance')}; "
        f"{cost(rebalances)}",
        "Give each member its own group.instance.id (KIP-345): a static member "
        "that is back within its session.timeout.ms takes its old place without a "
        f"rebalance. They were away for up to {duration(away_ns)}, so set "
        f"session.timeout.ms above {least} s plus the time that the shutdown takes.",
        tuple(of_rebalance(each, names) for each in rebalances),
        is_sure,
    )


def _rolls(facts: Facts) -> Iterator[tuple[list[_Restart], list[Account]]]:
    """The steps of each rolling restart, and the rebalances that they caused."""
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
            _gone(
                r.old,
                f"{names.of(r.old.member_id)}'s session expired, and it rejoined "
                f"{duration(r.back.until_ns - (r.old.until_ns or 0))} later as a new "
                "member",
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
            "A static member that leaves loses its place at once, so its restart "
            "causes two rebalances, as without group.instance.id. Stop the process "
            "without leaving: static consumers of kafka-clients, librdkafka, franz-go "
            "and kohort do so by default.",
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
    """A process that keeps joining and leaving, and is not a slow poller."""
    slow = _at_work_after_leaving(facts)
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
    "A process that dies soon after it joined makes the whole group rebalance up to "
    "twice each time. Find out why it dies. Until then, let it wait longer before it "
    "restarts, and make it static (group.instance.id, KIP-345), so that the other "
    "members do not rebalance."
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
    yield Finding(
        "crash-loop",
        f"{perhaps}{names.of(lives[0].member_id)} came and went {len(lives)} times "
        f"and caused {many(len(caused), 'rebalance')}; {cost(caused)}",
        _DIES if is_sure else _LEAVES,
        tuple(
            _gone(
                life,
                f"{names.of(life.member_id)} was a member for "
                f"{duration((life.until_ns or 0) - (life.since_ns or 0))}: "
                f"it {how(life.how)}{said(life.reason)}",
            )
            for life in lives
        ),
        is_sure,
    )


# -- session timeouts


def crashed(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that went silent and never came back as the same process."""
    alive = {r.member_id for r in facts.refusals if r.error == "UNKNOWN_MEMBER_ID"}
    alive |= {member.previous_id or "" for member in facts.members.values()}
    found = {
        life.member_id: life
        for life in facts.lives
        if life.how is Gone.EXPIRED and life.member_id not in alive
    }
    if not found:
        return
    unread = _unread(facts, Gone.EXPIRED)
    silent = [life.silent_ns for life in found.values() if life.silent_ns is not None]
    longest = f" (up to {duration(max(silent))} here)" if silent else ""
    yield Finding(
        "crashed",
        f"Members crashed or were cut off without leaving the group: "
        f"{many(len(found), 'time')}{_without_reader(unread, found)}",
        "The process died, was killed, or lost its network. Until its session expires"
        f"{longest}, the broker still considers it a member, and its partitions have "
        "no reader. Find out why it ended. If you stopped it, use a signal that it "
        "handles and close the consumer: the group then reassigns its partitions at "
        "once. A shorter session.timeout.ms (with heartbeat.interval.ms at a third of "
        "it) shortens the wait.",
        tuple(
            _gone(
                life,
                f"{names.of(member_id)}'s session expired{_after(life)}"
                f"{_without_reader(unread, [member_id])}",
            )
            for member_id, life in found.items()
        ),
    )


def _unread(facts: Facts, cause: str) -> dict[str, list[Unread]]:
    """The time that partitions had no reader, by their last owner."""
    found: dict[str, list[Unread]] = defaultdict(list)
    rows = [row for each in facts.rebalances for row in each.unread]
    rows += [row for each in facts.quiet for row in each.unread]
    for row in (*rows, *facts.unread_since):
        if row.cause == cause:
            found[row.member_id].append(row)
    return found


def _without_reader(
    unread: Mapping[str, Sequence[Unread]], member_ids: Iterable[str]
) -> str:
    rows = [row for member_id in member_ids for row in unread.get(member_id, ())]
    total_ns = sum(row.duration_ns * row.count for row in rows)
    if not total_ns:
        return ""
    return f"; partitions had no reader for {product(total_ns, 'partition')}"


def _after(life: Life) -> str:
    if life.silent_ns is None:
        return ""
    return f" {duration(life.silent_ns)} after it was last heard of"


def session_too_short(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that were alive when their sessions expired: they sent requests later."""
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
            what = "committed" if refusal.cause == "commit" else "tried to rejoin"
            after = duration(refusal.at_ns - life.until_ns)
            text = f"{names.of(refusal.member_id)}'s session expired, and it {what}"
            found[refusal.member_id] = _gone(life, f"{text} {after} later")
    for again in facts.lives:
        life = dead.get(facts.members[again.member_id].previous_id or "")
        if life is None or life.until_ns is None or life.member_id in found:
            continue
        after = duration(max((again.since_ns or 0) - life.until_ns, 0))
        text = f"{names.of(life.member_id)}'s session expired, and it rejoined {after}"
        found[life.member_id] = _gone(life, f"{text} later on the same connection")
    if not found:
        return
    sessions = [facts.members[member_id].session_timeout_ms or 0 for member_id in found]
    was = f" (it was {min(sessions)})" if min(sessions) else ""
    yield Finding(
        "session-too-short",
        f"Sessions of live members expired: {many(len(found), 'time')}"
        f"{_without_reader(_unread(facts, Gone.EXPIRED), found)}",
        "Something delayed their heartbeats: a pause (garbage collection, a stopped "
        "container), a network outage, or a client that sends heartbeats only while "
        "the application polls. Raise session.timeout.ms above the longest pause"
        f"{was}, with heartbeat.interval.ms at most a third of it.",
        tuple(found.values()),
    )


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
            found.append(_gone(ghost, text))
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
                    at_ns, f"pending member {names.of(member_id)} expired", sequence
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
                ),
            ),
        )
