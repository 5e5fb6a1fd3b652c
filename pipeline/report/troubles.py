"""Sections about what hurts: crashes, lag, commits, refusals."""

from __future__ import annotations

from kohort.pipeline.report import charts, findings, numbers
from kohort.pipeline.report.asking import Answers
from kohort.pipeline.report.markup import Html, Part, name, tag
from kohort.pipeline.report.sections import CAUSE, GROUP, note, section
from kohort.pipeline.report.tables import Cell, figure, table


def crashes(answers: Answers) -> Html:
    """Members that expired, and those that went and came back."""
    parts: list[Part] = []
    rows = answers["crashes"].rows
    if rows:
        cells = (
            GROUP,
            Cell("who", "name", name, is_number=False),
            Cell("expired", "crashes", numbers.count),
            Cell("session timeout, ms", "session_timeout_ms", numbers.count),
            Cell("partitions handed on", "partitions", numbers.count),
            Cell("idle, partition-s", "crash_idle_s", numbers.real),
            Cell("longest", "crash_idle_max_s", numbers.seconds),
        )
        caption = "Members that were not heard of for their session timeout."
        parts.append(table(caption, "crashes", cells, rows, limit=1000))
        parts.append(
            note(
                "The broker cannot tell a crash from a long pause or a lost network."
                " Idle is from the last sign of life to the next owner."
            )
        )
    else:
        parts.append(tag("p", "No member expired."))
    back = answers["restarts"].rows
    if back:
        returns = (
            GROUP,
            Cell("the old one", "how", _went, is_number=False),
            Cell("times", "times", numbers.count),
            Cell("names", "names", numbers.count),
            Cell("away, median", "away_p50_s", numbers.seconds),
            Cell("first back, UTC", "first_ns", numbers.moment),
            Cell("last back, UTC", "last_ns", numbers.moment),
        )
        caption = "Members that went, and another of the same name came after them."
        parts.append(table(caption, "restarts", returns, back))
    return section("Crashes and restarts", *parts, id_="crashes")


def _went(how: str) -> str:
    return findings.WENT.get(how, how)


def lag(answers: Answers) -> Html:
    """What lag rebalances built up, and how long it took to work it off."""
    rows = answers["lags"].rows
    if not rows:
        text = "No commit says where the log ended, so lag is not known."
        return section("Lag", tag("p", text), id_="lag")
    parts: list[Part] = []
    worst = answers["lag_worst"].rows
    if worst:
        caption = "The rebalances with the most lag: what they took, and what it cost."
        parts.append(figure(charts.lags(worst), "chart-lag", caption, "lag_worst"))
        cells = (
            GROUP,
            Cell("started, UTC", "started_ns", numbers.moment),
            CAUSE,
            Cell("by", "culprit_name", name, is_number=False),
            Cell("took", "duration_s", numbers.seconds),
            Cell("lag before", "lag_before", numbers.count),
            Cell("grew by", "lag_built", numbers.count),
            Cell("worked off after", "catch_up_s", numbers.seconds),
        )
        caption = "The rebalances that built up the most lag."
        parts.append(table(caption, "lag_worst", cells, worst, limit=100))
    of_groups = (
        GROUP,
        Cell("rebalances known", "rebalances", numbers.count),
        Cell("lag grew in", "grown", numbers.count),
        Cell("worked off in", "worked_off", numbers.count),
        Cell("lag before, p50", "lag_before_p50", numbers.count),
        Cell("grew by, p50", "lag_built_p50", numbers.count),
        Cell("at the most", "lag_built_max", numbers.count),
        Cell("worked off after, p50", "catch_up_p50_s", numbers.seconds),
        Cell("at the longest", "catch_up_max_s", numbers.seconds),
    )
    parts.append(table("Lag that rebalances built up.", "lags", of_groups, rows))
    parts.append(
        note(
            "Lag is what commits show: a group that commits once a second is known to"
            " a second, and its lag goes up and down by what is written meanwhile. What"
            " was not worked off before the next rebalance has no time. Lag that was"
            " largest long after a rebalance is not that one's."
        )
    )
    return section("Lag and catching up", *parts, id_="lag")


def commits(answers: Answers) -> Html:
    """Commits that were refused, and records that were processed twice."""
    parts: list[Part] = []
    rows = answers["commit_failures"].rows
    if rows:
        cells = (
            GROUP,
            Cell("error", "error", name, is_number=False),
            Cell("commits", "commits", numbers.count),
        )
        caption = "Commits that were refused."
        parts.append(table(caption, "commit_failures", cells, rows))
    else:
        parts.append(tag("p", "No commit was refused."))
    twice = answers["reprocessed"].rows
    if twice:
        again = (
            GROUP,
            Cell("why", "why", name, is_number=False),
            Cell("records", "records", numbers.count),
            Cell("times", "times", numbers.count),
            Cell("partitions", "partitions", numbers.count),
            Cell("first, UTC", "first_ns", numbers.moment),
            Cell("last, UTC", "last_ns", numbers.moment),
        )
        caption = "Records that were processed twice."
        parts.append(table(caption, "reprocessed", again, twice))
        parts.append(
            note(
                "A lower bound: only what commits show. Refused: a member had done"
                " them, its commit was refused, and another one did them again."
                " Rewound: somebody committed less than was committed before."
            )
        )
    else:
        parts.append(tag("p", "As far as commits show, no record was processed twice."))
    return section("Commits and records processed twice", *parts, id_="commits")


def refusals(answers: Answers) -> Html:
    """Joins that were refused."""
    rows = answers["refusals"].rows
    if not rows:
        text = "No join was refused."
        return section("Refusals", tag("p", text), id_="refusals")
    cells = (
        GROUP,
        Cell("what", "kind", name, is_number=False),
        Cell("why", "cause", name, is_number=False),
        Cell("refusals", "refusals", numbers.count),
        Cell("names", "names", numbers.count),
        Cell("first, UTC", "first_ns", numbers.moment),
        Cell("last, UTC", "last_ns", numbers.moment),
    )
    parts: list[Part] = [table("Joins that were refused.", "refusals", cells, rows)]
    full = answers["refused_names"].rows
    if full:
        names = (
            GROUP,
            Cell("who", "name", name, is_number=False),
            Cell("refusals", "refusals", numbers.count),
            Cell("first, UTC", "first_ns", numbers.moment),
            Cell("last, UTC", "last_ns", numbers.moment),
        )
        caption = "Who was refused as the group was full."
        parts.append(table(caption, "refused_names", names, full))
    return section("Refusals", *parts, id_="refusals")
