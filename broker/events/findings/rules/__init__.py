"""The rules of findings, by their subjects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kohort.broker.events.findings.facts import Facts
from kohort.broker.events.findings.finding import Finding
from kohort.broker.events.findings.names import Names
from kohort.broker.events.findings.rules import (
    consumers,
    delivery,
    faults,
    identities,
    members,
    polling,
    rebalances,
    refusals,
    sessions,
    transactions,
    waits,
)

Rule = Callable[[Facts, Names], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    faults.faults_struck,
    faults.clock_advanced,
    transactions.open_transactions,
    transactions.pending_offsets,
    polling.max_poll_interval,
    members.crash_loop,
    members.rolling_restart,
    identities.renamed,
    identities.visitor,
    members.static_member_expired,
    members.static_member_left,
    sessions.crashed,
    sessions.static_member_gone,
    sessions.hung,
    sessions.session_too_short,
    members.session_too_long,
    members.ids_not_used,
    members.idle_members,
    members.one_has_all,
    rebalances.many_initial_rebalances,
    rebalances.missed_rebalance_timeout,
    rebalances.slow_to_rejoin,
    waits.rare_heartbeats,
    waits.slow_leader,
    rebalances.sync_timeout,
    rebalances.records_too_large,
    rebalances.eager_for_nothing,
    rebalances.moved_for_nothing,
    rebalances.leader_rejoins,
    rebalances.changing_subscriptions,
    rebalances.differing_subscriptions,
    rebalances.never_quiet,
    consumers.keeps_partitions,
    consumers.both_protocols,
    consumers.session_without_effect,
    consumers.nothing_subscribed,
    consumers.unknown_assignor,
    refusals.unsupported_protocol,
    refusals.static_member_refused,
    refusals.full_group,
    refusals.inconsistent_protocols,
    refusals.instance_id_twice,
    refusals.commits_too_late,
    refusals.commits_of_others,
    refusals.commits_from_outside,
    delivery.went_back,
    delivery.skipped,
    delivery.repeated,
    transactions.loose_offsets,
    transactions.long_transactions,
    transactions.timed_out,
    transactions.fenced,
)
"""Rules in the order of their findings: causes before consequences."""


def find(facts: Facts, names: Names) -> tuple[Finding, ...]:
    """All findings, in the order of the rules.

    Those of the stream have precedence if `facts` are of a part of its events: the
    broker that published them knew all events before.
    """
    found = dict[str, Finding]()
    for _ in steps(facts, names, found):
        pass
    if facts.since_generation or facts.gaps:
        found = {**found, **{k: each for k, each in facts.found.items() if each}}
        found = {k: each for k, each in found.items() if facts.found.get(k, each)}
    return tuple(found.values())


def steps(facts: Facts, names: Names, found: dict[str, Finding]) -> Iterator[None]:
    """Adds all findings to `found`, by their keys; yields after each rule."""
    is_consumer = facts.is_consumer
    for rule in RULES:
        for each in rule(facts, names):
            finding = consumers.of_consumers(each) if is_consumer else each
            again = 1
            while finding.key in found:
                again += 1
                finding = replace(finding, subject=f"{each.subject}#{again}")
            found[finding.key] = finding
        yield
