"""A line about a rule that has struck nothing, for the report of a test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort.broker.config_hints import did_you_mean
from kohort.broker.faults.requests import Recorded
from kohort.broker.faults.rule import SELECTORS, TRIGGERS, Rule

NAMES: Final = (
    "group",
    "transactional_id",
    "member_id",
    "instance_id",
    "client_id",
    "software",
)
"""Selectors whose values a row has, as text."""


def miss(rule: Rule, rows: Iterable[Recorded], topics: Iterable[str]) -> str:
    """Says that a rule has struck nothing, and which selector is to blame.

        fault 1 (OffsetCommit, group billling) never matched; did you mean billing?

    Args:
        rule: without strikes.
        rows: the requests that were recorded.
        topics: the topics of the broker.
    """
    keys = rule.to_dict()
    apis = ", ".join(rule.api or ("any request",))
    words = [f"{key} {value}" for key, value in keys.items() if key in SELECTORS]
    title = ", ".join([apis, *(each for each in words if not each.startswith("api "))])
    if rule.matches:
        trigger = next((f"{key}={keys[key]}" for key in keys if key in TRIGGERS), "")
        many = f"{rule.matches} request" + "s" * (rule.matches > 1)
        return f"{rule.label} ({title}, {trigger}) matched {many}, and struck none"
    return f"{rule.label} ({title}) never matched{_why(rule, [*rows], [*topics])}"


def _why(rule: Rule, rows: list[Recorded], topics: list[str]) -> str:
    if rule.api is not None:
        rows = [row for row in rows if row.api in rule.api]
    if not rows:
        return "; no such request was received"
    seen = {name: {getattr(row, name) for row in rows} for name in NAMES}
    for name, values in (*seen.items(), ("topic", {*topics})):
        wanted = getattr(rule, name)
        if wanted is not None and wanted not in values:
            found = sorted({*values} - {None, ""})
            return did_you_mean(wanted, found) or _others(name, found)
    return ""


def _others(name: str, found: list[str]) -> str:
    some = ", ".join(found[:3]) + ", ..." * (len(found) > 3)
    return f"; the requests had {name} {some}" if found else f"; none had a {name}"
