"""The rules of findings: about members, rebalances, refusals, faults, transactions."""

from __future__ import annotations

from kohort.broker.events.findings.facts import Facts
from kohort.broker.events.findings.finding import Finding, Rule
from kohort.broker.events.findings.names import Names
from kohort.broker.events.findings.rules import (
    faults,
    members,
    rebalances,
    refusals,
    transactions,
)

RULES: tuple[Rule, ...] = (
    faults.faults_struck,
    faults.clock_advanced,
    transactions.open_transactions,
    transactions.pending_offsets,
    members.max_poll_interval,
    members.crash_loop,
    members.rolling_restart,
    members.static_member_expired,
    members.static_member_left,
    members.crashed,
    members.session_too_short,
    members.session_too_long,
    members.ids_not_used,
    members.idle_members,
    rebalances.many_initial_rebalances,
    rebalances.missed_rebalance_timeout,
    rebalances.slow_to_rejoin,
    rebalances.sync_timeout,
    rebalances.records_too_large,
    rebalances.eager_for_nothing,
    rebalances.leader_rejoins,
    rebalances.changing_subscriptions,
    rebalances.differing_subscriptions,
    rebalances.never_quiet,
    refusals.static_member_refused,
    refusals.full_group,
    refusals.inconsistent_protocols,
    refusals.instance_id_twice,
    refusals.commits_too_late,
    refusals.commits_from_outside,
    transactions.loose_offsets,
    transactions.long_transactions,
    transactions.timed_out,
    transactions.fenced,
)
"""Rules in the order of their findings: causes before consequences."""


def find(facts: Facts, names: Names) -> tuple[Finding, ...]:
    """All findings, in the order of the rules."""
    return tuple(finding for rule in RULES for finding in rule(facts, names))
