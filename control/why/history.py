"""A group's history: its rebalances in words, and what is to be learnt from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kohort.control.why.findings import MOST_EVIDENCE, Finding, find
from kohort.control.why.fold import fold, fold_all
from kohort.control.why.model import Event, Facts, Rebalance, StandStill, Wait
from kohort.control.why.names import Names
from kohort.control.why.partitions import parts_of
from kohort.control.why.words import duration, explain, many


@dataclass(frozen=True)
class History:
    """What happened to a group, and why.

    Attributes:
        facts: everything that is known, as values.
        names: what its members are called.
        findings: known ills, with advice and evidence.
    """

    facts: Facts
    names: Names
    findings: tuple[Finding, ...]

    @property
    def rebalances(self) -> tuple[Rebalance, ...]:
        """All rebalances, the oldest first."""
        return tuple(self.facts.rebalances)

    def explain(self, rebalance: Rebalance) -> str:
        """One rebalance in plain words."""
        return explain(rebalance, self.names)

    def summary(self) -> str:
        """The group in one line."""
        facts = self.facts
        if facts.since_ns is None or facts.until_ns is None:
            return f"group {facts.group}: no events"
        busy = sum(each.duration_ns for each in facts.rebalances)
        still = sum(each.stood_still_ns for each in facts.rebalances)
        text = (
            f"group {facts.group}: {many(len(facts.rebalances), 'rebalance')} in "
            f"{duration(facts.until_ns - facts.since_ns)}"
        )
        if facts.rebalances:
            text += f", which took {duration(busy)}"
        if still:
            text += f"; members stood still for {duration(still)} together"
        quiet = self._quiet_returns()
        if quiet:
            text += f"; static members came back without one {many(quiet, 'time')}"
        lost = sum(last - first + 1 for first, last in facts.gaps)
        if lost:
            text += f"; {many(lost, 'event')} of the broker's are missing"
        if facts.since_generation:
            text += (
                f"; what was before generation {facts.since_generation} is not known"
            )
        if facts.set_back_ns:
            text += (
                f"; the clock was set back by {duration(facts.set_back_ns)}, and "
                "durations around that are too short"
            )
        return text

    def _quiet_returns(self) -> int:
        """How often a static member took its old place, and nobody else noticed."""
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
            shown = finding.evidence[:MOST_EVIDENCE]
            lines += [f"  - {each.text}" for each in shown]
            if len(finding.evidence) > len(shown):
                lines.append(f"  - and {len(finding.evidence) - len(shown)} more")
        return "\n".join(lines)

    def sentences(self) -> dict[str, list[str]]:
        """Explanations by the event that each rebalance began with.

        Keys are "run/node/sequence".
        """
        return {
            f"{each.run}/{each.node}/{each.sequence}": [self.explain(each)]
            for each in self.facts.rebalances
        }

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

    def _rebalance(self, each: Rebalance) -> dict[str, Any]:
        return {
            "words": self.explain(each),
            "run": each.run,
            "node": each.node,
            "sequence": each.sequence,
            "previous_generation": each.previous_generation,
            "generation": each.generation,
            "previous_state": each.previous_state,
            "cause": each.cause,
            "culprits": [*each.culprits],
            "departures": {m: str(how) for m, how in each.departures.items()},
            "reason": each.reason,
            "silent_ns": each.silent_ns,
            "is_second_half": each.is_second_half,
            "is_same_offer": each.is_same_offer,
            "started_ns": each.started_ns,
            "joined_ns": each.joined_ns,
            "ended_ns": each.ended_ns,
            "duration_ns": each.duration_ns,
            "join_ns": each.join_ns,
            "sync_ns": each.sync_ns,
            "outcome": str(each.outcome),
            "ended_wait": each.ended_wait,
            "waits": [_wait(wait) for wait in each.waits],
            "waited_for": [
                {"member_id": m, "waited_ns": ns, "came": came}
                for m, ns, came in each.waited_for
            ],
            "members": [*each.members],
            "gained": [*each.gained],
            "lost": [*each.lost],
            "latecomers": [*each.latecomers],
            "missing": [*each.missing],
            "refused": [{"who": who, "cause": why} for who, why in each.refused],
            "protocol": each.protocol,
            "leader": each.leader,
            "is_eager": each.is_eager,
            "stand_stills": [_stand_still(row) for row in each.stand_stills],
            "stood_still_ns": each.stood_still_ns,
            "partitions": _moves(each),
            "is_whole": each.is_whole,
        }


def history(
    events: Iterable[Event], group: str, until_ns: int | None = None
) -> History:
    """What happened to a group, and why.

    Args:
        events: in the order in which they were seen, as from `broker.events.recent`
            or a file; other groups' are passed over.
        group: the group's id.
        until_ns: now, by the broker's clock, where the events are all that there are
            up to now: what is under way has gone on until then. None: the last event
            is the end.

    Returns:
        Its history; an empty one if there is no event of it.
    """
    return _history(fold(events, group, until_ns))


def histories(
    events: Iterable[Event], until_ns: int | None = None
) -> dict[str, History]:
    """The same for every group that has an event, by its id."""
    found = fold_all(events, until_ns)
    return {group: _history(facts) for group, facts in found.items()}


def _history(facts: Facts) -> History:
    names = Names(facts.members, facts.lives)
    return History(facts, names, find(facts, names))


def _wait(wait: Wait) -> dict[str, Any]:
    return {
        "what": wait.what,
        "since_ns": wait.since_ns,
        "duration_ns": wait.duration_ns,
        "ended_by": wait.ended_by,
        "member_id": wait.member_id,
        "missing": [*wait.missing],
    }


def _stand_still(row: StandStill) -> dict[str, Any]:
    return {
        "member_id": row.member_id,
        "since_ns": row.since_ns,
        "duration_ns": row.duration_ns,
        "partitions": row.partitions,
        "ended_by": row.ended_by,
    }


def _moves(each: Rebalance) -> dict[str, Any] | None:
    moves = each.moves
    if moves is None:
        return None
    return {
        "moved": [
            {
                "topic": move.partition[0],
                "partition": move.partition[1],
                "source": move.source,
                "target": move.target,
                "returned": move.returned,
                "idle_ns": move.idle_ns,
            }
            for move in [*moves.moved, *moves.first]
        ],
        "kept": [
            {"member_id": member_id, "partitions": parts_of(partitions)}
            for member_id, partitions in moves.kept.items()
        ],
        "given_up": [
            {"topic": partition[0], "partition": partition[1], "source": source}
            for partition, source in moves.given_up
        ],
        "is_whole": moves.is_whole,
    }
