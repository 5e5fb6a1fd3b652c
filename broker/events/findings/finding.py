"""Findings: known problems that a group's numbers show, with advice and evidence.

A rule is a function from facts to findings; `RULES` of the package ``rules`` is all of
them. Its thresholds are constants of its module, each with the reason for the number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kohort.broker.events.account import Account
from kohort.broker.events.account.membership import Life
from kohort.broker.events.findings.facts import Facts
from kohort.broker.events.findings.names import Names
from kohort.broker.events.findings.words import cause, duration, head, product

SECOND = 1_000_000_000
MINUTE = 60 * SECOND

MOST_EVIDENCE = 20
"""Most lines of evidence shown for one finding; the count is always shown."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation.

    Attributes:
        at_ns: its time.
        text: the fact in words.
        sequence: of the event; None: it is about more than one.
        generation: of the group, then or right after.
    """

    at_ns: int
    text: str
    sequence: int | None = None
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A known problem, with advice.

    Attributes:
        code: for programs, as in ``rolling-restart``.
        title: the problem, with its numbers.
        advice: the remedy.
        evidence: the rebalances or events that show it, in order of time.
        is_sure: False: other things look the same, and the title says "perhaps".
    """

    code: str
    title: str
    advice: str
    evidence: tuple[Evidence, ...]
    is_sure: bool = True

    def as_json(self) -> dict[str, Any]:
        """JSON's types."""
        return {
            "code": self.code,
            "title": self.title,
            "advice": self.advice,
            "is_sure": self.is_sure,
            "evidence": [
                {
                    "time_ns": each.at_ns,
                    "text": each.text,
                    "sequence": each.sequence,
                    "generation": each.generation,
                }
                for each in self.evidence
            ],
        }


Rule = Callable[[Facts, Names], Iterator[Finding]]


def gone(life: Life, text: str) -> Evidence:
    """The end of a member's life as evidence."""
    assert life.until_ns is not None
    return Evidence(life.until_ns, text, life.until_sequence)


def of_rebalance(rebalance: Account, names: Names) -> Evidence:
    """A rebalance as evidence: its cause, and its duration."""
    text = f"{head(rebalance)}: {cause(rebalance, names)}"
    return Evidence(
        rebalance.started_ns,
        f"{text}; it took {duration(rebalance.duration_ns)}",
        rebalance.started_sequence,
        rebalance.generation,
    )


def cost(rebalances: Sequence[Account]) -> str:
    """The cost of rebalances, in words."""
    paused_ns = sum(each.paused_ns for each in rebalances)
    unread_ns = sum(each.unread_ns for each in rebalances)
    told = []
    if paused_ns:
        told.append(f"processing paused for {product(paused_ns, 'member')}")
    if unread_ns:
        unread = product(unread_ns, "partition")
        told.append(f"partitions had no reader for {unread}")
    return " and ".join(told) or "no processing paused"
