"""The groups that have a part of the report, and the words of causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from kohort.pipeline.event_schema import WORDS
from kohort.pipeline.report import formats
from kohort.pipeline.report.queries import Answers, Row

GROUPS: Final = 12
"""Groups that have a part of the report."""
MATTERS: Final = (
    "downtime_s",
    "paused_s",
    "expired_unread_s",
    "refused_full",
    "storms",
    "commit_failures",
    "again_certain",
    "again_possible",
    "skipped",
    "interrupted",
)
"""Columns of ``groups`` that measure harm: the groups with the most are affected."""

CAUSES: Final[Mapping[str, str]] = WORDS["rebalance_causes"]


def cause(text: str | None) -> str:
    """A cause in words; an unknown one as it is."""
    return CAUSES.get(text or "", text or "unknown")


def because(text: str | None) -> str | Markup:
    """A cause in a sentence; an unknown one as a name."""
    return CAUSES.get(text or "") or formats.name(text)


def affected(answers: Answers) -> list[Row]:
    """The most affected groups, in the order of the query ``groups``."""
    groups = answers["groups"].rows
    rank: dict[str, float] = {}
    for key in MATTERS:
        having = [row for row in groups if (row[key] or 0) > 0]
        _rank(rank, sorted(having, key=lambda row: -row[key])[:GROUPS])
    _rank(rank, [row for row in answers["lags"] if row["lag_built_max"]][:GROUPS])
    chosen = sorted(rank, key=lambda group: -rank[group])[:GROUPS]
    return [row for row in groups if row["group"] in chosen]


def _rank(rank: dict[str, float], rows: Sequence[Row]) -> None:
    """Adds to the rank of groups: the first row counts most."""
    for place, row in enumerate(rows):
        rank[row["group"]] = rank.get(row["group"], 0.0) + 1.0 / (1 + place)


def names_of_causes(answers: Answers, group: str) -> list[tuple[str | None, int]]:
    """The names that caused a group's rebalances, with their numbers, most first."""
    by_name: dict[str | None, int] = {}
    for each in answers["culprits"].of(group=group):
        by_name[each["name"]] = by_name.get(each["name"], 0) + each["rebalances"]
    return sorted(by_name.items(), key=lambda item: (-item[1], item[0] or ""))
