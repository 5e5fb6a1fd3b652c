"""The sections of the report, each made of the answers alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kohort.pipeline.report import charts, findings, numbers
from kohort.pipeline.report.asking import Answers, Row
from kohort.pipeline.report.markup import Html, Part, anchor, join, listed, name, tag
from kohort.pipeline.report.numbers import From
from kohort.pipeline.report.tables import Cell, figure, table

GROUP: Final = Cell("group", "group", name, is_number=False)
_REBALANCES: Final = Cell("rebalances", "rebalances", numbers.count)
CAUSE: Final = Cell("because", "cause", findings.because, is_number=False)
_STILL: Final = Cell("stand-still, member-s", "stand_still_s", numbers.real)
_LOST: Final = Cell("capacity lost", "capacity_lost", numbers.share)
_LABELS: Final = 6
"""So many labels of a run are shown."""


def section(title: str, *parts: Part, id_: str) -> Html:
    """One section, to be gone to."""
    heading = f"h-{id_}"
    return tag(
        "section",
        tag("h2", title, id=heading),
        *parts,
        id=id_,
        aria_labelledby=heading,
    )


def sentences(parts: Iterable[Html]) -> Html:
    """A list, a sentence each."""
    return tag("ul", *(tag("li", part) for part in parts), class_="said")


def note(*parts: Part) -> Html:
    """What is to be known beside."""
    return tag("p", *parts, class_="note")


def _term(text: str | None) -> Html:
    """Words that may have digits which are no numbers of a query."""
    return tag("span", text or "", class_="term")


# -- at the top


def banner(answers: Answers) -> Html:
    """Whether the data can be relied on: what its checks say."""
    said = From("quality")
    checks = answers["quality"]
    bad = findings.bad_checks(answers)
    if not len(checks):
        text = join("The data was not checked: there are no rows of gold/quality.")
        return tag("p", text, class_="banner marked", role="note")
    if not bad:
        text = join("All ", said.count(len(checks), "check"), " of the data passed.")
        return tag("p", text, class_="banner passed", role="note")
    worst = bad[0]["outcome"]
    lines = [
        join(
            tag("b", f"{row['outcome']}: "),
            name(row["check"]),
            ", ",
            said.count(row["found"]),
            " of ",
            said.count(row["of"]),
            " (",
            _term(row["says"]),
            ")",
        )
        for row in bad
    ]
    head = (
        "The data failed checks: read the numbers with care."
        if worst == "failed"
        else "The data is marked: it did not pass all of its checks."
    )
    return tag(
        "div", tag("p", tag("b", head)), sentences(lines), class_=f"banner {worst}"
    )


def in_short(answers: Answers) -> Html:
    """All in all, and what is to be done first."""
    lines = [*findings.overall(answers)]
    gaps = _gaps(answers)
    if gaps is not None:
        lines.append(gaps)
    groups = findings.suffering(answers)
    if groups:
        for place, row in enumerate(groups[: findings.EACH + 1]):
            link = tag("a", name(row["group"]), href=f"#g-{place}")
            lines.append(join(link, findings.brief(row), "."))
    elif answers["summary"].rows[0]["rebalances"]:
        lines.append(
            join("Nothing hurt: no stand-still, crash, storm or refusal was seen.")
        )
    advice = answers["settings"].rows
    if advice:
        said = From("settings")
        lines.append(
            join(
                said.count(len(advice), "change"),
                " of settings may help: ",
                tag("a", "what to change", href="#change"),
                ".",
            )
        )
    return section("In short", sentences(lines), id_="short")


def _gaps(answers: Answers) -> Html | None:
    """Events that are missing, said plainly; None: none is."""
    said = From("quality")
    for row in answers["quality"].of(check="missing_events"):
        if row["found"]:
            return join(
                "There are gaps: ",
                said.count(row["found"], "event is", "events are"),
                " missing of ",
                said.count(row["of"]),
                ". What happened then is not in these numbers.",
            )
    return None


# -- what happened


def what_happened(answers: Answers) -> Html:
    """Runs, hours, and the rebalances over time."""
    parts: list[Part] = []
    runs = answers["runs"].rows
    if len(runs) > 1:
        parts += _spread(answers)
    parts.append(
        table(
            "Runs, those first that lost most capacity.",
            "runs",
            (
                Cell("run", "run", name, is_number=False),
                Cell("labels", "labels", _labels, is_number=False),
                Cell("from, UTC", "first_ns", numbers.moment),
                Cell("to, UTC", "last_ns", numbers.moment),
                Cell("events", "events", numbers.count),
                Cell("groups", "groups", numbers.count),
                _REBALANCES,
                _STILL,
                _LOST,
            ),
            runs,
            limit=200,
        )
        if runs
        else tag("p", "There are no runs.")
    )
    parts += _timeline(answers)
    parts += _hours(answers)
    return section("What happened", *parts, id_="happened")


def _spread(answers: Answers) -> list[Part]:
    rows = answers["spread"].rows
    shown = [
        row for row in rows[: charts.BARS] if row["capacity_lost_most"] is not None
    ]
    marks = (
        ("capacity_lost_least", "least of a run"),
        ("capacity_lost_p50", "median"),
        ("capacity_lost_most", "most of a run"),
    )
    caption = "How much the runs of a scenario differ."
    cells = (
        Cell("scenario", "scenario", name, is_number=False),
        Cell("runs", "runs", numbers.count),
        Cell("capacity lost, least", "capacity_lost_least", numbers.share),
        Cell("median", "capacity_lost_p50", numbers.share),
        Cell("most", "capacity_lost_most", numbers.share),
        Cell("rebalances, least", "rebalances_least", numbers.count),
        Cell("median", "rebalances_p50", numbers.count),
        Cell("most", "rebalances_most", numbers.count),
    )
    made: list[Part] = []
    if shown:
        chart = charts.ranges(shown, "scenario", marks, "share of capacity lost")
        made.append(
            figure(
                chart,
                "chart-spread",
                "Share of capacity lost in the runs of a scenario.",
                "spread",
            )
        )
    return [*made, table(caption, "spread", cells, rows, limit=200)]


def _labels(labels: Mapping[str, str] | None) -> Html:
    pairs = [f"{key}={value}" for key, value in sorted((labels or {}).items())]
    more = f" and {len(pairs) - _LABELS} more" if len(pairs) > _LABELS else ""
    shown = [join(name(each), " ") for each in pairs[:_LABELS]]
    return tag("span", *shown, more, class_="name")


def _timeline(answers: Answers) -> list[Part]:
    rows = answers["timeline"].rows
    if not rows:
        return [tag("p", "There is no rebalance to be shown.")]
    is_one = len(answers["runs"]) == 1
    which = "" if is_one else " of the run that stood still longest"
    caption = (
        f"Each rebalance{which} when it started: a larger mark took longer."
        " Choose a cause in the legend to leave it out."
    )
    cells = (
        GROUP,
        Cell("number", "number", numbers.count),
        Cell("started, UTC", "started_ns", numbers.moment),
        CAUSE,
        Cell("by", "culprit_name", name, is_number=False),
        Cell("took", "duration_s", numbers.seconds),
        Cell("outcome", "outcome", str, is_number=False),
        Cell("members", "members", numbers.count),
    )
    return [
        figure(charts.timeline(rows), "chart-timeline", caption, "timeline"),
        table(
            f"The rebalances{which}, those first that took longest.",
            "timeline",
            cells,
            rows,
            limit=3000,
        ),
    ]


def _hours(answers: Answers) -> list[Part]:
    rows = answers["hours"].rows
    made: list[Part] = []
    if len({row["hour"] for row in rows}) > 2:
        made.append(
            figure(
                charts.hours(rows), "chart-hours", "Rebalances by the hour.", "hours"
            )
        )
    if rows:
        cells = (
            Cell("hour, UTC", "hour", lambda hour: hour.strftime("%Y-%m-%d %H:%M")),
            GROUP,
            _REBALANCES,
            _STILL,
            _LOST,
            Cell("crashes", "crashes", numbers.count),
            Cell("refused as full", "refused_full", numbers.count),
            Cell("commits refused", "commit_failures", numbers.count),
        )
        caption = "Hours of the groups that stood still longest, the latest first."
        made.append(table(caption, "hours", cells, rows, limit=1000))
    return made


# -- which groups suffer, and why


def who_suffers(answers: Answers) -> Html:
    """The groups that are most affected, in sentences; then all of them."""
    groups = findings.suffering(answers)
    parts: list[Part] = []
    for place, row in enumerate(groups):
        parts.append(
            tag(
                "article",
                tag("h3", name(row["group"]), id=f"g-{place}"),
                sentences(findings.of_group(answers, row)),
            )
        )
    rows = answers["groups"].rows
    left = (answers["summary"].rows[0]["all_groups"] or 0) - len(groups)
    if left and groups:
        more = From("groups").count(left, "group is", "groups are")
        parts.append(tag("p", "And ", more, " less affected, or not at all."))
    if not groups:
        parts.append(tag("p", "No group is affected by anything that is looked at."))
    if any(row["stand_still_s"] for row in rows):
        caption = "How long members stood still, by what the rebalance was for."
        parts.append(
            figure(charts.stand_stills(answers), "chart-still", caption, "causes")
        )
    if rows:
        parts.append(_groups(rows))
    parts += _durations(answers)
    return section("Which groups suffer, and why", *parts, id_="groups")


def _groups(rows: Sequence[Row]) -> Html:
    cells = (
        GROUP,
        Cell("members, most", "members_most", numbers.count),
        _REBALANCES,
        Cell("interrupted", "interrupted", numbers.count),
        _STILL,
        _LOST,
        Cell("storms", "storms", numbers.count),
        Cell("expired", "crashes", numbers.count),
        Cell("idle after, partition-s", "crash_idle_s", numbers.real),
        Cell("partitions moved", "partitions_moved", numbers.count),
        Cell("had to move", "partitions_moved_least", numbers.count),
        Cell("bytes per rebalance", "bytes_per_rebalance", numbers.count),
    )
    caption = "Groups, those first that stood still longest."
    return table(caption, "groups", cells, rows, most=15)


def _durations(answers: Answers) -> list[Part]:
    rows = answers["durations"].rows
    if not rows:
        return []
    marks = (
        ("duration_p50_s", "median"),
        ("duration_p95_s", "95 %"),
        ("duration_max_s", "longest"),
    )
    caption = "How long rebalances took, from the start to the assignment."
    cells = (
        GROUP,
        Cell("completed", "completed", numbers.count),
        Cell("p50", "duration_p50_s", numbers.seconds),
        Cell("p95", "duration_p95_s", numbers.seconds),
        Cell("p99", "duration_p99_s", numbers.seconds),
        Cell("longest", "duration_max_s", numbers.seconds),
        Cell("join phase, p50", "join_p50_s", numbers.seconds),
        Cell("assignment, p50", "sync_p50_s", numbers.seconds),
    )
    chart = charts.ranges(rows[: charts.BARS], "group", marks, "seconds")
    return [
        figure(chart, "chart-durations", caption, "durations"),
        table("Rebalances that ended with an assignment.", "durations", cells, rows),
        note(
            "Of few rebalances the high percentiles are little more than the longest"
            " one."
        ),
    ]


def causes(answers: Answers) -> Html:
    """Causes, culprits, who was waited for, storms."""
    if not answers["causes"]:
        return section("Causes", tag("p", "Nothing rebalanced."), id_="causes")
    return section(
        "Causes",
        table(
            "Why groups rebalanced.",
            "causes",
            (
                GROUP,
                CAUSE,
                _REBALANCES,
                Cell("completed", "completed", numbers.count),
                _STILL,
                Cell("p95, worst hour", "duration_p95_s", numbers.seconds),
            ),
            answers["causes"].rows,
            limit=1000,
        ),
        _culprits(answers),
        _waited(answers),
        _storms(answers),
        id_="causes",
    )


def _culprits(answers: Answers) -> Html:
    cells = (
        GROUP,
        CAUSE,
        Cell("by", "name", name, is_number=False),
        _REBALANCES,
        Cell("took together", "duration_s", numbers.seconds),
        _STILL,
    )
    caption = "Who made groups rebalance."
    return table(caption, "culprits", cells, answers["culprits"].rows, limit=1000)


def _waited(answers: Answers) -> Html:
    rows = answers["waited_for"].rows
    if not rows:
        return tag("p", "Nobody was waited for.")
    cells = (
        GROUP,
        Cell("who", "name", name, is_number=False),
        Cell("the last in join phases", "rebalances", numbers.count),
        Cell("waited together", "waited_s", numbers.seconds),
        Cell("longest", "waited_max_s", numbers.seconds),
    )
    return table("For whom join phases waited.", "waited_for", cells, rows, limit=1000)


def _storms(answers: Answers) -> Html:
    rows = answers["storms"].rows
    if not rows:
        return tag("p", "There was no storm of rebalances.")
    cells = (
        GROUP,
        Cell("from, UTC", "from_ns", numbers.moment),
        Cell("first to last start", "lasted_s", numbers.seconds),
        _REBALANCES,
        Cell("because", "by_cause", _by_cause, is_number=False),
        Cell("by", "names", _some_names, is_number=False),
    )
    return table("Storms: many rebalances in a short time.", "storms", cells, rows)


def _by_cause(counts: Mapping[str, int] | None) -> Html:
    said = From("storms")
    pairs = sorted((counts or {}).items(), key=lambda pair: (-pair[1], pair[0]))
    return listed(
        join(findings.because(each), " ", said(numbers.count(times), is_cell=True))
        for each, times in pairs or [("", 0)]
    )


def _some_names(names: Sequence[str] | None) -> Html:
    shown = [join(name(each), " ") for each in (names or [])[:_LABELS]]
    left = len(names or ()) - _LABELS
    return tag("span", *shown, f"and {left} more" if left > 0 else "", class_="name")


# -- what to change, and how sure that is


def what_to_change(answers: Answers) -> Html:
    """Settings that would help, and what the initial delay saved."""
    said = From("settings")
    parts: list[Part] = []
    rows = answers["settings"].rows
    for row in rows[: findings.CARDS]:
        parts.append(
            tag(
                "article",
                tag("h3", _setting(row), id=f"s-{anchor(row['rule'])}-{len(parts)}"),
                tag("p", "Why: ", said(row["evidence"] or "")),
                tag("p", "How sure: ", findings.advice(row), ". ", *_saved(row)),
                class_="advice",
            )
        )
    if rows:
        cells = (
            GROUP,
            Cell("rule", "rule", name, is_number=False),
            Cell("setting", "setting", name, is_number=False),
            Cell("to", "suggested", str),
            Cell("cases", "cases", numbers.count),
            Cell("sure, of 1", "confidence", numbers.real),
            Cell("rebalances saved", "rebalances_saved", numbers.count),
            Cell("member-s saved", "stand_still_saved_s", numbers.real),
        )
        caption = "All suggestions, those first that would have saved most."
        parts.append(table(caption, "settings", cells, rows))
        parts.append(
            note(
                "What would have been saved is an upper bound, of these recordings. How"
                " sure a rule is grows with the number of cases it has seen; it is no"
                " probability."
            )
        )
    else:
        parts.append(tag("p", "No rule found a setting that may help."))
    parts.append(_delay(answers))
    return section("What to change", *parts, id_="change")


def _setting(row: Row) -> Html:
    said = From("settings")
    return join(
        name(row["group"]),
        ": ",
        tag("code", row["setting"] or "", class_="name"),
        f" ({row['where']}): ",
        said(row["suggested"] or ""),
    )


def _saved(row: Row) -> Sequence[Part]:
    said = From("settings")
    parts: list[Part] = []
    if row["rebalances_saved"] is not None:
        parts.append(said.count(row["rebalances_saved"], "rebalance"))
    if row["stand_still_saved_s"] is not None:
        parts.append(said.member_seconds(row["stand_still_saved_s"]))
    if not parts:
        return ()
    return ("It would have saved, at the most, ", listed(parts), ".")


def _delay(answers: Answers) -> Html:
    rows = answers["initial_delay"].rows
    if not rows:
        return note(
            "What the initial delay (",
            _term("KIP-134"),
            ") saves is only known of pairs of runs that differ in it alone: there"
            " are none here.",
        )
    cells = (
        Cell("scenario", "scenario", name, is_number=False),
        GROUP,
        Cell("delay, ms", "delay_ms", numbers.count),
        Cell("pairs of runs", "pairs", numbers.count),
        Cell("rebalances saved, p50", "rebalances_saved_p50", numbers.real),
        Cell("member-s saved, p50", "stand_still_saved_p50_s", numbers.real),
        Cell("first assignment later by, p50", "later_p50_s", numbers.seconds),
        Cell("at the longest", "later_max_s", numbers.seconds),
    )
    caption = "What the initial delay saved, and what it cost."
    return table(caption, "initial_delay", cells, rows)


def how_sure(answers: Answers, about: Mapping[str, Any]) -> Html:
    """The checks of the data, and what the numbers are not."""
    rows = answers["quality"].rows
    cells = (
        Cell("check", "check", name, is_number=False),
        Cell("outcome", "outcome", str, is_number=False),
        Cell("found", "found", numbers.count),
        Cell("of", "of", numbers.count),
        Cell("largest share of a run", "share", numbers.share),
        Cell("threshold", "threshold", numbers.share),
        Cell("what is counted", "says", _term, is_number=False),
    )
    checks = (
        table("Checks of the data.", "quality", cells, rows, most=40)
        if rows
        else tag("p", "There are no rows of gold/quality.")
    )
    return section("How sure this is", checks, _terms(about), id_="sure")


def _terms(about: Mapping[str, Any]) -> Html:
    options = about.get("options") or {}
    storm = options.get("storm_rebalances", 5), options.get("storm_seconds", 60)
    said = {
        "stand still": (
            "an eager member waits for an assignment, and can do nothing meanwhile."
            " Cooperative members keep what they have, and are not counted."
        ),
        "member-second": "one member, one second; two members in half a second.",
        "capacity lost": "of the member-seconds that members were there, the share in"
        " which they stood still.",
        "partition-second": "one partition, one second.",
        "storm": f"{storm[0]} or more rebalances, of which {storm[0]} that follow each"
        f" other start within {storm[1]:g} s.",
        "expired": "the broker did not hear of a member for its session timeout.",
        "name": "a member's group.instance.id, else its client.id. Members that share a"
        " client.id are one name here.",
    }
    return tag(
        "dl",
        *(
            part
            for term, text in said.items()
            for part in (tag("dt", term), tag("dd", text))
        ),
        class_="term",
    )
