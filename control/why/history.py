"""A group's history: its rebalances in words, and findings with advice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kohort.broker.events.account import Account
from kohort.broker.events.account.values import Event, unread_ns
from kohort.broker.events.findings.explain import conversion, explain
from kohort.broker.events.findings.facts import Facts
from kohort.broker.events.findings.finding import MOST_EVIDENCE, Finding
from kohort.broker.events.findings.fold import Waiting, fold, fold_all
from kohort.broker.events.findings.names import Names
from kohort.broker.events.findings.rules import find
from kohort.broker.events.findings.words import duration, many, product


@dataclass(frozen=True)
class History:
    """The rebalances of a group, their causes, and findings.

    Attributes:
        facts: all facts, as values.
        names: names of its members.
        findings: known problems, with advice and evidence.
    """

    facts: Facts
    names: Names
    findings: tuple[Finding, ...]

    @property
    def rebalances(self) -> tuple[Account, ...]:
        """All rebalances, the oldest first."""
        return tuple(self.facts.rebalances)

    @property
    def last(self) -> Account:
        """The latest rebalance, which may be in progress.

        Raises:
            LookupError: there is none.
        """
        if not self.facts.rebalances:
            raise LookupError(f"group {self.facts.group} has had no rebalance")
        return self.facts.rebalances[-1]

    def explain(self, rebalance: Account) -> str:
        """One rebalance in plain words, with the faults that led to it."""
        return explain(rebalance, self.facts, self.names)

    def summary(self) -> str:
        """The group in one line."""
        facts = self.facts
        if facts.since_ns is None or facts.until_ns is None:
            return f"group {facts.group}: no events"
        busy = sum(each.duration_ns for each in facts.rebalances)
        paused_ns = sum(each.paused_ns for each in facts.rebalances)
        text = (
            f"group {facts.group}: {many(len(facts.rebalances), 'rebalance')} in "
            f"{duration(facts.until_ns - facts.since_ns)}"
        )
        if facts.rebalances:
            text += f", which took {duration(busy)}"
        if paused_ns:
            text += f"; processing paused for {product(paused_ns, 'member')}"
        if self.unread_ns:
            unread = product(self.unread_ns, "partition")
            text += f"; partitions had no reader for {unread}"
        text += self._quiet_changes()
        lost = sum(last - first + 1 for first, last in facts.gaps)
        if lost:
            text += f"; the broker's stream is missing {many(lost, 'event')}"
        if facts.since_generation:
            text += f"; events before generation {facts.since_generation} are missing"
        if facts.set_back_ns:
            text += (
                f"; the clock was set back by {duration(facts.set_back_ns)}, so "
                "durations around that time are too short"
            )
        return text

    @property
    def unread_ns(self) -> int:
        """Partition-time without a reader, but for an Empty group."""
        quiet = (row for each in self.facts.quiet for row in each.unread)
        rest_ns = unread_ns((*quiet, *self.facts.unread_since))
        return rest_ns + sum(each.unread_ns for each in self.facts.rebalances)

    def _quiet_changes(self) -> str:
        """Changes without a rebalance."""
        text, facts = "", self.facts
        quiet = self._quiet_returns()
        if quiet:
            times = many(quiet, "time")
            text = f"; static members rejoined without a rebalance {times}"
        loud = [c for each in facts.rebalances for c in facts.conversions_of(each)]
        for each in facts.conversions:
            if each not in loud:
                text += f"; {conversion(each, self.names)} without a rebalance"
        return text

    def _quiet_returns(self) -> int:
        """Number of static members that took their old place without a rebalance."""
        joining = [
            (each.started_ns, each.joined_ns or each.ended_ns)
            for each in self.facts.rebalances
        ]
        return sum(
            not any(since <= back.at_ns <= until for since, until in joining)
            for back in self.facts.replacements
        )

    def text(self) -> str:
        """All of it as lines of text: a summary, rebalances, findings."""
        lines = [self.summary(), *map(self.explain, self.facts.rebalances)]
        for finding in self.findings:
            lines += ["", finding.title, f"  {finding.advice}"]
            if finding.setting is not None:
                lines.append(f"  {finding.setting}")
            shown = finding.evidence[:MOST_EVIDENCE]
            lines += [f"  - {each.text}" for each in shown]
            if finding.evidence_count > len(shown):
                lines.append(f"  - and {finding.evidence_count - len(shown)} more")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """JSON's types: the same as `kohort why --json` prints."""
        facts = self.facts
        return {
            "group": facts.group,
            "since_ns": facts.since_ns,
            "until_ns": facts.until_ns,
            "since_generation": facts.since_generation,
            "set_back_ns": facts.set_back_ns,
            "events": facts.events,
            "gaps": [{"first": first, "last": last} for first, last in facts.gaps],
            "summary": self.summary(),
            "unread_ns": self.unread_ns,
            "members": [
                {
                    "member_id": member.member_id,
                    "name": self.names.of(member.member_id),
                    "instance_id": member.instance_id,
                    "client_id": member.client_id,
                    "host": member.host,
                }
                for member in facts.members.values()
            ],
            "rebalances": [self._rebalance(each) for each in facts.rebalances],
            "findings": [finding.as_json() for finding in self.findings],
        }

    def _rebalance(self, each: Account) -> dict[str, Any]:
        return {
            "words": self.explain(each),
            "run": each.run,
            "node": each.node,
            "generation": each.generation,
            "reason": each.reason,
            **each.own_fields(),
        }


def history(
    events: Iterable[Event],
    group: str,
    until_ns: int | None = None,
    waiting: Waiting = MappingProxyType({}),
) -> History:
    """Computes a group's history from events.

    Args:
        events: in the order in which they were seen, as from `broker.events.recent`
            or a file; events of other groups are ignored.
        group: the group's id.
        until_ns: now, by the broker's clock, if the events are complete up to now: a
            rebalance under way lasts until then. None: the last event is the end.
        waiting: records that open transactions hold back now, by partition, as far as
            known.

    Returns:
        Its history; empty if the group has no events.
    """
    return _history(fold(events, group, until_ns, waiting))


def histories(
    events: Iterable[Event],
    until_ns: int | None = None,
    waiting: Waiting = MappingProxyType({}),
) -> dict[str, History]:
    """The histories of all groups that have an event, by group id."""
    found = fold_all(events, until_ns, waiting)
    return {group: _history(facts) for group, facts in found.items()}


def _history(facts: Facts) -> History:
    names = Names(facts.members, facts.lives)
    return History(facts, names, find(facts, names))
