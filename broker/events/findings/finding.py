"""Findings: known problems that a group's numbers show, with advice and evidence.

A rule is a function from facts to findings; `RULES` of the package ``rules`` is all of
them. Its thresholds are constants of its module, each with the reason for the number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from kohort.broker.events.account import Account
from kohort.broker.events.account.membership import Life
from kohort.broker.events.account.values import Event
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
        members: names of the members that it is about.
        until_ns: its end; None: it has no duration.
    """

    at_ns: int
    text: str
    sequence: int | None = None
    generation: int | None = None
    members: tuple[str, ...] = ()
    until_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a problem, as far as the group's events show it.

    Attributes:
        unread_ns: partition-time without a reader.
        paused_ns: member-time without processing.
        records: records that were sent again, or skipped.
    """

    unread_ns: int = 0
    paused_ns: int = 0
    records: int = 0

    @classmethod
    def of(cls, rebalances: Sequence[Account]) -> Self:
        """The cost of rebalances."""
        return cls(
            sum(each.unread_ns for each in rebalances),
            sum(each.paused_ns for each in rebalances),
        )


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting that would have helped.

    Attributes:
        name: Kafka's name of it, as in ``session.timeout.ms``.
        suggested: the value, or how to choose it.
        current: the value now; None: the broker cannot know it.
        saving_ns: the partition-time without a reader that it would have saved, less
            what it costs; None: unknown.
    """

    name: str
    suggested: str
    current: str | None = None
    saving_ns: int | None = None

    def __str__(self) -> str:
        """As in "session.timeout.ms: 15000 (it was 45000), saves about ..."."""
        was = f" (it was {self.current})" if self.current else ""
        saves = ""
        if self.saving_ns:
            saved = product(self.saving_ns, "partition")
            saves = f", saves about {saved} without a reader"
        return f"{self.name}: {self.suggested}{was}{saves}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A known problem, with advice.

    Attributes:
        code: for programs, as in ``rolling-restart``.
        title: the problem, with its numbers.
        advice: the remedy.
        evidence: the rebalances or events that show it, in order of time.
        is_sure: False: other things look the same, and the title says "perhaps".
        subject: the subject, where a group can have several findings of one code.
        cost: the cost of the problem.
        setting: the setting to change; None: no setting, or unknown.
        count: the number of observations; None: that of `evidence`.
        span: since when and until when; None: as the evidence.
        others: names of members, besides those of the evidence.
    """

    code: str
    title: str
    advice: str
    evidence: tuple[Evidence, ...]
    is_sure: bool = True
    subject: str = ""
    cost: Cost = Cost()
    setting: Setting | None = None
    count: int | None = None
    span: tuple[int, int] | None = None
    others: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Key among the findings of a group; stays the same when there is more."""
        return f"{self.code}/{self.subject}" if self.subject else self.code

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the members that it is about, as `kohort why` prints them."""
        named = (name for each in self.evidence for name in each.members)
        return tuple(dict.fromkeys((*named, *self.others)))

    @property
    def evidence_count(self) -> int:
        """The number of observations."""
        return len(self.evidence) if self.count is None else self.count

    def as_json(self, most: int | None = None) -> dict[str, Any]:
        """JSON's types; the same as the fields of the event ``finding``.

        Args:
            most: maximum rows of evidence; None: all.
        """
        setting = self.setting
        since_ns, until_ns = self.span or (
            min((each.at_ns for each in self.evidence), default=0),
            max((each.until_ns or each.at_ns for each in self.evidence), default=0),
        )
        return {
            "finding": self.key,
            "code": self.code,
            "title": self.title,
            "advice": self.advice,
            "is_sure": self.is_sure,
            "members": [*self.members],
            "evidence": [
                {
                    "time_ns": each.at_ns,
                    "text": each.text,
                    "sequence": each.sequence,
                    "generation": each.generation,
                }
                for each in self.evidence[:most]
            ],
            "evidence_count": self.evidence_count,
            "since_ns": since_ns,
            "until_ns": until_ns,
            "unread_ns": self.cost.unread_ns,
            "paused_ns": self.cost.paused_ns,
            "records": self.cost.records,
            "setting": setting and setting.name,
            "current": setting and setting.current,
            "suggested": setting and setting.suggested,
            "saving_ns": setting and setting.saving_ns,
        }

    @classmethod
    def of(cls, event: Event) -> Self:
        """Reads a finding from its event."""
        setting = None
        if event.get("setting") is not None:
            setting = Setting(
                event["setting"],
                str(event.get("suggested")),
                event.get("current"),
                event.get("saving_ns"),
            )
        rows = [
            Evidence(
                row["time_ns"], row["text"], row.get("sequence"), row.get("generation")
            )
            for row in event["evidence"]
        ]
        return cls(
            code=event["code"],
            title=event["title"],
            advice=event["advice"],
            evidence=tuple(rows),
            is_sure=event["is_sure"],
            subject=event["finding"].removeprefix(event["code"]).removeprefix("/"),
            cost=Cost(event["unread_ns"], event["paused_ns"], event["records"]),
            setting=setting,
            count=event["evidence_count"],
            span=(event["since_ns"], event["until_ns"]),
            others=tuple(event["members"]),
        )


def gone(life: Life, text: str, names: Names) -> Evidence:
    """The end of a member's life as evidence."""
    assert life.until_ns is not None
    name = names.of(life.member_id)
    return Evidence(life.until_ns, text, life.until_sequence, members=(name,))


def of_rebalance(rebalance: Account, names: Names) -> Evidence:
    """A rebalance as evidence: its cause, and its duration."""
    text = f"{head(rebalance)}: {cause(rebalance, names)}"
    return Evidence(
        rebalance.started_ns,
        f"{text}; it took {duration(rebalance.duration_ns)}",
        rebalance.started_sequence,
        rebalance.generation,
        tuple(map(names.of, rebalance.culprits)),
        rebalance.ended_ns,
    )


def cost(rebalances: Sequence[Account]) -> str:
    """The cost of rebalances, in words."""
    spent = Cost.of(rebalances)
    told = []
    if spent.paused_ns:
        told.append(f"processing paused for {product(spent.paused_ns, 'member')}")
    if spent.unread_ns:
        unread = product(spent.unread_ns, "partition")
        told.append(f"partitions had no reader for {unread}")
    return " and ".join(told) or "no processing paused"
