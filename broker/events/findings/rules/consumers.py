"""Findings about consumer groups (KIP-848)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kohort.broker.events.findings.facts import Facts
from kohort.broker.events.findings.finding import (
    SECOND,
    Cost,
    Evidence,
    Finding,
    Setting,
    cost,
)
from kohort.broker.events.findings.names import Names
from kohort.broker.events.findings.words import duration, head, many

SLOW_NS: Final = 5 * SECOND
"""A revocation that is too long. A member learns of it with its next heartbeat, gives
up its partitions in its next poll, and says so at once: some 100 ms with most
clients."""

_OF_GROUPS: Final = re.compile(r"(?<![\w.])(session\.timeout|heartbeat\.interval)\.ms")


def of_consumers(finding: Finding) -> Finding:
    """A finding about a group, in the settings of consumer groups.

    There the session timeout and the interval of heartbeats are settings of the broker,
    or of the group, and no longer of the client; the assignor is the broker's, too.
    """
    setting = finding.setting
    if setting is not None:
        name = _OF_GROUPS.sub(r"group.consumer.\1.ms", setting.name)
        is_gone = name == "partition.assignment.strategy"
        setting = None if is_gone else replace(setting, name=name)
    advice = _OF_GROUPS.sub(r"group.consumer.\1.ms", finding.advice)
    advice = advice.replace("partition.assignment.strategy", "group.remote.assignor")
    return replace(finding, advice=advice, setting=setting)


def keeps_partitions(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that give up their partitions late, or do not."""
    found = [
        (each, step)
        for each in facts.rebalances
        if each.key not in facts.of_test
        for step in each.steps
        if step.what == "revoke" and step.duration_ns >= SLOW_NS
    ]
    if not found:
        return
    rebalances = [*{each.key: each for each, _ in found}.values()]
    yield Finding(
        "keeps-partitions",
        f"Members gave up partitions late, or not at all: {many(len(found), 'time')}; "
        f"{cost(rebalances)}",
        "Other members wait for these partitions. A member gives them up in its next "
        "poll, after its callback for revoked partitions. Make batches smaller "
        "(max.poll.records) and the callback short. A member that takes longer than "
        "its max.poll.interval.ms, the rebalance timeout, is removed.",
        tuple(
            Evidence(
                step.since_ns,
                f"{head(each)}: {names.of(step.member_id)} took "
                f"{duration(step.duration_ns)} for {many(step.count, 'partition')}",
                each.started_sequence,
                each.generation,
                (names.of(step.member_id),),
                step.until_ns,
            )
            for each, step in found
        ),
        cost=Cost.of(rebalances),
    )


def unknown_assignor(facts: Facts, names: Names) -> Iterator[Finding]:
    """Clients that ask for an assignor that the broker does not have."""
    found = [r for r in facts.refusals if r.error == "UNSUPPORTED_ASSIGNOR"]
    if found:
        yield Finding(
            "unknown-assignor",
            "Clients asked for an assignor that the broker does not have: "
            f"{many(len(found), 'time')}",
            "In a consumer group the broker computes the assignment. "
            "group.consumer.assignors lists its assignors, uniform and range. Set "
            "group.remote.assignor to one of them, or leave it out. Assignors of "
            "clients (partition.assignment.strategy) have no effect any more.",
            tuple(
                Evidence(
                    each.at_ns,
                    f"{names.client(each.member)} was refused: {each.error}",
                    each.sequence,
                    each.generation,
                    (names.client(each.member),),
                )
                for each in found
            ),
        )


def nothing_subscribed(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members of a consumer group whose pattern matches no topic."""
    found = [
        life
        for life in facts.lives
        if life.until_ns is None
        and (member := facts.members.get(life.member_id)) is not None
        and member.group_type == "consumer"
        and member.topics == ()
    ]
    if found:
        who = names.list(life.member_id for life in found)
        yield Finding(
            "nothing-subscribed",
            f"{who} subscribed to no topic that exists",
            "A pattern is one of RE2, is matched against whole names of topics by the "
            "broker, and leaves out internal topics. New topics are found at once, "
            "patterns are also resolved anew at each "
            "group.consumer.regex.refresh.interval.ms. Until then the member has no "
            "partitions.",
            tuple(
                Evidence(
                    life.since_ns or facts.since_ns or 0,
                    f"{names.of(life.member_id)} joined without a topic",
                    members=(names.of(life.member_id),),
                )
                for life in found
            ),
        )


def both_protocols(facts: Facts, names: Names) -> Iterator[Finding]:
    """A group with members of the classic and of the consumer protocol."""
    present = [life.member_id for life in facts.lives if life.until_ns is None]
    types = {
        member_id: member.group_type
        for member_id in present
        if (member := facts.members.get(member_id)) is not None
    }
    classic = [m for m, kind in types.items() if kind == "classic"]
    if classic and "consumer" in types.values():
        yield Finding(
            "both-protocols",
            f"{many(len(classic), 'member')} of {len(present)} "
            "still use the classic protocol in a consumer group",
            "Such a group works while it is migrated (KIP-848), but each change costs "
            "the classic members a rebalance. Restart them with "
            "group.protocol=consumer. group.consumer.migration.policy has to stay "
            "bidirectional or upgrade until then.",
            tuple(
                Evidence(
                    life.since_ns or facts.since_ns or 0,
                    f"{names.of(life.member_id)} uses the classic protocol",
                    members=(names.of(life.member_id),),
                )
                for life in facts.lives
                if life.until_ns is None and life.member_id in classic
            ),
        )


def session_without_effect(facts: Facts, names: Names) -> Iterator[Finding]:
    """Clients whose session timeout ended with the classic protocol.

    In a consumer group it is the group's, or the broker's.
    """
    before = {
        member.process: member
        for member in facts.members.values()
        if member.group_type == "classic" and member.session_timeout_ms is not None
    }
    found = [
        (life, old.session_timeout_ms, member.session_timeout_ms)
        for life in facts.lives
        if life.until_ns is None
        and (member := facts.members.get(life.member_id)) is not None
        and member.group_type == "consumer"
        and (old := before.get(member.process)) is not None
        and member.session_timeout_ms not in (None, old.session_timeout_ms)
    ]
    if found:
        _, was_ms, is_ms = found[0]
        who = names.list(life.member_id for life, _, _ in found)
        yield Finding(
            "session-without-effect",
            f"session.timeout.ms of {who} has no effect any more: {is_ms} ms in place "
            f"of {was_ms} ms",
            "In a consumer group the session timeout is the broker's. For one group it "
            "is the configuration consumer.session.timeout.ms, see kafka-configs "
            "--entity-type groups.",
            tuple(
                Evidence(
                    life.since_ns or facts.since_ns or 0,
                    f"{names.of(life.member_id)} joined by the consumer protocol: a "
                    f"session of {new} ms; it had {old} ms in the classic one",
                    members=(names.of(life.member_id),),
                )
                for life, old, new in found
            ),
            setting=Setting(
                "group.consumer.session.timeout.ms", str(was_ms), str(is_ms)
            ),
        )
