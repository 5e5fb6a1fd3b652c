"""Findings about requests that were refused."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from kohort.broker.events.account.membership import Life
from kohort.broker.events.account.values import Gone
from kohort.broker.events.findings.facts import Facts, Refusal
from kohort.broker.events.findings.finding import (
    SECOND,
    Evidence,
    Finding,
    Setting,
)
from kohort.broker.events.findings.interventions import is_limited
from kohort.broker.events.findings.names import Names, cut
from kohort.broker.events.findings.words import duration, how, many

ASKS_AGAIN = 5
"""Too many JoinGroups of one process to a full group. The error is fatal to Kafka's
clients (KIP-389): a start may try two or three times, a loop does not stop."""

REFUSED = 3
"""JoinGroups refused by a full group that show that its limit is too low: one or two
are a rolling update."""
SURGE = 1.25
"""Room beyond the members and refused clients: a rolling update of Kubernetes starts
a quarter more pods (maxSurge) before it stops the old ones."""

RIGHT_BEHIND_NS = SECOND
"""How long after a LeaveGroup a commit without a member id counts as the same
client's. aiokafka leaves after max.poll.interval.ms, forgets its member id, and commits
in the next step."""

_TOO_LATE = frozenset({"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"})
"""Errors of a commit after its member, or its generation, is gone.
REBALANCE_IN_PROGRESS does not count: the client rejoins and commits again."""


def static_member_refused(facts: Facts, names: Names) -> Iterator[Finding]:
    """Static members that restarted and found their group full.

    Either the old place counted: a restarted member has no member id, so a Stable and
    full group refuses it as one member too many (KIP-389), although it would get its
    old place (KIP-345). Or its session had expired and others had filled the group.
    """
    found = [
        _of(refusal, _refused_again(last, refusal), names)
        for refusal, last in refused_again(facts)
    ]
    if found:
        yield Finding(
            "static-member-refused",
            f"Static members could not rejoin because the group was full: "
            f"{many(len(found), 'time')}",
            "A full group refuses a restarted static member even while it keeps that "
            "member's place: the member joins without a member id, so group.max.size "
            "(KIP-389) counts it as one more. Some clients give up on that error, "
            "others retry until the old session has expired. Set group.max.size to at "
            "least the number of members plus the number that may restart at once, and "
            "session.timeout.ms above the time of a restart: after that, another "
            "member may take the place.",
            tuple(found),
        )


def refused_again(facts: Facts) -> Iterator[tuple[Refusal, Life]]:
    """Refusals of static members by a full group, each with the member's last life."""
    lives: dict[str, list[Life]] = {}
    for life in facts.lives:
        instance_id = facts.members[life.member_id].instance_id
        if instance_id is not None:
            lives.setdefault(instance_id, []).append(life)
    for refusal in facts.refusals:
        mine = lives.get(refusal.member.instance_id or "", ())
        began = bisect_right(mine, refusal.at_ns, key=lambda life: life.since_ns or 0)
        if refusal.cause == "full" and began:
            yield refusal, mine[began - 1]


def is_there(life: Life, refusal: Refusal) -> bool:
    """True if the group kept the static member's place when it refused it."""
    return life.until_ns is None or life.until_ns > refusal.at_ns


def _refused_again(last: Life, refusal: Refusal) -> str:
    instance_id = cut(refusal.member.instance_id or "")
    if is_there(last, refusal):
        return f"{instance_id} was refused while the group still had its old member id"
    away = duration(refusal.at_ns - (last.until_ns or 0))
    return f"{instance_id} {how(last.how)}, and was refused {away} later"


def unsupported_protocol(facts: Facts, names: Names) -> Iterator[Finding]:
    """Clients that ask for a group of a protocol that the broker does not have."""
    found = [r for r in facts.refusals if r.cause == "unsupported"]
    if found:
        yield Finding(
            "unsupported-protocol",
            "Clients asked for a group of a protocol that the broker does not have",
            "Set group.protocol=classic in Kafka Streams (KIP-1071), and in consumers"
            " if group.coordinator.rebalance.protocols of the broker is without"
            " consumer (KIP-848). Share groups (KIP-932) have no classic form: use a"
            " KafkaConsumer.",
            tuple(_of(r, f"{_sender(r)}: {r.error}", names) for r in found),
        )


def full_group(facts: Facts, names: Names) -> Iterator[Finding]:
    """A full group, and clients that keep trying to join it."""
    own = {id(r) for r, life in refused_again(facts) if is_there(life, r)}
    full = [
        r
        for r in facts.refusals
        if r.cause == "full" and id(r) not in own and not is_limited(facts, r.at_ns)
    ]
    if not full:
        return
    askers: dict[tuple[str, str], list[Refusal]] = {}
    for refusal in full:
        askers.setdefault(refusal.member.process, []).append(refusal)
    room = _room(facts, len(full), len(askers))
    yield Finding(
        "group-full",
        f"The group was full and refused {many(len(full), 'JoinGroup')} of "
        f"{many(len(askers), 'client')}",
        "More consumers started than group.max.size (KIP-389) allows: start fewer, "
        "raise it, or split the work into several groups. Members beyond the number "
        "of partitions would be idle."
        if room is None
        else "There are partitions for all of them: raise group.max.size (KIP-389).",
        tuple(_of(rows[0], _asked(rows), names) for rows in askers.values()),
        setting=room,
    )
    stubborn = {p: rows for p, rows in askers.items() if len(rows) >= ASKS_AGAIN}
    if stubborn:
        yield Finding(
            "asks-full-group-again",
            f"{many(len(stubborn), 'client')} kept trying to join a full group",
            "GROUP_MAX_SIZE_REACHED is fatal: a retry does not help, and each "
            "JoinGroup costs the coordinator work. Let the process exit, or back off "
            "longer after each try. Clients that do not know the error treat it as "
            "retriable.",
            tuple(_of(rows[0], _asked(rows), names) for rows in stubborn.values()),
        )


def _room(facts: Facts, refusals: int, askers: int) -> Setting | None:
    """A larger group.max.size, if there are partitions for those that were refused."""
    members = max((len(each.members) for each in facts.rebalances), default=0)
    has_work = members + askers <= (len(facts.partitions) or members + askers)
    if refusals < REFUSED or not members or askers > members or not has_work:
        return None
    room = math.ceil((members + askers) * SURGE)
    return Setting("group.max.size", str(room), str(members))


def _asked(rows: Sequence[Refusal]) -> str:
    first, last = rows[0], rows[-1]
    name = cut(first.member.instance_id or first.member.client_id or first.member_id)
    text = (
        f"{name or 'a client'} at {first.member.host or 'an unknown host'} was refused"
    )
    if len(rows) == 1:
        return f"{text} once"
    return f"{text} {len(rows)} times in {duration(last.at_ns - first.at_ns)}"


def inconsistent_protocols(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members without an assignor that the group supports."""
    found = [r for r in facts.refusals if r.cause == "inconsistent"]
    if not found:
        return
    used = sorted({r.protocol for r in facts.rebalances if r.protocol})
    group = f"; the group uses {cut(', '.join(used))}" if used else ""
    yield Finding(
        "inconsistent-protocols",
        f"Members were refused because they share no assignor with the group: "
        f"{many(len(found), 'time')}{group}",
        "All members of a group need one assignor in common "
        "(partition.assignment.strategy) and the same protocol type: consumers cannot "
        "share a group with Kafka Connect or Streams. To change the assignor, restart "
        "all members with both assignors, then all without the old one.",
        tuple(_of(r, _offered(r, names), names) for r in found),
    )


def _offered(refusal: Refusal, names: Names) -> str:
    member = refusal.member
    name = cut(member.instance_id or member.client_id) or names.of(refusal.member_id)
    offers = f" with {cut(', '.join(member.protocols))}" if member.protocols else ""
    return f"{name} was refused{offers}: {refusal.error}"


def instance_id_twice(facts: Facts, names: Names) -> Iterator[Finding]:
    """Two processes with one group.instance.id, which fence each other."""
    fenced: dict[str, list[Refusal]] = {}
    for refusal in facts.refusals:
        is_one = refusal.cause == "fenced" or refusal.error == "FENCED_INSTANCE_ID"
        if is_one and refusal.member.instance_id:
            fenced.setdefault(refusal.member.instance_id, []).append(refusal)
    for instance_id, rows in fenced.items():
        replaced = [r for r in facts.replacements if r.instance_id == instance_id]
        name = cut(instance_id)
        evidence = [_of(r, f"{name} was fenced: {r.error}", names) for r in rows]
        evidence += [
            Evidence(r.at_ns, f"another process joined as {name}", r.sequence)
            for r in replaced
        ]
        yield Finding(
            "instance-id-twice",
            f"Two processes have the group.instance.id {name}: the older one was "
            f"fenced {many(len(rows), 'time')}",
            "The process that joins last takes the place, and the other one, still "
            "alive, is fenced (FENCED_INSTANCE_ID, KIP-345). Make the id unique per "
            "process, for example the pod name in a StatefulSet, or stop the old "
            "process before the new one starts.",
            tuple(sorted(evidence, key=lambda each: (each.at_ns, each.sequence or 0))),
            subject=name,
        )


def commits_too_late(facts: Facts, names: Names) -> Iterator[Finding]:
    """Commits of former members, or of an earlier generation."""
    went = {life.member_id: life for life in facts.lives if life.until_ns is not None}
    own = {id(refusal): m for refusal, m in commits_of_members(facts)}
    found = []
    for refusal in facts.refusals:
        member_id = refusal.member_id or own.get(id(refusal))
        if not _is_late(refusal) or not member_id:
            continue
        if member_id in facts.ended_by_test:
            continue
        text = f"{names.of(member_id)} committed: {refusal.error}"
        life = went.get(member_id)
        if life is not None and (life.until_ns or 0) <= refusal.at_ns:
            if life.how is Gone.EXPIRED:
                continue  # not late, but silent: its session has a finding
            after = duration(refusal.at_ns - (life.until_ns or 0))
            text += f", {after} after it {how(life.how)}"
        found.append(_of(refusal, f"{text} ({_sender(refusal)})", names))
    if found:
        yield Finding(
            "commit-too-late",
            f"Commits came after a rebalance and were refused: "
            f"{many(len(found), 'time')}",
            "The records are consumed twice, unless the member keeps the partition and "
            "commits again. A batch took longer than the member's generation lasted. "
            "Commit in onPartitionsRevoked, take fewer records at a time "
            "(max.poll.records), and raise max.poll.interval.ms above the longest "
            "batch.",
            tuple(found),
        )


def _is_late(refusal: Refusal) -> bool:
    return refusal.cause == "commit" and refusal.error in _TOO_LATE


def commits_of_members(facts: Facts) -> Iterator[tuple[Refusal, str]]:
    """Refused commits, and the member id of the former member that sent each.

    The sender is the member id in the commit; else the last member on its connection.
    If connections are unknown, a commit right after a LeaveGroup without a reason is
    most likely from the member that left.
    """
    left = [
        (life.until_ns, life.member_id)
        for life in facts.lives
        if life.how is Gone.LEFT and not life.reason and life.until_ns is not None
    ]
    left.sort(key=lambda row: row[0])
    for refusal in filter(_is_late, facts.refusals):
        if refusal.member_id in facts.members:
            yield refusal, refusal.member_id
        elif refusal.sender is not None:
            yield refusal, refusal.sender
        elif not refusal.member_id and refusal.connection is None:
            before = bisect_right(left, refusal.at_ns, key=lambda row: row[0])
            if before and refusal.at_ns - left[before - 1][0] <= RIGHT_BEHIND_NS:
                yield refusal, left[before - 1][1]


def commits_of_others(facts: Facts, names: Names) -> Iterator[Finding]:
    """Commits of partitions that another member owns: the broker takes them."""
    found = facts.foreign_commits
    if found:
        yield Finding(
            "commit-of-former-owner",
            f"Members committed partitions that others owned: "
            f"{many(len(found), 'time')}",
            "The broker checks a commit's member and generation, not its partitions. "
            "Such a commit moves the offset of the new owner back, or ahead of records "
            "that it has not processed. Drop the offsets of a partition when it is "
            "revoked or lost (onPartitionsRevoked, onPartitionsLost), after a last "
            "commit; do not keep them in a map of all partitions, or in a worker that "
            "goes on.",
            tuple(
                Evidence(
                    each.at_ns,
                    f"{names.of(each.member_id)} committed {each.offset} for "
                    f"{cut(each.partition[0])}-{each.partition[1]}, which "
                    f"{names.of(each.owner)} owned",
                    each.sequence,
                    each.generation,
                    (names.of(each.member_id), names.of(each.owner)),
                )
                for each in found
            ),
        )


def commits_from_outside(facts: Facts, names: Names) -> Iterator[Finding]:
    """Commits of a client that is no member, while the group has members."""
    own = {id(refusal) for refusal, _ in commits_of_members(facts)}
    found = [
        r
        for r in filter(_is_late, facts.refusals)
        if not r.member_id and id(r) not in own
    ]
    if found:
        yield Finding(
            "commit-from-outside",
            f"A client that is not a member tried to commit and was refused: "
            f"{many(len(found), 'time')}",
            "While a group has members, only they can commit. A consumer that uses "
            "assign() needs its own group.id; to reset offsets, stop the members "
            "first.",
            tuple(_of(r, f"{_sender(r)}: {r.error}", names) for r in found),
        )


def _sender(refusal: Refusal) -> str:
    """The client that sent a request, as far as the event names it."""
    member = refusal.member
    told = [f"client {cut(member.client_id)}" if member.client_id else "a client"]
    if member.host:
        told.append(f"host {member.host}")
    if refusal.connection is not None:
        told.append(f"connection {refusal.connection}")
    return ", ".join(told)


def _of(refusal: Refusal, text: str, names: Names) -> Evidence:
    name = names.client(refusal.member)
    sequence, generation = refusal.sequence, refusal.generation
    return Evidence(refusal.at_ns, text, sequence, generation, (name,))
